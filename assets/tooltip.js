// What is known of one token, shown beside it while it is pointed at.
(function (root) {
  "use strict";

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

  class Tooltip {
    constructor(container) {
      this.box = document.createElement("div");
      this.box.className = "sp-tip";
      this.box.setAttribute("role", "tooltip");
      this.box.hidden = true;
      document.body.appendChild(this.box);
      container.addEventListener("pointerover", (event) => {
        const node = event.target.closest ? event.target.closest("[data-token]") : null;
        if (node && container.contains(node)) this.show(node);
        else this.hide();
      });
      container.addEventListener("pointerleave", () => this.hide());
      window.addEventListener("scroll", () => this.hide(), { passive: true, capture: true });
    }

    show(node) {
      const token = node.spToken;
      if (!token) return;
      const head = document.createElement("div");
      head.className = "sp-tip-text";
      head.textContent = token.end ? "end of the text" : visible(token.text);
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
      this.box.hidden = false;
      this._place(node.getClientRects()[0] || node.getBoundingClientRect());
    }

    _place(at) {
      const { offsetWidth: width, offsetHeight: height } = this.box;
      const left = Math.max(8, Math.min(at.left, document.documentElement.clientWidth - width - 8));
      const below = at.bottom + 8 + height < window.innerHeight;
      this.box.style.left = left + "px";
      this.box.style.top = (below ? at.bottom + 8 : Math.max(8, at.top - height - 8)) + "px";
    }

    hide() {
      this.box.hidden = true;
    }
  }

  root.SpecPlay = Object.assign(root.SpecPlay, { Tooltip, visible });
})(globalThis);
