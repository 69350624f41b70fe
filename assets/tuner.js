// The tab "Tuner": a tuning under way, and what it says: one answer first, then why, then by kind of text, then what
// other engines are to be told. The value is one JSON object (see app/tuner_run.py and app/tuner_words.py).
(function (root) {
  "use strict";

  const { make, button, plotKit: kit, plotsData, table, tunerPlots } = root.SpecPlay;
  const { fixed, percent } = plotsData;
  const { PLOTS, factor, share, interval } = tunerPlots;
  const UNDER_WAY = ["queued", "loading", "running", "stopping"];
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
