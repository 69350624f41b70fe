// One run on the page: lines in, a view of it out.
//
// The lines are the run's events (see engines/events.py) and, between them, lines of type "page" from
// app/run_page.py: the run's state, and what was measured against the baseline. Drawing waits for the next frame, so that
// a browser which falls behind draws less often, not later and later. What a view holds (its Record) can be handed to
// another view, and can be shown as it was at any second of the run.
(function (root) {
  "use strict";

  const {
    Fold, Record, TokenText, Tooltip, copySelection, copyText, count, countAt, expectedTokensPerPass, make, soon,
  } = root.SpecPlay;
  const LAW = '{"type": "law"'; // a line of the test of a distribution (law.js)
  // How often figures change: fast ones cannot be read, and without them less of the page is painted.
  const LIVE_NUMBERS_MS = 1000;
  const REPLAYED_NUMBERS_MS = 200;
  const TILES = [
    ["speedup", "speed-up", "Plain time per token / this run's time per token, the prompt's own pass left out. " +
      "Same prompt, settings, seed and machine; both measured here, one after the other. Predicted: by the formula, from this " +
      "run's acceptance and the costs of passes, measured when the model was loaded. In brackets: how far chance goes, " +
      "the 5th to 95th percentile when the rounds of both runs are drawn anew. What changed on the machine between the " +
      "two runs is not in it."],
    ["rate", "tokens/s", "Tokens that stay / seconds of proposing, verifying, sampling and the rest."],
    ["pass", "tokens per pass", "Tokens that stay / passes of the target. Plain decoding has 1. " +
      "The formula expects (1 − a^(k+1)) / (1 − a), with a the acceptance rate, if every proposal had k tokens " +
      "and each were accepted independently of the others."],
    ["acceptance", "acceptance", "a = accepted / (accepted + rejected), for each judged token."],
  ];

  const figure = (value, digits) => (value === null || value === undefined ? "–" : value.toFixed(digits));

  // "(2.6 to 3.4)"; near 1, where a tenth matters, with one digit more.
  function spread({ low, high }) {
    if (low === null || low === undefined) return "over plain decoding";
    const digits = high < 2 ? 2 : 1;
    return "(" + low.toFixed(digits) + " to " + high.toFixed(digits) + ")";
  }

  class View {
    constructor(element, name) {
      this.root = element.querySelector(".sp-view");
      this.name = name;
      this.root.dataset.view = name;
      this.build();
      this.text = new TokenText(this.tokens);
      this.tip = new Tooltip(this.tokens, () => this.shown);
      this.tokens.addEventListener("scroll", () => {
        this.atEnd = this.tokens.scrollHeight - this.tokens.scrollTop - this.tokens.clientHeight < 40;
      }, { passive: true });
      this.tokens.addEventListener("copy", (event) => copySelection(event, this.tokens));
      this.adopt(new Record());
    }

    get slim() {
      return false;
    }

    build() {
      const head = make("div", "sp-head", this.root);
      this.title = make("span", "sp-title", head);
      this.status = make("span", "sp-status", head);
      this.status.setAttribute("role", "status");
      this.before(head);
      this.lap = make("i", "", make("div", "sp-lap", this.root));
      this.tiles = {};
      const tiles = make("div", "sp-tiles", this.root);
      for (const [key, label, help] of TILES) {
        const tile = make("div", "sp-tile", tiles);
        tile.dataset.tile = key;
        tile.title = help;
        const value = make("span", "sp-value", tile, "–");
        const words = make("span", "sp-label", tile, label);
        if (key === "speedup") this.predicted = make("span", "sp-predicted", words);
        this.tiles[key] = { tile, value, note: make("span", "sp-note", tile) };
      }
      this.verdict = make("p", "sp-verdict", this.root);
      this.frame(make("div", "sp-frame", this.root));
    }

    // Shown while the fields say something else than at the last Run (run.js).
    before(parent) {
      make("span", "sp-outdated", parent, "for the settings before").title =
        "The prompt or a setting was changed since: press Run to see what it makes.";
    }

    frame(parent) {
      this.tokens = make("div", "sp-tokens", parent);
      this.tokens.tabIndex = 0;
      this.tokens.setAttribute("role", "group");
      this.tokens.setAttribute("aria-label", "Output " + this.name + "; the arrow keys go from token to token");
      this.copy = make("button", "sp-copy", parent, "Copy text");
      this.copy.type = "button";
      this.copy.addEventListener("click", async () => {
        const { fold } = this.record;
        await copyText(fold.done ? fold.done.text : fold.text());
        this.copy.textContent = "Copied";
        setTimeout(() => (this.copy.textContent = "Copy text"), 1200);
      });
      this.prompt(parent.parentNode);
    }

    // The prompt's tokens, as the model reads them: only when somebody looks.
    prompt(parent) {
      this.read = make("details", "sp-read", parent);
      this.readTitle = make("summary", "", this.read);
      this.readText = make("div", "sp-read-text", this.read);
      this.read.addEventListener("toggle", () => this.fillPrompt());
    }

    fillPrompt() {
      const { start } = this.record.fold;
      this.read.hidden = !start;
      if (!start) return;
      this.readTitle.textContent = "The prompt as the model reads it: " + count(start.prompt_ids.length, "token");
      this.readText.replaceChildren();
      if (this.read.open) for (const piece of start.prompt_tokens) make("span", "", this.readText, piece);
    }

    // Show another run from now on, or a new one that is still to come.
    adopt(record) {
      this.record = record;
      this.shown = record.fold; // what is drawn: all of it, or what there was at some second of a replay
      this.at = null; // events in `shown`, while it is not all
      this.changed = 0; // the first round that is to be drawn anew
      this.atEnd = true;
      this.numbersAt = 0;
      this.text.clear();
      this.tip.hide();
      this.lap.style.width = "";
      this.root.classList.toggle("sp-replay", false);
      this.fillPrompt();
      this.say();
      this.draw();
      this.numbersAt = 0; // the first figures of what comes are shown at once
    }

    receive(line) {
      if (line.startsWith(LAW)) return this.onLaw(JSON.parse(line));
      const { said } = this.record;
      this.changed = Math.min(this.changed, this.record.take(line));
      if (this.record.said !== said) this.say();
      soon(this);
    }

    // The run did not come about.
    fail(message) {
      this.record.set("error", message);
      this.say();
    }

    say() {
      const { title, state, message, sentence, tone, fold } = this.record;
      this.title.textContent = title;
      this.root.dataset.state = state;
      this.status.textContent = message;
      this.copy.hidden = !fold.rounds.length;
      this.verdict.textContent = sentence;
      this.verdict.dataset.tone = tone;
      this.verdict.hidden = !sentence;
      if (this.read.hidden === Boolean(fold.start)) this.fillPrompt();
      if (state !== "running") this.numbers();
    }

    // The run as it was at second `t`; null: all of it.
    seek(t) {
      const { events, times, fold } = this.record;
      const wanted = t === null ? events.length : countAt(times, t);
      const all = wanted >= events.length;
      const before = this.shown;
      if (all) {
        this.shown = fold;
        this.at = null;
      } else {
        if (this.at === null || wanted < this.at) [this.shown, this.at] = [new Fold(), 0];
        while (this.at < wanted) this.changed = Math.min(this.changed, this.shown.add(events[this.at++]));
      }
      if (this.shown !== before) {
        this.text.clear();
        this.changed = 0;
      }
      const part = t === null || !times.length ? 1 : Math.min(1, t / this.record.seconds);
      this.lap.style.width = t === null ? "" : 100 * part + "%";
      this.root.classList.toggle("sp-replay", t !== null);
      this.root.classList.toggle("sp-home", t !== null && all);
      this.draw();
      this.scroll();
    }

    draw() {
      if (this.changed !== Infinity) {
        this.text.update(this.shown, this.changed);
        this.changed = Infinity;
        this.copy.hidden = !this.record.fold.rounds.length;
      }
      const wait = this.numbersAt + (this.at === null ? LIVE_NUMBERS_MS : REPLAYED_NUMBERS_MS) - performance.now();
      if (this.shown.done || wait <= 0) this.numbers();
      else if (!this.numbersLater) this.numbersLater = setTimeout(() => this.numbers(), wait);
    }

    // Keep the end in sight, unless the reader has scrolled away from it.
    scroll() {
      if (this.atEnd) this.tokens.scrollTop = 1e9;
    }

    tile(key, value, note) {
      const { value: valueNode, note: noteNode } = this.tiles[key];
      if (valueNode.textContent !== value) valueNode.textContent = value;
      if (noteNode.textContent !== note) noteNode.textContent = note;
    }

    numbers() {
      clearTimeout(this.numbersLater);
      this.numbersLater = 0;
      this.numbersAt = performance.now();
      this.figures();
    }

    figures() {
      const { start } = this.shown;
      const { speedup } = this.record;
      const m = this.shown.metrics();
      const settings = start ? start.settings : null;
      const speculative = start && start.proposer !== "none";
      this.tile("rate", figure(m.tokens_per_second, 1), speedup && speedup.plain_rate
        ? "plain: " + figure(speedup.plain_rate, 1) : "");
      const expected = speculative && !settings.adaptive ? expectedTokensPerPass(m.acceptance_rate, settings.k) : null;
      this.tile("pass", figure(m.tokens_per_pass, 2), expected === null ? "" : "formula: " + figure(expected, 2));
      const judged = m.accepted + m.rejected;
      this.tile("acceptance", m.acceptance_rate === null ? "–" : Math.round(100 * m.acceptance_rate) + " %",
        judged ? m.accepted + " of " + judged + " judged" : speculative === false ? "nothing is proposed" : "");
      this.speed();
    }

    // Whether a speed-up may yet come: not where nothing was written, nor after a fault.
    toCome() {
      const { start, done } = this.record.fold;
      return Boolean(start) && !(done && (done.keep === 0 || done.reason === "error"));
    }

    speed() {
      const measured = this.record.speedup;
      const { tile } = this.tiles.speedup;
      tile.dataset.tone = measured ? measured.tone : "";
      tile.classList.toggle("sp-wordy", Boolean(measured) && measured.speedup === null);
      const predicted = measured && typeof measured.predicted === "number" ? measured.predicted.toFixed(2) + "×" : "";
      this.predicted.textContent = predicted ? "predicted " + predicted : "";
      if (!measured) this.tile("speedup", "–", this.toCome() ? "when both are done" : "");
      else if (measured.speedup === null) this.tile("speedup", measured.instead, "");
      else this.tile("speedup", measured.speedup.toFixed(2) + "×", spread(measured));
    }
  }

  // The baseline: one line, its text folded away.
  class Strip extends View {
    get slim() {
      return true;
    }

    build() {
      const details = make("details", "", this.root);
      const line = make("summary", "sp-head", details);
      this.title = make("span", "sp-title", line);
      this.line = make("span", "sp-figures", line);
      this.status = make("span", "sp-status", line);
      this.status.setAttribute("role", "status");
      this.before(line);
      this.lap = make("i", "", make("div", "sp-lap", this.root));
      this.verdict = make("p", "sp-verdict", this.root);
      this.frame(make("div", "sp-frame", details));
    }

    figures() {
      const m = this.shown.metrics();
      const soFar = this.shown.done ? "" : " \u00b7 " + count(m.emitted, "token");
      this.line.textContent = m.tokens_per_second === null ? "" : figure(m.tokens_per_second, 1) + " tokens/s" + soFar;
    }
  }

  const mounted = new Map();

  // Called by the component's js_on_load.
  function mount(element, props) {
    mounted.set(props.name, new (props.slim ? Strip : View)(element, props.name));
  }

  // The view of that name; all of them, baselines first, without one.
  const viewOf = (name) => mounted.get(name);
  const allViews = () => [...mounted.values()].sort((a, b) => a.slim === b.slim
    ? (a.name < b.name ? -1 : 1) : b.slim - a.slim);

  // What the page's other parts may look at: the runs that are there, baselines first.
  function views() {
    return allViews().filter((view) => view.record.fold.start).map(({ name, slim, record }) => ({
      name, baseline: slim, fold: record.fold, speedup: record.speedup, title: record.title, comparedWith: record.baseline,
    }));
  }

  root.SpecPlay = Object.assign(root.SpecPlay, { mount, View, viewOf, allViews, views });
})(globalThis);
