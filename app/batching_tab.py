"""The tab "Batching": why a busy server gains nothing. Measured here, and calculated for a GPU; each says which it is.

Gradio lays out the fields; what was found is drawn by assets/batching.js from the JSON that is sent.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gradio as gr

from engines.batch import roofline
from engines.batch.plan import PROPOSERS, SIZES, BatchPlan
from engines.batch.results import Point, Progress, Skipped, conclusion
from engines.errors import UserError
from engines.settings import MAX_K, RunSettings
from engines.tune.prompts import pasted

from .batching_view import Drawn, told
from .examples import EXAMPLES
from .fields import whole
from .roofline_form import build_calculator
from .under_way import UnderWay
from .words import PROPOSER_NAMES, by_label

WHY = """<div class="sp-batch-why"><p>With one sequence, a pass spends its time on reading the model's weights, and
judging k more tokens in it costs little. With many sequences the pass has to compute for all of them, and the k more
tokens of each cost as much as any others: what is rejected is then work that somebody waits for. So speculation answers
one person sooner, and serves a full house later. Run measures where that happens on this machine.</p></div>"""
TOKENS = 32  # that each sequence writes in a measured stretch
TAKE_SECONDS = 0.5
_QUIET = {"show_progress": "hidden", "api_visibility": "private"}


def build_batching_tab(engine: Any, target: str) -> None:
    """Lay the tab out, inside the gr.Tab that is open."""
    works = UnderWay()
    gr.HTML(WHY, apply_default_css=False)
    with gr.Row(elem_classes=["sp-batch-fields"]):
        proposer = gr.Dropdown(
            [(PROPOSER_NAMES[p], p) for p in PROPOSERS], value="ngram", label="who proposes", min_width=180
        )
        k = gr.Number(4, label="k", minimum=1, maximum=MAX_K, precision=0, min_width=70)
        largest = gr.Dropdown(list(SIZES), value=16, label="largest batch", min_width=110)
        budget = gr.Number(120, label="time limit (s)", minimum=1, min_width=110)
        with gr.Column(min_width=130, elem_classes=["sp-batch-buttons"]):
            run = gr.Button("Run", variant="primary", elem_id="sp-batch-run")
            stop = gr.Button("Stop", variant="secondary", elem_id="sp-batch-stop", interactive=False)
    with gr.Accordion("Prompts", open=False, elem_classes=["sp-more"]):
        prompts = gr.Textbox(
            label="Prompts: paragraphs, or lines of JSON; the sequences of a batch take them in turn",
            placeholder="Empty: the Playground's examples, one of each kind.",
            lines=4,
            max_lines=12,
        )
    measured = Drawn("", "measured")
    gr.HTML("<h2 class='sp-batch-title'>On a GPU, by calculation</h2>", apply_default_css=False)
    rate = build_calculator(k)

    def press(request: gr.Request, who: str, k: Any, largest: int, seconds: Any, text: str) -> Iterator[list[Any]]:
        session = request.session_hash or ""
        try:
            plan = plan_of(target, who, k, largest, seconds, text)
            work = engine.work(target, plan)
        except UserError as error:
            yield [told(state="error", message=by_label(str(error))), gr.skip()]
            return
        works.begin(session, work)
        try:
            shown = Shown(plan)
            while not work.over:
                new = work.take(TAKE_SECONDS)
                yield [shown.add(new, work, engine), gr.skip()]
            yield [shown.end(work), shown.rate or gr.skip()]
        finally:  # also when the browser has gone
            work.stop()
            works.end(session, work)

    def halt(request: gr.Request) -> None:
        works.stop(request.session_hash or "")

    # Progress "on" a button is shown nowhere: gradio's trackers ask for frame after frame even while hidden.
    quick = {"queue": False, "show_progress_on": [run], **_QUIET}
    run.click(lambda: _buttons(running=True), None, [run, stop], **quick)
    run.click(
        press, [proposer, k, largest, budget, prompts], [measured, rate],
        show_progress_on=[run], concurrency_limit=None, **_QUIET,
    ).then(lambda: _buttons(running=False), None, [run, stop], **quick)  # fmt: skip
    stop.click(halt, None, None, **quick)


def plan_of(target: str, who: str, k: Any, largest: int, seconds: Any, text: str) -> BatchPlan:
    """What the fields ask for. Raises UserError for what was typed wrongly."""
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)):
        raise UserError("Fill in a number of seconds for the time limit.")
    settings = RunSettings(target=target, proposer=who, k=whole("k", k), max_new_tokens=TOKENS)
    own = (text or "").strip()
    texts = tuple(p.asked for p in pasted(own).prompts) if own else tuple(example for _, example in EXAMPLES)
    return BatchPlan(settings, texts, tuple(size for size in SIZES if size <= largest), float(seconds))


class Shown:
    """What is known of a measurement, as the page is told of it."""

    def __init__(self, plan: BatchPlan) -> None:
        self.plan = plan
        self.points: dict[int, Point] = {}
        self.skipped: list[Skipped] = []
        self.last = Progress("Waits for its turn.", 0.0, 0.0)

    def add(self, items: list[Any], work: Any, engine: Any) -> str:
        for item in items:
            if isinstance(item, Point):
                self.points[item.batch] = item
            elif isinstance(item, Skipped):
                self.skipped.append(item)
            else:
                self.last = item
        if work.phase == "queued":
            n = work.ahead
            turn = f" {n} run{'s' if n > 1 else ''} or other work before it." if n else ""
            return self._json(state="queued", message=f"Waits for its turn.{turn}")
        if not self.last.seconds_left and not self.points:
            return self._json(state="running", message=str(engine.state()["message"]))
        left = f" About {self.last.seconds_left:.0f} s to go." if self.last.seconds_left else ""
        return self._json(state="running", message=f"{self.last.message}{left}", fraction=self.last.fraction)

    def end(self, work: Any) -> str:
        if work.error:
            return self._json(state="error", message=by_label(work.error))
        known = sum(p.speedup is not None for p in self.points.values())
        if work.stopped:
            return self._json(state="stopped", message=f"Stopped: {known or 'no'} batch sizes were measured till then.")
        return self._json(state="done", message=f"Measured: {known} batch size{'' if known == 1 else 's'}.")

    @property
    def rate(self) -> float | None:
        """The acceptance rate that the measured tokens per pass amount to, for the calculator."""
        known = [p for p in self.points.values() if p.tokens_per_pass is not None]
        return round(roofline.rate_of(known[-1].tokens_per_pass, self.plan.settings.k), 2) if known else None

    def _json(self, **more: Any) -> str:
        points = [self.points[size] for size in sorted(self.points)]
        return told(
            k=self.plan.settings.k,
            points=[p.to_json() for p in points],
            skipped=[s.reason for s in self.skipped],
            conclusion=conclusion(points),
            **more,
        )


def _buttons(running: bool) -> tuple[Any, Any]:
    return gr.update(interactive=not running), gr.update(interactive=running)
