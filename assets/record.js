// A run, all that is known of it, apart from how it is shown: its events, their fold, and what the page said of it.
(function (root) {
  "use strict";

  const { Fold, timeline } = root.SpecPlay;
  const REASONS = { eos: "The model ended its answer.", stop: "A stop string came.", length: "The token limit is reached." };
  const count = (n, word) => n + " " + word + (n === 1 ? "" : "s");

  class Record {
    constructor() {
      this.lines = []; // its events as they came: the trace
      this.events = [];
      this.fold = new Fold();
      this.title = "";
      this.baseline = ""; // the name of the view with the run that it is compared with
      this.state = "idle";
      this.message = "";
      this.speedup = null;
      this.sentence = "";
      this.tone = "";
      this.said = 0; // grows whenever title, state, message, speed-up or sentence change
    }

    // Returns the first round that is to be drawn anew, Infinity if none.
    take(line) {
      const event = JSON.parse(line);
      if (event.type === "page") {
        this.page(event);
        return Infinity;
      }
      this.lines.push(line);
      this.events.push(event);
      const changed = this.fold.add(event);
      if (event.type === "start" || (event.type === "draft" && this.fold.rounds.length === 1)) this.set("running", "");
      else if (event.type === "done") this.finish(event);
      return changed;
    }

    set(state, message) {
      this.said += 1;
      [this.state, this.message] = [state, message || ""];
    }

    page(line) {
      this.said += 1;
      if (line.title) this.title = line.title;
      if (line.baseline) this.baseline = line.baseline;
      if (line.state) this.set(line.state, line.message);
      if ("speedup" in line) this.speedup = line;
      if (line.sentence !== undefined) [this.sentence, this.tone] = [line.sentence, line.tone || ""];
    }

    finish(done) {
      const emitted = this.fold.metrics().emitted;
      if (done.reason === "error") this.set("error", done.message || "The run failed.");
      else if (done.reason === "stopped") this.set("stopped", "Stopped after " + count(emitted, "token") + ".");
      else this.set("done", [count(emitted, "token") + ".", REASONS[done.reason], done.message].filter(Boolean).join(" "));
    }

    // Can be shown again, from its first second to its last.
    get replayable() {
      return Boolean(this.fold.done) && this.fold.rounds.length > 0;
    }

    get times() {
      this.cachedTimes ??= timeline(this.events);
      return this.cachedTimes;
    }

    get seconds() {
      return this.times[this.times.length - 1];
    }
  }

  root.SpecPlay = Object.assign(root.SpecPlay, { Record, count });
})(typeof globalThis === "undefined" ? this : globalThis);
