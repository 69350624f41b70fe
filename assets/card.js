// What the card of one token says: its state and why, the numbers, the likeliest tokens of target and draft, and, for a
// copied one, where it was copied from.
(function (root) {
  "use strict";

  const { EMITTED, make, specialText } = root.SpecPlay;
  const STATES = {
    pending: "proposed, not judged yet",
    accepted: "proposed and kept",
    rejected: "proposed, judged, refused",
    corrected: "the target's own token, in place of the refused one",
    bonus: "the target's own token, after a wholly accepted proposal",
    plain: "the target's own token, nothing was proposed",
    unjudged: "proposed after the first rejection, so never judged",
  };
  const AROUND = 6; // tokens of the prompt shown before a copied span

  function probability(value) {
    if (value === null || value === undefined) return null;
    if (value === 0 || value === 1) return String(value);
    return value < 0.001 ? value.toExponential(1) : value > 0.9995 ? "> 0.999" : value.toPrecision(3);
  }

  function visible(text) {
    if (text === "") return "(no text of its own)";
    return text.replace(/\n/g, "\u21b5").replace(/\t/g, "\u21e5").replace(/ /g, "\u00b7");
  }

  const quoted = (token) => "\u201c" + visible(token.text || specialText(token)) + "\u201d";

  function rankWords(rank) {
    return rank === 0 ? "the target's first choice" : "number " + (rank + 1) + " of the target's choices";
  }

  // Why a token has the state that it has, in a sentence; "" where the state says it all.
  function why(token) {
    const { judged, extra, instead } = token;
    const drawn = judged && judged.u !== null && judged.u !== undefined;
    if (token.state === "rejected") {
      const place = instead ? " In its place came " + quoted(instead) + "." : "";
      if (!drawn) return "The target's own first choice there is another." + place;
      const bar = judged.threshold ?? judged.ratio;
      return "The number drawn, " + probability(judged.u) + ", is not below " + probability(bar) + "." + place;
    }
    if (token.state === "accepted" && drawn) {
      return "The number drawn, " + probability(judged.u) + ", is below " + probability(judged.threshold ?? judged.ratio) + ".";
    }
    if (token.state === "corrected" && extra && extra.mass !== null && extra.mass !== undefined) {
      return "Drawn from what p has beyond q: the rest after the refusal, " + probability(extra.mass) + " of the whole.";
    }
    return "";
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

  function factList(token) {
    const list = document.createElement("dl");
    for (const [label, value] of facts(token)) {
      make("dt", "", list, label);
      make("dd", "", list, value);
    }
    return list;
  }

  // The likeliest tokens as bars. `top`: [[id, text, probability], ...].
  function bars(title, top, token) {
    const box = make("div", "sp-bars-of");
    make("div", "sp-bars-head", box, title);
    for (const [id, text, p] of top) {
      const row = make("div", "sp-bar-row" + (id === token.id ? " sp-bar-own" : ""), box);
      make("span", "sp-bar-text", row, visible(text));
      make("i", "", make("span", "sp-bar-room", row)).style.width = Math.round(100 * Math.max(0, Math.min(1, p))) + "%";
      make("span", "sp-bar-p", row, probability(p));
    }
    return box;
  }

  function candidates(token, fold) {
    const target = (token.judged && token.judged.top_p) || (token.extra && token.extra.top);
    const draft = token.judged && token.judged.top_q;
    if (!target && !draft) return null;
    const box = make("div", "sp-candidates");
    const greedy = fold.start && fold.start.settings.sampling.temperature < 1e-3;
    if (target) box.append(bars(greedy ? "target, before choosing the first" : "target: p", target, token));
    if (draft) box.append(bars("draft: q", draft, token));
    return box;
  }

  // Where a copied token stands in the text so far: {prompt: [from, to), output: [token, ...]}.
  function sourceOf(token, fold) {
    const span = token.proposed && token.proposed.source;
    if (!span || !fold.start) return null;
    const read = fold.start.prompt_ids.length;
    const emitted = fold.tokens().filter((t) => EMITTED.has(t.state));
    return { prompt: [Math.min(span[0], read), Math.min(span[1], read)], output: emitted.slice(Math.max(0, span[0] - read), Math.max(0, span[1] - read)) };
  }

  function copied(token, fold) {
    const source = sourceOf(token, fold);
    if (!source || source.prompt[0] === source.prompt[1]) return null;
    const [from, to] = source.prompt;
    const pieces = fold.start.prompt_tokens;
    const box = make("div", "sp-copied");
    box.append("in the prompt: \u2026", pieces.slice(Math.max(0, from - AROUND), from).join(""));
    make("mark", "", box, pieces.slice(from, to).join(""));
    box.append(pieces.slice(to, to + 2).join(""), "\u2026");
    return box;
  }

  // The card's content.
  function card(token, fold) {
    const head = make("div", "sp-tip-text", null, token.end ? "end of the text" : visible(token.text || specialText(token)));
    const state = make("div", "sp-tip-state");
    make("b", "", state, token.state);
    state.append(": " + STATES[token.state] + ". " + why(token));
    const parts = [head, state, factList(token), copied(token, fold), candidates(token, fold)];
    if (token.tree) parts.push(root.SpecPlay.treeNode(token.tree, token));
    return parts.filter(Boolean);
  }

  root.SpecPlay = Object.assign(root.SpecPlay, { card, sourceOf, visible });
})(globalThis);
