// What every page has: buttons that copy, and the line over which news is pushed.
"use strict";
const rerail = (function () {
  function copy(text, button) {
    function said(word) {
      button.textContent = word;
      setTimeout(() => { button.textContent = "copy"; }, 1500);
    }
    function bySelection() {
      const field = document.createElement("textarea");
      field.value = text;
      document.body.appendChild(field);
      field.select();
      const done = document.execCommand("copy");
      field.remove();
      said(done ? "copied" : "select it");
    }
    if (navigator.clipboard) { navigator.clipboard.writeText(text).then(() => said("copied"), bySelection); } else { bySelection(); }
  }

  function addCopyButtons(root) {
    root.querySelectorAll("[data-copy]").forEach((typed) => {
      const text = typed.textContent;
      const button = document.createElement("button");
      button.type = "button";
      button.className = "copy";
      button.textContent = "copy";
      button.setAttribute("aria-label", "copy: " + text.slice(0, 80));
      button.addEventListener("click", () => copy(text, button));
      typed.removeAttribute("data-copy");
      if (typed.tagName === "CODE") { typed.after(button); } else { typed.prepend(button); }
    });
  }

  // A WebSocket and not an EventSource: of those a browser has six for all its tabs together.
  function listen(query, heard) {
    const sign = document.getElementById("push");
    let wait = 500;
    let isOver = false;
    function say(words, kind) {
      sign.hidden = false;
      sign.textContent = words;
      sign.className = "push " + kind;
    }
    function begin() {
      const socket = new WebSocket((location.protocol === "https:" ? "wss://" : "ws://") + location.host + "/live" + query);
      socket.addEventListener("open", () => { wait = 500; say("live", "on"); });
      socket.addEventListener("message", (event) => { isOver = heard(JSON.parse(event.data)) === "over" || isOver; });
      socket.addEventListener("close", () => {
        if (isOver) { sign.hidden = true; return; }
        say("not connected, trying again", "off");
        setTimeout(begin, wait);
        wait = Math.min(wait * 2, 10000);
      });
    }
    begin();
  }

  async function fetchJson(path) {
    const answer = await fetch(path, { headers: { accept: "application/json" } });
    const value = await answer.json();
    if (!answer.ok) { throw new Error(value.error || "status " + answer.status); }
    return value;
  }

  async function fetchPage(path) {
    const answer = await fetch(path);
    if (!answer.ok) { throw new Error("status " + answer.status); }
    return new DOMParser().parseFromString(await answer.text(), "text/html");
  }

  document.addEventListener("DOMContentLoaded", () => addCopyButtons(document));
  return { addCopyButtons, listen, fetchJson, fetchPage };
}());
