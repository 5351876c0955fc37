// What every page has: the line over which news is pushed, and what it asks of the server.
"use strict";
const rerail = (function () {
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

  // A page that was opened with a password in its address may not fetch relative to that address.
  function place(path) {
    return new URL(path, location.origin + location.pathname).href;
  }

  async function fetchJson(path) {
    const answer = await fetch(place(path), { headers: { accept: "application/json" } });
    const value = await answer.json();
    if (!answer.ok) { throw new Error(value.error || "status " + answer.status); }
    return value;
  }

  async function fetchPage(path) {
    const answer = await fetch(place(path));
    if (!answer.ok) { throw new Error("status " + answer.status); }
    return new DOMParser().parseFromString(await answer.text(), "text/html");
  }

  document.addEventListener("DOMContentLoaded", () => drawing.addCopyButtons(document));
  return { listen, fetchJson, fetchPage };
}());
