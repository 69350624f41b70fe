"""The tab "Sweep": one axis, a range, and how the speed-up changes along it."""

from __future__ import annotations

import html
from collections.abc import Iterator
from typing import Any

import gradio as gr
from gradio.context import Context

from engines.errors import UserError
from engines.settings import MAX_K
from engines.sweep_plan import NUMBERS

from .catalogue_choices import drafts_for
from .examples import EXAMPLES
from .json_view import JsonView
from .sweep_run import BOUNDS, FIELDS, SweepRun, plan_from, refused, told
from .under_way import UnderWay
from .words import PROPOSER_NAMES

AXIS_CHOICES = [
    ("k: how many tokens are proposed", "k"),
    ("temperature", "temperature"),
    ("who proposes", "proposer"),
    ("draft model", "draft"),
    ("kind of text", "text"),
]
VALUES = {"k": "1-8", "temperature": "0-1.5 step 0.5"}
PROPOSERS = [(name, key) for key, name in PROPOSER_NAMES.items() if key != "none"]
TITLE = f"""
<div class="sp-title-block">
  <p>One setting changes, all others stay: how do speed-up, acceptance and tokens per pass change with it? Each point is
  measured against plain decoding of the same text. {BOUNDS}</p>
</div>
"""
_QUIET = {"show_progress": "hidden", "api_visibility": "private"}


def build_sweep_tab(engine: Any, target: str) -> None:
    """Lay the tab out, inside the gr.Tab that is being built."""
    sweeps = UnderWay()
    with gr.Column(elem_id="sp-sweep-tab"):
        gr.HTML(TITLE, apply_default_css=False)
        fields = _fields(target)
        with gr.Row(elem_classes=["sp-sweep-go"]):
            start = gr.Button("Start the sweep", variant="primary", elem_id="sp-sweep-start", scale=0, min_width=170)
            stop = gr.Button("Stop", interactive=False, elem_id="sp-sweep-stop", scale=0, min_width=90)
            plan_line = gr.HTML(_plan_line(target, [f.value for f in fields]), apply_default_css=False, scale=1)
        view = JsonView('<div class="sp-sweep" data-state="idle"></div>', "SpecPlay.mountSweep(element, props, watch);")

    def press(request: gr.Request, *values: Any) -> Iterator[str]:
        try:
            run = SweepRun(engine, target, plan_from(target, dict(zip(FIELDS, values, strict=True))))
        except UserError as error:
            yield refused(error)
            return
        session = request.session_hash or ""
        sweeps.begin(session, run)
        try:
            yield from run.frames()
        finally:
            sweeps.end(session, run)

    def halt(request: gr.Request) -> None:
        sweeps.stop(request.session_hash or "")

    gr.on([f.change for f in fields], lambda *v: _plan_line(target, v), fields, plan_line, queue=False, **_QUIET)
    start.click(lambda: _buttons(running=True), None, [start, stop], queue=False, **_QUIET)
    # The engine has its own queue; waiting in it must not keep others from asking.
    begun = start.click(press, fields, view, concurrency_limit=None, **_QUIET)
    begun.then(lambda: _buttons(running=False), None, [start, stop], queue=False, **_QUIET)
    stop.click(halt, None, None, queue=False, **_QUIET)
    Context.root_block.unload(halt)


def _fields(target: str) -> list[Any]:
    """The form's components, in the order of FIELDS."""
    drafts = drafts_for(target)
    names = [name for name, _ in EXAMPLES]
    with gr.Row(elem_classes=["sp-sweep-axis"]):
        axis = gr.Dropdown(AXIS_CHOICES, value="k", label="what changes", min_width=240, scale=1)
        values = gr.Textbox(
            VALUES["k"], label="values: numbers and ranges, such as 1-8, 12 or 0-1.5 step 0.25", min_width=240, scale=2
        )
        proposers = gr.CheckboxGroup(
            PROPOSERS, value=["ngram", "suffix", "layer-skip"], label="proposers", visible=False, scale=2
        )
        several = gr.Dropdown(
            drafts,
            value=[drafts[0][1]],
            multiselect=True,
            allow_custom_value=True,
            label="draft models: names from the list, hub ids, folders or GGUF files",
            visible=False,
            scale=2,
        )
    # Without bounds of gradio's, which would be told in a box of its own: the plan's line says what is wrong.
    with gr.Row(elem_classes=["sp-sweep-rest"]):
        proposer = gr.Dropdown(PROPOSERS, value="ngram", label="who proposes", min_width=170, scale=3)
        draft = gr.Dropdown(
            drafts,
            value=drafts[0][1],
            allow_custom_value=True,
            label="draft model",
            visible=False,
            min_width=170,
            scale=3,
        )
        k = gr.Slider(1, MAX_K // 2, value=4, step=1, label="k", min_width=120, scale=2, buttons=[], visible=False)
        temperature = gr.Slider(0, 2, value=0, step=0.05, label="temperature", min_width=120, scale=2, buttons=[])
        most = gr.Number(96, label="max tokens", precision=0, min_width=90, scale=1)
        repeats = gr.Number(2, label="repeats", precision=0, min_width=80, scale=1)
        seed = gr.Number(0, label="seed", precision=0, min_width=80, scale=1)
    with gr.Row(elem_classes=["sp-sweep-texts"]):
        texts = gr.CheckboxGroup(
            names, value=names[:1], label="texts: the examples of the Playground", scale=2, min_width=280
        )
        own = gr.Textbox("", label="and a text of your own (optional)", lines=1, max_lines=6, scale=2, min_width=280)

    def shown(axis: str, who: str, several_who: list[str], texts: list[str]) -> list[Any]:
        wants_draft = axis != "draft" and ("draft" in (several_who or []) if axis == "proposer" else who == "draft")
        return [
            gr.update(visible=axis in NUMBERS),
            gr.update(visible=axis == "proposer"),
            gr.update(visible=axis == "draft"),
            gr.update(visible=axis not in ("proposer", "draft")),
            gr.update(visible=wants_draft),
            gr.update(visible=axis != "k"),
            gr.update(visible=axis != "temperature"),
            gr.update(value=names) if axis == "text" and len(texts or []) < 2 else gr.skip(),
        ]

    changing = [values, proposers, several, proposer, draft, k, temperature, texts]
    asked = [axis, proposer, proposers, texts]
    gr.on([axis.change, proposer.change, proposers.change], shown, asked, changing, queue=False, **_QUIET)
    axis.change(lambda a: VALUES.get(a, gr.skip()), axis, values, queue=False, **_QUIET)
    return [axis, values, proposers, several, proposer, draft, k, temperature, texts, own, most, repeats, seed]


def _plan_line(target: str, values: Any) -> str:
    """What would be run as the fields are now, or what is wrong with them."""
    try:
        said, tone = told(plan_from(target, dict(zip(FIELDS, values, strict=True)))), ""
    except UserError as error:
        said, tone = str(error), ' data-tone="wrong"'
    return f'<p class="sp-sweep-plan" role="status"{tone}>{html.escape(said)}</p>'


def _buttons(running: bool) -> tuple[Any, Any]:
    return gr.update(interactive=not running), gr.update(interactive=running)
