// The list of runs, and the page of a group: rows of live runs move, new ones appear.
"use strict";
document.addEventListener("DOMContentLoaded", () => {
  const search = document.getElementById("q");
  let shape = null;
  let before = {};

  function remember() {
    document.querySelectorAll("#belief li").forEach((row) => { before[row.dataset.text] = Number(row.dataset.share); });
  }

  function showMoves() {
    document.querySelectorAll("#belief li").forEach((row) => {
      const moved = 100 * (Number(row.dataset.share) - (before[row.dataset.text] ?? Number(row.dataset.share)));
      if (Math.abs(moved) >= 0.05) { row.querySelector(".moved").textContent = (moved > 0 ? "+" : "−") + Math.abs(moved).toFixed(1); }
    });
  }

  async function renew() {
    const opened = new Set([...document.querySelectorAll("details.run[open]")].map((row) => row.dataset.id));
    const chosen = new Set([...document.querySelectorAll("#list input:checked")].map((box) => box.value));
    const held = document.activeElement && document.activeElement.closest("#list") ? document.activeElement.closest("[data-id]") : null;
    remember();
    let page;
    try { page = await rerail.fetchPage(location.pathname + location.search); } catch (_) { return; }
    for (const id of ["list", "counts"]) {
      const now = document.getElementById(id);
      const fresh = page.getElementById(id);
      if (now && fresh) { now.replaceWith(document.adoptNode(fresh)); }
    }
    document.querySelectorAll("details.run").forEach((row) => { row.open = opened.has(row.dataset.id); });
    document.querySelectorAll("#list input[name=run]").forEach((box) => { box.checked = chosen.has(box.value); });
    if (held) {
      const again = document.querySelector('#list [data-id="' + CSS.escape(held.dataset.id) + '"] a');
      if (again) { again.focus(); }
    }
    drawing.addCopyButtons(document);
    showMoves();
  }

  function move(row) {
    const place = document.querySelector('#list [data-id="' + CSS.escape(row.id) + '"]');
    if (!place) { return; }
    place.querySelector("[data-words]").textContent = row.words;
    place.querySelector("[data-elapsed]").textContent = row.elapsed;
    if (row.step) { place.querySelector("[data-step]").textContent = "step " + row.step.toLocaleString("en-US"); }
  }

  rerail.listen("", (news) => {
    if (shape !== null && news.list !== shape) { renew(); }
    shape = news.list;
    (news.rows || []).forEach(move);
  });

  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && search && !/^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement.tagName)) {
      event.preventDefault();
      search.focus();
    }
  });
});
