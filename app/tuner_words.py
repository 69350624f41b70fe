"""A tuning's report as the page shows it: settings in the page's words, and only what assets/tuner.js draws."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from engines.settings import RunSettings
from engines.tune.candidates import Candidate
from engines.tune.exports import exports
from engines.tune.figures import by_family, round_costs
from engines.tune.html import interval
from engines.tune.verdict import as_text
from engines.tune.write import export_text

from .words import PROPOSER_NAMES

SHORT = {**PROPOSER_NAMES, "eagle": "trained head", "auto": "auto"}
MOST_SHOWN = 4  # settings in a plot: as many as there are colours


def words(c: Candidate) -> str:
    """For example "n-gram lookup (k up to 16)" (an adaptive length), "trained head (a tree, k up to 8)"."""
    upto = "k up to" if c.adaptive or c.proposer == "auto" else "k ="
    return f"{SHORT[c.proposer]} ({'a tree, ' if c.branch > 1 else ''}{upto} {c.k})"


def family_words(c: Candidate) -> str:
    manner = [*(["a tree"] if c.branch > 1 else []), *(["adaptive"] if c.adaptive else [])]
    return SHORT[c.proposer] + (f" ({', '.join(manner)})" if manner else "")


class Names:
    """The tuner's names of these candidates -> the page's."""

    def __init__(self, candidates: Iterable[Candidate]) -> None:
        candidates = list(candidates)
        self.by_name = {c.name: words(c) for c in candidates}
        self.by_family = {c.family: family_words(c) for c in candidates}
        longest_first = sorted(self.by_name, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")

    def of(self, name: str) -> str:
        """Of a candidate or a family; anything else (a prompt) as it is."""
        return self.by_name.get(name) or self.by_family.get(name) or name

    def within(self, text: str) -> str:
        """A sentence with all candidates in it named the page's way."""
        return self._pattern.sub(lambda found: self.by_name[found[0]], text)


def shown(report: Mapping[str, Any], base: RunSettings, names: Names) -> dict[str, Any]:
    """What the view draws of a report, plain JSON. `base` has what all runs shared."""
    verdict = report["verdict"]
    best = verdict["best"]
    known = best is not None and best["speedup"]["low"] is not None
    rows = _in_order(report["candidates"])
    confirmed = {name for row in report["categories"] for name in row["measured"]}
    # Those that went through the confirming; before there were any, those that are expected to bring most.
    chosen = [c["name"] for c in rows if c["name"] in confirmed] or [c["name"] for c in _foretold(rows)]
    return {
        "answer": "unknown" if not known else "on" if verdict["on"] else "off",
        "sentence": names.within(verdict["sentence"]),
        "guess": None if known else _guess(rows, names),
        "settings": _settings(best, base) if best else None,
        "why": [names.within(line) for line in report["why"]],
        "differences": [names.within(line) for line in report["differences"]],
        "notes": report["notes"],
        "dropped": [f"{names.of(d['name'])}: {d['why']}" for d in report["dropped"]],
        "of": as_text(report),
        "finalists": [names.of(name) for name in chosen[:MOST_SHOWN]],
        "settings_table": [_row(c, names) for c in rows],
        "kinds": [_kind(row, chosen[:MOST_SHOWN], names) for row in report["categories"]],
        "curves": _curves(report, names),
        "costs": _costs(report),
        # Without an answer there is nothing to tell another engine.
        "exports": [{"name": name, "text": export_text(e)} for name, e in exports(report).items()] if known else [],
    }


def _guess(rows: list[dict[str, Any]], names: Names) -> str | None:
    """What there is where nothing was confirmed."""
    best = next(iter(_foretold(rows)), None)
    if best is None:
        return None
    return f"Predicted best, not confirmed: {names.of(best['name'])}, {interval(best['predicted']['speedup'])}."


def _foretold(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those with a prediction, the best first."""
    return sorted((c for c in rows if c["predicted"]), key=lambda c: -c["predicted"]["speedup"]["value"])


def _settings(best: Mapping[str, Any], base: RunSettings) -> dict[str, Any]:
    """As the Playground's panel takes them."""
    wanted = ("proposer", "k", "branch", "adaptive", "draft")
    return Candidate(**{name: best[name] for name in wanted}).settings(base).to_json()


def _in_order(candidates: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What was measured before what was predicted alone, the best first; what nobody knows anything of left out."""

    def key(c: Mapping[str, Any]) -> tuple[bool, float]:
        found = c["measured"] or c["predicted"]["speedup"]
        return c["measured"] is None, -found["value"]

    return sorted((c for c in candidates if c["measured"] or c["predicted"]), key=key)


def _row(c: Mapping[str, Any], names: Names) -> dict[str, Any]:
    predicted = c["predicted"] or {}
    seconds = c["seconds"] or {}
    return {
        "name": names.of(c["name"]),
        "measured": c["measured"],
        "predicted": predicted.get("speedup"),
        "acceptance": c["acceptance"] if c["acceptance"] is not None else predicted.get("acceptance"),
        "tokens_per_pass": seconds.get("tokens_per_pass", predicted.get("tokens_per_pass")),
        "same_text": c["same_text"],
    }


def _curves(report: Mapping[str, Any], names: Names) -> list[dict[str, Any]]:
    """Predicted over k and measured, of each family; the one that promises most first."""
    curves = []
    for family, rows in by_family(report).items():
        points = [
            {"k": c["k"], "predicted": c["predicted"]["speedup"]["value"], "measured": c["measured"]} for c in rows
        ]
        curves.append({"name": names.of(family), "points": points})
    return sorted(curves, key=lambda c: -max(p["predicted"] for p in c["points"]))[:MOST_SHOWN]


def _costs(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A round's time over the tokens proposed in it, by drafter and context."""
    out = []
    for who, by_context in round_costs(report).items():
        # "eagle NAME": the proposer, then what it drafts with. Lookups cost next to nothing, and share one line.
        kind, _, model = who.partition(" ")
        name = " ".join([SHORT.get(kind, kind), *([model] * (kind == "draft"))]) if who else "lookup"
        for context, (counts, times) in by_context.items():
            out.append({"name": name, "context": context, "n": counts, "rounds": [round(t, 4) for t in times]})
    return out


def _kind(row: Mapping[str, Any], chosen: list[str], names: Names) -> dict[str, Any]:
    foretold = row["predicted_best"]
    return {
        "name": row["name"],
        "share": row["share"],
        "measured": {names.of(name): _found(row["measured"][name]) for name in chosen if name in row["measured"]},
        "predicted": {names.of(name): row["predicted"][name] for name in chosen if name in row["predicted"]},
        "predicted_best": foretold and {"name": names.of(foretold["name"]), "speedup": foretold["speedup"]},
    }


def _found(measured: Mapping[str, Any]) -> dict[str, Any]:
    return {"speedup": measured["speedup"], "acceptance": measured["acceptance"]}
