"""`tune`: should speculation be on for this work on this machine, with what, and what will it bring?"""

from __future__ import annotations

import argparse
import dataclasses
import json
import re
from pathlib import Path
from typing import Any

from ..errors import UserError
from ..heads import usual_draft
from ..settings import DTYPES, RunSettings, Sampling
from ..tune import compare, workloads
from ..tune.candidates import OFFERED
from ..tune.order import Order, tuning
from ..tune.progress import Calibrated, Dropped, Finished, Phase, Predicted, Standing
from ..tune.prompts import read_prompts
from ..tune.verdict import spoken
from ..tune.write import read, write
from . import terminal
from .interrupt import Interrupt

DEFAULTS = RunSettings()


def add_parser(commands) -> None:
    parser = commands.add_parser(
        "tune",
        help="find out whether speculation pays on your prompts and this machine, and with what",
        description="Measures what rounds cost here, how much of each proposer's tokens is accepted on your prompts, "
        "predicts every setting from that, and confirms the few best beside plain decoding until the intervals "
        "separate or the budget ends. Ctrl-C stops with what is known so far; the same command goes on from there.",
        epilog="Example: python -m engines tune --prompts mine.jsonl --budget 300s --out report/ ; and to compare two "
        "reports: python -m engines tune --compare before/ after/",
    )
    work = parser.add_argument_group("work")
    work.add_argument(
        "--prompts", metavar="FILE",
        help="JSON Lines with prompt, messages or turns; CSV; text with a blank line between prompts; - reads standard "
        "input (default: the built-in workloads)",
    )  # fmt: skip
    work.add_argument("--column", metavar="NAME", help="the CSV's column with the prompts (default: prompt)")
    work.add_argument("--kinds", metavar="A,B", help=f"built-in workloads to take: {', '.join(workloads.kinds())}")
    work.add_argument("--raw", action="store_true", help="leave the model's chat template out")
    what = parser.add_argument_group("what to choose among")
    what.add_argument("--target", metavar="T", default=DEFAULTS.target, help="(default: %(default)s)")
    what.add_argument("--draft", metavar="D", help="a draft model, or a trained draft or head")
    what.add_argument(
        "--proposers", metavar="A,B", default="", help=f"of {', '.join(OFFERED)} (default: all that the target has)"
    )
    what.add_argument("--ks", metavar="N,N", default="", help="tokens proposed, e.g. 2,4,8 or 1-8 (default: 1 to 16)")
    what.add_argument("--dtype", default="auto", choices=DTYPES)
    what.add_argument("--device", default="auto")
    run = parser.add_argument_group("runs")
    run.add_argument("--temperature", type=float, default=0.0, help="0 is greedy (default: 0)")
    run.add_argument("--top-k", type=int, default=0, help="0 is off (default: 0)")
    run.add_argument("--top-p", type=float, default=1.0, help="1 is off (default: 1)")
    run.add_argument("--max-new-tokens", type=int, default=64, metavar="N", help="(default: %(default)s)")
    run.add_argument("--budget", default="120s", metavar="TIME", help="of measuring: 90, 120s, 5m (default: 120s)")
    run.add_argument("--seed", type=int, default=0)
    run.add_argument(
        "--fresh-costs", action="store_true", help="measure what rounds cost though it is known of this machine"
    )
    parser.add_argument("--out", metavar="DIR", help="where the report goes, and the runs from which to go on")
    parser.add_argument("--json", action="store_true", help="print the whole report as JSON instead of the answer")
    parser.add_argument("--compare", nargs=2, metavar=("A", "B"), help="compare two reports; with --out also as a page")
    parser.set_defaults(act=act)


def act(args: argparse.Namespace) -> int:
    if args.compare:
        return _compare(args)
    if not args.out:
        raise UserError("Name a folder for the report with --out.")
    order = order_of(args)
    order.store()  # a folder that holds something else is told before a model is loaded
    from ..models import Models

    progress = terminal.Progress()
    report: dict[str, Any] | None = None
    with Interrupt() as stopped:
        for event in tuning(order)(Models(), progress, stopped):
            if isinstance(event, Finished):
                report = event.report
            else:
                _show(event, progress)
    progress.clear()
    files = write(report, order.out)
    print(json.dumps(report, ensure_ascii=False) if args.json else answer(report, files))
    return 130 if report["ended"] == "stopped" else 0


def order_of(args: argparse.Namespace) -> Order:
    """What was asked for. Raises UserError."""
    if args.prompts and args.kinds:
        raise UserError("--kinds names built-in workloads; with --prompts leave it out.")
    if args.column and not args.prompts:
        raise UserError("--column belongs to a CSV file: name it with --prompts.")
    if args.prompts:
        prompts = read_prompts(args.prompts, args.column)
    else:
        prompts = workloads.built_in(_names(args.kinds) if args.kinds else None)
    base = dataclasses.replace(
        DEFAULTS, target=args.target, sampling=Sampling(args.temperature, args.top_k, args.top_p),
        max_new_tokens=args.max_new_tokens, seed=args.seed, dtype=args.dtype, device=args.device, raw=args.raw,
    )  # fmt: skip
    proposers = _names(args.proposers)
    draft = args.draft or (usual_draft(args.target) if "draft" in proposers else None)
    return Order(
        prompts, base, proposers, ks_of(args.ks), draft, seconds_of(args.budget),
        Path(args.out).expanduser() if args.out else None, args.fresh_costs,
    )  # fmt: skip


def _names(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def ks_of(text: str) -> list[int]:
    """ "1-4,8" -> [1, 2, 3, 4, 8]. Raises UserError."""
    out: list[int] = []
    for part in _names(text):
        found = re.fullmatch(r"(\d{1,3})(?:-(\d{1,3}))?", part)
        if not found:
            raise UserError(f"--ks takes numbers and ranges such as 2,4,8 or 1-8, not {part!r}.")
        first, last = int(found[1]), int(found[2] or found[1])
        if last < first:
            raise UserError(f"--ks: {part} goes down; write the smaller number first.")
        out += range(first, last + 1)
    return out


def seconds_of(text: str) -> float:
    """ "120s", "2m", "90", "1h" -> seconds. Raises UserError."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(s|m|min|h)?", text.strip())
    if not found:
        raise UserError(f"--budget takes a time such as 120s, 5m or 1h, not {text!r}.")
    return float(found[1]) * {"m": 60, "min": 60, "h": 3600}.get(found[2], 1)


def _show(event: Any, progress: terminal.Progress) -> None:
    if isinstance(event, Phase):
        left = f" {event.seconds_left:.0f} s left at most." if event.seconds_left else ""
        progress(event.name, event.message + left, event.fraction)
        return
    line = None
    if isinstance(event, Dropped):
        line = f"given up: {event.name}: {event.why}"
    elif isinstance(event, Predicted) and event.predictions:
        best = ", ".join(f"{p.candidate.name} {p.speedup.value:.2f}×" for p in event.predictions[:4])
        line = f"predicted best: {best}"
    elif isinstance(event, Standing) and event.measured and progress.live:
        line = "so far: " + ", ".join(f"{c.name} {spoken(i)}" for c, i in event.measured[:3])
    elif isinstance(event, Calibrated):
        line = "costs measured" if event.fresh else "costs known from before"
    if line:
        progress.clear()
        progress.stream.write(line + "\n")


def answer(report: dict[str, Any], files: list[Path]) -> str:
    """The one thing first, then why."""
    lines = [report["verdict"]["sentence"], "", *report["why"]]
    if report["categories"] and len(report["categories"]) > 1:
        lines += ["", "By kind of text (measured best, or predicted):"]
        for row in report["categories"]:
            best = max(row["measured"].items(), key=lambda x: x[1]["speedup"]["value"], default=None)
            if best:
                lines.append(f"  {row['name']}: {best[0]}, {best[1]['speedup']['value']:.2f}×")
            elif row["predicted_best"]:
                found = row["predicted_best"]
                lines.append(f"  {row['name']}: {found['name']}, {found['speedup']:.2f}× (predicted)")
    if report["differences"]:
        lines += ["", "Prediction and measurement differ:", *(f"  {line}" for line in report["differences"])]
    lines += ["", *report["notes"], "", f"The report: {files[0]}; for other engines: {files[-1].parent}"]
    return "\n".join(lines)


def _compare(args: argparse.Namespace) -> int:
    a, b = (read(name) for name in args.compare)
    found = compare.compare(a, b)
    print(json.dumps(found, ensure_ascii=False) if args.json else compare.as_lines(found))
    if args.out:
        from ..weights.places import disk_errors

        path = Path(args.out).expanduser() / "comparison.html"
        with disk_errors():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(compare.page(a, b), encoding="utf-8")
        print(f"\nThe page: {path}")
    return 0
