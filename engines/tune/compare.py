"""Two reports side by side: before and after a change, or two machines."""

from __future__ import annotations

from html import escape
from typing import Any

from .figures import COLOURS, Figure, error_bars, even_line, figure
from .html import document, interval, number, table, times
from .verdict import as_text


def compare(a: dict[str, Any], b: dict[str, Any]) -> dict[str, Any]:
    """`rows`: every setting that both know, with what each measured, or predicted where it was not run, and whether the

    intervals part; `cautions`: what else differs; `sentence`: the two answers, and whether they are the same.
    """
    mine, other = ({c["name"]: c for c in report["candidates"]} for report in (a, b))
    rows = []
    for name in (n for n in mine if n in other):
        pair = [_of(c) for c in (mine[name], other[name])]
        if all(pair):
            first, second = (p["interval"] for p in pair)
            apart = None
            if all(p["measured"] for p in pair) and None not in (first["low"], second["low"]):
                apart = first["high"] < second["low"] or second["high"] < first["low"]
            rows.append({"name": name, "a": pair[0], "b": pair[1], "apart": apart})
    rows.sort(key=lambda r: -max(r["a"]["interval"]["value"], r["b"]["interval"]["value"]))
    return {"sentence": _sentence(a, b), "cautions": _cautions(a, b), "rows": rows, "plain": _plain(a, b)}


def _of(c: dict[str, Any]) -> dict[str, Any] | None:
    found = c["measured"] or (c["predicted"] or {}).get("speedup")
    return None if found is None else {"interval": found, "measured": c["measured"] is not None}


def _answer(report: dict[str, Any]) -> str:
    verdict = report["verdict"]
    if not verdict["best"]:
        return "says nothing yet"
    best = f"{verdict['best']['name']}, {interval(verdict['best']['speedup'])}"
    return f"turns it on with {best}" if verdict["on"] else f"leaves it off (the best is {best})"


def _sentence(a: dict[str, Any], b: dict[str, Any]) -> str:
    names = [(r["verdict"]["on"], (r["verdict"]["best"] or {}).get("name")) for r in (a, b)]
    off = not names[0][0] and not names[1][0]
    same = "The answer is the same" if names[0] == names[1] or off else "The answers differ"
    return f"{same}: A {_answer(a)}; B {_answer(b)}."


def _cautions(a: dict[str, Any], b: dict[str, Any]) -> list[str]:
    out = []
    if a["prompts"]["digest"] != b["prompts"]["digest"]:
        out.append("The prompts differ: what lies between the two reports may be the texts alone.")
    for name in ("target", "dtype", "device", "sampling", "max_new_tokens"):
        if a["of"].get(name) != b["of"].get(name):
            out.append(f"They differ in {name}: A has {a['of'].get(name)}, B {b['of'].get(name)}.")
    for name in sorted({*a["of"].get("versions", {}), *b["of"].get("versions", {})}):
        pair = [r["of"].get("versions", {}).get(name) for r in (a, b)]
        if pair[0] != pair[1]:
            out.append(f"They differ in {name}: A has {pair[0]}, B {pair[1]}.")
    return out


def _plain(a: dict[str, Any], b: dict[str, Any]) -> dict[str, float | None]:
    """Plain decoding's tokens per second in both."""
    out = {}
    for name, report in (("a", a), ("b", b)):
        seconds = sum(report["plain"].get(phase, 0.0) for phase in ("propose", "verify", "rest"))
        out[name] = 1 / seconds if seconds else None
    return out


def as_lines(found: dict[str, Any]) -> str:
    """For a terminal."""
    lines = [found["sentence"], *found["cautions"], ""]
    lines.append(f"plain decoding: A {number(found['plain']['a'])} tokens/s, B {number(found['plain']['b'])}")
    width = max((len(r["name"]) for r in found["rows"]), default=0)
    for r in found["rows"]:
        lines.append(f"{r['name']:{width}}  A {_cell(r['a']):34}  B {_cell(r['b']):34}  {_apart(r)}".rstrip())
    return "\n".join(lines)


def _cell(side: dict[str, Any]) -> str:
    return interval(side["interval"]) if side["measured"] else f"{times(side['interval']['value'])} (predicted)"


def _apart(row: dict[str, Any]) -> str:
    return {None: "", True: "differ", False: "not told apart"}[row["apart"]]


def page(a: dict[str, Any], b: dict[str, Any]) -> str:
    """The comparison as one HTML page that needs nothing else."""
    found = compare(a, b)
    plots = {"both": _plot(found)} if found["rows"] else {}
    body = [
        "<h1>Two tunings compared</h1>",
        f'<p class="answer" id="answer">{escape(found["sentence"])}</p>',
        *(f"<p>{escape(line)}</p>" for line in found["cautions"]),
        f'<p class="small">A: {escape(as_text(a))}</p><p class="small">B: {escape(as_text(b))}</p>',
        *(f'<div class="plot" id="plot-{name}"></div>' for name in plots),
        table(["setting", "A", "B", ""], [[r["name"], _cell(r["a"]), _cell(r["b"]), _apart(r)] for r in found["rows"]]),
        f"<p>Plain decoding: A {number(found['plain']['a'])} tokens/s, B {number(found['plain']['b'])}.</p>",
    ]
    return document("Two tunings compared", body, plots)


def _plot(found: dict[str, Any]) -> Figure:
    data = []
    for i, side in enumerate(("a", "b")):
        rows = [r for r in found["rows"] if r[side]["measured"]] or found["rows"]
        intervals = [r[side]["interval"] for r in rows]
        data.append(
            {
                "type": "scatter", "mode": "markers", "name": side.upper(), "y": [r["name"] for r in rows],
                "x": [i["value"] for i in intervals], "error_x": error_bars(intervals),
                "marker": {"color": COLOURS[i], "size": 10},
            }
        )  # fmt: skip
    return figure(
        data, "Speed-up over plain decoding", "speed-up (1 is plain decoding)", "", shapes=even_line(False),
        margin={"l": 190, "r": 20, "t": 50, "b": 60},
    )  # fmt: skip
