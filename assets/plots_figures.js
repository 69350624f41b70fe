// The five plots of the runs: title, how to read it, and the traces that plotly draws from what plots_data.js found.
(function (root) {
  "use strict";

  const { FONT, axis, layout, literal, panelLook } = root.SpecPlay.plotKit;
  const data = root.SpecPlay.plotsData;
  const { fixed, percent, PHASES } = data;
  const WORDS = { propose: "drafting", verify: "verifying", sample: "sampling", other: "other" };
  const PATTERN = { propose: "/", verify: "", sample: "x", other: "." };
  const DASH = "6px,4px";
  const NARROW = 460;

  const panels = (views) => views.filter((v) => !v.baseline);
  const proposing = (views) => panels(views).filter((v) => data.speculative(v.fold) && v.fold.rounds.length);
  // On a narrow screen two columns, so that not every entry takes a line.
  const legend = (colours, width, more) => ({
    ...layout(colours).legend, ...(width < NARROW ? { entrywidth: 0.48, entrywidthmode: "fraction" } : {}), ...more,
  });
  // A panel's letter is its place: it looks the same whichever others there are.
  const place = (name) => Math.max(0, name.charCodeAt(0) - 65);
  const note = (colours, text, more) => ({ text, showarrow: false, font: { size: FONT, color: colours.ink }, ...more });

  const rounds = {
    key: "rounds", title: "What each round cost", choice: (views) => views.filter((v) => v.fold.rounds.length),
    read: "Each bar is one round, by what its time went into. The short lines are what plain decoding takes for as many " +
      "tokens: a bar that ends below its line saved time. The dashed line is one plain token.",
    find: (chosen, views) => data.roundCosts(chosen, views),
    empty: (d) => !d.bars.length, summary: data.roundCostsSummary, table: data.tables.roundCosts,
    draw(d, colours, width) {
      const at = d.bars.map((b) => (b.from + b.to) / 2);
      const name = (b) => (b.from === b.to ? "round " + b.from : "rounds " + b.from + " to " + b.to + " (mean)") + ": " +
        fixed(b.tokens, d.size > 1 ? 1 : 0) + " tokens";
      const traces = PHASES.map((phase) => ({
        type: "bar", name: WORDS[phase], x: at, y: d.bars.map((b) => b[phase]), width: d.size * 0.86,
        marker: { color: colours.phase(phase), pattern: { shape: PATTERN[phase], fgcolor: colours.card, size: 6,
          solidity: 0.22, fillmode: "overlay" }, line: { width: 0 } },
        customdata: d.bars.map(name), hovertemplate: "%{customdata}<br>" + WORDS[phase] + " %{y:.1f} ms<extra></extra>",
      }));
      if (d.plain !== null) {
        const ends = [d.bars[0].from - 0.5, d.bars[d.bars.length - 1].to + 0.5];
        traces.push({
          type: "scatter", mode: "markers", name: "plain, as many", x: at, y: d.bars.map((b) => b.same),
          hovertemplate: "plain decoding of the same tokens: %{y:.1f} ms<extra></extra>",
          marker: { symbol: "line-ew-open", size: Math.max(3, Math.min(16, 420 / d.bars.length)), color: colours.ink,
            line: { width: 2, color: colours.ink } },
        }, {
          type: "scatter", mode: "lines", name: "plain, one", x: ends, y: [d.plain, d.plain],
          hovertemplate: "one plain token: %{y:.1f} ms (" + d.source + ")<extra></extra>",
          line: { color: colours.ink, width: 2, dash: DASH },
        });
      }
      const title = d.size === 1 ? "round" : "round (each bar is the mean of " + d.size + ")";
      return { traces, layout: layout(colours, {
        height: 320, barmode: "stack", bargap: 0, legend: legend(colours, width, { traceorder: "normal" }),
        xaxis: axis(colours, title, { showgrid: false }), yaxis: axis(colours, "time (ms)", { rangemode: "tozero" }),
      }) };
    },
  };

  const position = {
    key: "position", title: "Acceptance by position", choice: null,
    read: "How often the first, second, … proposed token was accepted: of those that were judged, and of those that were " +
      "proposed. Dashed is what the formula assumes: the same chance a at every position, hence a, a², a³ …",
    find: (chosen, views) => proposing(views).map(data.byPosition).filter((d) => d.positions.length),
    empty: (all) => !all.length, summary: data.byPositionSummary, table: data.tables.byPosition,
    draw(all, colours, width) {
      const narrow = width < NARROW;
      const traces = [];
      for (const [side, measured, formula] of [["", "conditional", "iidConditional"],
        ["2", "unconditional", "iidUnconditional"]]) {
        for (const d of all) {
          const { colour, symbol } = panelLook(colours, place(d.name));
          const on = { x: d.positions.map((p) => p.position), xaxis: "x" + side, yaxis: "y" + side };
          if (d.iid) traces.push({
            ...on, type: "scatter", mode: "lines+markers", name: literal(d.name) + ": formula",
            y: d.positions.map((p) => p[formula]), showlegend: !side,
            hovertemplate: literal(d.name) + ", formula: %{y:.2f}<extra></extra>",
            line: { color: colour, dash: DASH, width: 1.5 },
            marker: { symbol: "line-ew-open", size: 9, color: colour, line: { width: 1.5 } },
          });
          traces.push({
            ...on, type: "scatter", mode: "lines+markers", name: literal(d.name), y: d.positions.map((p) => p[measured]),
            showlegend: !side, connectgaps: false,
            customdata: d.positions.map((p) => p.rounds),
            hovertemplate: literal(d.name) +
              ", position %{x}: %{y:.2f}<br>proposed in %{customdata} rounds<extra></extra>",
            line: { color: colour, width: 2 }, marker: { symbol, size: 8, color: colour },
          });
        }
      }
      const most = Math.max(...all.map((d) => d.positions.length));
      const x = { dtick: Math.ceil(most / 9), range: [0.5, most + 0.5], showgrid: false };
      const y = { range: [-0.03, 1.06], dtick: 0.25, tickformat: ".2f" };
      const domains = narrow ? [[0, 1], [0.59, 1], [0, 1], [0, 0.37]] : [[0, 0.46], [0, 1], [0.54, 1], [0, 1]];
      const titles = [["x domain", "y domain", "of those judged"], ["x2 domain", "y2 domain", "of those proposed"]];
      return { traces, layout: layout(colours, {
        height: narrow ? 520 : 320, legend: legend(colours, width, { y: narrow ? 1.07 : 1.1 }),
        annotations: titles.map(([xref, yref, text]) => note(colours, text,
          { xref, yref, x: 0, y: 1, xanchor: "left", yanchor: "bottom" })),
        xaxis: axis(colours, narrow ? "" : "position in the proposal", { ...x, domain: domains[0] }),
        yaxis: axis(colours, "share accepted", { ...y, domain: domains[1] }),
        xaxis2: axis(colours, "position in the proposal", { ...x, domain: domains[2], anchor: "y2" }),
        yaxis2: axis(colours, narrow ? "share accepted" : "", { ...y, domain: domains[3], anchor: "x2" }),
      }) };
    },
  };

  const passes = {
    key: "passes", title: "Tokens per pass", choice: null,
    read: "How many passes of the target yielded one token, two, and so on (bars), and what the formula expects at the same " +
      "acceptance rate and the same lengths of proposals (lines): each token accepted independently of the others.",
    find: (chosen, views) => proposing(views).map(data.passes).filter((d) => d.rounds),
    empty: (all) => !all.length, summary: data.passesSummary, table: data.tables.passes,
    draw(all, colours, room) {
      const width = 0.82 / all.length;
      const traces = [];
      all.forEach((d, i) => {
        const { colour } = panelLook(colours, place(d.name));
        const left = -0.41 + i * width;
        traces.push({
          type: "bar", name: literal(d.name) + (d.mean === null ? "" : ": mean " + fixed(d.mean, 2)),
          x: d.bins.map((b) => b.tokens), y: d.bins.map((b) => b.measured), width, offset: left,
          hovertemplate: literal(d.name) + ": %{y:.1%} of passes yielded %{x}<extra></extra>",
          marker: { color: colour, opacity: 0.8, line: { width: 0 },
            pattern: { shape: ["", "/", "x", "."][place(d.name) % 4], fgcolor: colours.card, size: 6, solidity: 0.2,
            fillmode: "overlay" } },
        });
        if (d.a === null) return;
        traces.push({
          type: "scatter", mode: "markers", name: literal(d.name) + ": formula " + fixed(d.expected, 2),
          x: d.bins.map((b) => b.tokens + left + width / 2), y: d.bins.map((b) => b.expected),
          hovertemplate: literal(d.name) + ", formula: %{y:.1%}<extra></extra>",
          marker: { symbol: "line-ew-open", size: Math.max(8, 26 / all.length), color: colours.ink,
            line: { width: 2.5, color: colours.ink } },
        });
      });
      return { traces, layout: layout(colours, {
        height: 320, barmode: "overlay", legend: legend(colours, room),
        xaxis: axis(colours, "tokens that a pass yielded", { dtick: 1, showgrid: false }),
        yaxis: axis(colours, "share of passes", { rangemode: "tozero", tickformat: ".0%" }),
      }) };
    },
  };

  const speedup = {
    key: "speedup", title: "Speed-up, measured and predicted", choice: null,
    read: "Right of 1× a panel was faster than plain decoding of the same prompt. The bar is how far chance goes (5th to 95th " +
      "percentile); the open mark is what the formula says for the acceptance that was measured and for this machine's costs.",
    find: (chosen, views) => data.speedups(panels(views).filter((v) => v.fold.start)),
    empty: (all) => all.every((d) => d.measured === null && d.predicted === null), summary: data.speedupsSummary,
    table: data.tables.speedups,
    draw(all, colours, width) {
      const letters = Math.floor((width - 60) / 7.2);
      const short = (text) => (text.length > letters ? text.slice(0, letters - 1) + "\u2026" : text);
      const most = Math.max(1.15, ...all.flatMap((d) => [d.measured, d.high, d.predicted]).filter((x) => x !== null));
      const traces = [];
      const looks = all.map((d) => panelLook(colours, place(d.name)));
      traces.push({
        type: "scatter", mode: "markers", name: "measured", x: all.map((d) => d.measured), y: all.map((d, i) => i),
        customdata: all.map((d) => (d.low === null ? "" : " (" + fixed(d.low, 2) + " to " + fixed(d.high, 2) + ")")),
        hovertemplate: "measured %{x:.2f}×%{customdata}<extra></extra>",
        marker: { size: 12, symbol: looks.map((l) => l.symbol), color: looks.map((l) => l.colour) },
        error_x: { type: "data", symmetric: false, array: all.map((d) => (d.high === null ? 0 : d.high - d.measured)),
          arrayminus: all.map((d) => (d.low === null ? 0 : d.measured - d.low)), color: colours.ink, thickness: 2,
          width: 6 },
      }, {
        type: "scatter", mode: "markers", name: "predicted", x: all.map((d) => d.predicted),
        y: all.map((d, i) => i + 0.22), hovertemplate: "predicted %{x:.2f}×<extra></extra>",
        marker: { size: 12, symbol: looks.map((l) => l.symbol + "-open"), color: looks.map((l) => l.colour),
          line: { width: 2 } },
      });
      const titles = all.map((d, i) => note(colours, literal(short(d.title + (d.instead ? " (" + d.instead + ")" : ""))),
        { xref: "paper", x: 0.01, xanchor: "left", yref: "y", y: i - 0.34, bgcolor: colours.card }));
      return { traces, layout: layout(colours, {
        height: Math.max(320, 110 + 58 * all.length),
        shapes: [{ type: "line", xref: "x", x0: 1, x1: 1, yref: "paper", y0: 0, y1: 1,
          line: { color: colours.ink, width: 2, dash: DASH } }],
        annotations: [...titles, note(colours, "1×: plain decoding", { xref: "x", x: 1, yref: "paper", y: 1,
          yanchor: "bottom", xanchor: most > 2 ? "left" : "center" })],
        legend: legend(colours, width, { y: 1.09 }),
        xaxis: axis(colours, "speed-up over plain decoding (×)", { range: [0, most * 1.08] }),
        yaxis: axis(colours, "", { range: [all.length - 0.45, -0.6], tickvals: all.map((d, i) => i),
          ticktext: all.map((d) => literal(d.name)), showgrid: false }),
      }) };
    },
  };

  const confidence = {
    key: "confidence", title: "Where the confidence was", choice: proposing,
    read: "Each judged token by what the proposer (q) and the target (p) gave it. Above the diagonal the target thinks no " +
      "less of it than the proposer, and it is always accepted; below, the more seldom the further away.",
    readGreedy: "Each judged token by what the proposer (q) and the target (p) thought of it before the greedy choice. " +
      "Accepted is what is the target's first choice, however sure either was.",
    find: (chosen) => data.confidences(chosen),
    empty: (d) => !d.points.length, summary: data.confidencesSummary, table: data.tables.confidences,
    draw(d, colours, width) {
      // Where q is one and the same, tokens are spread sideways, each to a place of its own that redrawing does not move.
      const spread = (i) => (d.flat ? ((i * 0.618) % 1 - 0.5) * 0.7 : 0);
      const all = d.points.map((point, i) => ({ ...point, x: point.q + spread(i) }));
      const looks = { accepted: ["circle", 8], rejected: ["x", 8] };
      const traces = Object.entries(looks).map(([state, [symbol, size]]) => {
        const some = all.filter((x) => x.state === state);
        return {
          type: "scatter", mode: "markers", name: state + " (" + some.length + ")", x: some.map((t) => t.x),
          y: some.map((t) => t.p),
          text: some.map((t) => literal(root.SpecPlay.visible ? root.SpecPlay.visible(t.text) : t.text)),
          customdata: some.map((t) => [t.q, t.round]),
          hovertemplate: "“%{text}” " + state +
            "<br>p %{y:.3f}, q %{customdata[0]:.3f}, round %{customdata[1]}<extra></extra>",
          marker: { symbol, size, color: colours.state(state), opacity: 0.8,
            line: { width: state === "accepted" ? 1 : 0, color: colours.card } },
        };
      });
      if (!d.flat && !d.greedy) traces.unshift({
        type: "scatter", mode: "lines", name: "p = q", x: [0, 1], y: [0, 1], hoverinfo: "skip",
        line: { color: colours.muted, width: 1.5, dash: DASH },
      });
      const q = d.points[0].q;
      const one = { range: [q - 0.6, q + 0.6], tickvals: [q], ticktext: [fixed(q, 2)], showgrid: false };
      const x = d.flat ? one : { range: [-0.04, 1.04], dtick: 0.25, tickformat: ".2f" };
      const own = d.greedy ? "q: the proposer's confidence" : "q: the proposer's probability";
      const named = d.flat ? "q, the same for every token (spread sideways to be told apart)" : own;
      return { traces, layout: layout(colours, {
        height: 340, legend: legend(colours, width), xaxis: axis(colours, named, x),
        yaxis: axis(colours, "p: the target's probability", { range: [-0.04, 1.04], dtick: 0.25, tickformat: ".2f" }),
      }) };
    },
  };

  root.SpecPlay = Object.assign(root.SpecPlay, { plotFigures: [rounds, position, passes, speedup, confidence],
    plotDash: DASH });
})(globalThis);
