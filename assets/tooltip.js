// What is known of one token, shown beside it: while it is pointed at, by a tap (another one, anywhere, takes it away),
// and by the keyboard, where the arrow keys go from token to token of the text that has the focus.
(function (root) {
  "use strict";

  const { specialText } = root.SpecPlay;
  const STATES = {
    pending: "proposed, not judged yet",
    accepted: "proposed and kept",
    rejected: "proposed, judged, refused",
    corrected: "the target's own token, in place of the refused one",
    bonus: "the target's own token, after a wholly accepted proposal",
    plain: "the target's own token, nothing was proposed",
    unjudged: "proposed after the first rejection, so never judged",
  };

  function probability(value) {
    if (value === null || value === undefined) return null;
    if (value === 0 || value === 1) return String(value);
    return value < 0.001 ? value.toExponential(1) : value > 0.9995 ? "> 0.999" : value.toPrecision(3);
  }

  function visible(text) {
    if (text === "") return "(no text of its own)";
    return text.replace(/\n/g, "\u21b5").replace(/\t/g, "\u21e5").replace(/ /g, "\u00b7");
  }

  let made = 0;

  function rankWords(rank) {
    return rank === 0 ? "the target's first choice" : "number " + (rank + 1) + " of the target's choices";
  }

  // [[label, value], ...] of what there is to say.
  function facts(token) {
    const rows = [["token id", String(token.id)]];
    const { judged, proposed, extra } = token;
    const add = (label, value) => {
      if (value !== null && value !== undefined) rows.push([label, value]);
    };
    if (judged) {
      add("p (target)", probability(judged.p));
      add("q (draft)", probability(judged.q));
      add("min(1, p/q)", probability(judged.ratio));
      if (judged.threshold !== null && judged.threshold !== undefined && judged.threshold !== judged.ratio) {
        add("threshold", probability(judged.threshold));
      }
      add("u drawn", probability(judged.u));
      if (Number.isInteger(judged.rank)) add("rank", rankWords(judged.rank));
    } else if (extra) {
      add("p (target)", probability(extra.p));
      add("residual mass", probability(extra.mass));
      if (Number.isInteger(extra.rank)) add("rank", rankWords(extra.rank));
    } else if (proposed) {
      add("q (draft)", probability(proposed.q));
    }
    if (proposed && proposed.source) add("copied from", "token " + (proposed.source[1] - 1) + " of the text so far");
    add("round", String(token.round) + ", place " + (token.position + 1));
    return rows;
  }

  const STEPS = { ArrowRight: 1, ArrowLeft: -1, Home: -Infinity, End: Infinity };

  class Tooltip {
    constructor(container) {
      this.container = container;
      this.token = null; // not its element, which may be drawn anew
      this.byKey = false;
      this.box = document.createElement("div");
      this.box.className = "sp-tip";
      this.box.id = "sp-tip-" + ++made;
      this.box.setAttribute("role", "tooltip");
      this.box.hidden = true;
      document.body.appendChild(this.box);
      container.setAttribute("aria-describedby", this.box.id);
      this.pointed();
      this.keyed();
    }

    pointed() {
      const { container } = this;
      const tokenAt = (event) => {
        const node = event.target.closest ? event.target.closest("[data-token]") : null;
        return node && container.contains(node) ? node : null;
      };
      let touched = false; // a finger's "over" and "leave" are parts of its tap
      document.addEventListener("pointerdown", (event) => {
        touched = event.pointerType !== "mouse";
        if (touched && !container.contains(event.target)) this.hide();
      }, true);
      container.addEventListener("pointerover", (event) => {
        if (event.pointerType !== "mouse") return;
        const node = tokenAt(event);
        if (node) this.show(node);
        else this.hide();
      });
      container.addEventListener("pointerleave", (event) => {
        if (event.pointerType === "mouse") this.hide();
      });
      container.addEventListener("click", (event) => {
        if (!touched) return;
        const node = tokenAt(event);
        if (node && (this.box.hidden || node.spToken !== this.token)) this.show(node);
        else this.hide();
      });
      window.addEventListener("scroll", () => {
        if (!this.byKey) this.hide();
        else if (!this.box.hidden) this._place(this._node());
      }, { passive: true, capture: true });
    }

    keyed() {
      const { container } = this;
      container.addEventListener("focus", () => {
        if (container.matches(":focus-visible")) this.step(0);
      });
      container.addEventListener("blur", () => this.hide());
      container.addEventListener("keydown", (event) => {
        if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return; // a selection, the browser's own
        if (event.key === "Escape") this.hide();
        else if (event.key in STEPS) {
          event.preventDefault();
          this.step(STEPS[event.key]);
        }
      });
    }

    // The card of the token that many further on.
    step(by) {
      const first = new Map(); // token -> its first element; what is not shown has no boxes
      for (const node of this.container.querySelectorAll("[data-token]")) {
        if (!first.has(node.spToken) && node.getClientRects().length) first.set(node.spToken, node);
      }
      if (!first.size) return;
      const tokens = [...first.keys()];
      const now = tokens.indexOf(this.token);
      const node = first.get(tokens[now < 0 ? 0 : Math.max(0, Math.min(tokens.length - 1, now + by))]);
      this.byKey = true; // before anything scrolls
      node.scrollIntoView({ block: "nearest" });
      this.show(node, true);
    }

    _node() {
      return [...this.container.querySelectorAll("[data-token]")].find((node) => node.spToken === this.token);
    }

    show(node, byKey = false) {
      const token = node.spToken;
      if (!token) return;
      for (const marked of this.container.querySelectorAll(".sp-told")) marked.classList.remove("sp-told");
      node.classList.add("sp-told");
      this.token = token;
      this.byKey = byKey;
      const head = document.createElement("div");
      head.className = "sp-tip-text";
      head.textContent = token.end ? "end of the text" : visible(token.text || specialText(token));
      const state = document.createElement("div");
      state.className = "sp-tip-state";
      const name = document.createElement("b");
      name.textContent = token.state;
      state.append(name, ": " + STATES[token.state] + ".");
      const list = document.createElement("dl");
      for (const [label, value] of facts(token)) {
        const dt = document.createElement("dt");
        const dd = document.createElement("dd");
        dt.textContent = label;
        dd.textContent = value;
        list.append(dt, dd);
      }
      this.box.replaceChildren(head, state, list);
      if (token.tree) this.box.append(root.SpecPlay.treeNode(token.tree, token));
      this.box.hidden = false;
      this._place(node);
    }

    _place(node) {
      if (!node) return this.hide();
      const at = node.getClientRects()[0] || node.getBoundingClientRect();
      const { offsetWidth: width, offsetHeight: height } = this.box;
      const left = Math.max(8, Math.min(at.left, document.documentElement.clientWidth - width - 8));
      const below = at.bottom + 8 + height < window.innerHeight;
      this.box.style.left = left + "px";
      this.box.style.top = (below ? at.bottom + 8 : Math.max(8, at.top - height - 8)) + "px";
    }

    hide() {
      if (this.box.hidden) return;
      this.box.hidden = true;
      for (const marked of this.container.querySelectorAll(".sp-told")) marked.classList.remove("sp-told");
    }
  }

  root.SpecPlay = Object.assign(root.SpecPlay, { Tooltip, visible });
})(globalThis);
