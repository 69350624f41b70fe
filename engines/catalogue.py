"""The models that have a name here (catalogue.toml), and how any name becomes a folder that can be loaded."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from .errors import UserError
from .weights.places import check_home, home, models, size_of
from .weights.wheels import Gguf, Wheel

__all__ = ["Entry", "cached", "entries", "find", "home", "resolve", "table"]

Progress = Callable[[float | None, str], None]
HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")


@dataclass(frozen=True)
class Entry:
    """One model of the catalogue. `draft` is the id of the model offered as its draft, `bytes` the hub's weights."""

    id: str
    name: str
    family: str
    licence: str
    hub: str
    bytes: int
    draft: str | None = None
    notes: str = ""
    gguf: Gguf | None = None

    @property
    def folder(self) -> Path:
        """Where it is kept, and where a person can put it."""
        return models() / self.id


@lru_cache(maxsize=1)
def entries() -> tuple[Entry, ...]:
    """The catalogue in its own order, the default model first."""
    with open(Path(__file__).with_name("catalogue.toml"), "rb") as file:
        return tuple(_entry(m) for m in tomllib.load(file)["model"])


def _entry(data: dict[str, Any]) -> Entry:
    gguf = data.pop("gguf", None)
    if gguf is not None:
        gguf = Gguf(**{**gguf, "wheels": tuple(Wheel(**w) for w in gguf.get("wheels", ()))})
    return Entry(**data, gguf=gguf)


def find(name: str) -> Entry | None:
    """The entry with this id, or this hub id; capitals do not matter."""
    wanted = name.strip().lower()
    return next((e for e in entries() if wanted in (e.id, e.hub.lower())), None)


def cached(entry: Entry) -> int | None:
    """Bytes that the model takes on this machine, None when it is not here."""
    from .weights import fetch

    ready = fetch.here(entry.id, entry.hub)
    if ready is not None:
        return size_of(ready)
    put = list(entry.folder.glob("*.gguf"))
    return sum(p.stat().st_size for p in put) or None


def table() -> list[dict[str, Any]]:
    """A row for each model: id, name, family, licence, draft, notes, cached (bytes or None), size (bytes to fetch from
    the hub), sources (in the order in which they are tried)."""
    check_home()
    rows = []
    for e in entries():
        sources = [f"hub {e.hub} ({e.bytes / 1e6:,.0f} MB)"]
        if e.gguf is not None and e.gguf.wheels:
            first, more = e.gguf.wheels[0], len(e.gguf.wheels) - 1
            total = sum(w.bytes for w in e.gguf.wheels)
            also = f" and {more} more" if more else ""
            sources.append(f"registry {first.package}=={first.version}{also} ({total / 1e6:,.0f} MB)")
        row = {k: getattr(e, k) for k in ("id", "name", "family", "licence", "draft", "notes")}
        rows.append({**row, "cached": cached(e), "size": e.bytes, "sources": sources})
    return rows


def resolve(name: str, progress: Progress | None = None) -> Path:
    """The ready folder for a catalogue id, a hub id (org/name), a local folder or a .gguf file.

    Fetches and converts what is not here; `progress(fraction or None, message)` is told how far that is. Raises
    UserError when there is no such model, or it cannot be had.
    """
    from .weights import fetch, local

    tell = progress or (lambda fraction, message: None)
    name = name.strip()
    entry = find(name)
    if entry is not None:
        return fetch.fetch(entry.id, entry.name, entry.hub, entry.bytes, entry.gguf, tell)
    path = Path(name).expanduser()
    if name and path.exists():
        return local.use(path, tell)
    if name.lower().endswith(".gguf") or name.startswith(("/", ".", "~")) or "\\" in name:
        raise UserError(f"There is no file or folder {name}.")
    if HUB_ID.fullmatch(name) and ".." not in name:
        return fetch.fetch(name.replace("/", "--"), name, name, 0, None, tell)
    raise UserError(_unknown(name))


def _unknown(name: str) -> str:
    ids = [e.id for e in entries()]
    close = difflib.get_close_matches(name.lower(), ids, 1)
    hint = f"Did you mean {close[0]}? " if close else f"The catalogue has {', '.join(ids)}. "
    return f"There is no model {name!r}. {hint}A hub id (org/name), a folder or a .gguf file can be named as well."
