// Draws the charts of the page from its data block. Colours come from the style sheet, so that
// light, dark and print each have their own; the text beside a chart says what it shows.
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

  function tone(name) {
    return getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
  }

  function bytes(value) {
    const units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let i = 0;
    while (Math.abs(value) >= 1024 && i < units.length - 1) { value /= 1024; i += 1; }
    const digits = value >= 100 || Number.isInteger(value) ? 0 : 1;
    return value.toFixed(digits) + " " + units[i];
  }

  function seconds(value) {
    if (value !== 0 && Math.abs(value) < 1) { return +(value * 1000).toPrecision(3) + " ms"; }
    if (Math.abs(value) < 120) { return +value.toPrecision(4) + " s"; }
    if (Math.abs(value) < 7200) { return +(value / 60).toPrecision(3) + " min"; }
    return +(value / 3600).toPrecision(3) + " h";
  }

  function clock(value) {
    return value === 0 ? "0 s" : seconds(value);
  }

  const formats = {
    bytes: bytes,
    seconds: seconds,
    count: (value) => String(Math.round(value)),
    cores: (value) => String(+value.toPrecision(3)),
    number: (value) => String(+value.toPrecision(4)),
  };

  // Steps of bytes that are round in binary: 256 MiB, not 268,435,456.
  const byteSteps = [];
  for (let power = 10; power < 50; power += 1) { byteSteps.push(2 ** power); }

  // Areas lie on top of each other: each says its own part, not the height that it reaches.
  function ownPart(chart, number, value, at) {
    const under = chart.series[number];
    const isStacked = chart.series[number - 1].kind === "area" && under && under.kind === "area";
    return isStacked ? value - under.values[at] : value;
  }

  function seriesOf(series, format, chart) {
    const colour = tone("tone" + series.tone);
    const base = {
      label: series.label,
      stroke: colour,
      width: 1.5,
      points: { show: false },
      value: (_, value, number, at) => (
        value === null || value === undefined ? "–" : format(ownPart(chart, number, value, at))),
    };
    if (series.kind === "area") { base.fill = colour + "2b"; base.width = 1; }
    if (series.kind === "limit") { base.dash = [6, 4]; base.width = 1.25; }
    if (series.kind === "peak") { base.width = 0.75; base.dash = [2, 2]; }
    return base;
  }

  function drawMarks(marks) {
    return (plot) => {
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
        const wide = pen.measureText(mark.label).width;
        const fitsLeft = x - wide > area.left;
        pen.textAlign = fitsLeft ? "right" : "left";
        // Above the curve, so that neither hides the other; neighbours take turns in height.
        pen.fillText(mark.label, x, area.top - (2 + 12 * ((marks.length - 1 - i) % 2)) * ratio);
      });
      pen.restore();
    };
  }

  // A stretch that was dragged over becomes what every chart shows.
  function zoom(plot) {
    const left = plot.select.left;
    const wide = plot.select.width;
    if (wide < 3) { return; }
    const range = [plot.posToVal(left, "x"), plot.posToVal(left + wide, "x")];
    plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    show(range);
  }

  function copy(text, button) {
    function said(word) {
      button.textContent = word;
      setTimeout(() => { button.textContent = "copy"; }, 1500);
    }
    function copyBySelection() {
      const field = document.createElement("textarea");
      field.value = text;
      document.body.appendChild(field);
      field.select();
      const done = document.execCommand("copy");
      field.remove();
      said(done ? "copied" : "select it");
    }
    if (navigator.clipboard) {
      navigator.clipboard.writeText(text).then(() => said("copied"), copyBySelection);
    } else { copyBySelection(); }
  }

  // Made here and not in the page: without the script a button would do nothing.
  document.querySelectorAll("[data-copy]").forEach((typed) => {
    const text = typed.textContent;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.textContent = "copy";
    button.setAttribute("aria-label", "copy: " + text.slice(0, 80));
    button.addEventListener("click", () => copy(text, button));
    if (typed.tagName === "CODE") { typed.after(button); } else { typed.prepend(button); }
  });

  function draw(chart, place) {
    const format = formats[chart.unit];
    const axis = {
      stroke: tone("soft"),
      font: "11px " + tone("text"),
      grid: { stroke: tone("line"), width: 1 },
      ticks: { stroke: tone("line"), width: 1, size: 4 },
    };
    const marks = chart.marks;
    place.classList.toggle("alone", chart.series.length === 1);
    const yAxis = Object.assign({}, axis, {
      size: 62,
      label: chart.axis,
      labelFont: "11px " + tone("text"),
      labelSize: 18,
      labelGap: 0,
      values: (_, ticks) => ticks.map((tick) => (tick === null ? "" : format(tick))),
    });
    if (chart.unit === "bytes") { yAxis.incrs = byteSteps; }
    if (chart.unit === "count") { yAxis.incrs = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000]; }
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
      scales: {
        x: { time: false, range: () => shown },
        y: chart.log ? { distr: 3 } : { range: (_, low, high) => [Math.min(0, low), high > 0 ? high * 1.06 : 1] },
      },
      axes: [Object.assign({}, axis, { values: (_, ticks) => ticks.map(clock), space: 70, size: 26, label: "since the start", labelFont: "11px " + tone("text"), labelSize: 16, labelGap: 0 }), yAxis],
      series: [{ label: "at", value: (_, value) => (value === null ? "–" : seconds(value)) }]
        .concat(chart.series.map((series) => seriesOf(series, format, chart))),
      hooks: { draw: [drawMarks(marks)], setSelect: [zoom] },
    };
    if (chart.unit === "number" && !chart.log) { delete options.scales.y; }
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
