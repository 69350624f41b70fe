// Settings in words, as they stand above a panel before it has run: the mirror of app/words.py.
(function (root) {
  "use strict";

  const { proposers: NAMES } = root.SpecPlay.shared;
  const GREEDY_BELOW = 1e-3;

  // A number as Python's "g" prints it, for the sizes that a setting has.
  const figure = (value) => String(Number(Number(value).toPrecision(6)));

  // "4-6, 9" of [4, 5, 6, 9].
  function ranges(numbers) {
    const spans = [];
    for (const n of [...new Set(numbers)].sort((a, b) => a - b)) {
      const last = spans[spans.length - 1];
      if (last && n === last[1] + 1) last[1] = n;
      else spans.push([n, n]);
    }
    return spans.map(([a, b]) => (a === b ? String(a) : a + "-" + b)).join(", ");
  }

  // `f`: a panel's fields by their names (app/fields.py).
  function inWords(f) {
    return [...speculation(f), ...sampling(f)].join(" \u00b7 ");
  }

  function speculation(f) {
    if (f.proposer === "none") return ["plain decoding"];
    let name = NAMES[f.proposer] || f.proposer;
    if (f.proposer === "draft") name = "draft " + (f.draft || "?");
    else if (f.proposer === "ngram") name += " (" + f.ngram_min + " to " + f.ngram_max + ")";
    else if (f.proposer === "layer-skip" && String(f.skip_layers || "").trim()) name += " without layers " + f.skip_layers.trim();
    const parts = [name, f.adaptive ? "k up to " + f.k + ", adaptive" : "k = " + f.k];
    if (f.proposer === "auto") parts[1] = "k up to " + f.k;
    const branch = root.SpecPlay.shared.trees.includes(f.proposer) ? f.branch : 0;
    if (branch > 1 || (f.proposer === "recycle" && branch === 0)) parts.push("a tree, up to " + (branch || 4) + " branches");
    else if (f.verify === "block") parts.push("block verification");
    return parts;
  }

  function sampling(f) {
    const greedy = f.temperature < GREEDY_BELOW;
    const parts = [greedy ? "greedy" : "temperature " + figure(f.temperature)];
    if (!greedy) { // what only shapes the draw does nothing where nothing is drawn
      if (f.top_k) parts.push("top-k " + f.top_k);
      if (f.top_p < 1) parts.push("top-p " + figure(f.top_p));
      if (f.min_p) parts.push("min-p " + figure(f.min_p));
    }
    if (f.repetition_penalty !== 1) parts.push("repetition penalty " + figure(f.repetition_penalty));
    return parts;
  }

  root.SpecPlay = Object.assign(root.SpecPlay, { inWords, ranges });
})(typeof globalThis === "undefined" ? this : globalThis);
