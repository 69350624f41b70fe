"""Settings in words, as they stand above a run."""

from __future__ import annotations

import re

from engines.settings import RunSettings, Sampling

PROPOSER_NAMES = {
    "none": "none (plain decoding)",
    "ngram": "n-gram lookup",
    "suffix": "suffix lookup",
    "recycle": "token recycling",
    "eagle": "trained head (EAGLE)",
    "auto": "auto: the best each round",
    "draft": "draft model",
    "layer-skip": "layer skip",
}

# What the settings call their fields -> what stands above the fields of the page.
LABELS = {
    "max-new-tokens": "max tokens",
    "ngram-min": "shortest match",
    "ngram-max": "longest match",
    "repetition-penalty": "repetition penalty",
    "skip-layers": "layers to skip",
    "verify": "verification",
    "proposer": "who proposes",
    "branch": "branches of a tree",
}


def by_label(message: str) -> str:
    """The message of an error with the page's names for the fields."""
    return re.sub(r"\b(" + "|".join(LABELS) + r")\b(?= must| \()", lambda name: LABELS[name[0]], message)


def in_words(settings: RunSettings) -> str:
    """For example "n-gram lookup (1 to 4) · k = 8 · greedy"."""
    return " · ".join([*_speculation(settings), *sampling_words(settings.sampling)])


def _speculation(settings: RunSettings) -> list[str]:
    if settings.proposer == "none":
        return ["plain decoding"]
    name = PROPOSER_NAMES.get(settings.proposer, settings.proposer)
    if settings.proposer == "draft":
        name = f"draft {settings.draft}"
    elif settings.proposer == "eagle" and settings.draft:
        name += f" {settings.draft}"
    elif settings.proposer == "ngram":
        name += f" ({settings.ngram_min} to {settings.ngram_max})"
    elif settings.proposer == "layer-skip" and settings.skip_layers:
        name += f" without layers {ranges(settings.skip_layers)}"
    parts = [name, f"k up to {settings.k}, adaptive" if settings.adaptive else f"k = {settings.k}"]
    if settings.proposer == "auto":
        parts = [name, f"k up to {settings.k}"]
    if settings.branch > 1 or (settings.proposer == "recycle" and settings.branch == 0):
        parts.append(f"a tree, up to {settings.branch or 4} branches")
    elif settings.verify == "block":
        parts.append("block verification")
    return parts


def sampling_words(sampling: Sampling) -> list[str]:
    parts = ["greedy" if sampling.greedy else f"temperature {sampling.temperature:g}"]
    if not sampling.greedy:  # what only shapes the draw does nothing where nothing is drawn
        if sampling.top_k:
            parts.append(f"top-k {sampling.top_k}")
        if sampling.top_p < 1:
            parts.append(f"top-p {sampling.top_p:g}")
        if sampling.min_p:
            parts.append(f"min-p {sampling.min_p:g}")
    if sampling.repetition_penalty != 1:
        parts.append(f"repetition penalty {sampling.repetition_penalty:g}")
    return parts


def ranges(numbers: tuple[int, ...]) -> str:
    """(4, 5, 6, 9) -> "4-6, 9"."""
    spans: list[list[int]] = []
    for n in sorted(set(numbers)):
        if spans and n == spans[-1][1] + 1:
            spans[-1][1] = n
        else:
            spans.append([n, n])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in spans)
