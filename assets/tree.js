// The tree that a round proposed, as a nested list: each token under the one it follows, in its state's look.
(function (root) {
  "use strict";

  const { visible } = root.SpecPlay;
  const SIGNS = { accepted: "\u2713", rejected: "\u2717", unjudged: "\u00b7", pending: "\u2026" };

  // `tokens` are a round's proposed tokens in the order of the proposal; `told` is the one that the card is about.
  function treeNode(tokens, told) {
    const box = document.createElement("div");
    box.className = "sp-tree";
    const head = document.createElement("div");
    head.className = "sp-tree-head";
    head.textContent = "the tree of this round";
    box.append(head, branch(tokens, -1, told));
    return box;
  }

  function branch(tokens, parent, told) {
    const list = document.createElement("ul");
    for (const token of tokens) {
      if (token.parent !== parent) continue;
      const item = document.createElement("li");
      const text = document.createElement("span");
      text.className = "sp-t sp-" + token.state + (token === told ? " sp-told" : "");
      text.textContent = visible(token.text || (token.proposed && token.proposed.piece) || "");
      const note = document.createElement("span");
      note.className = "sp-tree-note";
      const confidence = token.proposed ? token.proposed.confidence : null;
      note.textContent = SIGNS[token.state] + (typeof confidence === "number" ? " " + confidence.toFixed(2) : "");
      item.append(text, " ", note);
      const below = branch(tokens, token.node, told);
      if (below.firstChild) item.append(below);
      list.append(item);
    }
    return list;
  }

  root.SpecPlay = Object.assign(root.SpecPlay, { treeNode });
})(globalThis);
