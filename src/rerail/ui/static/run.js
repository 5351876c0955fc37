// The page of one run: charts, the output, the rest of the record, and what is pushed of a live run.
"use strict";
document.addEventListener("DOMContentLoaded", () => {
  const top = document.getElementById("run");
  const run = top.dataset.run;
  const base = "/runs/" + encodeURIComponent(run);
  const isLive = top.dataset.live === "yes";
  const place = document.getElementById("timeline");

  // Charts ------------------------------------------------------------------------------------
  const charts = Charts(place, { onRange: rangeChanged });
  const said = document.getElementById("shown");
  const byStep = document.querySelector("[data-by=step]");
  let held = null; // the stretch that the server has sent
  let asking = 0;
  let overSteps = false;

  function pointsFor() { return Math.min(4000, Math.max(400, Math.round(place.clientWidth))); }

  async function load(names, stretch) {
    const number = ++asking;
    const query = new URLSearchParams();
    names.forEach((name) => query.append("chart", name));
    let points = pointsFor();
    if (stretch) {
      // Three times as wide as what is shown: to move a little asks for nothing.
      const wide = stretch[1] - stretch[0];
      query.set("from", Math.max(0, stretch[0] - wide).toFixed(3));
      query.set("to", (stretch[1] + wide).toFixed(3));
      points = Math.min(4000, points * 3);
    }
    query.set("points", points);
    if (overSteps) { query.set("by", "step"); }
    const answer = await rerail.fetchJson(base + "/series.json?" + query);
    if (stretch && number !== asking) { return answer; }
    charts.setSpan(answer.span, answer.marks);
    answer.charts.forEach((chart) => {
      if (overSteps && (chart.name === "loss" || chart.name === "step-time")) {
        chart.bySteps = true;
        const kept = chart.x.map((x, i) => i).filter((i) => chart.x[i] !== null);
        chart.series.forEach((series) => { series.values = kept.map((i) => series.values[i]); });
        chart.x = kept.map((i) => chart.x[i]);
      } else { chart.bySteps = false; }
      charts.draw(chart);
    });
    held = stretch ? [Number(query.get("from")), Number(query.get("to"))] : null;
    return answer;
  }

  let later = 0;
  function rangeChanged(shown) {
    said.textContent = shown ? "Shown: " + drawing.seconds(shown[0]) + " to " + drawing.seconds(shown[1]) + "." : "";
    clearTimeout(later);
    later = setTimeout(() => {
      const wide = shown ? shown[1] - shown[0] : 0;
      const isCovered = held && shown && shown[0] >= held[0] && shown[1] <= held[1] && held[1] - held[0] <= wide * 6;
      if (isCovered || (!shown && !held)) { return; }
      load(charts.names(), shown).catch(() => {});
    }, 120);
  }

  function drawFirst() {
    const began = performance.now();
    return load(["memory"]).then((answer) => {
      place.dataset.firstMs = Math.round(performance.now() - began);
      const rest = answer.names.filter((name) => name !== "memory");
      byStep.hidden = !rest.includes("loss") && !rest.includes("step-time");
      return rest.length ? load(rest) : null;
    }).then(() => { if (!charts.names().length && !isLive) { place.textContent = "No vitals were recorded."; } });
  }

  document.querySelectorAll("[data-zoom]").forEach((button) => button.addEventListener("click", () => charts.move(button.dataset.zoom)));
  byStep.addEventListener("click", () => {
    overSteps = !overSteps;
    byStep.setAttribute("aria-pressed", String(overSteps));
    load(["loss", "step-time"]);
  });

  // Output ------------------------------------------------------------------------------------
  const lines = document.getElementById("lines");
  const follow = document.getElementById("follow");
  const foundSaid = document.getElementById("find-said");
  const nextButton = document.getElementById("find-next");
  const MOST = 4000;
  let isFollowing = isLive;
  let pending = []; // lines that were pushed before the first ones had come
  let isAtEnd = true; // the last line shown is the last one printed
  let found = [];
  let foundAt = -1;
  let words = "";

  function textOf(node, text) {
    node.textContent = "";
    if (!words) { node.textContent = text + "\n"; return; }
    const low = text.toLowerCase();
    let at = 0;
    for (let next = low.indexOf(words); next >= 0; next = low.indexOf(words, at)) {
      node.append(text.slice(at, next));
      const mark = document.createElement("mark");
      mark.textContent = text.slice(next, next + words.length);
      node.append(mark);
      at = next + words.length;
    }
    node.append(text.slice(at) + "\n");
  }

  function lineOf(line) {
    const row = document.createElement("span");
    row.className = "line";
    row.id = "L" + line.number;
    row.dataset.number = line.number;
    const number = document.createElement("span");
    number.className = "n";
    number.textContent = line.number;
    const text = document.createElement("span");
    text.className = "t";
    textOf(text, line.text);
    row.append(number, text);
    return row;
  }

  function lastNumber() { return lines.lastElementChild ? Number(lines.lastElementChild.dataset.number) : 0; }
  function firstNumber() { return lines.firstElementChild ? Number(lines.firstElementChild.dataset.number) : 1; }

  function add(more) {
    const part = document.createDocumentFragment();
    more.forEach((line) => {
      const there = document.getElementById("L" + line.number);
      if (there) { textOf(there.querySelector(".t"), line.text); } else { part.append(lineOf(line)); }
    });
    lines.append(part);
    while (lines.childElementCount > MOST) { lines.firstElementChild.remove(); }
    if (isFollowing) { lines.scrollTop = lines.scrollHeight; }
  }

  function fill(more) {
    lines.textContent = "";
    add(more);
    lines.setAttribute("aria-busy", "false");
  }

  async function loadEnd() {
    const answer = await rerail.fetchJson(base + "/output.json?count=300");
    isAtEnd = true;
    fill(answer.lines);
    add(pending.filter((line) => line.number >= lastNumber()));
    pending = [];
    if (!answer.lines.length) { foundSaid.textContent = "Nothing was printed" + (isLive ? " yet." : "."); }
    if (answer.dropped_bytes) { foundSaid.textContent = answer.dropped_bytes.toLocaleString("en-US") + " bytes in the middle were not kept."; }
    lines.scrollTop = lines.scrollHeight;
  }

  async function jump(number) {
    setFollowing(false);
    if (!document.getElementById("L" + number)) {
      const answer = await rerail.fetchJson(base + "/output.json?count=400&first=" + Math.max(1, number - 150));
      isAtEnd = false;
      fill(answer.lines);
    }
    lines.querySelectorAll(".here").forEach((row) => row.classList.remove("here"));
    const row = document.getElementById("L" + number);
    if (!row) { foundSaid.textContent = "Line " + number + " was not kept."; return; }
    row.classList.add("here");
    lines.scrollTop = row.offsetTop - lines.offsetTop - lines.clientHeight / 3;
    document.getElementById("output").scrollIntoView({ block: "start" });
    lines.focus({ preventScroll: true });
  }

  let isLoading = false;
  lines.addEventListener("scroll", async () => {
    if (isLoading || lines.getAttribute("aria-busy") === "true") { return; }
    const nearTop = lines.scrollTop < 40 && firstNumber() > 1;
    const nearEnd = lines.scrollHeight - lines.scrollTop - lines.clientHeight < 40;
    if (isFollowing && !nearEnd) { setFollowing(false); }
    if (!nearTop && !(nearEnd && !isAtEnd)) { return; }
    isLoading = true;
    try {
      if (nearTop) {
        const first = Math.max(1, firstNumber() - 300);
        const answer = await rerail.fetchJson(base + "/output.json?first=" + first + "&count=" + (firstNumber() - first));
        const before = lines.scrollHeight;
        const part = document.createDocumentFragment();
        answer.lines.forEach((line) => part.append(lineOf(line)));
        lines.prepend(part);
        lines.scrollTop += lines.scrollHeight - before;
      } else {
        const answer = await rerail.fetchJson(base + "/output.json?first=" + (lastNumber() + 1) + "&count=300");
        isAtEnd = answer.lines.length < 300;
        add(answer.lines);
      }
    } finally { isLoading = false; }
  });

  function setFollowing(wanted) {
    isFollowing = wanted;
    follow.setAttribute("aria-pressed", String(wanted));
    follow.textContent = isLive ? (wanted ? "following" : "follow") : "to the end";
  }
  follow.addEventListener("click", () => {
    setFollowing(isLive && !isFollowing);
    if (isFollowing || !isLive) { loadEnd(); }
  });

  document.getElementById("find").addEventListener("submit", async (event) => {
    event.preventDefault();
    const typed = document.getElementById("find-words").value.trim();
    if (!typed) { words = ""; found = []; nextButton.hidden = true; foundSaid.textContent = ""; return; }
    foundSaid.textContent = "Searching …";
    const answer = await rerail.fetchJson(base + "/search.json?q=" + encodeURIComponent(typed));
    words = typed.toLowerCase();
    found = answer.lines.map((line) => line.number);
    foundAt = -1;
    nextButton.hidden = found.length < 2;
    foundSaid.textContent = found.length + (answer.is_complete ? "" : " or more") + (found.length === 1 ? " line has it." : " lines have it.");
    lines.querySelectorAll(".line").forEach((row) => textOf(row.querySelector(".t"), row.querySelector(".t").textContent.replace(/\n$/, "")));
    if (found.length) { next(); }
  });
  async function next() {
    foundAt = (foundAt + 1) % found.length;
    await jump(found[foundAt]);
    foundSaid.textContent = foundSaid.textContent.replace(/ Shown:.*$/, "") + " Shown: number " + (foundAt + 1) + ", line " + found[foundAt] + ".";
  }
  nextButton.addEventListener("click", next);

  // Where a sentence of the verdict can be seen -------------------------------------------------
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a.source");
    if (!link) { return; }
    const line = /^#L(\d+)$/.exec(link.getAttribute("href"));
    const time = /^#t([\d.]+)$/.exec(link.getAttribute("href"));
    if (line) { event.preventDefault(); jump(Number(line[1])); }
    if (time) {
      event.preventDefault();
      const t = Number(time[1]);
      const wide = Math.max(10, (charts.whole()[1] - charts.whole()[0]) / 20);
      charts.show([t - wide / 2, t + wide / 2]);
      charts.point(t);
      document.getElementById("timeline-part").scrollIntoView({ block: "start" });
    }
  });

  // The rest of the record ---------------------------------------------------------------------
  async function loadDetails() {
    const details = document.getElementById("details");
    try {
      const page = await rerail.fetchPage(details.dataset.src);
      details.replaceChildren(...[...page.body.children].map((part) => document.adoptNode(part)));
      drawing.addCopyButtons(details);
    } catch (error) { document.getElementById("details-wait").textContent = "The rest of the record cannot be shown: " + error.message; }
  }

  // Live ---------------------------------------------------------------------------------------
  const now = (name) => document.querySelector('[data-now="' + name + '"]');
  let lastPoint = null;
  let isDrawing = true; // until the first charts are there, or are known not to be

  function addPoints(points) {
    const memory = charts.held("memory");
    if (!memory && points.length && !isDrawing) {
      isDrawing = true;
      drawFirst().catch(() => {}).finally(() => { isDrawing = false; });
    }
    points.forEach((point) => {
      if (!memory) { return; }
      const x = memory.chart.x;
      if (x.length && point.t <= x[x.length - 1]) { return; }
      push("memory", point.t, (label) => ({
        "file pages": point.rss_bytes, shared: point.anon_bytes + point.shared_bytes, anonymous: point.anon_bytes, highest: point.rss_bytes,
      })[label]);
      push("threads", point.t, () => point.threads);
      push("fds", point.t, () => point.fds);
      if (lastPoint && point.t - lastPoint.t >= 0.95) {
        push("cpu", point.t, () => Math.max(0, point.cpu_seconds - lastPoint.cpu_seconds) / (point.t - lastPoint.t));
        lastPoint = point;
      } else if (!lastPoint) { lastPoint = point; }
    });
    if (!points.length || charts.isZoomed()) { return; }
    const end = points[points.length - 1].t;
    if (end > charts.whole()[1]) { charts.setSpan([0, end], []); charts.show(null, true); }
    charts.names().forEach((name) => { const each = charts.held(name); if (!each.chart.bySteps) { charts.draw(each.chart); } });
  }

  function push(name, t, value) {
    const each = charts.held(name);
    if (!each || each.chart.bySteps) { return; }
    each.chart.x.push(t);
    each.chart.series.forEach((series) => {
      const last = series.values[series.values.length - 1];
      series.values.push(series.kind === "limit" ? last : value(series.label));
    });
  }

  function hear(news) {
    if (news.error) { return "over"; }
    now("elapsed").textContent = news.elapsed;
    if (news.progress) {
      const of = news.progress.total ? " of " + news.progress.total.toLocaleString("en-US") : "";
      const step = news.progress.steps || news.progress.batches || news.progress.done || 0;
      now("step").textContent = step.toLocaleString("en-US") + (news.progress.steps ? "" : of);
    }
    if (news.loss && news.loss.latest !== null) { now("loss").textContent = typeof news.loss.latest === "number" ? String(+news.loss.latest.toPrecision(5)) : news.loss.latest; }
    if (news.memory) {
      now("memory").textContent = drawing.bytes(news.memory.rss_bytes);
      now("limit").textContent = news.memory.limit_bytes
        ? news.memory.limit_name + ": " + drawing.bytes(news.memory.used_bytes) + " of " + drawing.bytes(news.memory.limit_bytes) : "";
    }
    if (news.processes !== null) { now("processes").textContent = news.processes; }
    document.getElementById("headline").textContent = news.is_stuck
      ? "Stuck: no progress for " + drawing.seconds(news.stuck_seconds) + (news.stuck_in || "") : "Running for " + news.elapsed;
    document.getElementById("state").textContent = news.is_stuck ? "stuck" : news.state === "running" ? "live" : "over";
    addPoints(news.points);
    if (lines.getAttribute("aria-busy") === "true") { pending.push(...news.lines); } else if (news.lines.length && isAtEnd) {
      if (news.lines[0].number > lastNumber() + 1) { loadEnd(); } else { add(news.lines.filter((line) => line.number >= firstNumber())); }
    }
    if (news.state !== "running") { setTimeout(() => location.reload(), 700); return "over"; }
    return "";
  }

  drawFirst().catch((error) => { place.textContent = "The charts cannot be shown: " + error.message; })
    .finally(() => { isDrawing = false; loadDetails(); }); // what one waits for first comes first
  loadEnd().then(() => { const line = /^#L(\d+)$/.exec(location.hash); if (line) { jump(Number(line[1])); } }).catch((error) => { lines.textContent = "The output cannot be shown: " + error.message; });
  if (isLive) {
    rerail.listen("?run=" + encodeURIComponent(run), hear);
    setInterval(() => { if (!charts.isZoomed()) { load(charts.names()).catch(() => {}); } }, 30000);
  }
});
