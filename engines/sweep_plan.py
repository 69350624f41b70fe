"""What a sweep will run, and in which order: pure, so that it can be told before anything is computed.

Runs come in groups: a plain run and up to GROUP runs that are compared with it and with it alone, in an order drawn
from a seed, so that neither a machine that warms up nor one that others use favours a point.
"""

from __future__ import annotations

import dataclasses
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .errors import UserError
from .settings import PROPOSERS, RunSettings

AXES = {
    "k": "k (tokens proposed a round)",
    "temperature": "temperature",
    "proposer": "who proposes",
    "draft": "draft",
    "text": "kind of text",
}
NUMBERS = ("k", "temperature")  # the axes along which a line can be drawn
MOST_POINTS, MOST_REPEATS, MOST_TEXTS, MOST_TOKENS = 12, 5, 12, 512
GROUP = 4


@dataclass(frozen=True)
class Text:
    name: str
    prompt: str


@dataclass(frozen=True)
class Point:
    """One value on the axis. `texts` are the indices of the plan's texts on which it is measured."""

    label: str
    value: float | str
    settings: RunSettings
    texts: tuple[int, ...]


@dataclass(frozen=True)
class Step:
    """One run. `point` is None for the plain run of its group."""

    group: int
    point: int | None
    text: int
    repeat: int
    settings: RunSettings


@dataclass(frozen=True)
class Plan:
    axis: str
    points: tuple[Point, ...]
    texts: tuple[Text, ...]
    repeats: int
    steps: tuple[Step, ...]


def plan(
    axis: str, values: Sequence[Any], base: RunSettings, texts: Sequence[Text], repeats: int = 1, seed: int = 0
) -> Plan:
    """What is run, in which order. For the axis "text" the points are `texts`, and `values` are not looked at.

    Raises UserError for what is out of bounds, and for an axis along which nothing would change.
    """
    if axis not in AXES:
        raise UserError(f"The axis must be one of {', '.join(AXES)}, not {axis!r}.")
    if not texts:
        raise UserError("Choose at least one text.")
    if len(texts) > MOST_TEXTS:
        raise UserError(f"These are {len(texts)} texts, and a sweep takes {MOST_TEXTS} at most: choose fewer.")
    if not 1 <= repeats <= MOST_REPEATS:
        raise UserError(f"repeats must lie in 1 to {MOST_REPEATS}, not {repeats}.")
    if base.max_new_tokens > MOST_TOKENS:
        raise UserError(f"A sweep writes {MOST_TOKENS} tokens a run at most: lower max tokens.")
    if base.proposer == "none" and axis in ("k", "temperature", "text"):
        raise UserError("Choose who proposes: where nothing is proposed there is nothing to sweep.")
    points = _points(axis, list(dict.fromkeys(values)), base, texts)
    if not points:
        raise UserError(f"Give at least one value for the axis: {AXES[axis]}.")
    if len(points) > MOST_POINTS:
        raise UserError(f"These are {len(points)} points, and a sweep has {MOST_POINTS} at most: choose fewer.")
    return Plan(axis, points, tuple(texts), repeats, _steps(points, len(texts), repeats, seed))


def _points(axis: str, values: list[Any], base: RunSettings, texts: Sequence[Text]) -> tuple[Point, ...]:
    everywhere = tuple(range(len(texts)))
    if axis == "text":
        return tuple(Point(t.name, t.name, base, (i,)) for i, t in enumerate(texts))
    if axis == "k":
        return tuple(Point(f"{v:g}", v, base.replace(k=_whole(v)), everywhere) for v in sorted(values))
    if axis == "temperature":
        warm = {v: dataclasses.replace(base.sampling, temperature=v) for v in sorted(values)}
        return tuple(Point(f"{v:g}", v, base.replace(sampling=s), everywhere) for v, s in warm.items())
    if axis == "draft":
        who = base.proposer if base.proposer == "eagle" else "draft"  # a head is named as a draft is
        return tuple(Point(v, v, base.replace(proposer=who, draft=v), everywhere) for v in values)
    for v in values:
        if v not in PROPOSERS:
            raise UserError(f"A proposer must be one of {', '.join(PROPOSERS)}, not {v!r}.")
    named = {v: base.draft if v == "draft" or v == base.proposer else None for v in values}
    return tuple(Point(v, v, base.replace(proposer=v, draft=d), everywhere) for v, d in named.items())


def _whole(value: float) -> int:
    if value != int(value):
        raise UserError(f"k must be a whole number, not {value:g}.")
    return int(value)


def _steps(points: Sequence[Point], texts: int, repeats: int, seed: int) -> tuple[Step, ...]:
    """Repeats one after another; in each the texts, the groups of a text and the runs of a group in random order."""
    rng = random.Random(seed)
    steps: list[Step] = []
    groups = 0
    for repeat in range(repeats):
        order = list(range(texts))
        rng.shuffle(order)
        for text in order:
            for members in _groups([i for i, p in enumerate(points) if text in p.texts], points, rng):
                # Another seed each time: at a temperature above 0 one seed's text would be taken for the law of all.
                seeded = [points[i].settings.replace(seed=points[i].settings.seed + repeat) for i in members]
                runs = [Step(groups, i, text, repeat, s) for i, s in zip(members, seeded, strict=True)]
                runs.append(Step(groups, None, text, repeat, seeded[0].plain()))
                rng.shuffle(runs)
                steps += runs
                groups += 1
    return tuple(steps)


def _groups(members: list[int], points: Sequence[Point], rng: random.Random) -> list[list[int]]:
    """At most GROUP points each, all of which are compared with one and the same plain run."""
    rng.shuffle(members)
    by_law: dict[Any, list[int]] = {}
    for i in members:
        by_law.setdefault(points[i].settings.sampling, []).append(i)
    out = []
    for law in by_law.values():
        pieces = -(-len(law) // GROUP)
        out += [law[i::pieces] for i in range(pieces)]  # of nearly one size: 5 are 3 and 2, not 4 and 1
    rng.shuffle(out)
    return out


_NUMBER = r"(\d+(?:\.\d+)?|\.\d+)"
_RANGE = re.compile(rf"{_NUMBER}(?:\s*(?:-|–|to)\s*{_NUMBER}(?:\s*(?:step|by)\s*{_NUMBER})?)?")


def numbers(text: str) -> list[float]:
    """ "1-4, 8" -> [1, 2, 3, 4, 8]; "0-1 step 0.5" -> [0, 0.5, 1]. Raises UserError for what is neither."""
    out: list[float] = []
    for part in filter(None, (p.strip() for p in text.split(","))):
        found = _RANGE.fullmatch(part)
        if found is None:
            raise UserError(f"Give numbers and ranges, such as 1-8, 12 or 0-1.5 step 0.25; {part!r} is neither.")
        low = float(found[1])
        high, step = float(found[2] or low), float(found[3] or 1)
        if high < low or step == 0:
            raise UserError(f"The range {part!r} does not go up.")
        count = int((high - low) / step + 1e-9) + 1
        if len(out) + count > MOST_POINTS:
            raise UserError(f"{text.strip()!r} are more than the {MOST_POINTS} points that a sweep has at most.")
        out += [round(low + i * step, 9) for i in range(count)]
    return [int(x) if x == int(x) else x for x in out]


def seconds_left(steps: Sequence[Step], seen: dict[int | None, list[float]], pass_seconds: float) -> float:
    """What `steps` will take: each as long as the runs of its point took on average so far, where there are none yet

    as the runs of all points, and before the first run `pass_seconds` for each token. `seen`: point -> seconds.
    """
    everything = [s for many in seen.values() for s in many]
    total = 0.0
    for step in steps:
        mine = seen.get(step.point) or everything or [step.settings.max_new_tokens * pass_seconds]
        total += sum(mine) / len(mine)
    return total
