// The lessons: a closed section; open, ten stops, each with its words, a figure, and a recorded run in the panels below.
(function (root) {
  "use strict";

  const { button, make } = root.SpecPlay;
  let count = 0; // of mounted sections, for ids

  class Lessons {
    // `ask` gives the promise of the stops, which are asked for once, when they are wanted.
    constructor(element, ask) {
      this.ask = ask;
      this.lessons = null;
      this.at = -1;
      this.own = null; // what the page held before a stop showed its runs
      this.left = ""; // its settings when the section was closed last
      this.id = "sp-lesson-" + ++count;
      const box = element.querySelector(".sp-lessons");
      this.door = button("sp-lessons-door", box, "Lessons", "", () => this.open(this.body.hidden));
      this.door.setAttribute("aria-controls", this.id);
      make("i", "", this.door).setAttribute("aria-hidden", "true");
      this.body = make("section", "sp-lessons-body", box);
      this.body.id = this.id;
      this.body.setAttribute("aria-label", "Lessons");
      this.nav = make("nav", "sp-stops", this.body);
      this.stop(make("div", "sp-stop", this.body));
      this.open(false);
      document.addEventListener("specplay:begun", () => this.busy(true));
      document.addEventListener("specplay:ended", () => this.busy(false));
      root.SpecPlay.openLesson = (name) => this.open(true, name);
    }

    // Raises an Error with a sentence when they cannot be had.
    async load() {
      if (this.lessons) return;
      this.title.textContent = "Reading the lessons \u2026";
      const lessons = await this.ask();
      if (this.lessons) return; // pressed twice
      this.lessons = lessons;
      this.list(this.nav);
    }

    list(nav) {
      nav.setAttribute("aria-label", "Stops");
      const list = make("ol", "", nav);
      this.stops = this.lessons.map((lesson, i) => {
        const stop = button("", make("li", "", list), "", "", () => this.show(i));
        make("b", "", stop, i + 1);
        make("span", "", stop, lesson.title);
        stop.title = lesson.title;
        return stop;
      });
      nav.addEventListener("keydown", (event) => {
        const by = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 }[event.key];
        const from = this.stops.indexOf(document.activeElement);
        if (!by || from < 0) return;
        event.preventDefault();
        this.stops[Math.min(this.stops.length - 1, Math.max(0, from + by))].focus();
      });
    }

    stop(box) {
      this.title = make("h2", "", box);
      this.text = make("div", "sp-lesson-text", box);
      this.attempt = make("p", "sp-attempt", box);
      this.figure = make("div", "sp-figure", box);
      this.keys = make("div", "sp-lesson-keys", box);
      this.made = make("p", "sp-made", box);
      const ways = make("div", "sp-lesson-ways", box);
      this.before = button("sp-button", ways, "\u2190 Previous", "", () => this.show(this.at - 1));
      this.after = button("sp-button", ways, "Next \u2192", "", () => this.show(this.at + 1));
      this.back = button("sp-button", ways, "Back to my own", "", () => this.giveBack());
      this.back.title = "The prompt, settings and runs that the page held before the lessons";
      this.back.hidden = true;
      this.where = make("span", "sp-where", ways);
      this.where.setAttribute("role", "status");
    }

    async open(open, name) {
      const closed = this.body.hidden;
      this.body.hidden = !open;
      this.door.setAttribute("aria-expanded", String(open));
      if (!open) {
        this.left = this.own ? settings() : "";
        return;
      }
      try {
        await this.load();
      } catch (error) {
        this.title.textContent = error.message;
        return;
      }
      // Whoever closed the section and went on to something else has that as their own now.
      if (closed && this.own && this.left !== settings()) this.own = null;
      const index = this.lessons.findIndex((lesson) => lesson.name === name);
      if (index >= 0 || this.at < 0) this.show(Math.max(0, index));
    }

    giveBack() {
      const own = this.own;
      this.own = null;
      this.back.hidden = true;
      this.open(false);
      this.door.focus();
      return root.SpecPlay.takeBack(own);
    }

    show(index) {
      if (!this.lessons || index < 0 || index >= this.lessons.length) return;
      const lesson = this.lessons[(this.at = index)];
      this.stops.forEach((stop, i) => {
        if (i === index) stop.setAttribute("aria-current", "step");
        else stop.removeAttribute("aria-current");
      });
      this.title.textContent = `${index + 1}. ${lesson.title}`;
      this.text.replaceChildren(...lesson.text.map((words) => make("p", "", null, words)));
      this.attempt.replaceChildren(make("b", "", null, "Try: "), lesson.attempt);
      this.figure.replaceChildren();
      this.figure.hidden = !lesson.widget;
      if (lesson.widget) root.SpecPlay.widgets[lesson.widget](this.figure, lesson);
      this.made.textContent = lesson.made;
      this.buttons(lesson);
      this.before.disabled = index === 0;
      this.after.disabled = index === this.lessons.length - 1;
      this.where.textContent = `Stop ${index + 1} of ${this.lessons.length}`;
      if (!this.running) this.recorded(lesson.shows[0]);
    }

    // For each preset of the stop its recorded run; and the one that is shown now, live.
    buttons(lesson) {
      this.keys.replaceChildren();
      this.choices = lesson.shows.map((preset) => {
        const words = preset.words ? `${preset.words}: show the recorded run` : "Show the recorded run";
        return button("sp-button sp-recorded", this.keys, words, "", () => this.recorded(preset).then(toPanels));
      });
      this.shown = lesson.shows[0];
      this.live = button("sp-button sp-live", this.keys, "Run it live", "", () => this.run());
      this.busy(this.running);
    }

    async recorded(preset) {
      this.choose(preset);
      this.setAside();
      await root.SpecPlay.showRecorded(preset.recorded, preset);
    }

    choose(preset) {
      this.shown = preset;
      const { shows } = this.lessons[this.at];
      if (shows.length > 1) this.choices.forEach((choice, i) => choice.setAttribute("aria-pressed", String(shows[i] === preset)));
    }

    setAside() {
      this.own ??= root.SpecPlay.setAside();
      this.back.hidden = false;
    }

    async run() {
      this.setAside();
      await root.SpecPlay.applyPreset(this.shown);
      document.querySelector("#sp-run").click();
      toPanels();
    }

    busy(on) {
      this.running = Boolean(on);
      this.back.disabled = this.running;
      if (this.live) for (const key of [...this.choices, this.live]) key.disabled = this.running;
    }
  }

  // Who asks for a run wants to see it.
  function toPanels() {
    const calm = root.matchMedia("(prefers-reduced-motion: reduce)").matches;
    const panels = document.querySelector("#sp-panels");
    if (panels) panels.scrollIntoView({ block: "start", behavior: calm ? "auto" : "smooth" });
  }

  const settings = () => JSON.stringify(root.SpecPlay.preset());

  async function fromProgram() {
    let answer;
    try {
      answer = await fetch(root.SpecPlay.address("lessons"));
    } catch (error) {
      throw new Error("The program cannot be reached: start it again.");
    }
    if (!answer.ok) throw new Error("The program cannot read its lessons: its folder assets/ is not whole.");
    return answer.json();
  }

  // Called by the component's js_on_load.
  const mountLessons = (element, ask = fromProgram) => new Lessons(element, ask);

  root.SpecPlay = Object.assign(root.SpecPlay, { mountLessons });
})(globalThis);
