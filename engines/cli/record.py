"""`record`: the lessons' runs, on the real model, kept in the repository."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from ..bench import CHEAPER, disturbed, measured
from ..errors import UserError
from ..events import Event, to_json
from ..fold import fold
from ..presets import PRESETS, Preset
from ..recorded import FOLDER, split
from ..settings import RunSettings
from . import terminal

TRIES = 4
STEADY = 1 / CHEAPER  # of plain decoding beside itself, at least


def add_parser(commands) -> None:
    parser = commands.add_parser(
        "record",
        help="record the runs that the page's lessons show",
        description="Runs each lesson's preset on this machine, plain decoding first, and keeps all events in "
        "assets/recorded, one file a preset. Each run begins with the machine and the versions that it was made with. "
        "Have the machine to yourself while it works: the runs' times are shown.",
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"only these of {', '.join(PRESETS)}")
    parser.add_argument("--target", metavar="T", default=RunSettings().target, help="(default: %(default)s)")
    parser.add_argument("--out", metavar="DIR", default=str(FOLDER), help="(default: assets/recorded)")
    parser.set_defaults(act=act)


def act(args: argparse.Namespace) -> int:
    unknown = [name for name in args.names if name not in PRESETS]
    if unknown:
        raise UserError(f"There is no preset called {unknown[0]!r}: choose from {', '.join(PRESETS)}.")
    folder = Path(args.out).expanduser()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"Cannot write to {folder}: {error.strerror or error}.") from None
    from ..models import Models

    models, progress = Models(), terminal.Progress()
    models.prepare(RunSettings(target=args.target), progress)  # so that each run tells what passes cost here
    for name in args.names or PRESETS:
        progress("recording", f"Recording {name}.", None)
        for _ in range(TRIES):
            runs = record(models, PRESETS[name], args.target, progress)
            odd = oddity(runs)
            if not odd:
                break
        progress.clear()
        if odd:
            raise UserError(
                f"{name} was not recorded: {odd} in each of {TRIES} tries. Something else takes this machine's time: "
                "end it, and record again."
            )
        print(f"{name}: {write(runs, folder / f'{name}.jsonl')}")
    return 0


def record(models, preset: Preset, target: str, progress) -> list[list[Event]]:
    """The plain runs of a preset, one for each way of sampling in it, and its panels' runs, in this order."""
    from ..service import run_to_end

    panels = preset.settings(target)
    plain = list(dict.fromkeys(settings.baseline() for settings in panels))
    runs = []
    for settings in [*plain, *panels]:
        events = run_to_end(models, settings, preset.prompt, progress)
        if events[-1].reason == "error":
            raise UserError(f"A run ended early: {events[-1].message}")
        runs.append(events)
    return runs


def oddity(runs: list[list[Event]]) -> str:
    """What shows that the machine changed its speed while these runs went on; "" when nothing does. The first plain run

    of a way of sampling is what the others are measured against.
    """
    plain = {}
    for run in runs:
        settings = RunSettings.from_json(run[0].settings)
        base = plain.setdefault(settings.baseline().replace(candidates=0), run)
        if base is run:
            continue
        found, m = measured(base, run), fold(run).metrics()
        if disturbed(found, m):
            return f"{m.tokens_per_pass:.2f} tokens a pass were {found.value:.2f} times as fast as plain decoding"
        if settings.proposer == "none" and found.value is not None and found.value < STEADY:
            return f"plain decoding was {found.value:.2f} times as fast as itself"
    return ""


def write(runs: list[list[Event]], path: Path) -> str:
    """The file in the place of an older one, and what it holds in words. It is read back before it counts."""
    text = "".join(f"{to_json(event)}\n" for run in runs for event in run)
    split(text)
    part = path.with_suffix(".part")
    part.write_text(text, encoding="utf-8", newline="\n")
    os.replace(part, path)
    passes = [fold(run).metrics().tokens_per_pass for run in runs]
    figures = ", ".join("–" if x is None else f"{x:.2f}" for x in passes)
    return f"{terminal.counted(len(runs), 'run')}, {len(text) / 1000:.0f} kB, tokens per pass {figures}"
