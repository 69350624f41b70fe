"""The drafts that the page offers for a target."""

from __future__ import annotations

from engines import heads
from engines.catalogue import Entry, entries, find


def drafts_for(target: str) -> list[tuple[str, str]]:
    """(label, name) pairs: the catalogue's own pairing first, then smaller models of the family, then the target.

    A target as its own draft gains nothing, but shows what full acceptance looks like, and works for any model.
    """
    own = find(target)
    out: list[tuple[str, str]] = []
    if own is not None:
        smaller = [e for e in entries() if e.family == own.family and e.bytes < own.bytes]
        for entry in sorted(smaller, key=lambda e: (e.id != own.draft, e.bytes)):
            out.append((_label(entry), entry.id))
    trained = [row for row in heads.table() if row["kind"] == "draft" and row["target"] == target]
    out += [(f"{row['name']} (trained for this target)", row["name"]) for row in trained]
    out.append(("the target itself (accepts nearly all, gains nothing)", target))
    return out


def _label(entry: Entry) -> str:
    return f"{entry.name} ({entry.bytes / 1e6:,.0f} MB)"
