// Charts that share one axis and one cursor. The server thins what is shown; a zoom asks for more.
// Colours come from the style sheet, so that light and dark each have their own.
"use strict";
function Charts(place, options) {
  const sync = uPlot.sync("run");
  const plots = new Map();
  let whole = [0, 1];
  let shown = null; // null: all of it, as far as it goes
  let marks = [];

  function tone(name) { return getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim(); }

  function bytes(value) {
    const units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let i = 0;
    while (Math.abs(value) >= 1024 && i < units.length - 1) { value /= 1024; i += 1; }
    return value.toFixed(value >= 100 || Number.isInteger(value) ? 0 : 1) + " " + units[i];
  }

  function seconds(value) {
    if (value === 0) { return "0 s"; }
    if (Math.abs(value) < 1) { return +(value * 1000).toPrecision(3) + " ms"; }
    if (Math.abs(value) < 120) { return +value.toPrecision(4) + " s"; }
    const whole = Math.round(value);
    const parts = [[Math.floor(whole / 3600), "h"], [Math.floor((whole % 3600) / 60), "min"], [whole % 60, "s"]];
    return parts.filter((part) => part[0]).map((part) => part.join(" ")).join(" ");
  }

  const formats = {
    bytes, seconds,
    count: (value) => String(Math.round(value)),
    cores: (value) => String(+value.toPrecision(3)),
    number: (value) => String(+value.toPrecision(4)),
  };
  const byteSteps = Array.from({ length: 40 }, (_, power) => 2 ** (power + 10));
  const countSteps = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 100000];

  // Steps of time that a clock has: 15 min and 6 h, not 16.67 min and 2.778 h.
  const timeSteps = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30,
    60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 432000, 864000, 8640000];

  // Areas lie on top of each other: each says its own part, not the height that it reaches.
  function ownPart(chart, number, value, at) {
    const under = chart.series[number];
    const isStacked = chart.series[number - 1].kind === "area" && under && under.kind === "area";
    return isStacked ? value - under.values[at] : value;
  }

  function seriesOf(series, chart) {
    const colour = tone("tone" + series.tone);
    const format = formats[chart.unit];
    const drawn = {
      label: series.label, stroke: colour, width: 1.5, points: { show: false }, spanGaps: Boolean(chart.joined),
      value: (_, value, number, at) => (value === null || value === undefined ? "–" : format(ownPart(chart, number, value, at))),
    };
    if (series.kind === "area") { drawn.fill = colour + "2b"; drawn.width = 1; }
    if (series.kind === "limit") { drawn.dash = [6, 4]; drawn.width = 1.25; }
    if (series.kind === "peak") { drawn.width = 0.75; drawn.dash = [2, 2]; }
    return drawn;
  }

  function drawMarks(plot) {
    const pen = plot.ctx;
    const ratio = uPlot.pxRatio || 1;
    const area = plot.bbox;
    pen.save();
    pen.strokeStyle = tone("bad");
    pen.fillStyle = tone("bad");
    pen.lineWidth = ratio;
    pen.setLineDash([]);
    pen.textBaseline = "bottom";
    pen.font = 11 * ratio + "px " + tone("text");
    marks.forEach((mark, i) => {
      const x = Math.round(plot.valToPos(mark.t, "x", true)) + 0.5;
      if (x < area.left - 1 || x > area.left + area.width + 1) { return; }
      pen.beginPath();
      pen.moveTo(x, area.top);
      pen.lineTo(x, area.top + area.height);
      pen.stroke();
      pen.textAlign = x - pen.measureText(mark.label).width > area.left ? "right" : "left";
      pen.fillText(mark.label, x, area.top - (2 + 12 * ((marks.length - 1 - i) % 2)) * ratio);
    });
    pen.restore();
  }

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
    const { left, width } = plot.select;
    if (width < 3) { return; }
    const wanted = [plot.posToVal(left, "x"), plot.posToVal(left + width, "x")];
    plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    show(wanted);
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
    const axis = {
      stroke: tone("soft"), font: "11px " + tone("text"),
      grid: { stroke: tone("line"), width: 1 }, ticks: { stroke: tone("line"), width: 1, size: 4 },
    };
    const yAxis = Object.assign({}, axis, { size: 62, values: (_, ticks) => ticks.map((tick) => (tick === null ? "" : formats[chart.unit](tick))) });
    if (chart.unit === "bytes") { yAxis.incrs = byteSteps; }
    if (chart.unit === "count") { yAxis.incrs = countSteps; }
    const xAxis = Object.assign({}, axis, { values: (_, ticks) => ticks.map(chart.bySteps ? formats.count : seconds), space: 70, size: 26 });
    if (!chart.bySteps) { xAxis.incrs = timeSteps; }
    const settings = {
      width: Math.max(parts.plot.clientWidth, 200), height: parts.figure.classList.contains("wide") ? 260 : 190,
      padding: [marks.length > 1 ? 30 : 18, 12, 0, 0],
      cursor: {
        sync: chart.bySteps ? undefined : { key: sync.key, filters: { pub: (type) => type === "mousemove" || type === "mouseleave" } },
        drag: { x: true, y: false, setScale: false },
        bind: { dblclick: () => () => { show(null); } }, points: { size: 6 },
      },
      legend: { isolate: false },
      scales: {
        x: chart.bySteps ? { time: false } : { time: false, range: () => range() },
        y: chart.log ? { distr: 3 } : { range: (_, low, high) => [Math.min(0, low), high > 0 ? high * 1.06 : 1] },
      },
      axes: [xAxis, yAxis],
      series: [{ label: chart.bySteps ? "step" : "at", value: (_, value) => (value === null ? "–" : (chart.bySteps ? formats.count : seconds)(value)) }]
        .concat(chart.series.map((series) => seriesOf(series, kept))),
      hooks: { draw: chart.bySteps ? [] : [drawMarks], setSelect: chart.bySteps ? [] : [zoom] },
    };
    if (chart.unit === "number" && !chart.log) { delete settings.scales.y; }
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
    seconds, bytes,
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
