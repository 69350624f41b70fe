"""A tuning's plots, as the data that plotly's script draws: {"data": [...], "layout": {...}}; for the page, too."""

from __future__ import annotations

from typing import Any

# Okabe & Ito's palette, as everywhere in this project; plain decoding is grey.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8c8c8c")
PHASES = {"verify": "target's pass", "propose": "proposing", "rest": "sampling and the rest"}

Figure = dict[str, Any]


def figures(report: dict[str, Any]) -> dict[str, Figure]:
    """All plots of a report by name, in the order of showing; those that have nothing to show are left out."""
    made = {
        "finalists": finalists(report),
        "curves": curves(report),
        "categories": categories(report),
        "acceptance": acceptance(report),
        "time": time(report),
        "calibration": calibration(report),
    }
    return {name: plot for name, plot in made.items() if plot["data"]}


def figure(data: list[dict], title: str, x: str, y: str, **layout: Any) -> Figure:
    base = {
        "title": {"text": title, "x": 0, "font": {"size": 16}},
        "margin": {"l": 60, "r": 20, "t": 50, "b": 60},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "height": 380,
        "xaxis": {"title": {"text": x}, "gridcolor": "#ddd", "zeroline": False},
        "yaxis": {"title": {"text": y}, "gridcolor": "#ddd", "zeroline": False},
        "legend": {"orientation": "h", "y": -0.25},
    }
    return {"data": data, "layout": base | layout}


def even_line(y: bool = True) -> list[dict]:
    """The line of plain decoding, at 1."""
    at = (
        {"y0": 1, "y1": 1, "x0": 0, "x1": 1, "xref": "paper"}
        if y
        else {"x0": 1, "x1": 1, "y0": 0, "y1": 1, "yref": "paper"}
    )
    return [{"type": "line", "line": {"color": "#8c8c8c", "dash": "dot"}, **at}]


def error_bars(intervals: list[dict]) -> dict[str, Any]:
    return {
        "type": "data",
        "symmetric": False,
        "array": [(i["high"] or i["value"]) - i["value"] for i in intervals],
        "arrayminus": [i["value"] - (i["low"] or i["value"]) for i in intervals],
    }


def finalists(report: dict[str, Any]) -> Figure:
    """Measured speed-up with its interval beside what was predicted."""
    rows = [c for c in report["candidates"] if c["measured"]]
    rows.sort(key=lambda c: c["measured"]["value"])
    intervals = [c["measured"] for c in rows]
    names = [c["name"] for c in rows]
    data = []
    if rows:
        data.append(
            {
                "type": "scatter", "mode": "markers", "name": "measured", "y": names,
                "x": [i["value"] for i in intervals], "error_x": error_bars(intervals),
                "marker": {"color": COLOURS[0], "size": 10},
            }
        )  # fmt: skip
    foretold = [c for c in rows if c["predicted"]]
    if foretold:
        data.append(
            {
                "type": "scatter", "mode": "markers", "name": "predicted", "y": [c["name"] for c in foretold],
                "x": [c["predicted"]["speedup"]["value"] for c in foretold],
                "marker": {"color": COLOURS[1], "size": 10, "symbol": "x"},
            }
        )  # fmt: skip
    return figure(
        data, "What was run: speed-up over plain decoding", "speed-up (1 is plain decoding)", "",
        shapes=even_line(False), margin={"l": 190, "r": 20, "t": 50, "b": 60},
    )  # fmt: skip


def curves(report: dict[str, Any]) -> Figure:
    """Predicted speed-up over k by family, what the formula says for it, and what was measured."""
    data = []
    for i, (family, rows) in enumerate(by_family(report).items()):
        colour = COLOURS[i % len(COLOURS)]
        ks = [c["k"] for c in rows]
        if len(rows) > 1:
            data.append(_line(family, ks, [c["predicted"]["speedup"]["value"] for c in rows], colour))
            iid = [c["predicted"]["iid"] for c in rows]
            data.append(_line(f"{family}, one rate", ks, iid, colour, dash="dot", visible="legendonly"))
        measured = [c for c in rows if c["measured"]]
        if measured:
            intervals = [c["measured"] for c in measured]
            data.append(
                {
                    "type": "scatter", "mode": "markers", "name": f"{family}, measured",
                    "x": [c["k"] for c in measured], "y": [i["value"] for i in intervals],
                    "error_y": error_bars(intervals), "marker": {"color": colour, "size": 9},
                }
            )  # fmt: skip
    return figure(data, "Predicted speed-up by tokens proposed", "k", "speed-up", shapes=even_line())


def by_family(report: dict[str, Any]) -> dict[str, list[dict]]:
    """Family -> its candidates that have a prediction, by k."""
    families: dict[str, list[dict]] = {}
    for c in report["candidates"]:
        if c["predicted"]:
            families.setdefault(c["family"], []).append(c)
    return {family: sorted(rows, key=lambda c: c["k"]) for family, rows in families.items()}


def _line(name: str, x: list, y: list, colour: str, dash: str = "solid", **more: Any) -> dict[str, Any]:
    line = {"color": colour, "dash": dash}
    return {"type": "scatter", "mode": "lines+markers", "name": name, "x": x, "y": y, "line": line, **more}


def categories(report: dict[str, Any]) -> Figure:
    """By kind of text: the speed-up of each finalist, and its acceptance in the hover."""
    names = list(dict.fromkeys(name for row in report["categories"] for name in row["measured"]))
    data = []
    for i, name in enumerate(names):
        rows = [row for row in report["categories"] if name in row["measured"]]
        found = [row["measured"][name] for row in rows]
        data.append(
            {
                "type": "bar", "name": name, "x": [row["name"] for row in rows],
                "y": [f["speedup"]["value"] for f in found], "error_y": error_bars([f["speedup"] for f in found]),
                "marker": {"color": COLOURS[i % len(COLOURS)]},
                "customdata": [[f["acceptance"], f.get("tokens_per_pass")] for f in found],
                "hovertemplate": "%{x}: %{y:.2f}×<br>acceptance %{customdata[0]:.0%}, "
                "%{customdata[1]:.2f} tokens per pass",
            }
        )  # fmt: skip
    return figure(data, "Speed-up by kind of text", "", "speed-up", shapes=even_line(), barmode="group")


def acceptance(report: dict[str, Any]) -> Figure:
    """By kind of text: the share of judged tokens that was accepted."""
    names = list(dict.fromkeys(name for row in report["categories"] for name in row["measured"]))
    data = [
        {
            "type": "bar", "name": name, "marker": {"color": COLOURS[i % len(COLOURS)]},
            "x": [row["name"] for row in report["categories"] if name in row["measured"]],
            "y": [row["measured"][name]["acceptance"] for row in report["categories"] if name in row["measured"]],
        }
        for i, name in enumerate(names)
    ]  # fmt: skip
    return figure(data, "Acceptance by kind of text", "", "accepted / judged", barmode="group")


def time(report: dict[str, Any]) -> Figure:
    """Milliseconds per token by phase, of plain decoding and all that was run."""
    rows = [("plain", report["plain"]), *((c["name"], c["seconds"]) for c in report["candidates"] if c["seconds"])]
    rows = [(name, seconds) for name, seconds in rows if seconds]
    data = [
        {
            "type": "bar", "name": label, "orientation": "h", "marker": {"color": COLOURS[i]},
            "y": [name for name, _ in rows], "x": [1000 * seconds[phase] for _, seconds in rows],
        }
        for i, (phase, label) in enumerate(PHASES.items())
    ]  # fmt: skip
    return figure(
        data if rows else [], "Where the time goes", "milliseconds per token", "", barmode="stack",
        margin={"l": 190, "r": 20, "t": 50, "b": 60},
    )  # fmt: skip


def calibration(report: dict[str, Any]) -> Figure:
    """A round's time over the number of proposed tokens, by drafter and context, in plain rounds."""
    data = []
    for i, (who, by_context) in enumerate(round_costs(report).items()):
        for j, (context, (ns, y)) in enumerate(by_context.items()):
            name = f"{who or 'nothing drafted'}, {context} tokens of context"
            dash = ("solid", "dash", "dot", "dashdot")[j % 4]
            data.append(_line(name, ns, y, COLOURS[i % len(COLOURS)], dash=dash))
    return figure(data, "What a round costs here", "tokens proposed", "time / plain round", shapes=even_line())


def round_costs(report: dict[str, Any]) -> dict[str, dict[int, tuple[list[int], list[float]]]]:
    """Drafter -> tokens of context -> (numbers of proposed tokens, a round's time with each, in plain rounds)."""
    out: dict[str, dict[int, tuple[list[int], list[float]]]] = {}
    for who, by_context in report["calibration"]["rounds"].items():
        out[who] = {}
        for context, table in sorted(by_context.items(), key=lambda x: int(x[0])):
            if "0" in table:
                ns, unit = sorted(map(int, table)), sum(table["0"])
                out[who][int(context)] = ns, [sum(table[str(n)]) / unit for n in ns]
    return out
