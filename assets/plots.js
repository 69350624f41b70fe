// The section "Plots": closed at first, and while it is closed nothing is loaded, computed or drawn, as the engine may
// share this machine's processor. Open, it follows the runs at most twice a second, and less often where drawing is slow.
(function (root) {
  "use strict";

  const { make, button, plotKit: kit, plotsData, plotFigures } = root.SpecPlay;
  const EVERY_MS = 500;
  const SHARE = 4; // drawing takes one part, the rest of the machine's time at least this many
  const NOTHING = "Press Run: the plots are drawn from what the panels hold.";

  class Figure {
    constructor(definition, parent, section) {
      this.definition = definition;
      this.node = make("figure", "sp-figure", parent);
      this.node.dataset.plot = definition.key;
      const head = make("div", "sp-figure-head", this.node);
      make("h3", "", head, definition.title);
      if (definition.choice) this.choose(head, section);
      this.buttons = [
        button("", head, "PNG", "Save as PNG: " + definition.title, () => kit.savePng(section.plotly, this.plot,
          this.headline(), this.file())),
        button("", head, "CSV", "Save as CSV: " + definition.title,
          () => kit.saveText(plotsData.csv(definition.table(this.data)), this.file() + ".csv", "text/csv")),
      ];
      this.read = make("p", "sp-figure-read", this.node, definition.read);
      this.plot = make("div", "sp-figure-plot", this.node);
      this.none = make("p", "sp-figure-none", this.node, "Nothing to show yet.");
      this.drawn = "";
    }

    choose(parent, section) {
      this.label = make("label", "", parent, "panel");
      this.select = make("select", "", this.label);
      this.select.addEventListener("change", () => {
        section.chosen = this.select.value;
        section.update();
      });
    }

    headline() {
      return this.definition.title + (this.chosen ? ", panel " + this.chosen.name : "");
    }

    file() {
      return "specplay-" + this.definition.key + (this.chosen ? "-" + this.chosen.name.replace(/\W+/g, "-") : "");
    }

    // Which of the views is shown: the one chosen, if it is among those that can be; else the first.
    pick(views, name) {
      const choices = this.definition.choice(views);
      const names = choices.map((v) => v.name);
      if (names.join("\n") !== [...this.select.options].map((o) => o.value).join("\n")) {
        this.select.replaceChildren(...names.map((n) => Object.assign(document.createElement("option"),
          { value: n, textContent: n })));
      }
      const first = choices.find((v) => !v.baseline) || choices[0] || null;
      this.chosen = choices.find((v) => v.name === name) || first;
      this.label.hidden = names.length < 2;
      if (this.chosen) this.select.value = this.chosen.name;
    }

    update(plotly, views, name, colours) {
      const { definition } = this;
      if (definition.choice) this.pick(views, name);
      const none = definition.choice && !this.chosen;
      this.data = none ? null : definition.find(this.chosen, views);
      const empty = none || definition.empty(this.data);
      this.none.hidden = !empty;
      this.plot.hidden = empty;
      for (const b of this.buttons) b.disabled = empty;
      if (empty) return;
      if (definition.readGreedy) this.read.textContent = this.data.greedy ? definition.readGreedy : definition.read;
      const width = this.plot.clientWidth;
      const now = JSON.stringify([this.data, width, colours.ink]);
      if (now === this.drawn) return;
      this.drawn = now;
      const { traces, layout } = definition.draw(this.data, colours, width);
      kit.draw(plotly, this.plot, traces, layout, this.headline() + ". " + definition.summary(this.data));
    }
  }

  class Plots {
    constructor(element) {
      this.root = element.querySelector(".sp-plots");
      this.details = make("details", "", this.root);
      const summary = make("summary", "", this.details, "Plots ");
      make("span", "", summary, "of what the panels hold: time, acceptance, tokens per pass, speed-up, confidence");
      this.say = make("p", "sp-plots-say", this.details);
      this.say.setAttribute("role", "status");
      this.grid = make("div", "sp-figures", this.details);
      this.grid.hidden = true;
      this.figures = null;
      this.timer = 0;
      this.drawn = -Infinity; // when
      this.took = 0;
      this.chosen = "";
      this.details.addEventListener("toggle", () => this.soon());
      document.addEventListener("specplay:changed", () => this.soon());
      document.addEventListener("visibilitychange", () => this.soon());
      kit.onLook(this.grid, () => this.soon(0));
    }

    // `share`: how much longer than drawing took the machine is to be left alone; of what a person did, not at all.
    soon(share = SHARE) {
      if (!this.details.open || document.hidden || (this.timer && share)) return;
      clearTimeout(this.timer);
      const wait = this.drawn + Math.max(EVERY_MS, share * this.took) - performance.now();
      this.timer = setTimeout(() => {
        this.timer = 0;
        this.update();
      }, Math.max(0, wait));
    }

    async update() {
      if (!this.plotly) await this.load();
      if (!this.plotly || !this.details.open) return;
      const views = root.SpecPlay.views ? root.SpecPlay.views() : [];
      const some = views.some((v) => v.fold.rounds.length);
      this.grid.hidden = !some;
      this.say.textContent = some ? "" : NOTHING;
      if (!some) return;
      const begin = performance.now();
      this.figures ??= plotFigures.map((definition) => new Figure(definition, this.grid, this));
      const colours = kit.palette(this.root);
      for (const figure of this.figures) figure.update(this.plotly, views, this.chosen, colours);
      this.drawn = performance.now();
      this.took = this.drawn - begin;
    }

    async load() {
      this.say.textContent = "Loading what draws the plots.";
      try {
        this.plotly = await root.SpecPlay.plotly();
      } catch (error) {
        this.say.textContent = "What draws the plots could not be loaded: close this section and open it again.";
      }
    }
  }

  root.SpecPlay = Object.assign(root.SpecPlay, { mountPlots: (element) => new Plots(element) });
})(globalThis);
