"""The tab "Tuner": should speculation be on for this work on this machine, with what, and what will it bring?

Gradio lays out the fields; what was found is drawn by assets/tuner.js from the JSON of app/tuner_run.py.
"""

from __future__ import annotations

import html
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gradio as gr
from gradio.context import Context
from gradio.utils import get_upload_folder

from engines import heads
from engines.errors import UserError
from engines.tune.candidates import OFFERED
from engines.tune.workloads import kinds

from .catalogue_choices import drafts_for
from .json_view import JsonView
from .tuner_form import (
    BUILT_IN,
    FIELDS,
    FILE,
    LIST,
    MOST_PASTED,
    MOST_SECONDS,
    WORK_FIELDS,
    check,
    columns_of,
    order_from,
    prompts_from,
    told,
)
from .tuner_run import DOWNLOADS, Seats, refused
from .words import PROPOSER_NAMES

TITLE = """
<div class="sp-tuner-why"><p>Should you turn speculation on for this work on this machine, with which proposer, draft
and k, and what will it bring? The gain differs from one kind of text to another, so it is measured on your own: what
rounds cost here, how much of each proposer's tokens is accepted, then the few best beside plain decoding, in turn,
until the answer is clear or the time is over.</p></div>
"""
KIND_NAMES = {
    "code": "writing code",
    "editing": "editing with copying",
    "structured": "structured output",
    "summary": "summarising a text",
    "questions": "questions on a text",
    "maths": "maths",
    "chat": "chat",
    "prose": "creative prose",
}
FORMATS = (
    "JSON Lines with prompt, messages or turns; a table (CSV) with a column of prompts; or text with blank lines "
    "between prompts. A column or key named category groups the results."
)
SAVE = {"report.html": "The report (HTML)", "report.json": "Everything (JSON)", "runs.csv": "The runs (CSV)"}
_QUIET = {"show_progress": "hidden", "api_visibility": "private"}


def build_tuner_tab(engine: Any, target: str) -> None:
    """Lay the tab out, inside the gr.Tab that is being built."""
    seats = Seats(Path(get_upload_folder()))  # from there gradio serves a file as it is, without keeping a copy
    with gr.Column(elem_id="sp-tuner-tab"):
        gr.HTML(TITLE, apply_default_css=False)
        work = _work_fields()
        rest, rest_line = _rest_fields(target)
        with gr.Row(elem_classes=["sp-tuner-go"]):
            start = gr.Button("Tune", variant="primary", elem_id="sp-tuner-start", scale=0, min_width=170)
            stop = gr.Button("Stop", interactive=False, elem_id="sp-tuner-stop", scale=0, min_width=90)
            rest_line.render()
        view = JsonView('<div class="sp-tuner" data-state="idle"></div>', "SpecPlay.mountTuner(element, props, watch);")
        with gr.Row(elem_classes=["sp-tuner-save"]):
            saves = [gr.DownloadButton(SAVE[name], visible=False, size="sm", min_width=150) for name in DOWNLOADS]

    def press(request: gr.Request, *values: Any) -> Iterator[list[Any]]:
        form = dict(zip(FIELDS, values, strict=True))
        untouched = [gr.skip() for _ in saves]
        try:
            run = seats.of(request.session_hash or "").begin(engine, order_from(target, form, prompts_from(form)))
        except UserError as error:
            yield [refused(error), *untouched]
            return
        try:
            hidden = [gr.update(value=None, visible=False) for _ in saves]
            for frame in run.frames():
                files = [run.files.get(name) for name in DOWNLOADS]
                shown = [gr.update(value=str(path), visible=True) for path in files if path]
                yield [frame, *(shown or hidden or untouched)]
                hidden = []
        finally:
            run.stop()

    def halt(request: gr.Request) -> None:
        seats.stop(request.session_hash or "")

    def leave(request: gr.Request) -> None:
        seats.leave(request.session_hash or "")

    # Progress "on" a button is shown nowhere: gradio's trackers ask for frame after frame even while hidden.
    quick = {"queue": False, "show_progress_on": [start], **_QUIET}
    start.click(lambda: _buttons(running=True), None, [start, stop], **quick)
    start.click(
        press, [*work, *rest], [view, *saves], show_progress_on=[start], concurrency_limit=None, **_QUIET
    ).then(lambda: _buttons(running=False), None, [start, stop], **quick)  # fmt: skip
    stop.click(halt, None, None, **quick)
    Context.root_block.unload(leave)


def _work_fields() -> list[Any]:
    """The fields that name the prompts, in the order of WORK_FIELDS, with what they come to below them."""
    workload = gr.Radio([BUILT_IN, FILE, LIST], value=BUILT_IN, label="prompts", elem_classes=["sp-tuner-work"])
    with gr.Row(elem_classes=["sp-tuner-built-in"]) as built_in:
        names = [(KIND_NAMES.get(name, name), name) for name in sorted(kinds(), key=_place)]
        chosen = gr.CheckboxGroup(
            names, value=[name for _, name in names], label="kinds of text", scale=4, min_width=280
        )
        each = gr.Number(3, label="prompts of each kind", precision=0, min_width=130, scale=1)
    with gr.Row(visible=False, elem_classes=["sp-tuner-file"]) as of_file:
        file = gr.File(
            label="a file of up to 20 MB",
            height=130,
            scale=3,
            min_width=280,
            elem_id="sp-tuner-file",
        )
        column = gr.Dropdown([], label="column with the prompts", visible=False, allow_custom_value=True, min_width=180)
    pasted = gr.Textbox(
        "",
        label="your prompts: one a line, or with blank lines between them, or lines of JSON",
        lines=6,
        max_lines=14,
        max_length=MOST_PASTED,
        visible=False,
    )
    line = gr.HTML(_line("", ""), apply_default_css=False)
    fields = [workload, chosen, each, file, column, pasted]

    def places(which: str) -> list[Any]:
        return [
            gr.update(visible=which == BUILT_IN),
            gr.update(visible=which == FILE),
            gr.update(visible=which == LIST),
        ]

    def columns(named: str | None) -> Any:
        there = columns_of(named)
        usual = next((name for name in ("prompt", "question", "text") if name in there), there[0] if there else None)
        return gr.update(choices=there, value=usual, visible=bool(there))

    def said(*values: Any) -> str:
        form = dict(zip(WORK_FIELDS, values, strict=True))
        if form["workload"] == FILE and not form["file"]:
            return _line(FORMATS, "")
        if form["workload"] == LIST and not form["pasted"]:
            return _line("", "")
        return _told(lambda: told(prompts_from(form)))

    quick = {"queue": False, **_QUIET}
    workload.change(places, workload, [built_in, of_file, pasted], **quick)
    file.change(columns, file, column, **quick)
    changes = [workload.change, chosen.change, each.change, file.change, column.change, pasted.change]
    gr.on(changes, said, fields, line, trigger_mode="always_last", **quick)
    line.value = said(*(f.value for f in fields))
    return fields


def _place(kind: str) -> int:
    return list(KIND_NAMES).index(kind) if kind in KIND_NAMES else len(KIND_NAMES)


def _rest_fields(target: str) -> tuple[list[Any], gr.HTML]:
    """The other fields, in the order of FIELDS, and the line, to be placed yet, that says what they come to."""
    head = heads.for_target(target, "eagle") is not None
    usual = [name for name in OFFERED if name != "draft" and (name != "eagle" or head)]
    drafts = drafts_for(target)
    with gr.Row(elem_classes=["sp-tuner-who"]):
        proposers = gr.CheckboxGroup(
            [(PROPOSER_NAMES[name], name) for name in OFFERED], value=usual, label="proposers to choose among", scale=4,
            min_width=280,
        )  # fmt: skip
        draft = gr.Dropdown(
            drafts,
            value=drafts[0][1],
            allow_custom_value=True,
            label="draft model",
            visible=False,
            min_width=200,
            scale=2,
        )
    with gr.Row(elem_classes=["sp-tuner-rest"]):
        temperature = gr.Slider(0, 2, value=0, step=0.05, label="temperature", min_width=160, scale=2, buttons=[])
        most = gr.Number(64, label="max tokens", precision=0, min_width=110, scale=1)
        budget = gr.Number(120, label=f"time budget (s, up to {MOST_SECONDS})", min_width=150, scale=1)
    fields = [proposers, draft, temperature, most, budget]
    line = gr.HTML(render=False, apply_default_css=False, scale=1)

    def said(*values: Any) -> str:
        form = dict(zip(FIELDS[len(WORK_FIELDS) :], values, strict=True))
        return _told(lambda: check(target, form))

    quick = {"queue": False, **_QUIET}
    proposers.change(lambda who: gr.update(visible="draft" in (who or [])), proposers, draft, **quick)
    gr.on([f.change for f in fields], said, fields, line, trigger_mode="always_last", **quick)
    line.value = said(*(f.value for f in fields))
    return fields, line


def _told(make: Any) -> str:
    """What `make` says, or what is wrong with the fields that it reads."""
    try:
        return _line(make(), "")
    except UserError as error:
        return _line(str(error), ' data-tone="wrong"')


def _line(said: str, more: str) -> str:
    return f'<p class="sp-tuner-line" role="status"{more}>{html.escape(said)}</p>'


def _buttons(running: bool) -> tuple[Any, Any]:
    return gr.update(interactive=not running), gr.update(interactive=running)
