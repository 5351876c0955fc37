// Draws the charts of the page from its data block; the text beside a chart says what it shows.
"use strict";
(function () {
  const charts = JSON.parse(document.getElementById("chart-data").textContent);
  const sync = uPlot.sync("run");
  const drawn = new Map();
  // One time axis for all: from the start of the run to the last thing that any chart knows of.
  const whole = [0, charts.reduce((last, chart) => chart.marks.reduce(
    (end, mark) => Math.max(end, mark.t), Math.max(last, chart.x[chart.x.length - 1] || 0)), 0) || 1];
  let shown = whole;

  function show(range) {
    shown = range;
    drawn.forEach((plot) => plot.setScale("x", { min: range[0], max: range[1] }));
  }

  // A stretch that was dragged over becomes what every chart shows.
  function zoom(plot) {
    const range = drawing.selected(plot);
    if (range) { show(range); }
  }

  function draw(chart, place) {
    const marks = chart.marks;
    place.classList.toggle("alone", chart.series.length === 1);
    const options = {
      width: Math.max(place.clientWidth, 200),
      height: place.closest(".wide") ? 260 : 190,
      padding: [marks.length > 1 ? 30 : 18, 12, 0, 0],
      cursor: {
        sync: { key: sync.key, filters: { pub: (type) => type === "mousemove" || type === "mouseleave" } },
        drag: { x: true, y: false, setScale: false },
        bind: { dblclick: () => () => { show(whole); } },
        points: { size: 6 },
      },
      legend: { isolate: false },
      scales: { x: { time: false, range: () => shown } },
      axes: [
        drawing.timeAxis({ label: "since the start", labelSize: 16 }),
        drawing.valueAxis(chart, { label: chart.axis, labelSize: 18 }),
      ],
      series: [{ label: "at", value: (_, value) => (value === null ? "–" : drawing.seconds(value)) }]
        .concat(chart.series.map((series) => drawing.seriesOf(series, chart))),
      hooks: { draw: [(plot) => drawing.drawMarks(plot, marks)], setSelect: [zoom] },
    };
    const scale = drawing.valueScale(chart);
    if (scale) { options.scales.y = scale; }
    const data = [chart.x].concat(chart.series.map((series) => series.values));
    return new uPlot(options, data, place);
  }

  function drawAll() {
    charts.forEach((chart) => {
      const place = document.getElementById("chart-" + chart.name);
      if (!place) { return; }
      if (drawn.has(chart.name)) { drawn.get(chart.name).destroy(); }
      drawn.set(chart.name, draw(chart, place));
    });
  }

  drawing.addCopyButtons(document);
  drawAll();
  // The end of the output is what one came for.
  document.querySelectorAll("#output .listing").forEach((listing, i, all) => {
    if (i === all.length - 1) { listing.scrollTop = listing.scrollHeight; }
  });
  let waiting = 0;
  window.addEventListener("resize", () => {
    cancelAnimationFrame(waiting);
    waiting = requestAnimationFrame(() => charts.forEach((chart) => {
      const plot = drawn.get(chart.name);
      const place = document.getElementById("chart-" + chart.name);
      if (plot && place) { plot.setSize({ width: Math.max(place.clientWidth, 200), height: plot.height }); }
    }));
  });
  ["(prefers-color-scheme: dark)", "print"].forEach((query) => {
    window.matchMedia(query).addEventListener("change", drawAll);
  });
}());
