// When the views draw: together, in the browser's own frames, and never for more than a part of the time, which the engine on
// the same machine has to do without.
(function (root) {
  "use strict";

  // Views to be drawn soon: all of them first, then all scrolled, so that the page is laid out once. Drawing, painting
  // included, takes a twelfth of the time at most: where it is slow it happens less often, and what comes meanwhile is drawn
  // together. (A fifth of the time cost a machine of two cores without a GPU a tenth of the engine's speed.)
  const waiting = new Set();
  let idleUntil = 0;
  let timer = 0;

  function drawAll() {
    clearTimeout(timer);
    const begin = performance.now();
    const views = [...waiting];
    waiting.clear();
    for (const view of views) view.draw();
    for (const view of views) view.scroll(); // asks for the layout, so that its time is counted
    document.dispatchEvent(new CustomEvent("specplay:changed"));
    idleUntil = Infinity;
    setTimeout(() => { // after the painting
      const end = performance.now();
      idleUntil = end + 11 * (end - begin);
      if (waiting.size) timer = setTimeout(drawAll, idleUntil - end);
    });
  }

  function soon(view) {
    const first = !waiting.size;
    waiting.add(view);
    if (view.record.fold.done) return drawAll(); // who sees the state "done" sees the whole text
    if (!first) return;
    if (idleUntil === Infinity) return;
    const wait = idleUntil - performance.now();
    if (document.hidden || wait > 0) timer = setTimeout(drawAll, document.hidden ? 200 : wait);
    else requestAnimationFrame(drawAll);
  }

  root.SpecPlay = Object.assign(root.SpecPlay || {}, { soon });
})(globalThis);
