// The tab "Batching": what was measured with many sequences at once, and what is calculated for a GPU. Both views draw
// the JSON that app/batching_tab.py sends; every figure says in its title whether it was measured or calculated.
(function (root) {
  "use strict";

  const { make, table } = root.SpecPlay;
  const HEIGHT = 320;
  const ms = (seconds) => seconds * 1000;
  const fixed = (x, digits) => (typeof x === "number" ? x.toFixed(digits) : "–");
  const percent = (x) => (typeof x === "number" ? Math.round(100 * x) + " %" : "–");
  // Three digits, so that a pass of 0.36 ms reads as well as one of 360.
  const short = (x) => (x >= 100 ? x.toFixed(0) : x >= 10 ? x.toFixed(1) : x.toFixed(2));
  const time = (seconds) => short(ms(seconds)) + " ms";

  const COLUMNS = [
    ["sequences", (p) => String(p.batch)],
    ["speed-up", (p) => fixed(p.speedup, 2) + (typeof p.speedup === "number" ? "×" : "") + range(p)],
    ["tokens/s, plain", (p) => fixed(p.plain_rate, 1)],
    ["tokens/s, speculative", (p) => fixed(p.speculative_rate, 1)],
    ["a pass over 1", (p) => time(p.one)],
    ["a pass over k + 1", (p) => time(p.many)],
    ["tokens per pass", (p) => fixed(p.tokens_per_pass, 2)],
    ["wasted", (p) => percent(p.wasted)],
  ];
  const range = (p) => (typeof p.low === "number" ? " (" + fixed(p.low, 2) + " to " + fixed(p.high, 2) + ")" : "");

  function figure(parent, title, read) {
    const box = make("figure", "sp-figure", parent);
    make("h3", "", make("div", "sp-figure-head", box), title);
    make("p", "sp-figure-read", box, read);
    return make("div", "sp-figure-plot", box);
  }

  // Batches double from one to the next, and so do their places on the axis.
  function batches(kit, colours, points) {
    const ticks = few(points) ? points.map((p) => p.batch) : [1, 4, 16, 64, 256, 1024, 4096];
    return kit.axis(colours, "sequences at once", {
      type: "log", tickvals: ticks, ticktext: ticks.map(String),
      range: [Math.log10(points[0].batch / 1.25), Math.log10(points.at(-1).batch * 1.25)],
    });
  }

  const few = (points) => points.length < 9;

  const line = (points, value, name, look, more) => ({
    x: points.map((p) => p.batch), y: points.map(value), name, mode: few(points) ? "lines+markers" : "lines",
    line: { color: look.colour, width: 2, dash: look.dash }, marker: { color: look.colour, symbol: look.symbol, size: 8 }, ...more,
  });

  function speedups(plotly, kit, node, points, what) {
    const colours = kit.palette(node), look = kit.panelLook(colours, 0);
    const known = points.filter((p) => typeof p.speedup === "number");
    if (!known.length) return;
    const spread = known.every((p) => typeof p.low === "number") && {
      error_y: {
        type: "data", symmetric: false, color: look.colour, thickness: 1.5,
        array: known.map((p) => Math.max(0, p.high - p.speedup)), arrayminus: known.map((p) => Math.max(0, p.speedup - p.low)),
      },
    };
    const first = known[0].batch, last = known.at(-1).batch;
    const traces = [
      line(known, (p) => p.speedup, "speculative, " + what, look, { ...spread, hovertemplate: "%{x} at once: %{y:.2f}×<extra></extra>" }),
      {
        x: [first, last === first ? first * 1.2 : last], y: [1, 1], name: "plain decoding", mode: "lines", hoverinfo: "skip",
        line: { color: colours.muted, width: 1.5, dash: "dash" },
      },
    ];
    const made = kit.layout(colours, {
      height: HEIGHT, xaxis: batches(kit, colours, known), yaxis: kit.axis(colours, "speed-up (×)", { rangemode: "tozero" }),
    });
    const said = known.map((p) => p.batch + ": " + fixed(p.speedup, 2) + "×").join(", ");
    kit.draw(plotly, node, traces, made, "Speed-up by sequences at once, " + what + ". " + said);
  }

  function passes(plotly, kit, node, points, k, what) {
    if (!points.length) return;
    const colours = kit.palette(node), more = { hovertemplate: "%{x} at once: %{y:.3~g} ms<extra></extra>" };
    const traces = [
      line(points, (p) => ms(p.one), "1 token each", kit.panelLook(colours, 3), more),
      line(points, (p) => ms(p.many), k + 1 + " tokens each", { ...kit.panelLook(colours, 1), dash: "dot" }, more),
    ];
    const made = kit.layout(colours, {
      height: HEIGHT, xaxis: batches(kit, colours, points), 
      yaxis: kit.axis(colours, "ms a pass", few(points) ? { rangemode: "tozero" } : { type: "log", dtick: 1 }),
    });
    const said = points.map((p) => p.batch + ": " + time(p.one) + " and " + time(p.many)).join(", ");
    kit.draw(plotly, node, traces, made, "Time of a pass over 1 and over " + (k + 1) + " tokens each, " + what + ". " + said);
  }

  function waste(plotly, kit, node, points) {
    const known = points.filter((p) => typeof p.wasted === "number");
    if (!known.length) return;
    const colours = kit.palette(node);
    const bar = {
      type: "bar", x: known.map((p) => String(p.batch)), y: known.map((p) => 100 * p.wasted), name: "rejected or not judged",
      text: known.map((p) => percent(p.wasted)), textposition: "outside", cliponaxis: false, showlegend: true,
      marker: { color: colours.state("rejected"), pattern: { shape: "/", size: 6, fgcolor: colours.card, fillmode: "overlay", solidity: 0.2 } },
      hovertemplate: "%{x} at once: %{y:.0f} %<extra></extra>",
    };
    const made = kit.layout(colours, {
      height: HEIGHT, bargap: 0.45, xaxis: kit.axis(colours, "sequences at once", { type: "category" }),
      yaxis: kit.axis(colours, "% of the positions computed", { range: [0, 100] }),
    });
    const said = known.map((p) => p.batch + ": " + percent(p.wasted)).join(", ");
    kit.draw(plotly, node, [bar], made, "Share of wasted work, measured. " + said);
  }

  function pointsTable(parent, points, k) {
    const heads = COLUMNS.map(([name]) => name.replace("k + 1", String(k + 1)));
    const caption = "Measured on this machine. In brackets: the 5th to 95th percentile when blocks of passes are drawn anew.";
    table(parent, caption, heads, points.map((p) => COLUMNS.map(([, value]) => value(p))));
  }

  function texts(points) {
    const counts = new Map();
    for (const p of points) for (const [verdict, n] of Object.entries(p.texts)) counts.set(verdict, (counts.get(verdict) || 0) + n);
    const all = [...counts.values()].reduce((a, b) => a + b, 0);
    if (!all) return "";
    const said = [...counts].map(([verdict, n]) => n + " " + verdict).join(", ");
    return "The texts of " + all + " sequences beside plain decoding's: " + said + ".";
  }

  function mountBatching(element, props, watch, part) {
    const box = element.querySelector(".sp-batch");
    const head = make("div", "sp-batch-head", box);
    const status = make("span", "sp-batch-status", head);
    status.setAttribute("role", "status");
    const bar = make("progress", "", head);
    bar.max = 1;
    bar.setAttribute("aria-label", "how much is measured");
    const said = make("p", "sp-batch-said", box);
    const figures = make("div", "sp-figures", box);
    const rest = make("div", "sp-batch-rest", box);
    const measured = part === "measured";
    const what = measured ? "measured" : "calculated";
    const nodes = [
      figure(figures, "Speed-up, " + what, "Tokens per second of all sequences together, against plain decoding of as many."),
      figure(figures, "Time of a pass, " + what, "Speculation pays while judging the proposals takes hardly longer than one token."),
    ];
    if (measured) nodes.push(figure(figures, "Wasted work, measured", "Positions that a pass computed and of which no token came."));
    figures.hidden = true;

    let drawn = "";
    const draw = async () => {
      if (!props.value || !box.clientWidth) return;
      const { points, k } = JSON.parse(props.value);
      if (!points?.length) return;
      const kit = root.SpecPlay.plotKit;
      try {
        const plotly = await root.SpecPlay.plotly();
        speedups(plotly, kit, nodes[0], points, what);
        passes(plotly, kit, nodes[1], points, k, what);
        if (measured) waste(plotly, kit, nodes[2], points);
        box.dataset.drawn = String(points.length);
      } catch (error) {
        status.textContent = error.message;
        box.dataset.state = "error";
      }
    };

    const show = () => {
      if (!props.value) return;
      const told = JSON.parse(props.value);
      box.dataset.state = told.state;
      status.textContent = told.message;
      bar.hidden = told.state !== "running";
      if (typeof told.fraction === "number") bar.value = told.fraction;
      else bar.removeAttribute("value");
      const points = told.points || [];
      said.textContent = measured ? told.conclusion || "" : told.source ? "The figures of the GPU: " + told.source + ". Drafting is taken to cost nothing; no real pass reaches these figures." : "";
      figures.hidden = !points.length;
      const now = JSON.stringify([points, told.skipped]);
      if (now === drawn) return; // only the message is new
      drawn = now;
      rest.replaceChildren();
      if (measured && points.length) {
        pointsTable(rest, points, told.k);
        make("p", "sp-batch-note", rest, texts(points));
      }
      for (const reason of told.skipped || []) make("p", "sp-batch-note", rest, reason);
      draw();
    };
    bar.hidden = true;
    watch("value", show);
    show();
    root.SpecPlay.plotKit.onLook(box, draw);
  }

  root.SpecPlay = Object.assign(root.SpecPlay, { mountBatching });
})(globalThis);
