// Under a panel that draws: a button that tests, on the running model, that speculation leaves the distribution as it is.
(function (root) {
  "use strict";

  const { allViews, ask, button, make, sameLaw, stop } = root.SpecPlay;
  const GREEDY_BELOW = 1e-3;

  function offer(view) {
    if (view.slim) return;
    const { start, done } = view.record.fold;
    const draws = Boolean(start && done) && start.settings.sampling.temperature >= GREEDY_BELOW && start.proposer !== "none";
    if (!view.law && draws) build(view);
    if (!view.law) return;
    view.law.hidden = !draws;
    view.lawResult.replaceChildren(...(view.record.law ? [view.record.law] : []));
  }

  function build(view) {
    view.law = make("div", "sp-law", view.root);
    view.lawKey = button("sp-button", view.law, "Is the distribution the same?", "", () => test(view));
    view.lawKey.title = "Many short rounds from one place of the text, against the model's own distribution there";
    view.lawResult = make("div", "sp-law-result", view.law);
  }

  async function test(view) {
    if (view.lawKey.dataset.running) return stop();
    const result = view.record.law = make("div", "", null);
    view.lawResult.replaceChildren(result);
    view.lawKey.dataset.running = "yes";
    view.lawKey.textContent = "Stop the test";
    view.onLaw = (line) => {
      if (line.law) sameLaw(result, line.law);
      else say(result, line.message);
    };
    const problem = await ask(view.name);
    if (problem) say(result, problem);
    delete view.lawKey.dataset.running;
    view.lawKey.textContent = "Is the distribution the same?";
  }

  function say(result, message) {
    result.replaceChildren();
    make("p", "sp-problem", result, message).setAttribute("role", "alert");
  }

  for (const event of ["specplay:ended", "specplay:shown", "specplay:layout"]) {
    document.addEventListener(event, () => allViews().forEach(offer));
  }
})(globalThis);
