// The formula with sliders: tokens per pass, and what they come to when guesses have a cost.
(function (root) {
  "use strict";

  const { expectedTokensPerPass, button, make } = root.SpecPlay;
  const SVG = "http://www.w3.org/2000/svg";
  const MOST_K = 16;
  const WIDTH = 460;
  const HEIGHT = 190;
  const LEFT = 34;
  const BOTTOM = 24;
  const TEXTBOOK = [["a = 0.8, k = 4", 0.8, 4], ["a = 0.5, k = 4", 0.5, 4]];

  // A slider with its value beside it; `changed(value)` is called when it is moved.
  function slider(parent, { label, min, max, step, value, digits = 0, name = (x) => x.toFixed(digits) }, changed) {
    const row = make("label", "sp-slider", parent);
    make("span", "sp-slider-label", row, label);
    const input = make("input", "", row);
    Object.assign(input, { type: "range", min, max, step });
    input.value = value;
    const shown = make("output", "", row);
    const tell = () => {
      shown.textContent = name(Number(input.value));
      input.setAttribute("aria-valuetext", shown.textContent);
    };
    input.addEventListener("input", () => {
      tell();
      changed(Number(input.value));
    });
    tell();
    return { input, set: (x) => { input.value = x; tell(); } };
  }

  function drawn(tag, attributes, parent, text) {
    const node = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    if (text !== undefined) node.textContent = text;
    if (parent) parent.appendChild(node);
    return node;
  }

  // Curves over 0 .. count - 1, each {values, name, kind}; `at` is marked. The picture's words are in its label.
  function chart(parent, curves, at, label, ticks) {
    const most = Math.max(1, Math.ceil(Math.max(...curves.flatMap((c) => c.values))));
    const count = curves[0].values.length;
    const x = (i) => LEFT + ((WIDTH - LEFT - 12) * i) / (count - 1);
    const y = (v) => HEIGHT - BOTTOM - ((HEIGHT - BOTTOM - 12) * v) / most;
    const svg = drawn("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": label, class: "sp-chart" }, parent);
    for (let v = 0; v <= most; v += most > 8 ? 4 : most > 4 ? 2 : 1) {
      drawn("line", { x1: LEFT, x2: WIDTH - 12, y1: y(v), y2: y(v), class: v === 1 ? "sp-one" : "sp-grid" }, svg);
      drawn("text", { x: LEFT - 6, y: y(v) + 4, "text-anchor": "end" }, svg, v);
    }
    ticks.forEach((text, i) => text && drawn("text", { x: x(i), y: HEIGHT - 6, "text-anchor": "middle" }, svg, text));
    drawn("line", { x1: x(at), x2: x(at), y1: 8, y2: HEIGHT - BOTTOM, class: "sp-at" }, svg);
    for (const { values, kind } of curves) {
      drawn("polyline", { points: values.map((v, i) => x(i) + "," + y(v)).join(" "), class: "sp-curve sp-" + kind }, svg);
      drawn("circle", { cx: x(at), cy: y(values[at]), r: 4.5, class: "sp-dot sp-" + kind }, svg);
    }
    return svg;
  }

  // The names of the curves, with the dashes that they are drawn in.
  function key(parent, names) {
    const list = make("ul", "sp-chart-key", parent);
    for (const [kind, text] of names) {
      const item = make("li", "sp-key-" + kind, list, text);
      item.prepend(make("i", "", null));
    }
  }

  function formula(element) {
    const state = { a: 0.8, k: 4, c: 0.1 };
    const sides = make("div", "sp-sides", element);
    const left = make("div", "", sides);
    const picture = make("div", "", sides);
    const a = slider(left, { label: "a: chance that a proposed token stands", min: 0, max: 1, step: 0.01, value: state.a, digits: 2 },
      (x) => show({ a: x }));
    const k = slider(left, { label: "k: tokens proposed in a round", min: 0, max: MOST_K, step: 1, value: state.k },
      (x) => show({ k: x }));
    slider(left, { label: "c: cost of one guess, in passes", min: 0, max: 1, step: 0.01, value: state.c, digits: 2 },
      (x) => show({ c: x }));
    const book = make("div", "sp-textbook", left);
    make("span", "", book, "Textbook:");
    for (const [words, toA, toK] of TEXTBOOK) {
      button("sp-button", book, words, "", () => {
        a.set(toA);
        k.set(toK);
        show({ a: toA, k: toK });
      });
    }
    const result = make("p", "sp-result", left);
    result.setAttribute("role", "status");
    key(picture, [["tokens", "tokens per pass"], ["speed", "speed-up, if a pass over k + 1 tokens costs one over one"]]);
    const frame = make("div", "", picture);

    function show(change) {
      Object.assign(state, change);
      const each = [...Array(MOST_K + 1).keys()];
      const tokens = each.map((n) => expectedTokensPerPass(state.a, n));
      const speed = each.map((n) => tokens[n] / (1 + n * state.c));
      const best = speed.indexOf(Math.max(...speed));
      const told = `${tokens[state.k].toFixed(2)} tokens per pass, ${speed[state.k].toFixed(2)}× the speed`;
      result.textContent = `${told}. ` + (state.c === 0 ? "While guesses are free, more is never worse."
        : best === 0 ? "Nothing pays here: leave it off." : `Best here: k = ${best}, ${speed[best].toFixed(2)}×.`);
      frame.replaceChildren();
      const label = `Tokens per pass and speed-up over k, at a = ${state.a.toFixed(2)} and c = ${state.c.toFixed(2)}. At k = ${state.k}: ${told}.`;
      chart(frame, [{ values: tokens, kind: "tokens" }, { values: speed, kind: "speed" }], state.k, label,
        each.map((n) => (n % 4 === 0 ? (n ? n : "k = 0") : "")));
    }

    show({});
  }

  root.SpecPlay = Object.assign(root.SpecPlay, { chart, key, slider, widgets: { ...root.SpecPlay.widgets, formula } });
})(globalThis);
