// The engine's state at the top of the page: what it loads, how far it is, or why it cannot.
(function (root) {
  "use strict";

  const WORDS = {
    idle: "starting", importing: "starting", fetching: "fetching", converting: "converting", loading: "loading",
    ready: "ready", error: "cannot load", lost: "connection lost",
  };
  const SETTLED = ["ready", "error"];
  const ASK_EVERY_MS = 500; // while something is loading
  const SEE_EVERY_MS = 5000; // whether the program is still there
  const GONE = "The program has ended or cannot be reached. Start it again, then reload this page.";
  const ANEW = "The program was started anew: reload this page.";

  // `tell` gets the engine's state again and again. A slow answer is no fault, since a program that loads its libraries may
  // be busy for seconds. While something runs nothing is asked: the run itself shows that the program is there.
  function watchState(tell) {
    const address = root.SpecPlay.address("state");
    let program = null;
    let state = { phase: "idle", target: "", message: "", fraction: null };
    const ask = async () => {
      if (!document.hidden && !document.body.classList.contains("sp-busy")) {
        try {
          state = await (await fetch(address)).json();
          program ??= state.program;
          if (state.program !== program) state = { ...state, phase: "lost", message: ANEW, fraction: null };
        } catch (error) {
          state = { ...state, phase: "lost", message: GONE, fraction: null };
        }
        tell(state);
      }
      setTimeout(ask, SETTLED.includes(state.phase) || state.phase === "lost" ? SEE_EVERY_MS : ASK_EVERY_MS);
    };
    ask();
  }

  function mountStatus(element) {
    const box = element.querySelector(".sp-engine");
    const part = (classes) => box.appendChild(Object.assign(document.createElement("span"), { className: classes }));
    const [dot, model, phase, bar, message] = ["dot", "model", "phase", "bar", "message"].map((c) => part("sp-engine-" + c));
    const fill = bar.appendChild(document.createElement("i"));
    dot.setAttribute("aria-hidden", "true");
    watchState((state) => {
      box.dataset.phase = state.phase;
      model.textContent = state.target;
      const known = typeof state.fraction === "number";
      phase.textContent = (WORDS[state.phase] || state.phase) + (known ? " " + Math.round(100 * state.fraction) + " %" : "");
      bar.hidden = !known;
      fill.style.width = known ? 100 * state.fraction + "%" : "0";
      message.textContent = state.phase === "ready" ? "" : state.message.slice(0, 1).toUpperCase() + state.message.slice(1);
      message.hidden = state.phase === "ready";
    });
  }

  root.SpecPlay = Object.assign(root.SpecPlay, { mountStatus });
})(globalThis);
