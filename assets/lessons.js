// The lessons: a closed section; open, ten stops, each with its words, a figure, and a recorded run in the panels below.
(function (root) {
  "use strict";

  const { button, make } = root.SpecPlay;
  let count = 0; // of mounted sections, for ids

  class Lessons {
    constructor(element, lessons) {
      this.lessons = lessons;
      this.at = -1;
      this.id = "sp-lesson-" + ++count;
      const box = element.querySelector(".sp-lessons");
      this.door = button("sp-lessons-door", box, "Lessons", "", () => this.open(this.body.hidden));
      this.door.setAttribute("aria-controls", this.id);
      make("i", "", this.door).setAttribute("aria-hidden", "true");
      this.body = make("section", "sp-lessons-body", box);
      this.body.id = this.id;
      this.body.setAttribute("aria-label", "Lessons");
      this.list(make("nav", "sp-stops", this.body));
      this.stop(make("div", "sp-stop", this.body));
      this.open(false);
      document.addEventListener("specplay:begun", () => this.busy(true));
      document.addEventListener("specplay:ended", () => this.busy(false));
      root.SpecPlay.openLesson = (name) => {
        const index = lessons.findIndex((lesson) => lesson.name === name);
        if (index >= 0) this.open(true, index);
      };
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
      this.where = make("span", "sp-where", ways);
      this.where.setAttribute("role", "status");
    }

    open(open, index) {
      this.body.hidden = !open;
      this.door.setAttribute("aria-expanded", String(open));
      if (open && (index !== undefined || this.at < 0)) this.show(index === undefined ? 0 : index);
    }

    show(index) {
      if (index < 0 || index >= this.lessons.length) return;
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
      await root.SpecPlay.showRecorded(preset.recorded, preset);
    }

    choose(preset) {
      this.shown = preset;
      const { shows } = this.lessons[this.at];
      if (shows.length > 1) this.choices.forEach((choice, i) => choice.setAttribute("aria-pressed", String(shows[i] === preset)));
    }

    async run() {
      await root.SpecPlay.applyPreset(this.shown);
      document.querySelector("#sp-run").click();
      toPanels();
    }

    busy(on) {
      this.running = Boolean(on);
      if (this.live) for (const key of [...this.choices, this.live]) key.disabled = this.running;
    }
  }

  // Who asks for a run wants to see it.
  function toPanels() {
    const calm = root.matchMedia("(prefers-reduced-motion: reduce)").matches;
    const panels = document.querySelector("#sp-panels");
    if (panels) panels.scrollIntoView({ block: "start", behavior: calm ? "auto" : "smooth" });
  }

  // Called by the component's js_on_load.
  const mountLessons = (element, lessons) => new Lessons(element, lessons);

  root.SpecPlay = Object.assign(root.SpecPlay, { mountLessons });
})(globalThis);
