// One run on the page: a growing string of JSON lines in, a view of it out.
//
// The lines are the run's events (see engines/events.py) and, between them, lines of type "page" from
// app/run_page.py: the run's state, and what was measured against the baseline. Before them stands a line that names
// the run and says how many of its lines were left out (see app/screens.py). An update parses its new lines alone;
// drawing waits for the next frame, so that a browser which falls behind draws less often, not later and later.
(function (root) {
  "use strict";

  const { Fold, TokenText, Tooltip, copySelection, copyText, expectedTokensPerPass } = root.SpecPlay;
  const NUMBERS_EVERY_MS = 200; // figures that change faster cannot be read
  const TILES = [
    ["speedup", "speed-up", "Plain time per token / this run's time per token, the prompt's own pass left out. " +
      "Same prompt, settings, seed and machine; both measured here, one after the other. In brackets: how far chance goes, " +
      "the 5th to 95th percentile when the rounds of both runs are drawn anew. What changed on the machine between the " +
      "two runs is not in it."],
    ["rate", "tokens/s", "Tokens that stay / seconds of proposing, verifying, sampling and the rest."],
    ["pass", "tokens per pass", "Tokens that stay / passes of the target. Plain decoding has 1. " +
      "The formula expects (1 − a^(k+1)) / (1 − a), with a the acceptance rate, if every proposal had k tokens " +
      "and each were accepted independently of the others."],
    ["acceptance", "acceptance", "a = accepted / (accepted + rejected), for each judged token."],
  ];
  const REASONS = { eos: "The model ended its answer.", stop: "A stop string came.", length: "The token limit is reached." };

  const figure = (value, digits) => (value === null || value === undefined ? "–" : value.toFixed(digits));
  const count = (n, word) => n + " " + word + (n === 1 ? "" : "s");

  // "(2.6 to 3.4)"; near 1, where a tenth matters, with one digit more.
  function spread({ low, high }) {
    if (low === null || low === undefined) return "over plain decoding";
    const digits = high < 2 ? 2 : 1;
    return "(" + low.toFixed(digits) + " to " + high.toFixed(digits) + ")";
  }

  function make(tag, classes, parent, text) {
    const node = document.createElement(tag);
    if (classes) node.className = classes;
    if (text !== undefined) node.textContent = text;
    if (parent) parent.appendChild(node);
    return node;
  }

  // Views to be drawn soon: all of them first, then all scrolled, so that the page is laid out once. Drawing takes a
  // fifth of the time at most: where it is slow it happens less often, and what comes meanwhile is drawn together.
  const waiting = new Set();
  let idleUntil = 0;
  let timer = 0;

  function drawAll() {
    clearTimeout(timer);
    const begin = performance.now();
    const views = [...waiting];
    waiting.clear();
    for (const view of views) view.draw();
    for (const view of views) view.scroll(); // asks for the layout, so that its time is counted
    const end = performance.now();
    idleUntil = end + 4 * (end - begin);
  }

  function soon(view) {
    const first = !waiting.size;
    waiting.add(view);
    if (view.fold.done) return drawAll(); // who sees the state "done" sees the whole text
    if (!first) return;
    const wait = idleUntil - performance.now();
    if (document.hidden || wait > 0) timer = setTimeout(drawAll, document.hidden ? 200 : wait);
    else requestAnimationFrame(drawAll);
  }

  class View {
    constructor(element, name) {
      this.root = element.querySelector(".sp-view");
      this.name = name;
      this.root.dataset.view = name;
      this.build();
      this.text = new TokenText(this.tokens);
      this.tip = new Tooltip(this.tokens);
      this.tokens.addEventListener("scroll", () => {
        this.atEnd = this.tokens.scrollHeight - this.tokens.scrollTop - this.tokens.clientHeight < 40;
      }, { passive: true });
      this.tokens.addEventListener("copy", (event) => copySelection(event, this.tokens));
      this.reset(null);
    }

    build() {
      const head = make("div", "sp-head", this.root);
      this.title = make("span", "sp-title", head);
      this.status = make("span", "sp-status", head);
      this.status.setAttribute("role", "status");
      this.before(head);
      this.tiles = {};
      const tiles = make("div", "sp-tiles", this.root);
      for (const [key, label, help] of TILES) {
        const tile = make("div", "sp-tile", tiles);
        tile.dataset.tile = key;
        tile.title = help;
        const value = make("span", "sp-value", tile, "–");
        make("span", "sp-label", tile, label);
        this.tiles[key] = { tile, value, note: make("span", "sp-note", tile) };
      }
      this.verdict = make("p", "sp-verdict", this.root);
      this.frame(make("div", "sp-frame", this.root));
    }

    // Shown while the fields say something else than at the last Run (asked.js).
    before(parent) {
      make("span", "sp-outdated", parent, "for the settings before").title =
        "The prompt or a setting was changed since: press Run to see what it makes.";
    }

    frame(parent) {
      this.tokens = make("div", "sp-tokens", parent);
      this.tokens.tabIndex = 0;
      this.tokens.setAttribute("aria-label", "Output " + this.name + "; the arrow keys go from token to token");
      this.copy = make("button", "sp-copy", parent, "Copy text");
      this.copy.type = "button";
      this.copy.addEventListener("click", async () => {
        await copyText(this.fold.done ? this.fold.done.text : this.fold.text());
        this.copy.textContent = "Copied";
        setTimeout(() => (this.copy.textContent = "Copy text"), 1200);
      });
    }

    reset(run) {
      this.run = run;
      this.head = "";
      this.offset = 0; // in the string, up to which lines were taken
      this.seen = 0; // lines taken of this run
      this.changed = Infinity; // the first round that is to be drawn anew
      this.atEnd = true;
      this.fold = new Fold();
      this.text.clear();
      this.setState("idle", "");
      this.speedup = null;
      this.title.textContent = "";
      this.setVerdict("", "");
      this.numbersAt = 0;
      this.numbers();
    }

    setState(state, message) {
      this.root.dataset.state = state;
      this.status.textContent = message || "";
      this.copy.hidden = !this.fold.rounds.length;
    }

    setVerdict(sentence, tone) {
      this.verdict.textContent = sentence;
      this.verdict.dataset.tone = tone;
      this.verdict.hidden = !sentence;
    }

    // `value`: the head line, and the last lines so far of the run that is shown.
    receive(value) {
      if (!value) {
        if (this.run !== null) this.reset(null);
        return;
      }
      const headEnd = value.indexOf("\n") + 1;
      const head = value.slice(0, headEnd);
      if (head !== this.head) {
        const { run, left_out: leftOut } = JSON.parse(head);
        if (run !== this.run) this.reset(run);
        this.head = head;
        this.offset = headEnd;
        if (leftOut > this.seen) return this.forget(); // too far behind: wait for the end, which brings it whole
        for (let skip = this.seen - leftOut; skip > 0; skip--) this.offset = value.indexOf("\n", this.offset) + 1;
      }
      const end = value.lastIndexOf("\n") + 1;
      if (end <= this.offset) return;
      const lines = value.slice(this.offset, end - 1).split("\n");
      this.offset = end;
      this.seen += lines.length;
      for (const line of lines) this.take(JSON.parse(line));
      soon(this);
    }

    forget() {
      this.head = "";
    }

    take(event) {
      if (event.type === "page") {
        this.page(event);
        return;
      }
      this.changed = Math.min(this.changed, this.fold.add(event));
      if (event.type === "start") this.setState("running", "");
      else if (event.type === "draft" && this.fold.rounds.length === 1) this.setState("running", "");
      else if (event.type === "done") this.finish(event);
    }

    page(line) {
      if (line.title) this.title.textContent = line.title;
      if (line.state) this.setState(line.state, line.message);
      if ("speedup" in line) this.speedup = line;
      if (line.sentence !== undefined) this.setVerdict(line.sentence, line.tone || "");
      this.numbers();
    }

    finish(done) {
      const emitted = this.fold.metrics().emitted;
      if (done.reason === "error") this.setState("error", done.message || "The run failed.");
      else if (done.reason === "stopped") this.setState("stopped", "Stopped after " + count(emitted, "token") + ".");
      else this.setState("done", [count(emitted, "token") + ".", REASONS[done.reason], done.message].filter(Boolean).join(" "));
    }

    draw() {
      if (this.changed !== Infinity) {
        this.text.update(this.fold, this.changed);
        this.changed = Infinity;
        this.copy.hidden = !this.fold.rounds.length;
      }
      const now = performance.now();
      if (this.fold.done || now - this.numbersAt > NUMBERS_EVERY_MS) {
        this.numbersAt = now;
        this.numbers();
      }
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
      const m = this.fold.metrics();
      const settings = this.fold.start ? this.fold.start.settings : null;
      const speculative = this.fold.start && this.fold.start.proposer !== "none";
      this.tile("rate", figure(m.tokens_per_second, 1), this.speedup && this.speedup.plain_rate
        ? "plain: " + figure(this.speedup.plain_rate, 1) : "");
      const expected = speculative && !settings.adaptive ? expectedTokensPerPass(m.acceptance_rate, settings.k) : null;
      this.tile("pass", figure(m.tokens_per_pass, 2), expected === null ? "" : "formula: " + figure(expected, 2));
      const judged = m.accepted + m.rejected;
      this.tile("acceptance", m.acceptance_rate === null ? "–" : Math.round(100 * m.acceptance_rate) + " %",
        judged ? m.accepted + " of " + judged + " judged" : speculative === false ? "nothing is proposed" : "");
      this.speed();
    }

    // Whether a speed-up may yet come: not where nothing was written, nor after a fault.
    toCome() {
      const { start, done } = this.fold;
      return Boolean(start) && !(done && (done.keep === 0 || done.reason === "error"));
    }

    speed() {
      const measured = this.speedup;
      const { tile } = this.tiles.speedup;
      tile.dataset.tone = measured ? measured.tone : "";
      tile.classList.toggle("sp-wordy", Boolean(measured) && measured.speedup === null);
      if (!measured) this.tile("speedup", "–", this.toCome() ? "when both are done" : "");
      else if (measured.speedup === null) this.tile("speedup", measured.instead, "");
      else this.tile("speedup", measured.speedup.toFixed(2) + "×", spread(measured));
    }
  }

  // The baseline: one line, its text folded away.
  class Strip extends View {
    build() {
      const details = make("details", "", this.root);
      const line = make("summary", "sp-head", details);
      this.title = make("span", "sp-title", line);
      this.figures = make("span", "sp-figures", line);
      this.status = make("span", "sp-status", line);
      this.status.setAttribute("role", "status");
      this.before(line);
      this.verdict = make("p", "sp-verdict", this.root);
      this.frame(make("div", "sp-frame", details));
    }

    numbers() {
      const m = this.fold.metrics();
      const soFar = this.fold.done ? "" : " \u00b7 " + count(m.emitted, "token");
      this.figures.textContent = m.tokens_per_second === null ? "" : figure(m.tokens_per_second, 1) + " tokens/s" + soFar;
    }
  }

  // Called by the component's js_on_load.
  function mount(element, props, watch) {
    const view = new (props.slim ? Strip : View)(element, props.name);
    const receive = () => view.receive(props.value);
    watch("value", receive);
    receive();
  }

  root.SpecPlay = Object.assign(root.SpecPlay, { mount, View });
})(globalThis);
