// A sweep under way and its result: progress, three plots over the axis, and a table that says the same.
//
// The value is one JSON object (see app/sweep_run.py). The plots are drawn when a group of runs is complete, and only
// while they can be seen, as the engine may share this machine's processor.
(function (root) {
  "use strict";

  const { make, button, plotKit: kit, plotsData, plotDash, table } = root.SpecPlay;
  const { fixed, percent } = plotsData;
  const PLOTS = [
    {
      key: "speedup", title: "Speed-up", unit: "speed-up over plain decoding (×)", of: (row) => row.speedup,
      model: (row) => row.predicted, one: true,
      read: "Above 1× it pays. Bars are how far chance goes, the 5th to 95th percentile; open marks are the formula's, " +
        "at the acceptance measured and this machine's costs.",
    },
    {
      key: "acceptance", title: "Acceptance", unit: "acceptance rate a", of: (row) => row.acceptance,
      range: [-0.03, 1.05],
      model: (row, data) => (data.axis === "k" ? data.acceptance : null),
      read: "Accepted / judged tokens. Along k the formula takes it as one and the same: the open marks.",
    },
    {
      key: "passes", title: "Tokens per pass", unit: "tokens per pass of the target", of: (row) => row.tokens_per_pass,
      model: (row) => row.formula,
      read: "What each pass of the target yields; plain decoding has 1. Open marks are what the formula expects at the " +
        "acceptance measured.",
    },
  ];
  const within = (v, say) => (v.low === null ? "" : " (" + say(v.low) + " to " + say(v.high) + ")");
  const spread = (v, say) => (v.value === null ? "–" : say(v.value) + within(v, say === factor ? two : say));
  const factor = (x) => fixed(x, 2) + "×";
  const two = (x) => fixed(x, 2);
  const HEADS = ["speed-up", "predicted", "acceptance", "tokens per pass", "formula", "text", "runs compared"];
  const cells = (row) => [
    spread(row.speedup, factor), row.predicted === null ? "–" : factor(row.predicted), spread(row.acceptance, percent),
    spread(row.tokens_per_pass, two), row.formula === null ? "–" : two(row.formula), row.text || "–", String(row.pairs),
  ];
  const TABLE = ["speedup", "speedup_low", "speedup_high", "predicted", "acceptance", "acceptance_low", "acceptance_high",
    "tokens_per_pass", "tokens_per_pass_low", "tokens_per_pass_high", "formula", "text", "runs", "tokens", "note"];

  function tableOf(data) {
    const three = (v) => [v.value, v.low, v.high];
    return [[data.axis, ...TABLE], ...data.rows.map((row) => [
      row.label, ...three(row.speedup), row.predicted, ...three(row.acceptance), ...three(row.tokens_per_pass),
      row.formula, row.text, row.pairs, row.tokens, row.note,
    ])];
  }

  // One plot over the axis: what was measured with its spread, and the model's.
  function figureOf(plot, data, colours) {
    const rows = data.rows;
    const at = data.numeric ? rows.map((row) => row.value) : rows.map((_, i) => i);
    const values = rows.map(plot.of);
    const model = rows.map((row) => plot.model(row, data));
    const lines = data.numeric ? "lines+markers" : "markers";
    const { colour, symbol } = kit.panelLook(colours, 0);
    const names = rows.map((row) => kit.literal(row.label));
    const traces = [{
      type: "scatter", mode: lines, name: "measured", x: at, y: values.map((v) => v.value), connectgaps: false,
      text: names, hovertemplate: "%{text}: %{y:.2f}<extra></extra>",
      line: { color: colour, width: 2 }, marker: { color: colour, symbol, size: 9 },
      error_y: {
        type: "data", symmetric: false, color: colour, thickness: 1.5, width: 5,
        array: values.map((v) => (v.high === null ? 0 : v.high - v.value)),
        arrayminus: values.map((v) => (v.low === null ? 0 : v.value - v.low)),
      },
    }];
    if (model.some((x) => x !== null)) traces.push({
      type: "scatter", mode: lines, name: "the formula", x: at, y: model, connectgaps: false, text: names,
      hovertemplate: "%{text}, formula: %{y:.2f}<extra></extra>",
      line: { color: colours.ink, width: 1.5, dash: plotDash }, marker: { color: colours.ink, symbol: "diamond-open",
        size: 10, line: { width: 1.5 } },
    });
    const shapes = plot.one ? [{ type: "line", xref: "paper", x0: 0, x1: 1, yref: "y", y0: 1, y1: 1,
      line: { color: colours.ink, width: 1.5, dash: plotDash } }] : [];
    const short = (name) => (name.length > 22 ? name.slice(0, 21) + "\u2026" : name);
    const ticks = data.numeric ? { tickvals: at, range: reach(at) } : {
      tickvals: at, ticktext: rows.map((row) => kit.literal(short(row.label))), range: [-0.6, rows.length - 0.4],
      tickangle: rows.length > 3 ? -35 : 0,
    };
    return { traces, layout: kit.layout(colours, {
      height: 330, shapes, showlegend: true, xaxis: kit.axis(colours, data.axis_name, { ...ticks, showgrid: false }),
      yaxis: kit.axis(colours, plot.unit, plot.range ? { range: plot.range } : { rangemode: "tozero" }),
    }) };
  }

  function reach(at) {
    const room = 0.06 * (at[at.length - 1] - at[0]) || 0.5;
    return [at[0] - room, at[at.length - 1] + room];
  }

  function summary(plot, data) {
    const say = plot.key === "speedup" ? factor : plot.key === "acceptance" ? percent : two;
    return plot.title + " by " + data.axis_name + ": " + data.rows.map((row) => row.label + " " +
      spread(plot.of(row), say)).join(", ") + ".";
  }

  class Sweep {
    constructor(element, props) {
      this.root = element.querySelector(".sp-sweep");
      this.props = props;
      const head = make("div", "sp-sweep-head", this.root);
      this.progress = make("progress", "", head);
      this.progress.setAttribute("aria-label", "Runs that are done");
      this.status = make("span", "sp-sweep-status", head);
      this.status.setAttribute("role", "status");
      this.notes = make("div", "sp-sweep-note", this.root);
      this.result = make("div", "", this.root);
      this.grid = make("div", "sp-figures", this.result);
      this.figures = PLOTS.map((plot) => this.figure(plot));
      this.save = make("div", "sp-sweep-save", this.result);
      button("", this.save, "Save the table as CSV", "", () => kit.saveText(plotsData.csv(tableOf(this.data)),
        "specplay-sweep-" + this.data.axis + ".csv", "text/csv"));
      this.table = make("div", "", this.result);
      this.drawn = "";
      kit.onLook(this.root, () => this.draw());
      document.addEventListener("visibilitychange", () => this.draw());
    }

    figure(plot) {
      const node = make("figure", "sp-figure", this.grid);
      node.dataset.plot = "sweep-" + plot.key;
      const head = make("div", "sp-figure-head", node);
      make("h3", "", head, plot.title);
      const place = { plot };
      button("", head, "PNG", "Save as PNG: " + plot.title, () =>
        kit.savePng(this.plotly, place.node, plot.title + " by " + this.data.axis_name, "specplay-sweep-" + plot.key));
      make("p", "sp-figure-read", node, plot.read);
      place.node = make("div", "sp-figure-plot", node);
      return place;
    }

    receive() {
      this.data = this.props.value ? JSON.parse(this.props.value) : null;
      const { state, message, done, of, rows, notes } = this.data || { state: "idle", message: "", rows: [], notes: [] };
      this.root.dataset.state = state;
      this.status.textContent = message;
      this.progress.hidden = state !== "running" && state !== "queued" && state !== "loading";
      this.progress.max = of || 1;
      if (state === "running") this.progress.value = done;
      else this.progress.removeAttribute("value");
      this.notes.replaceChildren(...notes.map((text) => make("div", "", null, text)));
      const some = rows.some((row) => row.pairs || row.acceptance.value !== null);
      this.result.hidden = !some;
      if (!some) return;
      this.fill();
      this.draw();
    }

    fill() {
      const { rows, axis_name: axis } = this.data;
      this.table.replaceChildren();
      const caption = "In brackets: the 5th to 95th percentile when the repeats of each text, and the rounds within each, " +
        "are drawn anew. It says how far chance goes on these texts and this machine.";
      const body = table(this.table, caption, [axis, ...HEADS], rows.map((row) => [row.label, ...cells(row)]));
      rows.forEach(({ note }, i) => {
        if (note) body.children[i].lastChild.append(make("span", "sp-sweep-note", null, " " + note));
      });
    }

    async draw() {
      if (!this.data || this.result.hidden || document.hidden || !this.root.clientWidth) return;
      const colours = kit.palette(this.root);
      const now = JSON.stringify([this.data.rows, this.data.acceptance, this.data.axis, this.root.clientWidth,
        colours.ink]);
      if (now === this.drawn) return;
      try {
        this.plotly ??= await root.SpecPlay.plotly();
      } catch (error) {
        this.notes.replaceChildren(make("div", "", null, error.message));
        return;
      }
      this.drawn = now;
      for (const { plot, node } of this.figures) {
        const { traces, layout } = figureOf(plot, this.data, colours);
        kit.draw(this.plotly, node, traces, layout, summary(plot, this.data));
      }
    }
  }

  // Called by the component's js_on_load.
  function mountSweep(element, props, watch) {
    const sweep = new Sweep(element, props);
    watch("value", () => sweep.receive());
    sweep.receive();
  }

  root.SpecPlay = Object.assign(root.SpecPlay, { mountSweep });
})(globalThis);
