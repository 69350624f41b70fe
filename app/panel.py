"""A panel: the choices of one run, and the view of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import gradio as gr

from engines.errors import UserError
from engines.settings import MAX_K, RunSettings, Sampling

from .token_view import TokenView
from .words import PROPOSER_NAMES, ranges

# In the order in which a newcomer meets them.
PROPOSER_CHOICES = [(PROPOSER_NAMES[p], p) for p in PROPOSER_NAMES if p != "none"]
PROPOSER_CHOICES.append((PROPOSER_NAMES["none"], "none"))
TREES = ("eagle", "suffix", "recycle", "auto")  # who may propose a tree
VERIFY_CHOICES = [("token by token", "token"), ("by block", "block")]
MOST_LAYERS = 1000  # more than any model has
FIELDS = (
    "proposer", "draft", "k", "temperature", "adaptive", "verify", "top_k", "top_p", "min_p", "repetition_penalty",
    "ngram_min", "ngram_max", "skip_layers", "branch",
)  # fmt: skip


@dataclass
class Panel:
    """`inputs` are the components in the order of FIELDS."""

    letter: str
    inputs: list[Any]
    view: TokenView


def settings_from(values: Sequence[Any], shared: dict[str, Any]) -> RunSettings:
    """What a panel's components hold -> settings. Raises UserError for what was typed wrongly."""
    form = dict(zip(FIELDS, values, strict=True))
    sampling = Sampling(
        temperature=_number("temperature", form["temperature"]),
        top_k=whole("top-k", form["top_k"]),
        top_p=_number("top-p", form["top_p"]),
        min_p=_number("min-p", form["min_p"]),
        repetition_penalty=_number("repetition penalty", form["repetition_penalty"]),
    )
    proposer = form["proposer"]
    draft = str(form["draft"] or "").strip()
    if proposer == "draft" and not draft:
        raise UserError("Choose a draft model, or type the name of one: it has to share the target's vocabulary.")
    return RunSettings(
        proposer=proposer,
        draft=draft if proposer == "draft" else None,
        k=whole("k", form["k"]),
        adaptive=bool(form["adaptive"]),
        verify=form["verify"],
        sampling=sampling,
        ngram_min=whole("shortest match", form["ngram_min"]),
        ngram_max=whole("longest match", form["ngram_max"]),
        skip_layers=_layers(form["skip_layers"]) if proposer == "layer-skip" else (),
        branch=whole("branches", form["branch"]) if proposer in TREES else 0,
        **shared,
    )


def _layers(text: str | None) -> tuple[int, ...]:
    """ "4-20, 25" -> (4, ..., 20, 25)."""
    out: set[int] = set()
    for part in (text or "").replace(" ", "").split(","):
        if not part:
            continue
        low, _, high = part.partition("-")
        if not low.isdecimal() or not (high or low).isdecimal() or not int(low) <= int(high or low) < MOST_LAYERS:
            raise UserError(f"Layers to skip are numbers and ranges that go up, such as 4-20, 25; {part!r} is neither.")
        out.update(range(int(low), int(high or low) + 1))
    return tuple(sorted(out))


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise UserError(f"Fill in a number for {name}.")
    return value


def whole(name: str, value: Any) -> int:
    """Number fields give 8.0 for 8; 8.5 is refused."""
    if _number(name, value) != int(value):
        raise UserError(f"{name} must be a whole number, not {value:g}.")
    return int(value)


def build_panel(letter: str, start: RunSettings, drafts: Sequence[tuple[str, str]]) -> Panel:
    """Lay the panel out. `drafts` are (label, name) of the target's possible drafts in the catalogue."""
    with gr.Column(elem_classes=["sp-panel"], min_width=320):
        with gr.Row(elem_classes=["sp-controls"]):
            proposer = gr.Dropdown(
                PROPOSER_CHOICES, value=start.proposer, label=f"{letter}: who proposes", min_width=150, scale=4
            )
            k = gr.Slider(1, MAX_K // 2, value=start.k, step=1, label="k", min_width=130, scale=3, buttons=[])
            temperature = gr.Slider(
                0,
                2,
                value=start.sampling.temperature,
                step=0.05,
                label="temperature",
                min_width=130,
                scale=3,
                buttons=[],
            )
        draft = gr.Dropdown(
            list(drafts),
            value=start.draft or (drafts[0][1] if drafts else None),
            label="draft model: a name from the list, a hub id, a folder or a GGUF file",
            allow_custom_value=True,
            visible=start.proposer == "draft",
        )
        with gr.Accordion("More settings", open=False, elem_classes=["sp-more"]):
            with gr.Row():
                adaptive = gr.Checkbox(start.adaptive, label="adaptive k", info="stop drafting when it will not pay")
                verify = gr.Dropdown(VERIFY_CHOICES, value=start.verify, label="verification", min_width=120)
            with gr.Row(visible=start.proposer == "ngram") as ngram:
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
                visible=start.proposer == "layer-skip",
            )
            branch = gr.Number(
                start.branch,
                label="branches of a tree (1: a chain; 0: as the proposer does)",
                minimum=0,
                maximum=16,
                precision=0,
                visible=start.proposer in TREES,
            )
            with gr.Row():
                top_k = gr.Number(start.sampling.top_k, label="top-k (0: off)", minimum=0, precision=0, min_width=100)
                top_p = gr.Number(
                    start.sampling.top_p, label="top-p (1: off)", minimum=0, maximum=1, step=0.05, min_width=100
                )
                min_p = gr.Number(
                    start.sampling.min_p, label="min-p (0: off)", minimum=0, maximum=1, step=0.01, min_width=100
                )
                penalty = gr.Number(
                    start.sampling.repetition_penalty,
                    label="repetition penalty (1: off)",
                    minimum=0,
                    step=0.05,
                    min_width=100,
                )
        view = TokenView(letter)
    proposer.change(
        lambda p: (
            gr.update(visible=p == "draft"),
            gr.update(visible=p == "ngram"),
            gr.update(visible=p == "layer-skip"),
            gr.update(visible=p in TREES),
            gr.update(interactive=p != "none"),
        ),
        proposer,
        [draft, ngram, skip_layers, branch, k],
        show_progress="hidden",
        queue=False,
        api_visibility="private",
    )
    chosen = [proposer, draft, k, temperature, adaptive, verify, top_k, top_p, min_p, penalty]
    inputs = [*chosen, ngram_min, ngram_max, skip_layers, branch]  # the order of FIELDS
    return Panel(letter, inputs, view)
