"""Runs that are there already, from a file or recorded for a lesson, as the lines that fill the page's views."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from engines.bench import comparable
from engines.errors import UserError
from engines.events import Event, to_json
from engines.settings import RunSettings

from .fields import LETTERS
from .run_page import Lane
from .verdict import verdict
from .words import in_words, sampling_words


def shown(runs: Sequence[Sequence[Event]]) -> list[str]:
    """Lines "view<tab>JSON" for `runs`, each a list of events from start to done (see engines.recorded.split).

    Plain runs are the baselines of those after them, except one that was there before: that is a panel's. If there are
    none but baselines, they are panels. The first line is the page's: a preset (assets/preset.js), {"prompt",
    "max_tokens", "seed", "panels": [settings, ...]}, the prompt being None where the trace does not tell it.
    Raises UserError for more runs than the page has places.
    """
    plain: list[Sequence[Event]] = []
    others: list[Sequence[Event]] = []
    for run in runs:
        again = any(p[0].settings == run[0].settings and p[0].prompt_ids == run[0].prompt_ids for p in plain)
        (others if run[0].proposer != "none" or again else plain).append(run)
    if not others:
        plain, others = [], plain
    if max(len(plain), len(others)) > len(LETTERS):
        raise UserError(
            f"That is {len(others)} runs and {len(plain)} baselines: the page shows {len(LETTERS)} of each."
        )
    settings = [_settings(run) for run in others]
    layout = {
        "prompt": others[0][0].prompt,
        "max_tokens": settings[0]["max_new_tokens"],
        "seed": settings[0]["seed"],
        "panels": settings,
    }
    lines = [f"page\t{json.dumps(layout, ensure_ascii=False)}"]
    names = {}
    for i, run in enumerate(plain):
        lane = Lane(f"baseline {i + 1}")
        names[id(run)] = lane.view
        words = sampling_words(RunSettings.from_json(run[0].settings).sampling)
        lane.page(title=" · ".join(["Baseline: plain decoding", *words]))
        lines += _told(lane, run)
    for letter, run in zip(LETTERS, others, strict=False):
        lane = Lane(letter)
        base = next((p for p in reversed(plain) if comparable(p[0], run[0]) is None), None)
        lane.page(title=in_words(RunSettings.from_json(run[0].settings)), baseline=names.get(id(base), ""))
        lines += _told(lane, run)
        if base is not None and run[-1].keep and base[-1].keep:
            lane.page(**verdict(base, run))
        else:
            why = "The speed-up is not known: there is no plain run of the same prompt and settings beside it."
            lane.page(speedup=None, instead="not known", sentence=why, tone="note")
        lines += lane.take()
    return lines


def _told(lane: Lane, run: Sequence[Event]) -> list[str]:
    lane.events(to_json(event) for event in run)
    return lane.take()


def _settings(run: Sequence[Event]) -> dict[str, Any]:
    return RunSettings.from_json(run[0].settings).to_json()
