// The output's text on the clipboard.
(function (root) {
  "use strict";

  async function copyText(text) {
    if (navigator.clipboard && window.isSecureContext) return navigator.clipboard.writeText(text);
    const area = document.body.appendChild(document.createElement("textarea")); // plain http from another machine
    area.className = "sp-offscreen";
    area.value = text;
    area.select();
    document.execCommand("copy");
    area.remove();
  }

  // A selection copies exactly the output's own characters: no refused tokens, no marks.
  function copySelection(event, container) {
    const selection = document.getSelection();
    if (!selection.rangeCount || !container.contains(selection.getRangeAt(0).commonAncestorContainer)) return;
    const part = selection.getRangeAt(0).cloneContents();
    for (const refused of part.querySelectorAll(".sp-rejected, .sp-unjudged, .sp-pending, .sp-refused")) {
      if (!refused.closest(".sp-shared:not(.sp-refused)")) refused.remove();
    }
    event.clipboardData.setData("text/plain", part.textContent);
    event.preventDefault();
  }

  root.SpecPlay = Object.assign(root.SpecPlay || {}, { copyText, copySelection });
})(globalThis);
