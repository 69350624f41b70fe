"""A panel: the choices of one run, and the view of it. Which of them are seen is the browser's affair (panels.js)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import gradio as gr

from engines.settings import RunSettings

from .fields import MOST_K
from .token_view import TokenView
from .words import PROPOSER_NAMES, ranges

# In the order in which a newcomer meets them.
PROPOSER_CHOICES = [(PROPOSER_NAMES[p], p) for p in PROPOSER_NAMES if p != "none"]
PROPOSER_CHOICES.append((PROPOSER_NAMES["none"], "none"))
VERIFY_CHOICES = [("token by token", "token"), ("by block", "block")]


@dataclass
class Panel:
    """`inputs` are the components in the order of fields.FIELDS."""

    letter: str
    inputs: list[Any]
    proposer: gr.Dropdown


def build_panel(letter: str, start: RunSettings, drafts: Sequence[tuple[str, str]]) -> Panel:
    """Lay the panel out. `drafts` are (label, name) of the target's possible drafts in the catalogue.

    A field of the class sp-for-NAME is seen while NAME proposes.
    """
    sampling = start.sampling
    with gr.Column(elem_classes=["sp-panel"], elem_id=f"sp-panel-{letter}", min_width=0):
        gr.HTML(
            html_template='<div class="sp-panel-head"></div>',
            js_on_load="SpecPlay.mountPanelHead(element, props);",
            apply_default_css=False,
            name=letter,
        )
        with gr.Row(elem_classes=["sp-controls"]):
            proposer = gr.Dropdown(PROPOSER_CHOICES, value=start.proposer, label="who proposes", min_width=150, scale=4)
            k = gr.Slider(
                1, MOST_K, start.k, step=1, label="k", min_width=130, scale=3, buttons=[], elem_classes=["sp-k"]
            )
            temperature = gr.Slider(
                0, 2, sampling.temperature, step=0.05, label="temperature", min_width=130, scale=3, buttons=[]
            )
        draft = gr.Dropdown(
            list(drafts),
            value=start.draft or (drafts[0][1] if drafts else None),
            label="draft model: a name from the list, a hub id, a folder or a GGUF file",
            allow_custom_value=True,
            elem_classes=["sp-for-draft"],
        )
        with gr.Accordion("More settings", open=False, elem_classes=["sp-more"]):
            with gr.Row():
                adaptive = gr.Checkbox(start.adaptive, label="adaptive k", info="stop drafting when it will not pay")
                verify = gr.Dropdown(VERIFY_CHOICES, value=start.verify, label="verification", min_width=120)
            with gr.Row(elem_classes=["sp-for-ngram"]):
                ngram_min = gr.Number(
                    start.ngram_min, label="shortest match", minimum=1, maximum=64, precision=0, min_width=100
                )
                ngram_max = gr.Number(
                    start.ngram_max, label="longest match", minimum=1, maximum=64, precision=0, min_width=100
                )
            skip_layers = gr.Textbox(
                ranges(start.skip_layers),
                label="layers to skip",
                placeholder="for example 10-14; empty: the default choice",
                elem_classes=["sp-for-layer-skip"],
            )
            branch = gr.Number(
                start.branch,
                label="branches of a tree (1: a chain; 0: as the proposer does)",
                minimum=0,
                maximum=16,
                precision=0,
                elem_classes=["sp-for-tree"],
            )
            with gr.Row():
                top_k = gr.Number(sampling.top_k, label="top-k (0: off)", minimum=0, precision=0, min_width=100)
                top_p = gr.Number(
                    sampling.top_p, label="top-p (1: off)", minimum=0, maximum=1, step=0.05, min_width=100
                )
                min_p = gr.Number(
                    sampling.min_p, label="min-p (0: off)", minimum=0, maximum=1, step=0.01, min_width=100
                )
                penalty = gr.Number(
                    sampling.repetition_penalty,
                    label="repetition penalty (1: off)",
                    minimum=0,
                    step=0.05,
                    min_width=100,
                )
        TokenView(letter)
    chosen = [proposer, draft, k, temperature, adaptive, verify, top_k, top_p, min_p, penalty]
    return Panel(letter, [*chosen, ngram_min, ngram_max, skip_layers, branch], proposer)
