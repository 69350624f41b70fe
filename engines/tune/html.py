"""The report as one page that needs nothing else: text, tables, plots, and plotly's script inside, once."""

from __future__ import annotations

import json
from html import escape
from typing import Any

from .figures import Figure, figures
from .verdict import as_text

STYLE = """
:root { color-scheme: light; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; color: #1a1a1a; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.15rem; margin-top: 2.2rem; }
.answer { font-size: 1.25rem; border-left: 6px solid #0072B2; padding: .6rem 1rem; background: #f2f7fb; }
.answer.off { border-color: #D55E00; background: #fdf4ee; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; }
th, td { text-align: left; padding: .3rem .6rem; border-bottom: 1px solid #ddd; vertical-align: top; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; }
pre { background: #f5f5f5; padding: .8rem; overflow-x: auto; font-size: .85rem; }
.small { color: #555; font-size: .85rem; }
"""


def page(report: dict[str, Any], exports: dict[str, dict[str, str]]) -> str:
    """The report as HTML. `exports` as `engines.tune.exports.exports` gives them. Everything in it is escaped."""
    verdict = report["verdict"]
    body = [
        "<h1>Should speculation be on for this work on this machine?</h1>",
        f'<p class="answer{"" if verdict["on"] else " off"}" id="answer">{escape(verdict["sentence"])}</p>',
        _of(report),
        _list("Why", report["why"]),
        _list("Where prediction and measurement differ by more than 10 %", report["differences"]),
        *(f'<div class="plot" id="plot-{escape(name)}"></div>' for name in figures(report)),
        "<h2>By kind of text</h2>",
        categories_table(report),
        "<h2>All settings</h2>",
        candidates_table(report),
        _list("Given up on the way", [f"{d['name']}: {d['why']}" for d in report["dropped"]]),
        _list("What the numbers are not", report["notes"]),
        "<h2>For other engines</h2>",
        *(_export(name, e) for name, e in exports.items()),
    ]
    return document("Tuning report", body, figures(report))


def document(title: str, body: list[str], plots: dict[str, Figure]) -> str:
    """A whole page. `body` is HTML; each of `plots` is drawn into the element with the id plot-NAME."""
    from plotly.offline import get_plotlyjs

    data = json.dumps(plots).replace("<", "\\u003c")
    draw = (
        "for (const [name, f] of Object.entries(JSON.parse(document.getElementById('plots').textContent)))"
        " Plotly.newPlot('plot-' + name, f.data, f.layout, {displaylogo: false, responsive: true});"
    )
    parts = [
        "<!doctype html>",
        f'<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<style>{STYLE}</style></head><body>",
        *body,
        f'<script type="application/json" id="plots">{data}</script>',
        f"<script>{get_plotlyjs()}</script><script>{draw}</script></body></html>",
    ]
    return "\n".join(parts) + "\n"


def _of(report: dict[str, Any]) -> str:
    return f'<p class="small">{escape(as_text(report))}</p>'


def _list(title: str, lines: list[str]) -> str:
    if not lines:
        return ""
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return f"<h2>{escape(title)}</h2><ul>{items}</ul>"


def table(head: list[str], rows: list[list[str]], numbers: int = 1) -> str:
    """An HTML table; columns from `numbers` on hold numbers."""

    def cells(tag: str, row: list[str]) -> str:
        return "".join(f"<{tag}{' class=n' if i >= numbers else ''}>{escape(x)}</{tag}>" for i, x in enumerate(row))

    lines = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return f"<table><thead><tr>{cells('th', head)}</tr></thead><tbody>{lines}</tbody></table>"


def candidates_table(report: dict[str, Any]) -> str:
    rows = []
    order = sorted(report["candidates"], key=lambda c: -(value(c["measured"]) or value(_speedup(c["predicted"])) or 0))
    for c in order:
        predicted = c["predicted"] or {}
        rate = c["acceptance"] if c["acceptance"] is not None else predicted.get("acceptance")
        per_pass = (c["seconds"] or {}).get("tokens_per_pass") or predicted.get("tokens_per_pass")
        rows.append(
            [
                c["name"], interval(c["measured"]), interval(_speedup(c["predicted"])), times(predicted.get("iid")),
                times(predicted.get("position")), share(rate), number(per_pass), c["same_text"] or "–",
            ]
        )  # fmt: skip
    head = ["setting", "measured", "predicted", "one rate", "by position", "acceptance", "tokens/pass", "same text"]
    return table(head, rows)


def categories_table(report: dict[str, Any]) -> str:
    rows = []
    for row in report["categories"]:
        best = max(row["measured"].items(), key=lambda x: x[1]["speedup"]["value"], default=None)
        foretold = row["predicted_best"]
        rows.append(
            [
                row["name"], share(row["share"]),
                f"{best[0]}: {interval(best[1]['speedup'])}" if best else "–",
                share(best[1]["acceptance"]) if best else "–",
                f"{foretold['name']}: {times(foretold['speedup'])}" if foretold else "–",
            ]
        )  # fmt: skip
    return table(["kind", "share", "measured best", "its acceptance", "predicted best"], rows)


def _export(name: str, e: dict[str, str]) -> str:
    return (
        f"<h3>{escape(name)}</h3><p>{escape(e['note'])}</p><pre>{escape(e['text'])}</pre>"
        f'<p class="small">Written for {escape(e["version"])}.</p>'
    )


def _speedup(predicted: dict | None) -> dict | None:
    return predicted["speedup"] if predicted else None


def value(i: dict | None) -> float | None:
    return i["value"] if i else None


def interval(i: dict | None) -> str:
    """ "1.52× (1.40 to 1.66)", or a dash."""
    if not i:
        return "–"
    return f"{i['value']:.2f}×" + ("" if i["low"] is None else f" ({i['low']:.2f} to {i['high']:.2f})")


def times(x: float | None) -> str:
    return "–" if x is None else f"{x:.2f}×"


def share(x: float | None) -> str:
    return "–" if x is None else f"{x:.0%}"


def number(x: float | None) -> str:
    return "–" if x is None else f"{x:.2f}"
