"""`sweep`: one setting along a range, each point measured against plain decoding of the same prompt."""

from __future__ import annotations

import argparse
import csv
import json
import sys
from typing import Any

from ..errors import UserError
from ..heads import usual_draft
from ..sweep import Failed, Ran, Rows, sweep
from ..sweep_plan import AXES, MOST_POINTS, MOST_REPEATS, MOST_TOKENS, NUMBERS, Plan, Text, numbers, plan
from . import options, terminal

COLUMNS = (
    "point", "speedup", "speedup_low", "speedup_high", "predicted", "acceptance", "acceptance_low", "acceptance_high",
    "tokens_per_pass", "tokens_per_pass_low", "tokens_per_pass_high", "formula", "text", "runs", "tokens", "note",
)  # fmt: skip


def add_parser(commands) -> None:
    parser = commands.add_parser(
        "sweep",
        help="measure how the speed-up changes along k, the temperature, proposers or drafts",
        description="Varies one setting, leaves all others, and measures each point against plain decoding, in an "
        "interleaved order drawn from --seed. Ctrl-C ends it and keeps what was measured. "
        f"At most {MOST_POINTS} points, {MOST_REPEATS} repeats and {MOST_TOKENS} tokens a run.",
        epilog='Example: python -m engines sweep --prompt-file edit.txt --proposer ngram --axis k --values "1-8, 12"',
    )
    options.add_options(parser)
    parser.add_argument(
        "--axis", default="k", choices=[a for a in AXES if a != "text"], help="what changes (default: k)"
    )
    parser.add_argument(
        "--values", required=True, metavar="V", help="numbers and ranges (1-8, 0-1 step 0.25), or names with commas"
    )
    parser.add_argument("--repeats", type=int, default=2, metavar="N", help="rounds through all points (default: 2)")
    parser.add_argument("--format", default="table", choices=("table", "csv", "json"), help="(default: table)")
    parser.set_defaults(act=act)


def act(args: argparse.Namespace) -> int:
    base = options.settings_of(args)
    values = numbers(args.values) if args.axis in NUMBERS else [v.strip() for v in args.values.split(",") if v.strip()]
    if args.axis == "proposer" and "draft" in values and not base.draft:
        base = base.replace(draft=usual_draft(base.target))
    made = plan(args.axis, values, base, [Text("prompt", options.prompt_of(args))], args.repeats, base.seed)
    found = measure(made)
    if found is None:
        print("Interrupted before anything was measured.", file=sys.stderr)
        return 130
    rows = [row.to_json() for row in found.rows]
    if args.format == "json":
        print(json.dumps(rows, ensure_ascii=False))
    elif args.format == "csv":
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(flat(row) for row in rows)
    else:
        print(table(made.axis, rows))
    if found.complete:
        return 0
    print("Interrupted: what was measured until then is shown.", file=sys.stderr)
    return 130


def measure(made: Plan) -> Rows | None:
    """Run the plan on this thread; Ctrl-C ends it with the groups of runs that were complete till then (None: none)."""
    from ..models import Models

    progress = terminal.Progress()
    news = sweep(made, settle=0.0)(Models(), progress, lambda: False)
    found: Rows | None = None
    while True:
        try:
            item = next(news, None)
        except KeyboardInterrupt:  # the generator is gone, and what it had told before stays
            progress.clear()
            return found
        if item is None:
            break
        if isinstance(item, Ran):
            progress("measuring", f"{item.done} of {item.runs} runs, {item.left:.0f} s left.", item.done / item.runs)
        elif isinstance(item, Failed):
            progress.clear()
            print(f"{made.points[item.point].label}: {item.sentence}", file=sys.stderr)
        elif isinstance(item, Rows):
            found = item
    progress.clear()
    if found is None or not any(row.pairs or row.acceptance.value is not None for row in found.rows):
        raise UserError("No point could be measured.")
    return found


def flat(row: dict[str, Any]) -> list[Any]:
    three = lambda v: [v["value"], v["low"], v["high"]]  # noqa: E731
    return [
        row["label"], *three(row["speedup"]), row["predicted"], *three(row["acceptance"]),
        *three(row["tokens_per_pass"]), row["formula"], row["text"], row["pairs"], row["tokens"], row["note"],
    ]  # fmt: skip


def table(axis: str, rows: list[dict[str, Any]]) -> str:
    """The rows for people: in brackets the 5th to 95th percentile."""
    lines = [(axis, "speed-up", "predicted", "acceptance", "tokens/pass", "formula", "text")]
    for row in rows:
        predicted = "–" if row["predicted"] is None else f"{row['predicted']:.2f}×"
        formula = "–" if row["formula"] is None else f"{row['formula']:.2f}"
        lines.append(
            (
                row["label"],
                _spread(row["speedup"], "{:.2f}", "×"),
                predicted,
                _spread(row["acceptance"], "{:.0%}"),
                _spread(row["tokens_per_pass"], "{:.2f}"),
                formula,
                row["text"],
            )
        )
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    out = ["  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip() for line in lines]
    notes = [f"{row['label']}: {row['note']}" for row in rows if row["note"]]
    return "\n".join([out[0], "  ".join("-" * w for w in widths), *out[1:], *([""] if notes else []), *notes])


def _spread(value: dict[str, float | None], form: str, unit: str = "") -> str:
    if value["value"] is None:
        return "–"
    around = "" if value["low"] is None else f" ({form.format(value['low'])} to {form.format(value['high'])})"
    return form.format(value["value"]) + unit + around
