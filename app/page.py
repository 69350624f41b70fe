"""The page: a prompt, Run, two panels. Everything that asks for more is folded away."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import gradio as gr
from starlette.middleware import Middleware

from engines.errors import UserError
from engines.settings import RunSettings

from .catalogue_choices import drafts_for
from .early_script import EarlyScript
from .examples import EXAMPLES
from .legend import LEGEND, TITLE
from .panel import FIELDS, build_panel, settings_from, whole
from .run_page import PageRun
from .status import SETTLED, EngineStatus, status_line
from .token_view import ASSETS, TokenView, head
from .words import by_label

POLL_SECONDS = 0.5
MOST_TOKENS = 2048
# Gradio looks for requests every millisecond, for progress every ten: a tenth of a core, which the engine needs more.
QUEUE_SECONDS, PROGRESS_SECONDS = 0.05, 0.5


class Sessions:
    """Which run belongs to which browser tab; a tab has one at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._runs: dict[str, PageRun] = {}

    def begin(self, session: str, run: PageRun) -> None:
        with self._lock:
            before = self._runs.get(session)
            self._runs[session] = run
        if before is not None:
            before.stop()

    def end(self, session: str, run: PageRun) -> None:
        with self._lock:
            if self._runs.get(session) is run:
                del self._runs[session]

    def stop(self, session: str) -> None:
        with self._lock:
            run = self._runs.get(session)
        if run is not None:
            run.stop()


def start_settings(target: str) -> list[RunSettings]:
    """The untouched page: lookup that pays on the default prompt, and layer skip that does not."""
    base = RunSettings(target=target)
    return [base.replace(proposer="ngram", k=8), base.replace(proposer="layer-skip", k=4)]


def build_page(engine: Any, target: str) -> gr.Blocks:
    """The page of `engine`, whose model begins to load when the first browser has the page."""
    sessions = Sessions()
    with gr.Blocks(title="Speculative decoding playground", analytics_enabled=False) as page:
        with gr.Row(elem_classes=["sp-top"]):
            gr.HTML(TITLE, apply_default_css=False, scale=3)
            status = EngineStatus(status_line(engine, target), scale=1)
        with gr.Row(elem_classes=["sp-examples"]):
            chips = [gr.Button(name, size="sm", min_width=60, elem_classes=["sp-example"]) for name, _ in EXAMPLES]
        with gr.Row(elem_classes=["sp-ask"], equal_height=True):
            with gr.Column(scale=4, min_width=320):
                prompt = gr.Textbox(
                    EXAMPLES[0][1],
                    label="Prompt",
                    placeholder="Empty: the model gets an empty message. Type a prompt, or choose an example above.",
                    lines=8,
                    max_lines=8,
                    elem_classes=["sp-prompt"],
                )
            with gr.Column(scale=1, min_width=230, elem_classes=["sp-actions"]):
                run = gr.Button("Run", variant="primary", elem_id="sp-run")
                stop = gr.Button("Stop", variant="secondary", elem_id="sp-stop", interactive=False)
                with gr.Row():
                    tokens = gr.Number(
                        128, label="max tokens", minimum=1, maximum=MOST_TOKENS, precision=0, min_width=90
                    )
                    seed = gr.Number(0, label="seed", minimum=0, precision=0, min_width=70)
        with gr.Row(elem_classes=["sp-key"]):
            gr.HTML(LEGEND, apply_default_css=False)
            refused = gr.Checkbox(
                True,
                label="show rejected and unjudged tokens",
                container=False,
                elem_id="sp-refused",
                min_width=250,
                scale=0,
            )
        starts = start_settings(target)
        baselines = [TokenView(f"baseline {i + 1}", slim=True) for i in range(len(starts))]
        with gr.Row(elem_classes=["sp-panels"], equal_height=False):
            panels = [build_panel("AB"[i], s, drafts_for(target)) for i, s in enumerate(starts)]
        timer = gr.Timer(POLL_SECONDS)

        for chip, (_, text) in zip(chips, EXAMPLES, strict=True):
            chip.click(None, None, prompt, js=f"() => {json.dumps(text)}", api_visibility="private")
        refused.change(None, refused, None, js="(show) => document.body.classList.toggle('sp-kept-only', !show)")
        _poll(page, engine, target, timer, status, run)
        views = [*baselines, *(p.view for p in panels)]
        inputs = [prompt, tokens, seed, *(c for p in panels for c in p.inputs)]

        def press(request: gr.Request, fields: str) -> Iterator[list[str]]:
            prompt_text, most, seed_value, *values = json.loads(fields)
            page_run = PageRun(engine, prompt_text, _panels(target, most, seed_value, values))
            session = request.session_hash or ""
            sessions.begin(session, page_run)
            try:
                yield from page_run.frames()
            finally:
                sessions.end(session, page_run)

        # Progress "on" a button is shown nowhere: gradio's trackers ask for frame after frame even while hidden.
        quick = {"queue": False, "show_progress": "hidden", "show_progress_on": [run], "api_visibility": "private"}
        run.click(lambda: _buttons(running=True), None, [run, stop], **quick)
        # All fields travel as one: at each frame gradio visits every input of a listener that is at work.
        form = gr.Textbox(visible=False)
        asked = run.click(None, inputs, form, js="(...all) => SpecPlay.asked(all)", api_visibility="private")
        # What is changed from now on says so at the results, until the next Run (assets/asked.js).
        changed = {"js": "(...all) => SpecPlay.changed(all)", "show_progress": "hidden", "api_visibility": "private"}
        gr.on([c.change for c in inputs], None, inputs, None, **changed)
        pressed = asked.then(
            press,
            form,
            views,
            show_progress="hidden",
            show_progress_on=[run],
            concurrency_limit=None,  # the engine has its own queue; waiting in it must not keep others from asking
            api_visibility="private",
        )
        pressed.then(
            lambda: (*_buttons(running=False), status_line(engine, target)), None, [run, stop, status], **quick
        )
        stop.click(_stopper(sessions), None, None, **quick)
        page.unload(_stopper(sessions))
    page._queue.sleep_when_free, page._queue.progress_update_sleep_when_free = QUEUE_SECONDS, PROGRESS_SECONDS
    return page


def _panels(target: str, most: Any, seed: Any, values: Sequence[Any]) -> list[RunSettings | UserError]:
    """One entry a panel: its settings, or what is wrong with them."""
    out: list[RunSettings | UserError] = []
    for at in range(0, len(values), len(FIELDS)):
        try:
            if whole("max tokens", most) > MOST_TOKENS:
                raise UserError(f"The page shows up to {MOST_TOKENS} new tokens: lower max tokens.")
            shared = {"target": target, "max_new_tokens": whole("max tokens", most), "seed": whole("seed", seed)}
            out.append(settings_from(values[at : at + len(FIELDS)], shared))
        except UserError as error:
            out.append(UserError(by_label(str(error))))
    return out


def _buttons(running: bool) -> tuple[Any, Any]:
    return gr.update(interactive=not running), gr.update(interactive=running)


def _stopper(sessions: Sessions) -> Any:
    def stop(request: gr.Request) -> None:
        sessions.stop(request.session_hash or "")

    return stop


def _poll(page: gr.Blocks, engine: Any, target: str, timer: gr.Timer, status: EngineStatus, button: gr.Button) -> None:
    """Load the model once a browser has the page, and show how far that is until it is done or has failed."""

    def begin() -> str:
        # Not before: importing torch holds the interpreter, and the page would wait for it.
        if engine.state()["phase"] == "idle":
            engine.preload(RunSettings(target=target))
        return status_line(engine, target)

    def tick() -> tuple[str, Any]:
        settled = engine.state()["phase"] in SETTLED
        return status_line(engine, target), gr.Timer(active=False) if settled else gr.skip()

    quiet = {"show_progress": "hidden", "show_progress_on": [button], "api_visibility": "private"}
    page.load(begin, None, status, **quiet)
    timer.tick(tick, None, [status, timer], concurrency_limit=None, **quiet)


def launch_options() -> dict[str, Any]:
    """What `launch` needs for the page to look and behave as it should: nothing from other hosts, no tunnels."""
    sans = ["system-ui", "-apple-system", "Segoe UI", "Roboto", "Noto Sans", "sans-serif"]
    mono = ["ui-monospace", "SFMono-Regular", "Menlo", "Consolas", "DejaVu Sans Mono", "monospace"]
    return {
        "theme": gr.themes.Default(primary_hue="sky", neutral_hue="slate", font=sans, font_mono=mono),
        "css_paths": [ASSETS / "page.css", ASSETS / "tokens.css"],
        "head": head(),
        "app_kwargs": {
            "middleware": [Middleware(EarlyScript, script=(ASSETS / "calm.js").read_text(encoding="utf-8"))]
        },
        "footer_links": [],
        "run_history": False,
        "ssr_mode": False,
        "share": False,
        "quiet": True,
        "enable_monitoring": False,
    }
