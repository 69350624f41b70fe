// What is known of one token, shown beside it: while it is pointed at, by a tap (another one, anywhere, takes it away),
// and by the keyboard, where the arrow keys go from token to token of the text that has the focus.
(function (root) {
  "use strict";

  const { card, sourceOf } = root.SpecPlay;
  let made = 0;
  const STEPS = { ArrowRight: 1, ArrowLeft: -1, Home: -Infinity, End: Infinity };

  class Tooltip {
    // `foldOf()`: the fold that `container` shows.
    constructor(container, foldOf) {
      this.container = container;
      this.foldOf = foldOf;
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
      window.addEventListener("scroll", (event) => {
        if (!event.target.contains(container)) return; // another panel's text, as more of it comes
        if (this.box.hidden) return;
        const nodes = this._nodes();
        if (this.byKey || nodes.some((node) => node.matches(":hover"))) this._place(nodes[0]);
        else this.hide();
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

    _nodes() {
      return [...this.container.querySelectorAll("[data-token]")].filter((node) => node.spToken === this.token);
    }

    show(node, byKey = false) {
      const token = node.spToken;
      if (!token) return;
      for (const marked of this.container.querySelectorAll(".sp-told")) marked.classList.remove("sp-told");
      node.classList.add("sp-told");
      this.token = token;
      this.byKey = byKey;
      const fold = this.foldOf();
      this.box.replaceChildren(...card(token, fold));
      this._light(sourceOf(token, fold));
      this.box.hidden = false;
      this._place(node);
    }

    // What a copied token was copied from lights up: in the output, and in the prompt where that is open.
    _light(source) {
      const view = this.container.closest(".sp-view");
      for (const lit of view.querySelectorAll(".sp-source")) lit.classList.remove("sp-source");
      if (!source) return;
      const output = new Set(source.output);
      for (const node of this.container.querySelectorAll("[data-token]")) {
        if (output.has(node.spToken)) node.classList.add("sp-source");
      }
      const prompt = view.querySelectorAll(".sp-read span");
      for (let i = source.prompt[0]; i < source.prompt[1] && i < prompt.length; i++) prompt[i].classList.add("sp-source");
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
      this._light(null);
      for (const marked of this.container.querySelectorAll(".sp-told")) marked.classList.remove("sp-told");
    }
  }

  root.SpecPlay = Object.assign(root.SpecPlay, { Tooltip });
})(globalThis);
