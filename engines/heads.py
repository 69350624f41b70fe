"""Trained heads and drafts by name: those that come with the project, a person's own, and published ones.

A name is looked for in assets/heads, then in the cache folder's heads, then as a folder. Without a name it is the one
made for the target.
"""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import Any

from .errors import UserError
from .weights.places import home

SHIPPED = Path(__file__).resolve().parent.parent / "assets" / "heads"


def own() -> Path:
    """Where `train` puts what it makes, unless told otherwise."""
    return home() / "heads"


def table() -> list[dict[str, Any]]:
    """Every head and draft at hand: name, kind ("eagle" or "draft"), target, folder."""
    rows = []
    for place in (SHIPPED, own()):
        for folder in sorted(place.glob("*/config.json")):
            row = _row(folder.parent)
            if row is not None and row["name"] not in {r["name"] for r in rows}:
                rows.append(row)
    return rows


def _row(folder: Path) -> dict[str, Any] | None:
    from .model.config import read_json

    try:
        card = read_json(folder / "config.json")
        taps, target = card["shape"]["taps"], card["target"]["name"]
    except (UserError, KeyError, TypeError):
        return None
    return {"name": folder.name, "kind": "eagle" if taps else "draft", "target": target, "folder": folder}


def find(name: str) -> dict[str, Any] | None:
    """The row of a trained head or draft called `name`, or in the folder `name`; None when it is neither."""
    row = next((r for r in table() if r["name"] == name), None)
    if row is None and (Path(name).expanduser() / "config.json").is_file():
        row = _row(Path(name).expanduser())
    return row


def for_target(target: str, kind: str) -> str | None:
    """The name of the first one made for `target`."""
    return next((r["name"] for r in table() if r["kind"] == kind and r["target"] == target), None)


def usual_draft(target: str) -> str | None:
    """The draft that is taken for `target` when none is named: one trained for it, or the catalogue's smaller model."""
    from . import catalogue

    entry = catalogue.find(target)
    return for_target(target, "draft") or (entry.draft if entry is not None else None)


@lru_cache(maxsize=4)
def recycling(target: str) -> dict[int, list[tuple[int, float]]]:
    """The shipped table that token recycling may start from: token -> [(next, probability), ...]; empty without one."""
    path = SHIPPED / f"{target}-table" / "table.safetensors"
    if not re.fullmatch(r"[\w.-]+", target) or not path.is_file():
        return {}
    from safetensors.numpy import load_file

    table = load_file(path)
    tokens, ids, p = table["tokens"].tolist(), table["next"].tolist(), (table["share"] / 255.0).tolist()
    return {
        t: [(i, x) for i, x in zip(row, xs, strict=True) if x > 0] for t, row, xs in zip(tokens, ids, p, strict=True)
    }


def resolve(name: str | None, target: str, kind: str) -> Path:
    """The folder of a head ("eagle") or draft for `target`. Raises UserError when there is none such."""
    if name is None:
        name = for_target(target, kind)
        if name is None:
            there = ", ".join(sorted({r["target"] for r in table() if r["kind"] == kind})) or "no model yet"
            raise UserError(
                f"There is no trained head for {target} (there is one for: {there}). Train one with "
                f"`python -m engines train head --target {target}`, or name a folder with --draft."
            )
    row = find(name)
    if row is None:
        path = Path(name).expanduser()
        if path.is_dir():
            return path  # maybe a published one: whoever loads it says what it lacks
        known = ", ".join(r["name"] for r in table() if r["kind"] == kind) or "none"
        raise UserError(f"There is no trained head {name!r}. Known here: {known}. A folder can be named as well.")
    if row["kind"] != kind:
        other = "a draft: use --proposer draft" if kind == "eagle" else "a head: use --proposer eagle"
        raise UserError(f"{name} is {other} with it.")
    return row["folder"]
