// One to four panels: which are seen, and what can be done with one: duplicate, swap, remove, pin.
//
// Gradio lays out four; the first `count` of them are seen, so that letters name places: what is moved are the fields'
// values and the runs shown. Fields are set through a button of gradio's, the one way to do so from here.
(function (root) {
  "use strict";

  const { button, inWords, make, panelFields, shared, viewOf, withPanel } = root.SpecPlay;
  const LETTERS = [...shared.letters];
  const SETTLED_MS = 150; // gradio takes new values over in its own time, and does not say when
  const layout = { count: 2, pinned: new Set(), narrow: "A" };
  const heads = new Map(); // letter -> {chip, pin, ...}
  let pending = []; // {transform, resolve}: what gradio was asked to set, and has not yet
  let last = null; // the fields as they were told last

  const place = (letter) => LETTERS.indexOf(letter);
  const seen = () => LETTERS.slice(0, layout.count);

  // Let gradio put into its fields what `transform` makes of them: a promise that is kept when they are there.
  function setFields(transform) {
    return new Promise((resolve) => {
      pending.push({ transform, resolve });
      document.querySelector("#sp-set").click();
    });
  }

  // What gradio's button asks for.
  function fieldsToSet(all) {
    const asked = pending;
    pending = [];
    if (!asked.length) return all;
    const out = asked.reduce((before, { transform }) => transform(before), all);
    told(out);
    setTimeout(() => asked.forEach(({ resolve }) => resolve()), SETTLED_MS);
    return out;
  }

  // New field values: what is seen of each panel depends on them.
  function told(all) {
    last = all;
    LETTERS.forEach((letter, i) => {
      const form = panelFields(all, i);
      const column = document.getElementById("sp-panel-" + letter);
      if (column) {
        column.dataset.proposer = form.proposer;
        column.dataset.tree = shared.trees.includes(form.proposer);
      }
      if (heads.has(letter)) heads.get(letter).chip.textContent = inWords(form);
    });
  }

  // The contents of the panels in a new order: `order[i]` is what place i shows from now on (null: an empty view).
  function rearrange(order) {
    const records = LETTERS.map((letter) => viewOf(letter).record);
    const pinned = new Set(LETTERS.filter((_, i) => order[i] !== null && layout.pinned.has(LETTERS[order[i]])));
    layout.pinned = pinned;
    if (seen().every((letter) => pinned.has(letter))) pinned.delete(seen().pop()); // one is left to change
    LETTERS.forEach((letter, i) => {
      const view = viewOf(letter);
      if (order[i] === i) return;
      view.adopt(order[i] === null ? new root.SpecPlay.Record() : records[order[i]]);
    });
  }

  function reorder(order, copies = order) {
    setFields((all) => copies.reduce((out, from, i) => withPanel(out, i, panelFields(all, from)), all));
    rearrange(order);
    show();
    root.SpecPlay.moved(order);
  }

  const identity = () => LETTERS.map((_, i) => i);

  const acts = {
    duplicate(letter) {
      const from = place(letter);
      if (layout.count >= LETTERS.length) return;
      const copies = identity();
      copies.splice(from + 1, 0, from);
      copies.length = LETTERS.length;
      const order = copies.map((at, i) => (i === from + 1 ? null : at));
      layout.count += 1;
      reorder(order, copies);
    },
    remove(letter) {
      if (layout.count <= 1) return;
      const order = identity();
      order.push(...order.splice(place(letter), 1));
      layout.count -= 1;
      // What was removed waits behind the others, to come back with its settings when a panel is added.
      reorder(order.map((at, i) => (i >= layout.count ? null : at)), order);
    },
    swap(letter, by) {
      const [i, j] = [place(letter), place(letter) + by];
      if (j < 0 || j >= layout.count) return;
      const order = identity();
      [order[i], order[j]] = [j, i];
      reorder(order);
    },
    pin(letter) {
      if (!layout.pinned.delete(letter)) layout.pinned.add(letter);
      if (layout.pinned.size >= layout.count) layout.pinned = new Set([letter]); // one is left to change
      show();
    },
    add() {
      if (layout.count >= LETTERS.length) return;
      layout.count += 1;
      layout.narrow = LETTERS[layout.count - 1];
      show();
      root.SpecPlay.moved(identity());
    },
  };

  // Several panels at once, as a preset names them.
  function setCount(count) {
    layout.count = Math.max(1, Math.min(LETTERS.length, count));
    layout.pinned = new Set();
    layout.narrow = "A";
    show();
  }

  function show() {
    const box = document.getElementById("sp-panels");
    if (!box) return;
    box.dataset.count = layout.count;
    box.dataset.narrow = layout.narrow;
    LETTERS.forEach((letter, i) => {
      const column = document.getElementById("sp-panel-" + letter);
      column.classList.toggle("sp-absent", i >= layout.count);
      column.classList.toggle("sp-aside", letter !== layout.narrow); // where there is room for one alone
      column.classList.toggle("sp-pinned", layout.pinned.has(letter));
      const head = heads.get(letter);
      if (!head) return;
      head.pin.setAttribute("aria-pressed", layout.pinned.has(letter));
      head.left.disabled = i === 0;
      head.right.disabled = i >= layout.count - 1;
      head.duplicate.disabled = layout.count >= LETTERS.length;
      head.remove.disabled = layout.count <= 1;
    });
    document.dispatchEvent(new CustomEvent("specplay:layout"));
  }

  function mountPanelHead(element, props) {
    const letter = props.name;
    const box = element.querySelector(".sp-panel-head");
    make("b", "sp-letter", box, letter);
    const chip = make("span", "sp-chip", box);
    const tools = make("span", "sp-panel-tools", box);
    const tool = (sign, words, act) => button("sp-tool", tools, sign, words + " panel " + letter, act);
    const pin = tool("Pin", "Pin", () => acts.pin(letter));
    pin.title = "Keep this panel's run as it is while others change: Run leaves it out";
    heads.set(letter, {
      chip,
      pin,
      left: tool("\u2190", "Move left:", () => acts.swap(letter, -1)),
      right: tool("\u2192", "Move right:", () => acts.swap(letter, 1)),
      duplicate: tool("\u29C9", "Duplicate", () => acts.duplicate(letter)),
      remove: tool("\u2715", "Remove", () => acts.remove(letter)),
    });
    if (last) told(last);
    if (LETTERS.every((l) => heads.has(l))) show();
  }

  // A tab for each panel, where there is room for one alone.
  function mountTabs(parent) {
    const tabs = make("div", "sp-tabs", parent);
    tabs.setAttribute("role", "group");
    tabs.setAttribute("aria-label", "Which panel is shown");
    const update = () => {
      tabs.replaceChildren();
      for (const letter of seen()) {
        const tab = button("sp-tab", tabs, letter, "Show panel " + letter, () => {
          layout.narrow = letter;
          show();
        });
        tab.setAttribute("aria-pressed", letter === layout.narrow);
      }
    };
    document.addEventListener("specplay:layout", update);
    update();
  }

  root.SpecPlay = Object.assign(root.SpecPlay, { acts, fieldsToSet, layout, mountPanelHead, mountTabs, seen, setCount, setFields, told });
})(globalThis);
