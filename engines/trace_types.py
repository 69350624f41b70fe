"""Types and ranges of what a trace holds, read from the dataclasses of `events` themselves, so that they keep up."""

from __future__ import annotations

import dataclasses
import json
import re
import types
from collections.abc import Callable
from functools import cache, partial
from typing import Any, Union, get_args, get_origin, get_type_hints

_DEEPEST = 6  # levels of objects within objects
MOST_ID = 2**31  # ids lie below this
_WHOLE = 2**63  # no whole number lies beyond this
_ROUNDING = 1e-3  # a probability in single precision may pass 1 by less than this
PROBABILITY = (0.0, 1.0 + _ROUNDING)
_COUNT = (0, 1_000_000)
# By the name of a field, wherever it occurs.
_RANGES: dict[str, tuple[float, float]] = {
    **dict.fromkeys(("p", "q", "p_raw", "ratio", "threshold", "u", "mass", "confidence"), PROBABILITY),
    **dict.fromkeys(("round", "accepted", "cut", "held", "keep", "node"), _COUNT),
    "parent": (-1, 1_000_000),
    "id": (0, MOST_ID - 1),
    "rank": (0, MOST_ID),
    "margin": (0.0, 1e30),
    "context": (1, MOST_ID),
    "seconds": (0.0, 1e9),
}
_HALF = re.compile("[\ud800-\udfff]")

Check = Callable[[Any], None]


class Bad(Exception):
    """What is wrong with a line, as part of a sentence."""


def need(ok: bool, words: str) -> None:
    """Raises `Bad` with `words` unless `ok`."""
    if not ok:
        raise Bad(words)


def told(value: Any) -> str:
    """The value as a message shows it: short."""
    text = json.dumps(value, default=lambda _: "...")
    return text if len(text) <= 40 else f"{text[:37]}..."


@cache
def hints(owner: type) -> dict[str, Any]:
    """The types of a dataclass's fields."""
    return {f.name: get_type_hints(owner)[f.name] for f in dataclasses.fields(owner)}


def fields(item: Any, name: str = "") -> None:
    """Raises `Bad` unless every field of a dataclass made from JSON, called `name`, is what it should be."""
    for field, check in _checks(type(item), name):
        check(getattr(item, field))


@cache
def _checks(owner: type, name: str) -> list[tuple[str, Check]]:
    return [(field, check_of(hint, f"{name}.{field}" if name else field)) for field, hint in hints(owner).items()]


@cache
def check_of(hint: Any, name: str) -> Check:
    """What raises `Bad` for values that are not of the type `hint`, or out of the range of such a field. Made once:

    a file has a million fields.
    """
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        inner = check_of(next(part for part in parts if part is not type(None)), name)
        return lambda value: None if value is None else inner(value)
    if hint is Any or hint is list:
        return partial(_plain, name=name, depth=_DEEPEST, lists=hint is list)
    if dataclasses.is_dataclass(hint):
        return partial(_nested, owner=hint, name=name)
    if origin in (list, tuple):
        return partial(_list, inner=check_of(parts[0], name), name=name)
    if origin is dict:
        return partial(_dict, inner=check_of(parts[1], name), name=name)
    low, high = _RANGES.get(name.rsplit(".", 1)[-1], (-1e300, 1e300))
    if hint is str:
        return partial(text, name=name)
    if hint is bool:
        return partial(_bool, name=name)
    return partial(whole if hint is int else number, name=name, low=low, high=high)


def _nested(value: Any, owner: type, name: str) -> None:
    need(isinstance(value, owner), f"{name} must be an object of its own")
    fields(value, name)


def _list(value: Any, inner: Check, name: str) -> None:
    if not isinstance(value, list):
        raise Bad(f"{name} must be a list, not {told(value)}")
    for entry in value:
        inner(entry)


def _dict(value: Any, inner: Check, name: str) -> None:
    if not isinstance(value, dict):
        raise Bad(f"{name} must be an object, not {told(value)}")
    for key, entry in value.items():
        text(key, name)
        inner(entry)


def _bool(value: Any, name: str) -> None:
    if not isinstance(value, bool):
        raise Bad(f"{name} must be true or false, not {told(value)}")


def whole(value: Any, name: str, low: float = -_WHOLE, high: float = _WHOLE) -> None:
    """Raises `Bad` unless it is a whole number from `low` to `high`."""
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) > _WHOLE:
        raise Bad(f"{name} must be a whole number, not {told(value)}")
    if not low <= value <= high:
        raise Bad(f"{name} is out of range: {value}")


def number(value: Any, name: str, low: float = -1e300, high: float = 1e300) -> None:
    """Raises `Bad` unless it is a number from `low` to `high`."""
    good = isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= 1e300  # NaN is not
    if not good:
        raise Bad(f"{name} must be a number, not {told(value)}")
    if not low <= value <= high:
        raise Bad(f"{name} is out of range: {value:g}")


def text(value: Any, name: str) -> None:
    """Raises `Bad` unless it is text, all of whose characters are whole."""
    if not isinstance(value, str):
        raise Bad(f"{name} must be text, not {told(value)}")
    # Half of a surrogate pair is legal JSON, and no text that could be shown or saved.
    if _HALF.search(value):
        raise Bad(f"{name} holds half a character")


def _plain(value: Any, name: str, depth: int, lists: bool = False) -> None:
    """Any JSON that is not absurd; with `lists` it must be a list."""
    if lists and not isinstance(value, list):
        raise Bad(f"{name} must be a list, not {told(value)}")
    need(depth > 0, f"{name} holds objects within objects, too deep to be a trace")
    if isinstance(value, dict):
        for key, entry in value.items():
            text(key, name)
            _plain(entry, name, depth - 1)
    elif isinstance(value, list):
        for entry in value:
            _plain(entry, name, depth - 1)
    elif isinstance(value, str):
        text(value, name)
    elif value is not None and not isinstance(value, bool):
        number(value, name)
