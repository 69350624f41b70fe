"""One line of somebody else's trace -> an event whose every field has the type and range that `events` says.

`events.from_json` trusts the program's own lines; this does not trust anybody. The types are read from the dataclasses
themselves, so that they cannot fall behind.
"""

from __future__ import annotations

import dataclasses
import json
import math
import types
from functools import cache
from typing import Any, Union, get_args, get_origin, get_type_hints

from .cost import Costs
from .errors import UserError
from .events import EXTRA_KINDS, REASONS, Done, Draft, Event, Extra, Judged, Proposed, Start, Verdict, from_json
from .fold import PHASES
from .settings import RunSettings, Sampling

MOST_CANDIDATES = 64  # entries of a list of likeliest tokens
_DEEPEST = 6  # levels of objects within objects
_ID = 2**31  # ids lie below this
_WHOLE = 2**63  # no whole number lies beyond this
_ROUNDING = 1e-3  # a probability in single precision may pass 1 by less than this
_PROBABILITY = (0.0, 1.0 + _ROUNDING)
_COUNT = (0, 1_000_000)
# By the name of a field, wherever it occurs.
_RANGES: dict[str, tuple[float, float]] = {
    **dict.fromkeys(("p", "q", "p_raw", "ratio", "threshold", "u", "mass", "confidence"), _PROBABILITY),
    **dict.fromkeys(("round", "accepted", "cut", "held", "keep", "node"), _COUNT),
    "parent": (-1, 1_000_000),
    "id": (0, _ID - 1),
    "rank": (0, _ID),
    "margin": (0.0, 1e30),
    "context": (1, _ID),
    "seconds": (0.0, 1e9),
}
_EVENTS = {c.type: c for c in (Start, Draft, Verdict, Done)}
_NESTED = {("draft", "tokens"): Proposed, ("verdict", "judged"): Judged, ("verdict", "extra"): Extra}
_NAMED = ("target", "proposer", "engine", "device", "dtype")  # of a start: what must not be blank


class Bad(Exception):
    """What is wrong with a line, as part of a sentence."""


def checked(line: str) -> Event:
    """The event on `line`, with the settings of a start made complete. Raises `Bad`."""
    try:
        _keys(json.loads(line))
        event = from_json(line)
        _fields(event, event.type)
    except UserError as error:
        raise Bad(str(error).rstrip(".")) from None
    except RecursionError:
        raise Bad("it holds objects within objects, too deep to be a trace") from None
    except ValueError:
        raise Bad("it is not JSON") from None
    if isinstance(event, Start):
        _start(event)
    elif isinstance(event, Draft):
        _draft(event)
    elif isinstance(event, Verdict):
        _verdict(event)
    else:
        _done(event)
    return event


def need(ok: bool, words: str) -> None:
    """Raises `Bad` with `words` unless `ok`."""
    if not ok:
        raise Bad(words)


def _told(value: Any) -> str:
    """The value as a message shows it: short."""
    text = json.dumps(value, default=lambda _: "...")
    return text if len(text) <= 40 else f"{text[:37]}..."


def _keys(data: Any) -> None:
    """Raises `Bad` unless each object of the line has the keys of what it stands for."""
    need(isinstance(data, dict), "it is not a JSON object")
    kind = data.get("type")
    need(isinstance(kind, str) and kind in _EVENTS, f"it is of the type {_told(kind)}, which no trace has")
    _has(data, _EVENTS[kind], f"a {kind!r} line", {"type"})
    for key, owner in ((key, owner) for (of, key), owner in _NESTED.items() if of == kind):
        value = data.get(key)
        if key != "extra":
            need(isinstance(value, list), f"{key} must be a list, not {_told(value)}")
        for entry in value if isinstance(value, list) else [value] * (value is not None):
            need(isinstance(entry, dict), f"{key} must hold an object, not {_told(entry)}")
            _has(entry, owner, key, set())


def _has(data: dict[str, Any], owner: type, name: str, more: set[str]) -> None:
    fields = {f.name: f for f in dataclasses.fields(owner)}
    unknown = sorted(data.keys() - fields.keys() - more)
    need(not unknown, f"{name} has the unknown key {_told(unknown[:1])}")
    optional = {"extra"}  # left out when it is null, as everything is that may be
    missing = [
        key for key, f in fields.items() if f.default is dataclasses.MISSING and key not in data.keys() | optional
    ]
    need(not missing, f"{name} lacks {', '.join(missing)}")


@cache
def _hints(owner: type) -> dict[str, Any]:
    return {f.name: get_type_hints(owner)[f.name] for f in dataclasses.fields(owner)}


def _fields(item: Any, name: str) -> None:
    """Every field of a dataclass made from JSON."""
    for field, hint in _hints(type(item)).items():
        _fits(getattr(item, field), hint, field if name in ("start", "draft", "verdict", "done") else f"{name}.{field}")


def _fits(value: Any, hint: Any, name: str) -> None:
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        if value is None:
            need(type(None) in parts, f"{name} must not be null")
            return
        hint = next(part for part in parts if part is not type(None))
        origin, parts = get_origin(hint), get_args(hint)
    if hint is Any or hint is list:
        _plain(value, name, _DEEPEST)
        need(hint is Any or isinstance(value, list), f"{name} must be a list, not {_told(value)}")
    elif dataclasses.is_dataclass(hint):
        need(isinstance(value, hint), f"{name} must be an object of its own, not {_told(value)}")
        _fields(value, name)
    elif origin in (list, tuple):
        need(isinstance(value, list), f"{name} must be a list, not {_told(value)}")
        for entry in value:
            _fits(entry, parts[0], name)
    elif origin is dict:
        need(isinstance(value, dict), f"{name} must be an object, not {_told(value)}")
        for key, entry in value.items():
            _text(key, name)
            _fits(entry, parts[1], name)
    else:
        _single(value, hint, name)


def _single(value: Any, hint: type, name: str) -> None:
    low, high = _RANGES.get(name.rsplit(".", 1)[-1], (-1e300, 1e300))
    if hint is str:
        _text(value, name)
    elif hint is bool:
        need(isinstance(value, bool), f"{name} must be true or false, not {_told(value)}")
    elif hint is int:
        whole = isinstance(value, int) and not isinstance(value, bool) and abs(value) <= _WHOLE
        need(whole, f"{name} must be a whole number, not {_told(value)}")
        need(low <= value <= high, f"{name} is out of range: {value}")
    else:
        _number(value, name)
        need(low <= value <= high, f"{name} is out of range: {value:g}")


def _number(value: Any, name: str) -> None:
    good = isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= 1e300
    need(good and math.isfinite(value), f"{name} must be a number, not {_told(value)}")


def _text(value: Any, name: str) -> None:
    need(isinstance(value, str), f"{name} must be text, not {_told(value)}")
    # Half of a surrogate pair is legal JSON, and no text that could be shown or saved.
    need(not any("\ud800" <= c <= "\udfff" for c in value), f"{name} holds half a character")


def _plain(value: Any, name: str, depth: int) -> None:
    """Any JSON that is not absurd."""
    need(depth > 0, f"{name} holds objects within objects, too deep to be a trace")
    if isinstance(value, dict):
        for key, entry in value.items():
            _text(key, name)
            _plain(entry, name, depth - 1)
    elif isinstance(value, list):
        for entry in value:
            _plain(entry, name, depth - 1)
    elif isinstance(value, str):
        _text(value, name)
    elif value is not None and not isinstance(value, bool):
        _number(value, name)


def _start(event: Start) -> None:
    for name in _NAMED:
        need(getattr(event, name).strip() != "", f"{name} is blank")
    _ids(event.prompt_ids, "prompt_ids")
    same = len(event.prompt_ids) == len(event.prompt_tokens) and "".join(event.prompt_tokens) == event.prompt_text
    need(same, "prompt_ids, prompt_tokens and prompt_text do not belong together")
    event.settings = _settings(event.settings)
    if event.costs is not None:
        _costs(event.costs)


def _settings(data: dict[str, Any]) -> dict[str, Any]:
    for owner, part, name in (
        (RunSettings, data, "settings"),
        (Sampling, data.get("sampling"), "settings.sampling"),
        (Sampling, data.get("draft_sampling"), "settings.draft_sampling"),
    ):
        hints = _hints(owner)
        if part is None and name != "settings":
            need("sampling" not in data or data["sampling"] is not None, "settings.sampling must not be null")
            continue
        need(isinstance(part, dict), f"{name} must be an object, not {_told(part)}")
        for key, value in part.items():
            if key in hints and key not in ("sampling", "draft_sampling"):
                _fits(value, hints[key], f"{name}.{key}")
    try:
        return RunSettings.from_json(data).to_json()
    except UserError as error:
        raise Bad(str(error).rstrip(".")) from None


def _costs(data: dict[str, Any]) -> None:
    verify = data.get("verify")
    need(isinstance(verify, dict) and 0 < len(verify) <= 1000, "costs.verify must be an object of numbers")
    for key, value in verify.items():
        need(key.isascii() and key.isdecimal() and len(key) < 6, f"costs.verify has the key {_told(key)}")
        _number(value, "costs.verify")
        need(0 < value < 1e9, f"costs.verify is out of range: {value:g}")
    for key in ("draft", "pass_seconds"):
        _number(data.get(key), f"costs.{key}")
        need(0 <= data[key] < 1e9, f"costs.{key} is out of range: {data[key]:g}")
    Costs.from_json(data)


def _ids(values: list[int], name: str) -> None:
    need(all(0 <= i < _ID for i in values), f"{name} holds an id that is out of range")


def _draft(event: Draft) -> None:
    tree = any(t.parent is not None for t in event.tokens)
    for i, token in enumerate(event.tokens):
        if tree:
            need(token.parent is not None and token.parent < i, f"token {i} of the tree follows none before it")
        if token.source is not None:
            need(
                len(token.source) == 2 and 0 <= token.source[0] < token.source[1],
                f"source must be a span of two positions, not {_told(token.source)}",
            )


def _verdict(event: Verdict) -> None:
    _phases(event.seconds)
    for judged in event.judged:
        _candidates(judged.top_p, "top_p")
        _candidates(judged.top_q, "top_q")
    if event.extra is not None:
        need(event.extra.kind in EXTRA_KINDS, f"the extra token's kind is {_told(event.extra.kind)}")
        _candidates(event.extra.top, "top")


def _candidates(rows: list[list] | None, name: str) -> None:
    for row in rows or []:
        need(isinstance(row, list) and len(row) == 3, f"{name} must be a list of [id, text, probability]")
        _single(row[0], int, "id")
        _text(row[1], name)
        _single(row[2], float, "p")
    need(len(rows or []) <= MOST_CANDIDATES, f"{name} has more than {MOST_CANDIDATES} entries")


def _phases(seconds: dict[str, float]) -> None:
    unknown = sorted(set(seconds) - set(PHASES))
    need(not unknown, f"seconds has the unknown phase {_told(unknown[:1])}")


def _done(event: Done) -> None:
    need(event.reason in REASONS, f"reason must be one of {', '.join(REASONS)}, not {_told(event.reason)}")
    _ids(event.ids, "ids")
    _phases(event.seconds)
