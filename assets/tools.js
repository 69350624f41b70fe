// The page's own tools: what the text shows, and another panel.
(function (root) {
  "use strict";

  const { acts, bringBack, button, keepsRuns, layout, make, mountTabs, open, save, shared, tellFiles } = root.SpecPlay;

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
    menu(box);
    document.addEventListener("specplay:layout", () => (add.disabled = layout.count >= shared.letters.length));
  }

  // What is rarely wanted: a link, saving, opening, the runs before the last reload.
  function menu(parent) {
    const box = make("details", "sp-menu", parent);
    make("summary", "sp-button", box, "Share and keep");
    const list = make("div", "sp-menu-list", box);
    const item = (text, act) => button("sp-menu-item", list, text, "", act);
    item("Copy a link to these settings", async () => {
      const link = root.SpecPlay.link();
      await root.SpecPlay.copyText(link);
      said(link.includes("prompt") ? "The link is copied." : "The link is copied, without the prompt, which is too long for one.");
    });
    item("Save the runs", save);
    const choose = make("input", "sp-offscreen", list);
    Object.assign(choose, { type: "file", accept: ".jsonl,.ndjson,.json,.txt", tabIndex: -1 });
    choose.setAttribute("aria-label", "File of runs");
    choose.addEventListener("change", async () => {
      const [file] = choose.files;
      choose.value = "";
      if (file) await open(file);
    });
    item("Open saved runs\u2026", () => choose.click());
    const back = item("Bring back the last runs", bringBack);
    box.addEventListener("toggle", async () => (back.hidden = !(await keepsRuns())));
    const line = make("p", "sp-menu-said", list);
    line.setAttribute("role", "status");
    const said = (text) => (line.textContent = text);
    tellFiles((text) => {
      said(text);
      if (text) box.open = true;
    });
    document.addEventListener("click", (event) => box.contains(event.target) || (box.open = false));
    box.addEventListener("keydown", (event) => event.key === "Escape" && (box.open = false));
  }

  root.SpecPlay = Object.assign(root.SpecPlay, { mountTools });
})(globalThis);
