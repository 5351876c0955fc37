// What the page of a run and the pages of `rerail ui` share: numbers in words, the look of a chart,
// buttons that copy. Colours come from the style sheet, so that light, dark and print each have their own.
"use strict";
const drawing = (function () {
  function tone(name) {
    return getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
  }

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

  // Steps of bytes that are round in binary: 256 MiB, not 268,435,456.
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

  function drawMarks(plot, marks) {
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
      // Above the curve, so that neither hides the other; neighbours take turns in height.
      pen.fillText(mark.label, x, area.top - (2 + 12 * ((marks.length - 1 - i) % 2)) * ratio);
    });
    pen.restore();
  }

  function axis(more) {
    return Object.assign({
      stroke: tone("soft"), font: "11px " + tone("text"), labelFont: "11px " + tone("text"), labelGap: 0,
      grid: { stroke: tone("line"), width: 1 }, ticks: { stroke: tone("line"), width: 1, size: 4 },
    }, more);
  }

  function valueAxis(chart, more) {
    const format = formats[chart.unit];
    const steps = { bytes: { incrs: byteSteps }, count: { incrs: countSteps } }[chart.unit];
    const values = (_, ticks) => ticks.map((tick) => (tick === null ? "" : format(tick)));
    return axis(Object.assign({ size: 62, values }, steps, more));
  }

  function timeAxis(more) {
    return axis(Object.assign({ values: (_, ticks) => ticks.map(seconds), incrs: timeSteps, space: 70, size: 26 }, more));
  }

  // From zero, with a little room above; undefined: as the values are.
  function valueScale(chart) {
    if (chart.log) { return { distr: 3 }; }
    if (chart.unit === "number") { return undefined; }
    return { range: (_, low, high) => [Math.min(0, low), high > 0 ? high * 1.06 : 1] };
  }

  // The stretch that was dragged over, or null; the mark of it is taken away.
  function selected(plot) {
    const { left, width } = plot.select;
    if (width < 3) { return null; }
    const range = [plot.posToVal(left, "x"), plot.posToVal(left + width, "x")];
    plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    return range;
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

  return { tone, bytes, seconds, formats, seriesOf, drawMarks, axis, valueAxis, timeAxis, valueScale, selected, addCopyButtons };
}());
