// The engine's state at the top of the page: what it loads, how far it is, or why it cannot.
(function (root) {
  "use strict";

  const WORDS = {
    idle: "starting", importing: "starting", fetching: "fetching", converting: "converting", loading: "loading",
    ready: "ready", error: "cannot load", lost: "connection lost",
  };
  const ASK_EVERY_MS = 5000;
  const GONE = "The program has ended or cannot be reached. Start it again, then reload this page.";
  const ANEW = "The program was started anew: reload this page.";

  // Whether the program still answers: `tell` gets what is wrong, "" when nothing is. A slow answer is no fault, since a
  // program that loads its libraries may be busy for seconds.
  function watchConnection(tell) {
    const address = new URL("gradio_api/app_id", location.origin + location.pathname.replace(/\/?$/, "/"));
    let first = null;
    const ask = async () => {
      try {
        const { app_id: id } = document.hidden ? { app_id: first } : await (await fetch(address)).json();
        first ??= id;
        tell(id === first ? "" : ANEW);
      } catch (error) {
        tell(GONE);
      }
      setTimeout(ask, ASK_EVERY_MS);
    };
    setTimeout(ask, ASK_EVERY_MS);
  }

  function mountStatus(element, props, watch) {
    const box = element.querySelector(".sp-engine");
    const part = (classes) => box.appendChild(Object.assign(document.createElement("span"), { className: classes }));
    const [dot, model, phase, bar, message] = ["dot", "model", "phase", "bar", "message"].map((c) => part("sp-engine-" + c));
    const fill = bar.appendChild(document.createElement("i"));
    dot.setAttribute("aria-hidden", "true");

    let lost = "";
    const show = () => {
      if (!props.value) return;
      const state = JSON.parse(props.value);
      if (lost) Object.assign(state, { phase: "lost", message: lost, fraction: null });
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
    watchConnection((message) => {
      if (message === lost) return;
      lost = message;
      show();
    });
  }

  root.SpecPlay = Object.assign(root.SpecPlay || {}, { mountStatus });
})(globalThis);
