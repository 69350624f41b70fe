// The race: the runs that are there, all together on one clock, as often and as slowly as one likes.
//
// Runs are measured one after another, since two at once on one device would spoil each other's timing; what they did is
// known to the millisecond, and is shown again here. No program takes part, so a run from a file is shown as well.
(function (root) {
  "use strict";

  const { allViews, button, make, nextAt, seen } = root.SpecPlay;
  const SPEEDS = [0.1, 0.25, 0.5, 1, 2, 4];
  const KEPT = "specplay-race"; // in the browser's memory: whether a race follows each run
  const still = matchMedia("(prefers-reduced-motion: reduce)");

  const memory = {
    get: () => { try { return localStorage.getItem(KEPT); } catch (error) { return null; } },
    set: (value) => { try { localStorage.setItem(KEPT, value); } catch (error) { /* it lasts as long as the page */ } },
  };

  class Race {
    constructor(element) {
      this.box = element.querySelector(".sp-race");
      this.t = null; // seconds; null: no race, all is shown
      this.speed = 1;
      this.playing = false;
      this.build();
      document.addEventListener("specplay:begun", () => this.leave());
      document.addEventListener("specplay:ended", ({ detail }) => {
        this.offer(detail === "run" && this.auto.checked && !still.matches);
      });
      document.addEventListener("specplay:shown", () => this.offer(false));
      document.addEventListener("specplay:layout", () => {
        const letters = seen().join("");
        if (letters === this.letters) return; // another panel in sight, a pin
        this.letters = letters;
        this.leave();
        this.offer(false);
      });
    }

    build() {
      const { box } = this;
      box.hidden = true;
      box.setAttribute("role", "group");
      box.setAttribute("aria-label", "Replay of the runs");
      make("b", "sp-race-name", box, "Race");
      button("sp-tool", box, "\u23ee\ufe0e", "To the start", () => this.go(0));
      button("sp-tool", box, "\u2039", "One step back", () => this.step(-1));
      this.play = button("sp-tool sp-play", box, "\u25b6\ufe0e", "Play", () => this.toggle());
      button("sp-tool", box, "\u203a", "One step on: a proposal, then its verdict", () => this.step(1));
      this.scrub = make("input", "sp-scrub", box);
      Object.assign(this.scrub, { type: "range", min: 0, step: "any", value: 0 });
      this.scrub.setAttribute("aria-label", "Second of the runs");
      this.scrub.addEventListener("input", () => this.go(Number(this.scrub.value)));
      this.clock = make("span", "sp-clock", box);
      this.pace = make("select", "sp-pace", box);
      this.pace.setAttribute("aria-label", "Speed of the replay");
      for (const speed of SPEEDS) Object.assign(make("option", "", this.pace, speed + "×"), { value: speed, selected: speed === 1 });
      this.pace.addEventListener("change", () => (this.speed = Number(this.pace.value)));
      this.lead = make("select", "sp-lead", box);
      this.lead.setAttribute("aria-label", "Whose rounds are the steps");
      const label = make("label", "sp-race-auto", box);
      this.auto = make("input", "", label);
      this.auto.type = "checkbox";
      this.auto.checked = memory.get() !== "off";
      this.auto.addEventListener("change", () => memory.set(this.auto.checked ? "on" : "off"));
      label.append(" after each Run");
      this.result = make("p", "sp-race-result", box);
      this.result.setAttribute("role", "status");
    }

    lanes() {
      const letters = new Set(seen());
      return allViews().filter((view) => view.record.replayable && (view.slim || letters.has(view.name)));
    }

    // Runs have ended, or others are shown: they can be raced.
    offer(begin) {
      const lanes = this.lanes();
      this.box.hidden = !lanes.length;
      if (!lanes.length) return;
      this.length = Math.max(...lanes.map((view) => view.record.seconds));
      this.scrub.max = this.length;
      const chosen = this.lead.value;
      this.lead.replaceChildren();
      for (const view of [...lanes].sort((a, b) => a.slim - b.slim)) {
        Object.assign(make("option", "", this.lead, "steps of " + (view.slim ? "the baseline" : view.name)), { value: view.name });
      }
      if (lanes.some((view) => view.name === chosen)) this.lead.value = chosen;
      this.lead.hidden = lanes.length < 2;
      this.draw(this.length);
      this.result.textContent = this.outcome();
      if (begin && lanes.length > 1) {
        this.go(0);
        this.toggle();
      }
    }

    outcome() {
      const lanes = this.lanes();
      const several = lanes.filter((view) => view.slim).length > 1;
      const whose = (baseline) => lanes.filter((view) => view.record.baseline === baseline.name).map((view) => view.name);
      const nameOf = (view) => !view.slim ? view.name
        : "plain decoding" + (several ? " for " + whose(view).join(" and ") : "");
      const words = lanes.map((view) => ({ seconds: view.record.seconds, name: nameOf(view) }));
      words.sort((a, b) => a.seconds - b.seconds);
      if (words.length < 2) return "";
      return "Time to write: " + words.map((w) => w.name + " " + w.seconds.toFixed(2) + " s").join(", ") + ".";
    }

    toggle() {
      this.playing = !this.playing;
      this.sign();
      if (!this.playing) return;
      if (this.t === null || this.t >= this.length) this.go(0);
      this.from = null;
      requestAnimationFrame((now) => this.tick(now));
    }

    sign() {
      this.play.textContent = this.playing ? "\u23f8\ufe0e" : "\u25b6\ufe0e";
      this.play.title = this.playing ? "Pause" : "Play";
      this.play.setAttribute("aria-label", this.play.title);
      document.body.dataset.race = this.playing ? "playing" : this.t === null ? "off" : "paused";
    }

    tick(now) {
      if (!this.playing) return;
      const passed = this.from === null ? 0 : ((now - this.from) / 1000) * this.speed;
      this.from = now;
      this.go(this.t + passed);
      if (this.t === null) return;
      requestAnimationFrame((then) => this.tick(then));
    }

    // Show second `t` of every run; past the end, all of them, as before the race.
    go(t) {
      const over = t >= this.length;
      this.t = over ? null : Math.max(0, t);
      if (over) this.playing = false;
      for (const view of this.lanes()) view.seek(this.t);
      this.draw(over ? this.length : this.t);
      this.sign();
    }

    draw(t) {
      this.scrub.value = t;
      this.scrub.setAttribute("aria-valuetext", t.toFixed(2) + " of " + this.length.toFixed(2) + " seconds");
      this.clock.textContent = t.toFixed(2) + " / " + this.length.toFixed(2) + " s";
    }

    step(by) {
      if (this.playing) this.toggle();
      const lead = this.lanes().find((view) => view.name === this.lead.value) || this.lanes()[0];
      const now = this.t ?? this.length;
      const next = nextAt(lead.record.times, now, by);
      this.go(next === null ? (by > 0 ? this.length : 0) : next);
    }

    leave() {
      this.playing = false;
      if (this.t !== null) for (const view of allViews()) if (view.record.replayable) view.seek(null);
      this.t = null;
      this.box.hidden = true;
      this.sign();
    }
  }

  function mountRace(element) {
    root.SpecPlay.race = new Race(element);
  }

  root.SpecPlay = Object.assign(root.SpecPlay, { mountRace });
})(globalThis);
