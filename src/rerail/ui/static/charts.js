// Charts that share one axis and one cursor. The server thins what is shown; a zoom asks for more.
"use strict";
function Charts(place, options) {
  const sync = uPlot.sync("run");
  const plots = new Map();
  let whole = [0, 1];
  let shown = null; // null: all of it, as far as it goes
  let marks = [];

  function range() { return shown || whole; }

  function show(wanted, isQuiet) {
    if (wanted) {
      const least = Math.max((whole[1] - whole[0]) / 1e6, 0.2);
      const wide = Math.min(Math.max(wanted[1] - wanted[0], least), whole[1] - whole[0]);
      const from = Math.min(Math.max(wanted[0], whole[0]), whole[1] - wide);
      wanted = wide >= (whole[1] - whole[0]) * 0.999 ? null : [from, from + wide];
    }
    shown = wanted;
    const now = range();
    plots.forEach((held) => { if (!held.chart.bySteps) { held.plot.setScale("x", { min: now[0], max: now[1] }); } });
    if (options.onRange && !isQuiet) { options.onRange(shown, whole); }
  }

  function move(how) {
    const [from, to] = range();
    const wide = to - from;
    const centre = (from + to) / 2;
    if (how === "all") { show(null); }
    if (how === "in") { show([centre - wide / 4, centre + wide / 4]); }
    if (how === "out") { show([centre - wide, centre + wide]); }
    if (how === "left") { show([from - wide / 4, to - wide / 4]); }
    if (how === "right") { show([from + wide / 4, to + wide / 4]); }
  }

  function zoom(plot) {
    const wanted = drawing.selected(plot);
    if (wanted) { show(wanted); }
  }

  function figureOf(chart) {
    const figure = document.createElement("figure");
    figure.className = "chart" + (chart.name === "memory" ? " wide" : "");
    const caption = document.createElement("figcaption");
    const title = document.createElement("h3");
    title.id = "chart-" + chart.name + "-title";
    title.textContent = chart.title;
    const summary = document.createElement("p");
    summary.id = "chart-" + chart.name + "-summary";
    const plot = document.createElement("div");
    plot.className = "plot";
    plot.tabIndex = 0;
    plot.setAttribute("role", "group");
    plot.setAttribute("aria-labelledby", title.id + " " + summary.id);
    plot.addEventListener("keydown", (event) => {
      const ways = { "+": "in", "=": "in", "-": "out", "−": "out", ArrowLeft: "left", ArrowRight: "right", 0: "all", Escape: "all" };
      if (ways[event.key] && !event.ctrlKey && !event.metaKey && !event.altKey) { event.preventDefault(); move(ways[event.key]); }
    });
    plot.addEventListener("wheel", (event) => {
      if (!event.shiftKey && Math.abs(event.deltaX) <= Math.abs(event.deltaY)) { return; } // the page scrolls
      event.preventDefault();
      const [from, to] = range();
      const by = ((event.deltaX || event.deltaY) / plot.clientWidth) * (to - from);
      show([from + by, to + by]);
    }, { passive: false });
    caption.append(title, summary);
    figure.append(caption, plot);
    place.append(figure);
    return { figure, plot, summary };
  }

  function draw(chart) {
    const held = plots.get(chart.name);
    const parts = held ? held.parts : figureOf(chart);
    parts.summary.textContent = chart.summary;
    const data = [chart.x].concat(chart.series.map((series) => series.values));
    const form = chart.series.map((series) => series.label).join("|") + chart.log + chart.bySteps;
    if (held && held.form === form) {
      held.chart = Object.assign(held.chart, chart);
      held.plot.setData(data, false);
      if (chart.bySteps) { held.plot.setData(data, true); } else { held.plot.setScale("x", { min: range()[0], max: range()[1] }); }
      return;
    }
    if (held) { held.plot.destroy(); }
    const kept = Object.assign({}, chart);
    const count = drawing.formats.count;
    const xAxis = chart.bySteps ? drawing.axis({ values: (_, ticks) => ticks.map(count), space: 70, size: 26 }) : drawing.timeAxis();
    const settings = {
      width: Math.max(parts.plot.clientWidth, 200), height: parts.figure.classList.contains("wide") ? 260 : 190,
      padding: [marks.length > 1 ? 30 : 18, 12, 0, 0],
      cursor: {
        sync: chart.bySteps ? undefined : { key: sync.key, filters: { pub: (type) => type === "mousemove" || type === "mouseleave" } },
        drag: { x: true, y: false, setScale: false },
        bind: { dblclick: () => () => { show(null); } }, points: { size: 6 },
      },
      legend: { isolate: false },
      scales: { x: chart.bySteps ? { time: false } : { time: false, range: () => range() } },
      axes: [xAxis, drawing.valueAxis(chart)],
      series: [{ label: chart.bySteps ? "step" : "at", value: (_, value) => (value === null ? "–" : (chart.bySteps ? count : drawing.seconds)(value)) }]
        .concat(chart.series.map((series) => drawing.seriesOf(series, kept))),
      hooks: { draw: chart.bySteps ? [] : [(drawn) => drawing.drawMarks(drawn, marks)], setSelect: chart.bySteps ? [] : [zoom] },
    };
    const scale = drawing.valueScale(chart);
    if (scale) { settings.scales.y = scale; }
    const plot = new uPlot(settings, data, parts.plot);
    parts.plot.querySelectorAll("canvas").forEach((canvas) => canvas.setAttribute("aria-hidden", "true"));
    plots.set(chart.name, { plot, chart: kept, parts, form });
  }

  function redraw() {
    [...plots.values()].forEach((held) => { held.form = ""; draw(held.chart); });
  }

  let waiting = 0;
  window.addEventListener("resize", () => {
    cancelAnimationFrame(waiting);
    waiting = requestAnimationFrame(() => plots.forEach((held) => {
      held.plot.setSize({ width: Math.max(held.parts.plot.clientWidth, 200), height: held.plot.height });
    }));
  });
  ["(prefers-color-scheme: dark)", "print"].forEach((query) => { window.matchMedia(query).addEventListener("change", redraw); });

  return {
    draw, move, show, range,
    isZoomed: () => shown !== null,
    setSpan: (span, itsMarks) => { whole = span; marks = itsMarks; },
    has: (name) => plots.has(name),
    held: (name) => plots.get(name),
    drop: (name) => { const held = plots.get(name); if (held) { held.plot.destroy(); held.parts.figure.remove(); plots.delete(name); } },
    whole: () => whole,
    names: () => [...plots.keys()],
    point: (t) => plots.forEach((held) => { if (!held.chart.bySteps) { held.plot.setCursor({ left: held.plot.valToPos(t, "x"), top: 10 }); } }),
  };
}
