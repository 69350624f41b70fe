// The tab "Tuner": a tuning under way, and what it says: one answer first, then why, then by kind of text, then what
// other engines are to be told. The value is one JSON object (see app/tuner_run.py and app/tuner_words.py).
(function (root) {
  "use strict";

  const { make, button, plotKit: kit, plotsData, plotDash, table } = root.SpecPlay;
  const { fixed, percent } = plotsData;
  const UNDER_WAY = ["queued", "loading", "running", "stopping"];
  const factor = (x) => (typeof x === "number" ? fixed(x, 2) + "×" : "–");
  const share = (x) => (typeof x === "number" ? percent(x) : "–");
  const range = (i) => (typeof i.low === "number" ? " (" + fixed(i.low, 2) + " to " + fixed(i.high, 2) + ")" : "");
  const interval = (i) => (i ? factor(i.value) + range(i) : "–");
  // A setting's name on two lines, for an axis with little room.
  const folded = (name) => kit.literal(name).replace(" (", "<br>(");

  const line = (colours, more) => ({ type: "line", line: { color: colours.ink, width: 1.5, dash: plotDash }, ...more });

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
    const shapes = [line(colours, { xref: "paper", x0: 0, x1: 1, yref: "y", y0: 1, y1: 1 })];
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

  const PLOTS = [
    ["speedup", "Speed-up by kind of text", speedups, "Above 1× it pays. Bars are the interval; open marks are what was " +
      "predicted before it was run."],
    ["acceptance", "Acceptance by kind of text", acceptances, "Accepted / judged tokens: what the gain comes from."],
    ["predicted", "Predicted beside measured", beside, "Of all that was run, over all kinds of text."],
  ];
  const KINDS = ["kind of text", "share", "measured best", "its acceptance", "predicted best"];
  const SETTINGS = ["setting", "measured", "predicted", "acceptance", "tokens per pass", "same text as plain"];

  function kindCells(kind) {
    const best = Object.entries(kind.measured).sort((a, b) => b[1].speedup.value - a[1].speedup.value)[0];
    const guess = kind.predicted_best;
    return [kind.name, percent(kind.share), best ? best[0] + ": " + interval(best[1].speedup) : "–",
      best ? share(best[1].acceptance) : "–", guess ? guess.name + ": " + factor(guess.speedup) : "–"];
  }

  const settingCells = (row) => [row.name, interval(row.measured), interval(row.predicted), share(row.acceptance),
    fixed(row.tokens_per_pass ?? null, 2), row.same_text || "–"];

  function list(parent, title, lines) {
    if (!lines.length) return;
    make("h3", "", parent, title);
    const node = make("ul", "", parent);
    for (const text of lines) make("li", "", node, text);
  }

  function folding(parent, title) {
    const node = make("details", "sp-tuner-more", parent);
    make("summary", "", node, title);
    return node;
  }

  // The recommendation goes to the Playground's first panel, where its tokens can be seen.
  async function toPlayground(settings) {
    await root.SpecPlay.applyPreset({ panels: [settings] });
    const tabs = [...document.querySelectorAll('.sp-places [role="tab"]')];
    tabs.find((tab) => tab.textContent.trim() === "Playground")?.click();
    document.querySelector("#sp-run")?.focus();
  }

  function answer(parent, report) {
    const box = make("div", "sp-tuner-answer", parent);
    box.dataset.answer = report.answer;
    const colon = report.sentence.indexOf(": ") + 1;
    const said = make("p", "", box);
    make("strong", "", said, report.sentence.slice(0, colon));
    said.append(report.sentence.slice(colon));
    if (report.guess) make("span", "sp-tuner-guess", said, report.guess);
    const key = report.answer === "on" ? "Use it in the Playground" : "Look at it in the Playground";
    if (report.settings) button("sp-button", box, key, "", () => toPlayground(report.settings));
  }

  // What another engine is to be told: a choice, and text to copy.
  function others(parent, made) {
    make("h3", "", parent, "For other engines");
    const row = make("div", "sp-tuner-export", parent);
    make("label", "", row, "engine").htmlFor = "sp-tuner-engine";
    const choice = make("select", "", row);
    choice.id = "sp-tuner-engine";
    for (const { name } of made) make("option", "", choice, name).value = name;
    const copy = button("sp-button", row, "Copy", "", async () => {
      await root.SpecPlay.copyText(text.value);
      told.textContent = "Copied.";
    });
    const told = make("span", "sp-tuner-muted", row);
    told.setAttribute("role", "status");
    const text = make("textarea", "", parent);
    text.readOnly = true;
    text.spellcheck = false;
    const show = () => {
      const e = made.find(({ name }) => name === choice.value);
      text.value = e.text;
      text.rows = Math.min(18, e.text.split("\n").length + 3);
      text.setAttribute("aria-label", "Settings for " + e.name);
      copy.setAttribute("aria-label", "Copy the settings for " + e.name);
      told.textContent = "";
    };
    choice.addEventListener("change", show);
    show();
  }

  class Tuner {
    constructor(element, props) {
      this.root = element.querySelector(".sp-tuner");
      this.props = props;
      const head = make("div", "sp-tuner-head", this.root);
      this.progress = make("progress", "", head);
      this.progress.setAttribute("aria-label", "How much of the time budget is spent");
      this.status = make("span", "sp-tuner-status", head);
      this.status.setAttribute("role", "status");
      this.soFar = make("div", "sp-tuner-so-far", this.root);
      this.notes = make("div", "sp-tuner-muted", this.root);
      this.result = make("div", "sp-tuner-result", this.root);
      this.told = this.drawn = "";
      kit.onLook(this.root, () => this.draw());
      document.addEventListener("visibilitychange", () => this.draw());
    }

    receive() {
      const data = this.props.value ? JSON.parse(this.props.value) : { state: "idle", message: "" };
      this.root.dataset.state = data.state;
      this.status.textContent = data.message;
      this.progress.hidden = !UNDER_WAY.includes(data.state);
      if (typeof data.fraction === "number") this.progress.value = data.fraction;
      else this.progress.removeAttribute("value");
      this.soFar.replaceChildren();
      if (data.so_far) list(this.soFar, data.so_far.title, data.so_far.rows.map((row) => row.name + ": " + row.said));
      // The report says itself what was given up.
      this.notes.replaceChildren(...(data.report ? [] : data.notes || []).map((text) => make("div", "", null, text)));
      this.report = data.report || null;
      this.result.hidden = !this.report;
      const told = JSON.stringify(this.report);
      if (told === this.told) return;
      this.told = told;
      this.result.replaceChildren();
      if (!this.report) return;
      this.fill(this.report);
      this.draw();
    }

    fill(report) {
      const { result } = this;
      answer(result, report);
      list(result, "Why", report.why);
      list(result, "Where prediction and measurement differ by more than 10 %", report.differences);
      this.grid = make("div", "sp-figures", result);
      this.nodes = PLOTS.map(([key, title, , read]) => {
        const figure = make("figure", "sp-figure", this.grid);
        figure.dataset.plot = "tuner-" + key;
        make("h3", "", make("div", "sp-figure-head", figure), title);
        make("p", "sp-figure-read", figure, read);
        return make("div", "sp-figure-plot", figure);
      });
      table(result, "By kind of text. In brackets: the interval in which the speed-up lies, by the prompts drawn anew.",
        KINDS, report.kinds.map(kindCells));
      const all = folding(result, "All settings");
      table(all, "What was measured first, then what was predicted alone.", SETTINGS, report.settings_table.map(settingCells));
      const small = folding(result, "What this rests on");
      make("p", "sp-tuner-muted", small, report.of);
      list(small, "Given up on the way", report.dropped);
      list(small, "What the numbers are not", report.notes);
      if (report.exports.length) others(result, report.exports);
    }

    async draw() {
      if (!this.report || document.hidden || !this.root.clientWidth) return;
      const colours = kit.palette(this.root);
      const now = JSON.stringify([this.told.length, this.report.of, this.root.clientWidth, colours.ink]);
      if (now === this.drawn) return;
      try {
        this.plotly ??= await root.SpecPlay.plotly();
      } catch (error) {
        this.notes.replaceChildren(make("div", "", null, error.message));
        return;
      }
      this.drawn = now;
      PLOTS.forEach(([, title, figureOf], i) => {
        const { traces, layout, said } = figureOf(this.report, colours);
        this.nodes[i].parentElement.hidden = !traces.length;
        if (traces.length) kit.draw(this.plotly, this.nodes[i], traces, layout, title + ". " + said.join("; ") + ".");
      });
      this.root.dataset.drawn = String(this.grid.querySelectorAll(".js-plotly-plot").length);
    }
  }

  // Called by the component's js_on_load.
  function mountTuner(element, props, watch) {
    const tuner = new Tuner(element, props);
    watch("value", () => tuner.receive());
    tuner.receive();
  }

  root.SpecPlay = Object.assign(root.SpecPlay, { mountTuner });
})(globalThis);
