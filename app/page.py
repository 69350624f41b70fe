"""The page: a prompt, Run, two panels. Everything that asks for more is folded away.

Gradio lays it out and keeps its fields; what happens when they are used, happens in the browser (assets/) and by
app/routes.py, without Gradio's queue.
"""

from __future__ import annotations

import json
from typing import Any

import gradio as gr
from starlette.middleware import Middleware

from engines import heads
from engines.settings import RunSettings

from .batching_tab import build_batching_tab
from .catalogue_choices import drafts_for
from .early_script import EarlyScript
from .examples import EXAMPLES
from .fields import LETTERS, MOST_TOKENS
from .kept_assets import KeptAssets
from .legend import LEGEND, TITLE
from .lessons_view import build_lessons
from .panel import build_panel
from .plots_view import Plots
from .routes import routes
from .scripts import ASSETS, STYLES, head
from .status import EngineStatus
from .sweep_tab import build_sweep_tab
from .token_view import TokenView
from .tuner_tab import build_tuner_tab

_BLUES = (("", 700), ("_hover", 800))
# Gradio looks for requests every millisecond, for progress every ten: a tenth of a core, which the engine needs more.
QUEUE_SECONDS, PROGRESS_SECONDS = 0.05, 0.5
_PRIVATE = {"show_progress": "hidden", "api_visibility": "private"}


def start_settings(target: str) -> list[RunSettings]:
    """The untouched page shows the first two: lookup that pays on the default prompt, and layer skip that does not.

    The others come when panels are added.
    """
    base = RunSettings(target=target)
    trained = heads.for_target(target, "eagle") is not None
    third = base.replace(proposer="eagle", k=3) if trained else base.replace(proposer="suffix", k=8)
    return [
        base.replace(proposer="ngram", k=8),
        base.replace(proposer="layer-skip", k=4),
        third,
        base.replace(proposer="auto", k=8),
    ]


def build_page(engine: Any, target: str) -> gr.Blocks:
    """The page of `engine`, whose model begins to load when the first browser has the page."""
    day = 86_400  # seconds for which a file that a person chose is kept, and how often that is looked at
    blocks = gr.Blocks(title="Speculative decoding playground", analytics_enabled=False, delete_cache=(day // 24, day))
    with blocks as page:
        with gr.Row(elem_classes=["sp-top"]):
            gr.HTML(TITLE, apply_default_css=False, scale=3)
            EngineStatus(scale=1)
        with gr.Tabs(elem_classes=["sp-places"]):
            with gr.Tab("Playground"):
                _playground(page, target)
            with gr.Tab("Sweep"):
                build_sweep_tab(engine, target)
            with gr.Tab("Tuner"):
                build_tuner_tab(engine, target)
            with gr.Tab("Batching"):
                build_batching_tab(engine, target)
    page._queue.sleep_when_free, page._queue.progress_update_sleep_when_free = QUEUE_SECONDS, PROGRESS_SECONDS
    return page


def _playground(page: gr.Blocks, target: str) -> None:
    build_lessons()
    with gr.Row(elem_classes=["sp-examples"]):
        chips = [gr.Button(name, size="sm", min_width=60, elem_classes=["sp-example"]) for name, _ in EXAMPLES]
    with gr.Row(elem_classes=["sp-ask"], equal_height=True):
        with gr.Column(scale=4, min_width=320):
            prompt = gr.Textbox(
                EXAMPLES[0][1],
                label="Prompt",
                placeholder="Empty: the model gets an empty message. Type a prompt, or choose an example above.",
                lines=9,
                max_lines=9,
                elem_classes=["sp-prompt"],
            )
        with gr.Column(scale=1, min_width=230, elem_classes=["sp-actions"]):
            run = gr.Button("Run", variant="primary", elem_id="sp-run")
            stop = gr.Button("Stop", variant="secondary", elem_id="sp-stop")
            with gr.Row():
                tokens = gr.Number(128, label="max tokens", minimum=1, maximum=MOST_TOKENS, precision=0, min_width=90)
                seed = gr.Number(0, label="seed", minimum=0, precision=0, min_width=70)
    with gr.Row(elem_classes=["sp-key"]):
        gr.HTML(LEGEND, apply_default_css=False)
        _piece("sp-tools", "mountTools")
    with gr.Column(elem_classes=["sp-baselines"]):
        for i in range(len(LETTERS)):
            TokenView(f"baseline {i + 1}", slim=True)
    _piece("sp-race", "mountRace")
    with gr.Row(elem_classes=["sp-panels"], elem_id="sp-panels"):
        panels = [build_panel(LETTERS[i], s, drafts_for(target)) for i, s in enumerate(start_settings(target))]
    Plots()

    for chip, (_, text) in zip(chips, EXAMPLES, strict=True):
        chip.click(None, None, prompt, js=f"() => {json.dumps(text)}", **_PRIVATE)
    fields = [prompt, tokens, seed, *(c for p in panels for c in p.inputs)]
    page.load(None, fields, None, js="(...all) => { SpecPlay.loaded(all); }", **_PRIVATE)
    run.click(None, fields, None, js="(...all) => { SpecPlay.run(all); }", **_PRIVATE)
    stop.click(None, None, None, js="() => { SpecPlay.stop(); }", **_PRIVATE)
    gr.on([c.change for c in fields], None, fields, None, js="(...all) => { SpecPlay.changed(all); }", **_PRIVATE)
    # The browser presses it to set fields: an address, a preset, a panel that is moved (assets/preset.js).
    setter = gr.Button("Set the fields", elem_id="sp-set", elem_classes=["sp-offscreen"])
    setter.click(None, fields, fields, js="(...all) => SpecPlay.fieldsToSet(all)", **_PRIVATE)


def _piece(name: str, mount: str) -> gr.HTML:
    """A part of the page that assets/ makes."""
    return gr.HTML(
        html_template=f'<div class="{name}"></div>',
        js_on_load=f"SpecPlay.{mount}(element);",
        apply_default_css=False,
        elem_classes=[f"{name}-block"],
    )


def launch_options(engine: Any, target: str) -> dict[str, Any]:
    """What `launch` needs for the page to look and behave as it should: nothing from other hosts, no tunnels."""
    sans = ["system-ui", "-apple-system", "Segoe UI", "Roboto", "Noto Sans", "sans-serif"]
    mono = ["ui-monospace", "SFMono-Regular", "Menlo", "Consolas", "DejaVu Sans Mono", "monospace"]
    theme = gr.themes.Default(primary_hue="sky", neutral_hue="slate", font=sans, font_mono=mono)
    # White on gradio's own blue has too little contrast.
    for dark in ("", "_dark"):
        theme.set(**{f"button_primary_background_fill{part}{dark}": f"*primary_{tone}" for part, tone in _BLUES})
    return {
        "theme": theme,
        "css_paths": [ASSETS / name for name in STYLES],
        "head": head(),
        "favicon_path": ASSETS / "icon.png",
        "pwa": True,
        "max_file_size": "20mb",
        "app_kwargs": {
            "middleware": [
                Middleware(EarlyScript, script=(ASSETS / "calm.js").read_text(encoding="utf-8")),
                Middleware(KeptAssets),
            ],
            "routes": routes(engine, target),
        },
        "footer_links": [],
        "run_history": False,
        "ssr_mode": False,
        "share": False,
        "quiet": True,
        "enable_monitoring": False,
    }
