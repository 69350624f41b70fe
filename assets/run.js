// Run and Stop: what is asked of the program, and the lines that come back. And which results are no longer of what the
// page's fields say.
(function (root) {
  "use strict";

  const { addressOf, allViews, fieldsOf, formOf, layout, panelFields, panelsOf, presetIn, presetOf, seen, setCount, setFields,
    shared, told, viewOf, Record } = root.SpecPlay;
  const NARROW = 760; // px
  const ADDRESS_AFTER_MS = 400;
  const BROKEN_LINK = "The settings in this link cannot be read, so the page shows its own: copy the whole link once more.";
  const HEADERS = { "content-type": "application/json", "x-specplay": "1" };
  const LOST = "The program has ended or cannot be reached. Start it again, then press Run.";
  let fields = null; // as they are now
  let asked = new Map(); // view's letter -> what it was run with
  let under = null; // the run under way: {name, abort}
  let timer = 0;

  const address = (path) => new URL("specplay/" + path, location.origin + location.pathname.replace(/\/?$/, "/"));
  const post = (path, body, more = {}) => fetch(address(path), { method: "POST", headers: HEADERS, body, ...more });

  // `what`: "run", or "law" for a test of a distribution.
  function busy(on, what) {
    document.body.classList.toggle("sp-busy", on);
    document.querySelector("#sp-run").disabled = on;
    document.querySelector("#sp-stop").disabled = !on;
    document.dispatchEvent(new CustomEvent(on ? "specplay:begun" : "specplay:ended", { detail: what }));
  }

  // What a panel's run depends on, as a string that can be compared.
  const ofPanel = (all, letter) => JSON.stringify([all.slice(0, 3), panelFields(all, shared.letters.indexOf(letter))]);

  // One thing is asked of the program at a time; `fail` is told what is wrong.
  async function ask(path, body, fail) {
    const name = String(Date.now()) + Math.random();
    under = { name, abort: new AbortController() };
    busy(true, path);
    await follow(path, JSON.stringify({ name, ...body }), under.abort.signal, fail);
    under = null;
    busy(false, path);
  }

  async function run(all) {
    if (under) return;
    fields = all;
    const letters = seen().filter((letter) => !layout.pinned.has(letter));
    if (!letters.length) return; // panels.js leaves one free
    const [prompt, max_tokens, seed] = all;
    const panels = {};
    clear(letters);
    for (const letter of letters) {
      panels[letter] = panelFields(all, shared.letters.indexOf(letter));
      asked.set(letter, ofPanel(all, letter));
    }
    mark();
    if (window.innerWidth <= NARROW) document.querySelector(".sp-key").scrollIntoView({ block: "start" });
    await ask("run", { prompt, max_tokens, seed, panels }, (problem) => letters.forEach((l) => viewOf(l).fail(problem)));
  }

  // The test of a panel's distribution, by the settings that its run had.
  async function askLaw(letter) {
    if (under) return "Something else is running: wait for it, or press Stop.";
    const { start } = viewOf(letter).record.fold;
    const { settings } = start;
    const [prompt, max_tokens, seed] = asked.has(letter) ? JSON.parse(asked.get(letter))[0]
      : [start.prompt ?? fields[0], settings.max_new_tokens, settings.seed];
    let problem = "";
    const panels = { [letter]: asked.has(letter) ? JSON.parse(asked.get(letter))[1] : { ...formOf(start.settings), draft: start.settings.draft ?? null } };
    await ask("law", { prompt, max_tokens, seed, panels }, (text) => (problem = text));
    return problem;
  }

  function clear(letters) {
    const kept = new Set(seen().filter((l) => !letters.includes(l)).map((l) => viewOf(l).record.baseline));
    for (const view of allViews()) {
      if (view.slim ? !kept.has(view.name) : letters.includes(view.name)) view.adopt(new Record());
    }
  }

  // Lines "view<tab>JSON" into their views, until the program has no more.
  async function follow(path, body, signal, fail) {
    try {
      const answer = await post(path, body, { signal });
      if (!answer.ok) return fail((await answer.json()).message);
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = "";
      for (;;) {
        const { done, value } = await reader.read();
        if (done) break;
        const lines = (rest + value).split("\n");
        rest = lines.pop();
        for (const line of lines) give(line);
      }
    } catch (error) {
      fail(LOST);
    }
  }

  function give(line) {
    const tab = line.indexOf("\t");
    const view = viewOf(line.slice(0, tab));
    if (view) view.receive(line.slice(tab + 1));
  }

  function stop() {
    if (under) post("stop", JSON.stringify({ name: under.name })).catch(() => under && under.abort.abort());
  }

  // A field has another value than before. Set back to what it was, its results are again those of the page.
  function changed(all) {
    fields = all;
    told(all);
    mark();
    clearTimeout(timer);
    timer = setTimeout(() => history.replaceState(null, "", link()), ADDRESS_AFTER_MS);
  }

  const preset = () => presetOf(fields, layout.count);

  // The page's address with its settings as they are now.
  const link = () => location.origin + location.pathname + location.search + addressOf(preset());

  function mark() {
    let common = false;
    for (const letter of seen()) {
      const before = asked.has(letter) && asked.get(letter) !== ofPanel(fields, letter);
      if (asked.has(letter)) common ||= JSON.parse(asked.get(letter))[0].some((x, i) => x !== fields[i]);
      viewOf(letter).root.classList.toggle("sp-before", before);
    }
    for (const view of allViews()) if (view.slim) view.root.classList.toggle("sp-before", common);
  }

  // Panels stand in another order; `order[i]` is where the one at place i was.
  function moved(order) {
    const before = new Map(asked);
    asked = new Map();
    order.forEach((from, i) => {
      if (from !== null && before.has(shared.letters[from])) asked.set(shared.letters[i], before.get(shared.letters[from]));
    });
    if (fields) changed(fields);
  }

  // A promise that is kept when the fields hold the preset.
  function applyPreset(given) {
    const panels = panelsOf(given).length;
    if (panels) setCount(panels);
    return setFields((all) => fieldsOf(given, all));
  }

  // Other runs are going to be shown than those that were asked for here.
  function showing() {
    if (root.SpecPlay.race) root.SpecPlay.race.leave();
    asked = new Map();
    for (const view of allViews()) view.root.classList.remove("sp-before");
  }

  // The page is there, with the fields as the program made them.
  function loaded(all) {
    fields = all;
    told(all);
    document.querySelector("#sp-stop").disabled = true;
    fromAddress();
  }

  // A link that lost a part on its way must not pass for one to the page as it is.
  function fromAddress() {
    const given = presetIn(location.hash);
    if (given) applyPreset(given);
    else if (location.hash.length > 1) root.SpecPlay.notice(BROKEN_LINK);
  }

  window.addEventListener("hashchange", fromAddress);

  document.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      document.querySelector("#sp-run").click();
    } else if (event.key === "Escape" && under) stop();
  });

  root.SpecPlay = Object.assign(root.SpecPlay, {
    address, applyPreset, ask: askLaw, isBusy: () => under !== null, link, changed, give, loaded, moved, post, preset, run,
    showing, stop,
  });
})(globalThis);
