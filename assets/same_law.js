// The same-distribution test: for the likeliest tokens how often they should come, beside how often they came.
(function (root) {
  "use strict";

  const { make } = root.SpecPlay;
  const VERDICTS = { same: "No difference found", unclear: "Not clear", differs: "A difference was found", nothing: "Too little to say" };
  const SPACES = { " ": "\u2423", "\n": "\u21b5", "\t": "\u21e5" };

  const visible = (text) => (text === null ? "all others" : text.replace(/^[ \n\t]|[ \n\t]$/g, (c) => SPACES[c]) || "\u2205");

  // `data` is what engines/same_law.py says, so far or at last; the element is written anew.
  function sameLaw(element, data) {
    element.replaceChildren();
    const box = make("section", "sp-law-test", element);
    box.dataset.state = data.state;
    box.setAttribute("aria-label", "Test of the distribution");
    const line = make("p", "sp-law-line", box, lineOf(data));
    line.setAttribute("role", "status");
    if (data.verdict) line.dataset.verdict = data.verdict;
    if (data.done) bars(box, data);
    for (const sentence of data.sentences || []) make("p", "", box, sentence);
  }

  function lineOf({ state, done, of, verdict }) {
    if (state === "choosing") return "Looking for a place in the text at which the model has a choice.";
    if (state === "running") return `${done} of ${of} rounds.`;
    return `${VERDICTS[verdict]}, after ${done} of ${of} rounds.`;
  }

  function bars(box, { tokens, place, done }) {
    const table = make("table", "sp-law-table", box);
    const caption = make("caption", "", table, "The first token of each round after \u201c");
    make("span", "sp-law-place", caption, "\u2026" + visible(place.slice(-40)));
    caption.append("\u201d");
    const head = make("tr", "", make("thead", "", table));
    for (const words of ["token", "expected", "seen", ""]) {
      const cell = make(words ? "th" : "td", "", head, words);
      if (words) cell.scope = "col";
    }
    const body = make("tbody", "", table);
    const most = Math.max(...tokens.flatMap((t) => [t.expected, t.seen])) || 1;
    for (const { text, expected, seen } of tokens) {
      const row = make("tr", "", body);
      const name = make("th", text === null ? "sp-law-others" : "sp-law-token", row, visible(text));
      name.scope = "row";
      make("td", "", row, expected.toFixed(1));
      make("td", "", row, seen);
      const cell = make("td", "sp-law-bars", row);
      for (const [value, kind] of [[expected, "p"], [seen, "seen"]]) {
        make("i", "", make("div", "sp-lawbar sp-lawbar-" + kind, cell)).style.width = `${(100 * value) / most}%`;
      }
      row.title = `expected ${((100 * expected) / done).toFixed(1)} %, seen ${((100 * seen) / done).toFixed(1)} %`;
    }
  }

  root.SpecPlay = Object.assign(root.SpecPlay, { sameLaw });
})(globalThis);
