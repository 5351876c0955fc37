// Several runs in one chart each: memory, CPU, loss and so on, every run from its own start.
"use strict";
document.addEventListener("DOMContentLoaded", async () => {
  const place = document.getElementById("timeline");
  const runs = [...document.querySelectorAll("#compared [data-run]")].map((row) => row.dataset.run);
  const charts = Charts(place, { onRange: rangeChanged });
  const MAIN = { memory: ["highest", "file pages"] }; // of several series the one that says how much

  function mainOf(chart) {
    const wanted = MAIN[chart.name] || [];
    return wanted.map((label) => chart.series.find((series) => series.label === label)).find(Boolean) || chart.series[0];
  }

  async function load(stretch) {
    const range = stretch ? "&from=" + stretch[0].toFixed(3) + "&to=" + stretch[1].toFixed(3) : "";
    const answers = await Promise.all(runs.map((run) => rerail.fetchJson("/runs/" + encodeURIComponent(run) + "/series.json?points=600" + range)));
    const names = [...new Set(answers.flatMap((answer) => answer.charts.map((chart) => chart.name)))];
    if (!stretch) { charts.setSpan([0, Math.max(...answers.map((answer) => answer.span[1]))], []); }
    names.forEach((name) => {
      const tables = [];
      const series = [];
      let form = null;
      answers.forEach((answer, i) => {
        const chart = answer.charts.find((each) => each.name === name);
        if (!chart || !chart.x.length) { return; }
        form = form || chart;
        tables.push([chart.x, mainOf(chart).values]);
        series.push({ label: runs[i].slice(-4), kind: "line", tone: i % 5 });
      });
      if (!form) { return; }
      const joined = tables.length > 1 ? uPlot.join(tables) : tables[0];
      series.forEach((each, i) => { each.values = joined[i + 1]; });
      charts.draw({ name, title: form.title, unit: form.unit, summary: "", log: form.log, x: joined[0], series, joined: true, bySteps: false });
    });
    if (!names.length) { place.textContent = "No vitals were recorded."; }
  }

  let later = 0;
  function rangeChanged(shown) {
    clearTimeout(later);
    later = setTimeout(() => load(shown).catch(() => {}), 150);
  }
  load(null).catch((error) => { place.textContent = "The charts cannot be shown: " + error.message; });
});
