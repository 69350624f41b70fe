"""What the page's fields hold -> settings, or a sentence about what is wrong with them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from engines.errors import UserError
from engines.settings import MAX_K, RunSettings, Sampling

from .words import by_label

LETTERS = "ABCD"  # of the panels
MOST_TOKENS = 2048
MOST_K = MAX_K // 2  # where the slider ends
TREES = ("eagle", "suffix", "recycle", "auto")  # who may propose a tree
CANDIDATES = 5  # of the target and of the draft, for the token's card
MOST_LAYERS = 1000  # more than any model has
FIELDS = (
    "proposer", "draft", "k", "temperature", "adaptive", "verify", "top_k", "top_p", "min_p", "repetition_penalty",
    "ngram_min", "ngram_max", "skip_layers", "branch",
)  # fmt: skip


def panels_from(target: str, request: Mapping[str, Any]) -> dict[str, RunSettings | UserError]:
    """One entry a panel that was asked for, by its letter: its settings, or what is wrong with them.

    `request` is {max_tokens, seed, panels: {letter: {field: value}}}. Raises UserError for one that no page sends.
    """
    panels = request.get("panels")
    if not isinstance(panels, dict) or not panels or not set(panels) <= set(LETTERS):
        raise UserError("The page asked for no panel: reload it.")
    out: dict[str, RunSettings | UserError] = {}
    for letter in sorted(panels):
        try:
            most = whole("max tokens", request.get("max_tokens"))
            if most > MOST_TOKENS:
                raise UserError(f"The page shows up to {MOST_TOKENS} new tokens: lower max tokens.")
            seed = whole("seed", request.get("seed"))
            shared = {"target": target, "max_new_tokens": most, "seed": seed, "candidates": CANDIDATES}
            form = panels[letter] if isinstance(panels[letter], dict) else {}
            out[letter] = settings_from(form, shared)
        except UserError as error:
            out[letter] = UserError(by_label(str(error)))
    return out


def settings_from(form: Mapping[str, Any], shared: dict[str, Any]) -> RunSettings:
    """What a panel's fields hold -> settings. Raises UserError for what was typed wrongly."""
    missing = [name for name in FIELDS if name not in form]
    if missing:
        raise UserError(f"The page sent no {missing[0]}: reload it.")
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
    for part in str(text or "").replace(" ", "").split(","):
        if not part:
            continue
        low, _, high = part.partition("-")
        if not low.isdecimal() or not (high or low).isdecimal() or not int(low) <= int(high or low) < MOST_LAYERS:
            raise UserError(f"Layers to skip are numbers and ranges that go up, such as 4-20, 25; {part!r} is neither.")
        out.update(range(int(low), int(high or low) + 1))
    return tuple(sorted(out))


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise UserError(f"Fill in a number for {name}.")
    return value


def whole(name: str, value: Any) -> int:
    """Number fields give 8.0 for 8; 8.5 is refused."""
    if _number(name, value) != int(value):
        raise UserError(f"{name} must be a whole number, not {value:g}.")
    return int(value)
