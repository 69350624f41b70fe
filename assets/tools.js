// The page's own tools: what the text shows, and another panel.
(function (root) {
  "use strict";

  const { acts, button, layout, make, mountTabs, shared } = root.SpecPlay;

  function mountTools(element) {
    const box = element.querySelector(".sp-tools");
    const label = make("label", "sp-show", box);
    const refused = make("input", "", label);
    Object.assign(refused, { type: "checkbox", checked: true, id: "sp-refused" });
    label.append(" show rejected and unjudged tokens");
    refused.addEventListener("change", () => document.body.classList.toggle("sp-kept-only", !refused.checked));
    mountTabs(box);
    const add = button("sp-button", box, "Add a panel", "", () => acts.add());
    add.id = "sp-add";
    document.addEventListener("specplay:layout", () => (add.disabled = layout.count >= shared.letters.length));
  }

  root.SpecPlay = Object.assign(root.SpecPlay, { mountTools });
})(globalThis);
