"""The built-in workloads: kinds of text, eight prompts each, written for this project."""

from __future__ import annotations

from pathlib import Path

from ..errors import UserError
from .prompts import Prompts, finished, json_lines

FOLDER = Path(__file__).resolve().parents[2] / "assets" / "workloads"


def kinds() -> list[str]:
    """The names of the built-in kinds, as --kinds takes them."""
    return sorted(path.stem for path in FOLDER.glob("*.jsonl"))


def built_in(names: list[str] | None = None) -> Prompts:
    """The prompts of these kinds (None: all). Raises UserError for a kind that there is not."""
    there = kinds()
    for name in names or []:
        if name not in there:
            raise UserError(f"There is no built-in workload {name!r}: choose among {', '.join(there)}.")
    found = []
    for name in names or there:
        path = FOLDER / f"{name}.jsonl"
        found += list(json_lines(path.read_text(encoding="utf-8"), path.name))
    return finished(found, "The built-in workloads")
