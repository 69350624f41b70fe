// Runs that are kept: saved as a file, opened again, brought back after a reload, recorded for a lesson. The form is the
// trace's, one event a line; what is opened is checked by the program, and shown as text alone.
(function (root) {
  "use strict";

  const { allViews, applyPreset, give, isBusy, post, seen, showing, Record } = root.SpecPlay;
  const MOST_KEPT = 8; // tabs' runs
  const NAME = "speculative-decoding-runs.jsonl";
  const SHELF = "specplay"; // in the browser's store of answers, which only this page's address can read
  const BUSY = "Something is running: wait for its end, or press Stop.";
  const MOST_BYTES = 20_000_000;
  let told = () => {};
  let asked = 0; // runs to show, so far: of several under way the last counts

  // A tab keeps its own, under a name that a reload does not change.
  function tab() {
    sessionStorage.specplayTab ??= "/runs-" + Date.now() + "-" + Math.random();
    return sessionStorage.specplayTab;
  }

  // All that the page shows, baselines first.
  function text() {
    const letters = new Set(seen());
    const views = allViews().filter(({ slim, name, record }) => record.fold.done && (slim || letters.has(name)));
    return views.flatMap(({ record }) => record.lines).map((line) => line + "\n").join("");
  }

  function save() {
    const content = text();
    if (!content) return told("There is no run to save yet: press Run.");
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([content], { type: "application/x-ndjson" }));
    link.download = NAME;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
    told("Saved as " + NAME + ".");
  }

  // What the program makes of runs that it is given, or of a recorded one: lines for the views.
  async function show(path, body, preset = null) {
    if (isBusy()) return told(BUSY);
    const mine = ++asked;
    let answer;
    try {
      answer = await post(path, body);
    } catch (error) {
      return told("The program cannot be reached: start it again.");
    }
    if (!answer.ok) return told((await answer.json()).message);
    const content = await answer.text();
    if (mine !== asked) return; // another one is wanted by now
    if (isBusy()) return told(BUSY); // Run was pressed meanwhile
    const lines = content.split("\n").filter(Boolean);
    const layout = JSON.parse(lines.shift().split("\t")[1]);
    showing();
    await applyPreset(preset || layout);
    if (mine !== asked) return;
    for (const view of allViews()) view.adopt(new Record());
    for (const line of lines) give(line);
    document.dispatchEvent(new CustomEvent("specplay:shown"));
    told("");
  }

  async function open(file) {
    if (file.size > MOST_BYTES) return told("That file is longer than the page takes (" + MOST_BYTES / 1e6 + " MB).");
    await show("show", file);
  }

  const showRecorded = (name, preset) => show("recorded/" + encodeURIComponent(name), "", preset);

  // The last runs, so that a reload does not lose them.
  async function keep() {
    const content = text();
    if (!content || !root.caches) return;
    const shelf = await caches.open(SHELF);
    await shelf.put(tab(), new Response(content));
    for (const old of (await shelf.keys()).slice(0, -MOST_KEPT)) await shelf.delete(old);
  }

  async function kept() {
    if (!root.caches) return "";
    const found = await (await caches.open(SHELF)).match(tab());
    return found ? found.text() : "";
  }

  async function bringBack() {
    if (isBusy()) return told(BUSY); // said at once, not after the browser's store has answered
    const content = await kept();
    if (!content) return told("There is no run to bring back.");
    await show("show", content);
  }

  // All that is on the page, for a while: {preset, runs}; and back.
  const setAside = () => ({ preset: root.SpecPlay.preset(), runs: text() });

  async function takeBack({ preset, runs }) {
    if (isBusy()) return told(BUSY);
    if (runs) return show("show", runs, preset);
    asked++;
    showing();
    await applyPreset(preset);
    for (const view of allViews()) view.adopt(new Record());
    document.dispatchEvent(new CustomEvent("specplay:shown"));
  }

  document.addEventListener("specplay:ended", () => keep().catch(() => {})); // a full disk, a private window

  const tell = (function_) => (told = function_);

  root.SpecPlay = Object.assign(root.SpecPlay, {
    bringBack, keepsRuns: kept, notice: (text) => told(text), open, save, setAside, showRecorded, takeBack, tellFiles: tell,
  });
})(globalThis);
