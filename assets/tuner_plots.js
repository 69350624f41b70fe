// The tuner's plots, from what app/tuner_words.py gives of a report: measured beside predicted, by kind of text and over k,
// and what a round costs on this machine.
(function (root) {
  "use strict";

  const { plotKit: kit, plotsData, plotDash } = root.SpecPlay;
  const { fixed, percent } = plotsData;
  const factor = (x) => (typeof x === "number" ? fixed(x, 2) + "×" : "–");
  const share = (x) => (typeof x === "number" ? percent(x) : "–");
  const range = (i) => (typeof i.low === "number" ? " (" + fixed(i.low, 2) + " to " + fixed(i.high, 2) + ")" : "");
  const interval = (i) => (i ? factor(i.value) + range(i) : "–");
  // A setting's name on two lines, for an axis with little room.
  const folded = (name) => kit.literal(name).replace(" (", "<br>(");

  const line = (colours, more) => ({ type: "line", line: { color: colours.ink, width: 1.5, dash: plotDash }, ...more });

  // Plain decoding's, at 1.
  const even = (colours) => [line(colours, { xref: "paper", x0: 0, x1: 1, yref: "y", y0: 1, y1: 1 })];

  const bars = (colour, found, way) => ({
    type: "data", symmetric: false, color: colour, thickness: 1.5, width: 4,
    array: found.map((i) => (typeof i.high === "number" ? i.high - i.value : 0)),
    arrayminus: found.map((i) => (typeof i.low === "number" ? i.value - i.low : 0)), ...way,
  });

  const foretold = (colour) => ({ color: colour, symbol: "diamond-open", size: 10, line: { width: 1.5 } });

  // Over kinds of text, the settings of a kind beside each other: [{name, at, value, ...}] for each setting.
  function placed(report) {
    const { finalists, kinds } = report;
    const step = 0.72 / Math.max(1, finalists.length);
    return finalists.map((name, j) => kinds.map((kind, i) => ({
      kind: kind.name, at: i + step * (j - (finalists.length - 1) / 2), found: kind.measured[name],
      predicted: kind.predicted[name],
    })));
  }

  function byKind(report, colours, unit, more) {
    const { kinds } = report;
    return kit.layout(colours, {
      height: 350, showlegend: true, ...more,
      xaxis: kit.axis(colours, "", {
        tickvals: kinds.map((_, i) => i), ticktext: kinds.map((kind) => kit.literal(kind.name)), showgrid: false,
        range: [-0.6, kinds.length - 0.4], tickangle: kinds.length > 4 ? -35 : 0,
      }),
      yaxis: kit.axis(colours, unit, more && more.y),
    });
  }

  function speedups(report, colours) {
    const traces = [];
    placed(report).forEach((points, j) => {
      const { colour, symbol } = kit.panelLook(colours, j);
      const name = kit.literal(report.finalists[j]);
      const known = points.filter((p) => p.found);
      const guessed = points.filter((p) => typeof p.predicted === "number");
      if (known.length) traces.push({
        type: "scatter", mode: "markers", name, x: known.map((p) => p.at), y: known.map((p) => p.found.speedup.value),
        marker: { color: colour, symbol, size: 9 }, error_y: bars(colour, known.map((p) => p.found.speedup)),
        text: known.map((p) => kit.literal(p.kind) + ", " + name + ": " + interval(p.found.speedup)),
        hovertemplate: "%{text}<extra></extra>",
      });
      if (guessed.length) traces.push({
        type: "scatter", mode: "markers", name: known.length ? "predicted" : name + ", predicted",
        showlegend: !known.length, x: guessed.map((p) => p.at), y: guessed.map((p) => p.predicted),
        marker: foretold(colour), text: guessed.map((p) => kit.literal(p.kind) + ", " + name),
        hovertemplate: "%{text}, predicted: %{y:.2f}×<extra></extra>",
      });
    });
    const shapes = even(colours);
    const said = report.kinds.map((kind) => kind.name + ": " + (Object.entries(kind.measured).map(([name, found]) =>
      name + " " + interval(found.speedup)).join(", ") || "not measured"));
    return { traces, layout: byKind(report, colours, "speed-up over plain decoding (×)", { shapes }), said };
  }

  function acceptances(report, colours) {
    const traces = placed(report).map((points, j) => {
      const { colour, symbol } = kit.panelLook(colours, j);
      const known = points.filter((p) => p.found && typeof p.found.acceptance === "number");
      return {
        type: "scatter", mode: "markers", name: kit.literal(report.finalists[j]), x: known.map((p) => p.at),
        y: known.map((p) => 100 * p.found.acceptance), marker: { color: colour, symbol, size: 9 },
        text: known.map((p) => kit.literal(p.kind)), hovertemplate: "%{text}: %{y:.0f} %<extra></extra>",
      };
    }).filter((trace) => trace.x.length);
    const said = report.kinds.map((kind) => kind.name + ": " + (Object.entries(kind.measured).map(([name, found]) =>
      name + " " + share(found.acceptance)).join(", ") || "not measured"));
    return { traces, layout: byKind(report, colours, "% of judged tokens", { y: { range: [-3, 105] } }), said };
  }

  function beside(report, colours) {
    const rows = report.settings_table.filter((row) => row.measured).reverse();
    const at = rows.map((_, i) => i);
    const { colour, symbol } = kit.panelLook(colours, 0);
    const traces = rows.length ? [{
      type: "scatter", mode: "markers", name: "measured", x: rows.map((row) => row.measured.value), y: at,
      marker: { color: colour, symbol, size: 9 }, error_x: bars(colour, rows.map((row) => row.measured)),
      text: rows.map((row) => kit.literal(row.name) + ": " + interval(row.measured)), hovertemplate: "%{text}<extra></extra>",
    }] : [];
    const guessed = at.filter((i) => rows[i].predicted);
    if (guessed.length) traces.push({
      type: "scatter", mode: "markers", name: "predicted before", y: guessed,
      x: guessed.map((i) => rows[i].predicted.value), marker: foretold(colours.ink),
      text: guessed.map((i) => kit.literal(rows[i].name)), hovertemplate: "%{text}, predicted: %{x:.2f}×<extra></extra>",
    });
    const layout = kit.layout(colours, {
      height: Math.max(220, 90 + 46 * rows.length), showlegend: true,
      shapes: [line(colours, { yref: "paper", y0: 0, y1: 1, xref: "x", x0: 1, x1: 1 })],
      xaxis: kit.axis(colours, "speed-up over plain decoding (×)"),
      yaxis: kit.axis(colours, "", { tickvals: at, ticktext: rows.map((row) => folded(row.name)), range: [-0.6, rows.length - 0.4] }),
    });
    const said = [...rows].reverse().map((row) => row.name + ": " + interval(row.measured) +
      (row.predicted ? ", predicted " + factor(row.predicted.value) : ""));
    return { traces, layout, said };
  }

  const LOOK = ["solid", "dash", "dot", "dashdot"];

  // Predicted over k, of each way to propose: what was measured lies on or off the line.
  function curves(report, colours) {
    const traces = [];
    report.curves.forEach(({ name, points }, j) => {
      const { colour, symbol } = kit.panelLook(colours, j);
      const label = kit.literal(name);
      traces.push({
        type: "scatter", mode: points.length > 1 ? "lines" : "markers", name: label, x: points.map((p) => p.k),
        y: points.map((p) => p.predicted), line: { color: colour, dash: LOOK[j % LOOK.length] }, marker: foretold(colour),
        hovertemplate: label + ", k = %{x}, predicted: %{y:.2f}×<extra></extra>",
      });
      const known = points.filter((p) => p.measured);
      if (known.length) traces.push({
        type: "scatter", mode: "markers", name: "measured", showlegend: false, x: known.map((p) => p.k),
        y: known.map((p) => p.measured.value), marker: { color: colour, symbol, size: 9 },
        error_y: bars(colour, known.map((p) => p.measured)),
        hovertemplate: label + ", k = %{x}, measured: %{y:.2f}×<extra></extra>",
      });
    });
    const layout = kit.layout(colours, {
      height: 350, showlegend: true, shapes: even(colours),
      xaxis: kit.axis(colours, "k, tokens proposed a round"), yaxis: kit.axis(colours, "speed-up over plain decoding (×)"),
    });
    const said = report.curves.map(({ name, points }) => {
      const best = points.reduce((a, b) => (b.predicted > a.predicted ? b : a));
      return name + ": at most " + factor(best.predicted) + ", at k = " + best.k;
    });
    return { traces, layout, said };
  }

  // A round's time over the tokens that are proposed in it, in rounds of plain decoding.
  function costs(report, colours) {
    const whos = [...new Set(report.costs.map((row) => row.name))];
    const traces = report.costs.map(({ name, context, n, rounds }) => {
      const { colour, symbol } = kit.panelLook(colours, whos.indexOf(name));
      const label = kit.literal(name) + ", " + context + " tokens of context";
      const others = report.costs.filter((row) => row.name === name).map((row) => row.context);
      return {
        type: "scatter", mode: "lines+markers", name: label, x: n, y: rounds, marker: { color: colour, symbol, size: 6 },
        line: { color: colour, dash: LOOK[others.indexOf(context) % LOOK.length] },
        hovertemplate: label + "<br>%{x} proposed: %{y:.2f} plain rounds<extra></extra>",
      };
    });
    const layout = kit.layout(colours, {
      height: 350, showlegend: true, shapes: even(colours),
      xaxis: kit.axis(colours, "tokens proposed"), yaxis: kit.axis(colours, "time of a round / of a plain one", { rangemode: "tozero" }),
    });
    const said = report.costs.map(({ name, context, n, rounds }) =>
      name + " at " + context + " tokens: " + fixed(rounds.at(-1), 2) + " plain rounds for " + n.at(-1));
    return { traces, layout, said };
  }

  const PLOTS = [
    ["speedup", "Speed-up by kind of text", speedups, "Above 1× it pays. Bars are the interval; open marks are what was " +
      "predicted before it was run."],
    ["acceptance", "Acceptance by kind of text", acceptances, "Accepted / judged tokens: what the gain comes from."],
    ["predicted", "Predicted beside measured", beside, "Of all that was run, over all kinds of text."],
    ["curves", "Predicted speed-up over k", curves, "From acceptance by position and this machine's costs; marks with bars " +
      "were run."],
    ["costs", "What a round costs here", costs, "Its target pass over the tokens proposed and one more, and proposing them."],
  ];

  root.SpecPlay = Object.assign(root.SpecPlay, { tunerPlots: { PLOTS, factor, share, interval } });
})(globalThis);
