// Two figures of the lessons: what a pass over several tokens cost when it was measured, and why a full batch gains
// nothing.
(function (root) {
  "use strict";

  const { chart, expectedTokensPerPass, key, make, slider } = root.SpecPlay;
  const SHOWN = [1, 2, 3, 5, 9, 17]; // tokens in a pass
  const BATCHES = [1, 2, 4, 8, 16, 32, 64, 128, 256];

  // Bars: a pass over n tokens, beside n passes over one. `data.costs` is v by the tokens proposed, n - 1.
  function costs(element, data) {
    const table = make("table", "sp-costs", element);
    make("caption", "", table, "Time of a pass, in passes over one token, as measured where this was recorded");
    const head = make("tr", "", make("thead", "", table));
    for (const words of ["tokens", "in one pass", "one by one"]) make("th", "", head, words).scope = "col";
    const body = make("tbody", "", table);
    const rows = SHOWN.filter((n) => String(n - 1) in data.costs);
    const most = rows[rows.length - 1];
    for (const n of rows) {
      const row = make("tr", "", body);
      make("th", "", row, n).scope = "row";
      for (const [value, kind, digits] of [[data.costs[n - 1], "tokens", 2], [n, "speed", 0]]) {
        const cell = make("td", "", row);
        const bar = make("i", "sp-bar-" + kind, cell);
        bar.style.width = `${(70 * value) / most}%`;
        make("span", "", cell, value.toFixed(digits) + "×");
      }
    }
  }

  // A pass over n tokens takes max(1, n / room) of the time of one: free until the arithmetic is full.
  function batched(a, k, room, batch) {
    const time = (rows) => Math.max(1, rows / room);
    return (expectedTokensPerPass(a, k) * time(batch)) / time(batch * (k + 1));
  }

  function caught(element) {
    const state = { batch: 0, k: 4, a: 0.8, room: 64 };
    const sides = make("div", "sp-sides", element);
    const left = make("div", "", sides);
    const picture = make("div", "", sides);
    const move = (name) => (x) => show({ [name]: x });
    slider(left, { label: "batch: requests in a pass", min: 0, max: BATCHES.length - 1, step: 1, value: 0, name: (i) => BATCHES[i] }, move("batch"));
    slider(left, { label: "k: tokens proposed for each", min: 1, max: 16, step: 1, value: state.k }, move("k"));
    slider(left, { label: "a: chance that one stands", min: 0, max: 1, step: 0.01, value: state.a, digits: 2 }, move("a"));
    slider(left, { label: "room: tokens that a pass takes at no extra cost", min: 1, max: 256, step: 1, value: state.room }, move("room"));
    const result = make("p", "sp-result", left);
    result.setAttribute("role", "status");
    key(picture, [["speed", "speed-up over the batch: a calculation with free guesses, not a measurement"]]);
    const frame = make("div", "", picture);

    function show(change) {
      Object.assign(state, change);
      const speed = BATCHES.map((batch) => batched(state.a, state.k, state.room, batch));
      const now = speed[state.batch];
      const batch = BATCHES[state.batch];
      const told = `With ${batch} ${batch === 1 ? "request" : "requests"}: ${now.toFixed(2)}×`;
      result.textContent = told + (now > 1.005 ? ". It pays." : now > 0.995 ? ". Nothing is gained." : ". It costs: leave it off.");
      frame.replaceChildren();
      chart(frame, [{ values: speed, kind: "speed" }], state.batch, `Speed-up over the batch. ${told}.`, BATCHES.map(String));
    }

    show({});
  }

  root.SpecPlay = Object.assign(root.SpecPlay, {
    batched, widgets: { ...root.SpecPlay.widgets, costs, catch: caught },
  });
})(globalThis);
