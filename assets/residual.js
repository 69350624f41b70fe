// Accept, or draw from the residual: five tokens, step by step, with a tally that comes to p whatever the draft is.
(function (root) {
  "use strict";

  const { button, make } = root.SpecPlay;
  const TOKENS = ["the", "a", "his", "an", "its"];
  const P = [0.4, 0.25, 0.2, 0.1, 0.05];
  const DRAFTS = {
    fair: ["a fair draft", [0.3, 0.35, 0.1, 0.2, 0.05]],
    poor: ["a poor draft", [0.05, 0.1, 0.15, 0.3, 0.4]],
    copy: ["a copied token (n-gram)", [0, 1, 0, 0, 0]],
  };
  const PAUSE = 900; // ms between the steps of one draw
  const MANY = 1000;

  const calm = () => root.matchMedia("(prefers-reduced-motion: reduce)").matches;
  const sum = (values) => values.reduce((a, b) => a + b, 0);
  const percent = (x) => (100 * x).toFixed(1) + " %";

  // Numbers in [0, 1) from a seed (mulberry32), so that a class sees what its teacher saw.
  function random(seed) {
    let state = seed >>> 0;
    return () => {
      state = (state + 0x6d2b79f5) >>> 0;
      let t = Math.imul(state ^ (state >>> 15), 1 | state);
      t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
      return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
    };
  }

  function draw(weights, next) {
    let left = next() * sum(weights);
    let last = 0;
    for (let i = 0; i < weights.length; i++) {
      if (weights[i] <= 0) continue;
      last = i;
      if (left < weights[i]) return i;
      left -= weights[i];
    }
    return last; // rounding alone
  }

  // One draw of the target's law through a draft: all that is to be told of it. `rest` is what a rejection draws from.
  function speculate(p, q, rest, next) {
    const x = draw(q, next);
    const ratio = Math.min(1, p[x] / q[x]);
    const u = next();
    const accepted = u < ratio;
    return { x, ratio, u, accepted, out: accepted ? x : draw(rest, next) };
  }

  const residual = (p, q) => p.map((value, i) => Math.max(value - q[i], 0));

  class Residual {
    constructor(element) {
      this.root = make("div", "sp-residual", element);
      this.controls(make("div", "sp-residual-controls", this.root));
      this.rows = this.table(make("table", "sp-laws", this.root));
      this.told = make("p", "sp-result", this.root);
      this.told.setAttribute("role", "status");
      this.tally = make("p", "sp-tally", this.root);
      this.restart();
    }

    choice(parent, label, options, changed) {
      const row = make("label", "sp-choice", parent);
      make("span", "", row, label);
      const select = make("select", "", row);
      for (const [value, words] of options) make("option", "", select, words).value = value;
      select.addEventListener("change", changed);
      return select;
    }

    controls(box) {
      this.draft = this.choice(box, "draft", Object.entries(DRAFTS).map(([id, [words]]) => [id, words]), () => this.restart());
      this.after = this.choice(box, "after a rejection", [["residual", "draw from what p has beyond q (right)"],
        ["p", "draw from p itself (wrong)"]], () => this.restart());
      const keys = make("div", "sp-residual-keys", box);
      this.step = button("sp-button sp-step", keys, "Step", "", () => this.next());
      button("sp-button sp-one-draw", keys, "Draw one", "", () => this.one());
      button("sp-button sp-many", keys, `Draw ${MANY.toLocaleString("en").replace(",", "\u202f")}`, "", () => this.many());
      button("sp-button sp-again", keys, "Start again", "", () => this.restart());
    }

    table(table) {
      make("caption", "", table, "The next word after \u201cShe opened\u201d: p of the model, q of the draft, and what came out");
      const head = make("tr", "", make("thead", "", table));
      for (const words of ["token", "p and q", "residual", "drawn", "share"]) make("th", "", head, words).scope = "col";
      const body = make("tbody", "", table);
      return TOKENS.map((token) => {
        const row = make("tr", "", body);
        make("th", "sp-law-token", row, token).scope = "row";
        const laws = make("td", "sp-law-bars", row);
        const [p, q] = ["p", "q"].map((law) => {
          const line = make("div", "sp-lawbar sp-lawbar-" + law, laws);
          return { bar: make("i", "", line), value: make("span", "", line) };
        });
        const rest = make("td", "sp-law-rest", row);
        const cell = { bar: make("i", "", rest), value: make("span", "", rest) };
        return { row, p, q, rest: cell, count: make("td", "", row), share: make("td", "", row) };
      });
    }

    restart() {
      clearTimeout(this.timer);
      this.random = random(1);
      this.q = DRAFTS[this.draft.value][1];
      this.rest = residual(P, this.q);
      this.counts = TOKENS.map(() => 0);
      this.accepted = 0;
      this.now = null;
      const mass = sum(this.rest);
      this.rows.forEach(({ p, q, rest }, i) => {
        for (const [cell, value] of [[p, P[i]], [q, this.q[i]], [rest, mass ? this.rest[i] / mass : 0]]) {
          cell.bar.style.width = `${72 * value}%`;
          cell.value.textContent = value.toFixed(2);
        }
      });
      const stands = sum(P.map((p, i) => Math.min(p, this.q[i])));
      this.say(`A token of this draft stands with chance ${stands.toFixed(2)}, the sum of min(p, q). Press Step.`);
      this.mark();
      this.count();
    }

    say(words) {
      this.told.textContent = words;
    }

    // Which row is looked at, and how: drawn, accepted, rejected, corrected.
    mark(index, state) {
      this.rows.forEach(({ row }, i) => (row.dataset.state = i === index ? state : ""));
    }

    weights() {
      return this.after.value === "p" ? P : this.rest;
    }

    // The next of a draw's two or three steps; returns whether the draw is over.
    next() {
      clearTimeout(this.timer);
      if (!this.now) {
        this.now = { ...speculate(P, this.q, this.weights(), this.random), step: 0 };
        const { x } = this.now;
        this.mark(x, "drawn");
        this.say(`The draft draws \u201c${TOKENS[x]}\u201d, which it gives ${this.q[x].toFixed(2)}.`);
        return false;
      }
      const { x, ratio, u, accepted, out } = this.now;
      this.now.step += 1;
      if (this.now.step === 1) {
        this.mark(x, accepted ? "accepted" : "rejected");
        const test = `min(1, ${P[x].toFixed(2)} / ${this.q[x].toFixed(2)}) = ${ratio.toFixed(2)}, u = ${u.toFixed(2)}`;
        this.say(accepted ? `${test}: u is below it. \u201c${TOKENS[x]}\u201d stands.` : `${test}: u is not below it. \u201c${TOKENS[x]}\u201d is rejected.`);
        if (!accepted) return false;
      } else {
        this.mark(out, "corrected");
        const where = this.after.value === "p" ? "p itself" : "what p has beyond q";
        this.say(`The model draws from ${where}: \u201c${TOKENS[out]}\u201d.`);
      }
      this.take(this.now);
      this.now = null;
      return true;
    }

    take({ out, accepted }) {
      this.counts[out] += 1;
      this.accepted += accepted;
      this.count();
    }

    // One draw, its steps after each other; all at once where motion is not wanted.
    one() {
      if (this.next() || !this.root.isConnected) return;
      if (calm()) this.one();
      else this.timer = setTimeout(() => this.one(), PAUSE);
    }

    many() {
      while (this.now) this.next(); // a draw that was begun counts
      clearTimeout(this.timer);
      this.mark();
      for (let i = 0; i < MANY; i++) {
        const { out, accepted } = speculate(P, this.q, this.weights(), this.random);
        this.counts[out] += 1;
        this.accepted += accepted;
      }
      this.say(`${MANY} more draws.`);
      this.count();
    }

    count() {
      const total = sum(this.counts);
      const shares = this.counts.map((count) => (total ? count / total : 0));
      this.rows.forEach(({ count, share }, i) => {
        count.textContent = this.counts[i];
        share.textContent = total ? percent(shares[i]) : "\u2013";
      });
      const off = Math.max(...shares.map((share, i) => Math.abs(share - P[i])));
      this.tally.textContent = total
        ? `${total} drawn, ${percent(this.accepted / total)} accepted. The share furthest from p is ${(100 * off).toFixed(1)} points off.`
        : "Nothing drawn yet.";
      this.tally.dataset.off = total ? off : "";
    }
  }

  const widget = (element) => new Residual(element);
  root.SpecPlay = Object.assign(root.SpecPlay, { speculate, residual, widgets: { ...root.SpecPlay.widgets, residual: widget } });
})(globalThis);
