"""One line of somebody else's trace -> an event whose every field has the type and range that `events` says.

`events.from_json` trusts the program's own lines; this does not trust anybody.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Set
from functools import cache
from typing import Any

from .cost import Costs
from .errors import UserError
from .events import EXTRA_KINDS, REASONS, Done, Draft, Event, Extra, Judged, Proposed, Start, Verdict, from_json
from .fold import PHASES
from .settings import RunSettings, Sampling
from .trace_types import MOST_ID, PROBABILITY, Bad, check_of, fields, hints, need, number, text, told, whole

MOST_CANDIDATES = 64  # entries of a list of likeliest tokens
_EVENTS = {c.type: c for c in (Start, Draft, Verdict, Done)}
_NESTED = {("draft", "tokens"): Proposed, ("verdict", "judged"): Judged, ("verdict", "extra"): Extra}
_NAMED = ("target", "proposer", "engine", "device", "dtype")  # of a start: what must not be blank


def checked(line: str) -> Event:
    """The event on `line`, with the settings of a start made complete. Raises `Bad`."""
    try:
        _keys(json.loads(line))
        event = from_json(line)
        fields(event)
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


def _keys(data: Any) -> None:
    """Raises `Bad` unless each object of the line has the keys of what it stands for."""
    need(isinstance(data, dict), "it is not a JSON object")
    kind = data.get("type")
    if not isinstance(kind, str) or kind not in _EVENTS:
        raise Bad(f"it is of the type {told(kind)}, which no trace has")
    _has(data, _EVENTS[kind], f"a {kind!r} line", {"type"})
    for (of, key), owner in _NESTED.items():
        if of != kind:
            continue
        value = data.get(key)
        if key != "extra" and not isinstance(value, list):
            raise Bad(f"{key} must be a list, not {told(value)}")
        for entry in value if isinstance(value, list) else [value] * (value is not None):
            if not isinstance(entry, dict):
                raise Bad(f"{key} must hold an object, not {told(entry)}")
            _has(entry, owner, key)


def _has(data: dict[str, Any], owner: type, name: str, more: Set[str] = frozenset()) -> None:
    known, needed = _known(owner)
    if unknown := data.keys() - known - more:
        raise Bad(f"{name} has the unknown key {told(min(unknown))}")
    if missing := needed - data.keys():
        raise Bad(f"{name} lacks {', '.join(sorted(missing))}")


@cache
def _known(owner: type) -> tuple[frozenset[str], frozenset[str]]:
    """The keys that there are, and those that must be there: what is null is left out."""
    own = dataclasses.fields(owner)
    needed = {f.name for f in own if f.default is dataclasses.MISSING} - {"extra"}
    return frozenset(f.name for f in own), frozenset(needed)


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
        known = hints(owner)
        if part is None and name != "settings":
            need("sampling" not in data or data["sampling"] is not None, "settings.sampling must not be null")
            continue
        need(isinstance(part, dict), f"{name} must be an object, not {told(part)}")
        for key, value in part.items():
            if key in known and key not in ("sampling", "draft_sampling"):
                check_of(known[key], f"{name}.{key}")(value)
    try:
        return RunSettings.from_json(data).to_json()
    except UserError as error:
        raise Bad(str(error).rstrip(".")) from None


def _costs(data: dict[str, Any]) -> None:
    verify = data.get("verify")
    need(isinstance(verify, dict) and 0 < len(verify) <= 1000, "costs.verify must be an object of numbers")
    for key, value in verify.items():
        need(key.isascii() and key.isdecimal() and len(key) < 6, f"costs.verify has the key {told(key)}")
        number(value, "costs.verify")
        need(0 < value < 1e9, f"costs.verify is out of range: {value:g}")
    for key in ("draft", "pass_seconds"):
        number(data.get(key), f"costs.{key}")
        need(0 <= data[key] < 1e9, f"costs.{key} is out of range: {data[key]:g}")
    Costs.from_json(data)


def _ids(values: list[int], name: str) -> None:
    need(all(0 <= i < MOST_ID for i in values), f"{name} holds an id that is out of range")


def _draft(event: Draft) -> None:
    tree = any(t.parent is not None for t in event.tokens)
    for i, token in enumerate(event.tokens):
        if tree:
            need(token.parent is not None and token.parent < i, f"token {i} of the tree follows none before it")
        if token.source is not None:
            good = len(token.source) == 2 and 0 <= token.source[0] < token.source[1]
            need(good, "source must be a span of two positions")


def _verdict(event: Verdict) -> None:
    _phases(event.seconds)
    for judged in event.judged:
        _candidates(judged.top_p, "top_p")
        _candidates(judged.top_q, "top_q")
    if event.extra is not None:
        need(event.extra.kind in EXTRA_KINDS, f"the extra token's kind must be one of {', '.join(EXTRA_KINDS)}")
        _candidates(event.extra.top, "top")


def _candidates(rows: list[list] | None, name: str) -> None:
    for row in rows or []:
        if not isinstance(row, list) or len(row) != 3:
            raise Bad(f"{name} must be a list of [id, text, probability]")
        whole(row[0], name, 0, MOST_ID - 1)
        text(row[1], name)
        number(row[2], name, *PROBABILITY)
    need(len(rows or []) <= MOST_CANDIDATES, f"{name} has more than {MOST_CANDIDATES} entries")


def _phases(seconds: dict[str, float]) -> None:
    if unknown := seconds.keys() - set(PHASES):
        raise Bad(f"seconds has the unknown phase {told(min(unknown))}")


def _done(event: Done) -> None:
    need(event.reason in REASONS, f"reason must be one of {', '.join(REASONS)}")
    _ids(event.ids, "ids")
    _phases(event.seconds)
