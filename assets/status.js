// The engine's state at the top of the page: what it loads, how far it is, or why it cannot.
(function (root) {
  "use strict";

  const WORDS = {
    idle: "starting", importing: "starting", fetching: "fetching", converting: "converting", loading: "loading",
    ready: "ready", error: "cannot load",
  };

  function mountStatus(element, props, watch) {
    const box = element.querySelector(".sp-engine");
    const part = (classes) => box.appendChild(Object.assign(document.createElement("span"), { className: classes }));
    const [dot, model, phase, bar, message] = ["dot", "model", "phase", "bar", "message"].map((c) => part("sp-engine-" + c));
    const fill = bar.appendChild(document.createElement("i"));
    dot.setAttribute("aria-hidden", "true");

    const show = () => {
      if (!props.value) return;
      const state = JSON.parse(props.value);
      box.dataset.phase = state.phase;
      model.textContent = state.target;
      const known = typeof state.fraction === "number";
      phase.textContent = (WORDS[state.phase] || state.phase) + (known ? " " + Math.round(100 * state.fraction) + " %" : "");
      bar.hidden = !known;
      fill.style.width = known ? 100 * state.fraction + "%" : "0";
      message.textContent = state.phase === "ready" ? "" : state.message.slice(0, 1).toUpperCase() + state.message.slice(1);
      message.hidden = state.phase === "ready";
    };
    watch("value", show);
    show();
  }

  root.SpecPlay = Object.assign(root.SpecPlay || {}, { mountStatus });
})(globalThis);
