"""What the lessons run: for each a prompt, and the settings of its panels. Words about them are in app/lessons.py.

`python -m engines record` runs each of them and keeps the events in assets/recorded, under the preset's name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .settings import RunSettings


@dataclass(frozen=True)
class Preset:
    """`panels`: for each of one to three panels the `RunSettings` keys that differ from the defaults.

    `candidates`: how many of the likeliest tokens the recorded run keeps for the token card; the page has its own.
    """

    prompt: str
    panels: tuple[dict[str, Any], ...]
    max_tokens: int = 96
    seed: int = 0
    candidates: int = 0

    def to_json(self) -> dict[str, Any]:
        """As the page's script takes it."""
        return {
            "prompt": self.prompt,
            "max_tokens": self.max_tokens,
            "seed": self.seed,
            "panels": [dict(panel) for panel in self.panels],
        }

    def settings(self, target: str = RunSettings().target) -> list[RunSettings]:
        """Each panel's settings. Raises UserError for a preset that is none."""
        shared = {"target": target, "max_new_tokens": self.max_tokens, "seed": self.seed}
        return [RunSettings.from_json({**panel, **shared, "candidates": self.candidates}) for panel in self.panels]


_RENAME = """Rename the variable `total` to `amount`. Write the whole function.

```python
def price(items, rate):
    total = 0
    for item in items:
        total = total + item.price * item.count
    if total > 100:
        total = total - total * rate
    return total
```"""

_CLASS = """Rename the class Basket to Cart. Write the whole class.

```python
class Basket:
    def __init__(self, owner):
        self.owner = owner
        self.items = []

    def add(self, name, price):
        self.items.append((name, price))

    def total(self):
        return sum(price for name, price in self.items)
```"""

_CLOCK = "Explain how a mechanical clock keeps time."
_CODE = "Write a Python class Stack with the methods push, pop, peek, is_empty and size, each with a docstring."
_PROSE = "Write the beginning of a story about a girl who finds a door in an old oak tree."

_HEAD = {"proposer": "eagle", "branch": 1}

PRESETS: dict[str, Preset] = {
    "idle": Preset(_CLOCK, ({},)),
    "round": Preset(_RENAME, ({"proposer": "ngram", "k": 4},), candidates=5),
    "formula": Preset(_CLOCK, ({**_HEAD, "k": 4},)),
    "long-k": Preset(_CLOCK, tuple({**_HEAD, "k": k} for k in (2, 6, 14)), max_tokens=80),
    "temperature": Preset(
        _CLASS,
        tuple({"proposer": "ngram", "k": 8, "sampling": {"temperature": t}} for t in (0.0, 0.7, 1.0)),
        max_tokens=72,
        seed=1,
    ),
    "code": Preset(_CODE, ({"proposer": "auto", "k": 8},)),
    "prose": Preset(_PROSE, ({"proposer": "auto", "k": 8},)),
    "quoting": Preset(_CLASS, ({"proposer": "ngram", "k": 8}, {**_HEAD, "k": 4})),
    "bad-draft": Preset(
        _CLOCK,
        (
            {"proposer": "layer-skip", "k": 4, "skip_layers": [11, 13]},
            {"proposer": "layer-skip", "k": 4, "skip_layers": list(range(5, 25))},
        ),
    ),
    "same-text": Preset(
        _CLASS,
        ({"proposer": "ngram", "k": 8}, {**_HEAD, "k": 4, "sampling": {"temperature": 0.7}}),
        candidates=5,
    ),
    "batching": Preset(_CODE, ({"proposer": "recycle", "k": 8},)),
}


__all__ = ["PRESETS", "Preset"]
