// Elements of the page's own making. Text enters by text nodes alone, so nothing of a model or a person is ever HTML.
(function (root) {
  "use strict";

  function make(tag, classes, parent, text) {
    const node = document.createElement(tag);
    if (classes) node.className = classes;
    if (text !== undefined) node.textContent = text;
    if (parent) parent.appendChild(node);
    return node;
  }

  // A button; `words` is what it is called where `text` is a sign.
  function button(classes, parent, text, words, press) {
    const node = make("button", classes, parent, text);
    node.type = "button";
    if (words) {
      node.title = words;
      node.setAttribute("aria-label", words);
    }
    node.addEventListener("click", press);
    return node;
  }

  root.SpecPlay = Object.assign(root.SpecPlay || {}, { button, make });
})(globalThis);
