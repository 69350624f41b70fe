// Gradio's progress timers count time on every frame, hidden or not, and that of its loading screen never ends: sixty
// frames a second for nothing, a tenth of a core, which the engine on the same machine has to do without. They are
// known by their text; here they count once a second.
(function (root) {
  "use strict";

  const raf = root.requestAnimationFrame.bind(root);
  const counts = new WeakMap();

  function counter(callback) {
    let known = counts.get(callback);
    if (known === undefined) {
      const text = callback.toString();
      known = text.length < 120 && text.includes("performance.now()") && text.includes("1e3");
      counts.set(callback, known);
    }
    return known;
  }

  root.requestAnimationFrame = (callback) =>
    counter(callback) ? setTimeout(() => callback(performance.now()), 1000) : raf(callback);
})(window);
