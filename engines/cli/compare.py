"""`compare`: several settings on the same prompt, plain first, interleaved and repeated."""

from __future__ import annotations

import argparse
import dataclasses
import json
import shlex
import sys
from typing import Any

from ..bench import identity, median_and_range, predicted_speedup, speedup
from ..errors import UserError
from ..fold import fold
from ..heads import usual_draft
from ..settings import RunSettings, Sampling
from . import options, terminal

# What `--try` may set, and how a text becomes its value.
KEYS = {
    "k": int,
    "adaptive": lambda text: _flag(text),
    "branch": int,
    "verify": str,
    "draft": str,
    "skip": options.layers,
    "min": int,
    "max": int,
    "draft-temperature": float,
}
NAMES = {"skip": "skip_layers", "min": "ngram_min", "max": "ngram_max"}


def add_parser(commands) -> None:
    parser = commands.add_parser(
        "compare",
        help="measure several settings against plain decoding of the same prompt",
        description="Runs plain decoding and each setting in turn, several times over, and prints what each gained: "
        "measured beside predicted, and whether the greedy text is the same.",
        epilog='Example: python -m engines compare --prompt-file edit.txt --try "ngram k=8" --try "layer-skip k=3 '
        'skip=10-14". Without --try: n-gram lookup, layer skip and, when --draft is given, the draft, at k of 4 and 8.',
    )
    options.add_options(parser)
    parser.add_argument(
        "--try",
        dest="tries",
        action="append",
        default=[],
        metavar='"PROPOSER key=value …"',
        help=f"a setting to measure; keys: {', '.join(KEYS)}; may be repeated",
    )
    parser.add_argument("--repeats", type=int, default=3, metavar="N", help="rounds through all settings (default: 3)")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    parser.set_defaults(act=act)


def act(args: argparse.Namespace) -> int:
    base = options.settings_of(args)
    if not 1 <= args.repeats <= 100:
        raise UserError(f"repeats must lie in 1 to 100, not {args.repeats}.")
    prompt = options.prompt_of(args)
    tries = [parse_try(text, base) for text in args.tries] or default_tries(base)
    rows, interrupted = measure(tries, base, prompt, args.repeats)
    if args.json:
        print(json.dumps(rows, ensure_ascii=False))
    elif rows:
        print(table(rows))
    if not interrupted:
        return 0
    left = len(tries) + 1 - len(rows)
    print(
        f"Interrupted: this is what was measured so far{f' ({left} of the settings not at all)' if left else ''}."
        if rows
        else "Interrupted before anything was measured.",
        file=sys.stderr,
    )
    return 130


def parse_try(text: str, base: RunSettings) -> tuple[str, RunSettings]:
    """ "ngram k=8 max=3" -> (the text, the settings). Raises UserError."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UserError(f"Cannot read --try {text!r}: {error}.") from None
    if not words:
        raise UserError(f'--try is empty: begin with one of {", ".join(options.PROPOSERS)}, as in --try "ngram k=8".')
    who, *pairs = words
    changes: dict[str, Any] = {"proposer": who}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if key not in KEYS or not equals:
            raise UserError(f"Cannot read {pair!r} in --try {text!r}: write key=value with a key of {', '.join(KEYS)}.")
        try:
            changes[NAMES.get(key, key)] = KEYS[key](value)
        except (ValueError, argparse.ArgumentTypeError) as error:
            kind = {int: "a whole number", float: "a number"}.get(KEYS[key])
            why = f"{key} must be {kind}, not {value!r}" if kind else f"{pair}: {error}"
            raise UserError(f"Bad value in --try {text!r}: {why}.") from None
    temperature = changes.pop("draft-temperature", None)
    if temperature is not None:
        changes["draft_sampling"] = Sampling(**{**dataclasses.asdict(base.sampling), "temperature": temperature})
    if who not in options.PROPOSERS:
        raise UserError(f"--try {text!r} must begin with one of {', '.join(options.PROPOSERS)}.")
    if who == "draft" and not base.draft:
        changes.setdefault("draft", usual_draft(base.target))
    return text, base.replace(**changes)


def _flag(text: str) -> bool:
    if text not in ("yes", "no"):
        raise ValueError("write yes or no")
    return text == "yes"


def default_tries(base: RunSettings) -> list[tuple[str, RunSettings]]:
    who = ["ngram", "layer-skip"] + (["draft"] if base.draft else [])
    return [parse_try(f"{w} k={k}", base) for w in who for k in (4, 8)]


def measure(
    tries: list[tuple[str, RunSettings]], base: RunSettings, prompt: str, repeats: int
) -> tuple[list[dict[str, Any]], bool]:
    """One row per setting, plain first. Each repeat runs all of them in turn, and each is paired with its own plain.

    True comes with them when Ctrl-C ended the measuring: the rows are then those of what was measured till then.
    """
    from ..models import Models
    from ..service import run_to_end

    models, progress = Models(), terminal.Progress()
    everyone = [("plain", base.plain()), *tries]
    for _, settings in everyone:
        models.prepare(settings, progress)
        run_to_end(models, settings.replace(max_new_tokens=min(16, settings.max_new_tokens)), prompt, progress)
    runs: list[list] = [[] for _ in everyone]
    interrupted = False
    try:
        for repeat in range(repeats):
            for i, (name, settings) in enumerate(everyone):
                done = (repeat * len(everyone) + i) / (repeats * len(everyone))
                progress("measuring", f"Round {repeat + 1} of {repeats}: {name}.", done)
                runs[i].append(run_to_end(models, settings, prompt, progress))
    except KeyboardInterrupt:
        interrupted = True
    progress.clear()
    rows = [
        _row(name, mine, runs[0], models.costs(settings, progress))
        for (name, settings), mine in zip(everyone, runs, strict=True)
        if mine
    ]
    return rows, interrupted


def _row(name: str, mine: list, plain: list, costs) -> dict[str, Any]:
    pairs = [speedup(p, m) for p, m in zip(plain, mine, strict=False)]  # of an interrupted round plain has more
    values = [value for value, _ in pairs if value is not None]
    folded = [fold(run) for run in mine]
    metrics = folded[-1].metrics()
    predictions = [x for x in (predicted_speedup(f, costs) for f in folded) if x is not None]
    same = identity(plain[0], mine[0])
    row: dict[str, Any] = {
        "setting": name,
        "tokens": metrics.emitted,
        "tokens_per_second": median_and_range([f.metrics().tokens_per_second or 0.0 for f in folded])[0],
        "tokens_per_pass": metrics.tokens_per_pass,
        "acceptance_rate": metrics.acceptance_rate,
        "measured": None,
        "predicted": median_and_range(predictions)[0] if predictions else None,
        "note": None if values else pairs[0][1],
        "text": same.verdict,
        "text_note": same.sentence,
    }
    if values:
        middle, low, high = median_and_range(values)
        row["measured"] = {"median": middle, "min": low, "max": high}
    return row


def table(rows: list[dict[str, Any]]) -> str:
    """The rows for people: fixed columns, then what needs a sentence."""
    head = ("setting", "tokens/s", "tokens/pass", "acceptance", "measured speed-up", "predicted", "text")
    lines = [head]
    notes = []
    for row in rows:
        m = row["measured"]
        measured = "1 (the baseline)" if row is rows[0] else "–"
        if m and row is not rows[0]:
            measured = f"{m['median']:.2f}× ({m['min']:.2f} to {m['max']:.2f})"
        lines.append(
            (
                row["setting"],
                f"{row['tokens_per_second']:.1f}",
                f"{row['tokens_per_pass'] or 0:.2f}",
                terminal.percent(row["acceptance_rate"]),
                measured,
                f"{row['predicted']:.2f}×" if row["predicted"] else "–",
                "" if row is rows[0] else row["text"],
            )
        )
        if row["note"]:
            notes.append(f"{row['setting']}: {row['note']}")
        if row["text"] in ("near-tie", "different"):
            notes.append(f"{row['setting']}: {row['text_note']}")
        if m and m["median"] < 1 and row is not rows[0]:
            notes.append(
                f"{row['setting']}: slower than plain decoding: what it proposes is accepted too seldom for its cost"
            )
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    out = ["  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip() for line in lines]
    return "\n".join([out[0], "  ".join("-" * w for w in widths), *out[1:], *([""] if notes else []), *notes])
