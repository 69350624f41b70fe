// What a press of Run asked for, and which results are no longer of what the page's fields say.
(function (root) {
  "use strict";

  const COMMON = 3; // prompt, max tokens, seed; after them come the panels' fields, equally many each
  const NARROW = 760; // px
  const LETTERS = "ABCDEFGH";
  let last = null; // the fields at the last Run

  const views = () => [...document.querySelectorAll(".sp-view")];
  const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);

  // Run was pressed: the fields as one string. Where the panels are one below the other, the first comes into sight.
  function asked(fields) {
    last = fields;
    changed(fields);
    const first = views().find((view) => view.classList.contains("sp-full"));
    if (first && window.innerWidth <= NARROW) first.scrollIntoView({ block: "start" });
    return JSON.stringify(fields);
  }

  // A field has another value than before. Set back to what it was, its results are again those of the page.
  function changed(fields) {
    if (!last) return;
    const panels = views().filter((view) => view.classList.contains("sp-full")).length;
    const each = (fields.length - COMMON) / panels;
    const common = !same(fields.slice(0, COMMON), last.slice(0, COMMON));
    for (const view of views()) {
      const at = COMMON + LETTERS.indexOf(view.dataset.view) * each;
      const own = view.classList.contains("sp-full") && !same(fields.slice(at, at + each), last.slice(at, at + each));
      view.classList.toggle("sp-before", common || own);
    }
  }

  root.SpecPlay = Object.assign(root.SpecPlay || {}, { asked, changed });
})(globalThis);
