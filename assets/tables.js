// A table of figures, as the sweep, the tuner and the batches show theirs.
(function (root) {
  "use strict";

  const { make } = root.SpecPlay;

  // On a narrow screen the style makes blocks of a table's parts: their roles keep it a table to who listens.
  function part(tag, role, parent, text) {
    const node = make(tag, "", parent, text);
    node.setAttribute("role", role);
    return node;
  }

  // `rows` are lists of texts, the row's own head first. Gives the table's body.
  function table(parent, caption, heads, rows) {
    const node = part("table", "table", make("div", "sp-scroll", parent));
    node.className = "sp-table";
    make("caption", "", node, caption);
    const head = part("tr", "row", part("thead", "rowgroup", node));
    for (const text of heads) part("th", "columnheader", head, text).scope = "col";
    const body = part("tbody", "rowgroup", node);
    for (const [first, ...others] of rows) {
      const row = part("tr", "row", body);
      part("th", "rowheader", row, first).scope = "row";
      others.forEach((text, i) => (part("td", "cell", row, text).dataset.head = heads[i + 1]));
    }
    return body;
  }

  root.SpecPlay = Object.assign(root.SpecPlay, { table });
})(globalThis);
