"""One sweep on the page: what the form asks for -> a plan, and the plan under way -> what the view shows.

Knows nothing of gradio. What the view gets is one JSON object at a time: state, message, done, of, axis, numeric, rows,
acceptance, notes.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

from engines.errors import UserError
from engines.settings import RunSettings, Sampling
from engines.sweep import Failed, Planned, Ran, Rows, sweep
from engines.sweep_plan import AXES, MOST_POINTS, MOST_REPEATS, MOST_TOKENS, NUMBERS, Plan, Text, numbers, plan

from .examples import EXAMPLES
from .fields import whole
from .words import PROPOSER_NAMES, by_label
from .work_run import WorkRun

OWN_TEXT = "My text"
BOUNDS = f"At most {MOST_POINTS} points, {MOST_REPEATS} repeats and {MOST_TOKENS} tokens a run."
FIELDS = (
    "axis", "values", "proposers", "drafts", "proposer", "draft", "k", "temperature", "texts", "own_text",
    "max_tokens", "repeats", "seed",
)  # fmt: skip


def plan_from(target: str, form: Mapping[str, Any]) -> Plan:
    """The plan that the form's fields ask for. Raises UserError, in the page's own names, for what is wrong."""
    try:
        axis = form["axis"]
        who = {"draft": "draft", "proposer": "none"}.get(axis, form["proposer"])
        drafts = "draft" in ((form["proposers"] or ()) if axis == "proposer" else (who,))
        base = RunSettings(
            target=target,
            proposer=who,
            draft=_draft(form) if drafts else None,
            k=whole("k", form["k"]),
            sampling=Sampling(temperature=_number("temperature", form["temperature"])),
            seed=whole("seed", form["seed"]),
            max_new_tokens=whole("max tokens", form["max_tokens"]),
        )
        values: list[Any] = []
        if axis in NUMBERS:
            values = list(numbers(form["values"] or ""))
        elif axis in ("proposer", "draft"):
            values = list(form[f"{axis}s"] or ())
        made = plan(axis, values, base, _texts(form), whole("repeats", form["repeats"]), base.seed)
    except UserError as error:
        raise UserError(by_label(str(error))) from None
    return made


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise UserError(f"Fill in a number for {name}.")
    return value


def _draft(form: Mapping[str, Any]) -> str:
    named = [str(form["draft"] or "").strip(), *(form["drafts"] or ())]
    first = next(filter(None, named), "")
    if not first:
        raise UserError("Choose a draft model, or type the name of one: it has to share the target's vocabulary.")
    return first


def _texts(form: Mapping[str, Any]) -> list[Text]:
    chosen = form["texts"] or ()
    out = [Text(name, prompt) for name, prompt in EXAMPLES if name in chosen]
    own = (form["own_text"] or "").strip()
    return [*out, *([Text(OWN_TEXT, own)] if own else [])]


def told(made: Plan) -> str:
    """What would be run, in a sentence."""
    plain = sum(step.point is None for step in made.steps)
    tokens = made.steps[0].settings.max_new_tokens
    points = f"{len(made.points)} point{'' if len(made.points) == 1 else 's'}"
    return (
        f"{points}, {len(made.steps)} runs of up to {tokens} tokens, {plain} of them plain decoding, "
        "in an order drawn from the seed."
    )


def in_time(seconds: float) -> str:
    """ "8 s", "2 min 10 s", "1 h 5 min"."""
    whole_seconds = max(1, round(seconds))
    if whole_seconds < 60:
        return f"{whole_seconds} s"
    if whole_seconds < 3600:
        return f"{whole_seconds // 60} min {whole_seconds % 60} s"
    return f"{whole_seconds // 3600} h {whole_seconds % 3600 // 60} min"


class SweepRun(WorkRun):
    """A plan on its way through the engine."""

    def __init__(self, engine: Any, target: str, made: Plan) -> None:
        self.engine, self.plan = engine, made
        self.work = engine.work(target, sweep(made))
        self.shown: dict[str, Any] = {
            "axis": made.axis, "axis_name": AXES[made.axis], "numeric": made.axis in NUMBERS, "state": "queued",
            "message": "Starts now.", "done": 0, "of": len(made.steps), "rows": [], "acceptance": None, "notes": [],
        }  # fmt: skip
        self.begun: float | None = None

    def _say(self, state: str, message: str) -> None:
        self.shown |= {"state": state, "message": message}

    def _tell(self) -> None:
        if self.begun is not None:
            return
        state = self.engine.state()
        if waits := self.queued():
            self._say("queued", waits)
        elif state["phase"] != "ready":
            self._say("loading", state["message"])
        else:
            self._say("loading", "Warming up.")

    def _take(self, item: Any) -> None:
        if isinstance(item, Planned):
            self.begun = time.monotonic()
            self._say("running", f"{item.runs} runs, about {in_time(item.seconds)}.")
        elif isinstance(item, Ran):
            self.shown["done"] = item.done
            left = f"about {in_time(item.left)} left" if item.done < item.runs else "all are done"
            self._say("running", f"{item.done} of {item.runs} runs, {left}.")
        elif isinstance(item, Failed):
            self.shown["notes"] = [*self.shown["notes"], f"{self.label(item.point)}: {item.sentence}"]
        elif isinstance(item, Rows):
            rows = [{**row.to_json(), "label": self.label(i)} for i, row in enumerate(item.rows)]
            self.shown |= {"rows": rows, "acceptance": item.acceptance, "complete": item.complete}

    def label(self, i: int) -> str:
        point = self.plan.points[i]
        return PROPOSER_NAMES.get(point.label, point.label) if self.plan.axis == "proposer" else point.label

    def _end(self) -> None:
        done, runs = self.shown["done"], self.shown["of"]
        if self.work.error:
            self._say("error", self.work.error)
        elif self.shown.get("complete"):
            took = "" if self.begun is None else f" in {in_time(time.monotonic() - self.begun)}"
            self._say("done", f"{done} runs{took}.")
        else:
            kept = "what was measured till then stays" if done else "nothing is measured yet"
            self._say("stopped", f"Stopped after {done} of {runs} runs: {kept}.")


def refused(error: UserError) -> str:
    """The frame that says why nothing was begun."""
    return json.dumps({"state": "error", "message": str(error), "rows": [], "notes": [], "done": 0, "of": 0})
