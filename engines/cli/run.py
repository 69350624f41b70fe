"""`run`: one prompt, one setting."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from ..errors import UserError
from ..events import Done, Event, Start, to_json
from ..settings import RunSettings
from . import options, terminal
from .interrupt import Interrupt


def add_parser(commands) -> None:
    parser = commands.add_parser(
        "run",
        help="run one prompt and show which tokens were accepted, rejected and corrected",
        description="Run one prompt. The text goes to standard output, progress and the summary to standard error.",
        epilog="Example: python -m engines run --prompt-file edit.txt --proposer ngram --k 8 --max-new-tokens 200",
    )
    options.add_options(parser)
    parser.add_argument("--trace", metavar="F", help="write every event to this file, as JSON Lines")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of text and summary")
    parser.add_argument(
        "--candidates",
        type=int,
        default=0,
        metavar="N",
        help="top candidates kept with each verdict in the trace, 0 to 20",
    )
    parser.set_defaults(act=act)


def act(args: argparse.Namespace) -> int:
    settings = options.settings_of(args).replace(candidates=args.candidates)
    _fitting(settings)
    prompt = options.prompt_of(args)
    progress = terminal.Progress()
    with _trace_file(args.trace) as trace, Interrupt(heeded=False, said="") as interrupt:
        from ..decode import decode
        from ..models import Models

        job = Models().job(settings, prompt, progress, interrupt)
        interrupt.heeded = True
        progress.clear()
        view = None if args.json else terminal.TerminalView()
        events: list[Event] = []
        for event in decode(job):
            events.append(event)
            if trace is not None:
                trace.write(to_json(event) + "\n")
            if view is not None:
                view.show(event)
    if args.json:
        print(json.dumps(report(events), ensure_ascii=False))
    else:
        print(flush=True)
        if view.colour:
            print("\n" + terminal.legend(), file=sys.stderr)
        print(terminal.summary(events), file=sys.stderr)
    return {"error": 1, "stopped": 130}.get(events[-1].reason, 0)


def _fitting(settings: RunSettings) -> None:
    """Raises UserError for an option that the proposer would silently pay no heed to."""
    if settings.draft and settings.proposer not in ("draft", "eagle", "auto"):
        raise UserError("--draft needs a proposer that uses it: add --proposer draft (or eagle, for a trained head).")
    if settings.skip_layers and settings.proposer != "layer-skip":
        raise UserError("--skip-layers needs the proposer that uses it: add --proposer layer-skip.")


def report(events: list[Event]) -> dict[str, Any]:
    """The run as one JSON object: the metrics, the text, and what they are of."""
    start, done = events[0], events[-1]
    assert isinstance(start, Start) and isinstance(done, Done)
    return {
        "text": done.text,
        "ids": done.ids,
        "reason": done.reason,
        "message": done.message,
        **done.metrics,
        "target": start.target,
        "draft": start.draft,
        "device": start.device,
        "dtype": start.dtype,
        "prompt_tokens": len(start.prompt_ids),
        "settings": start.settings,
        "versions": start.versions,
    }


@contextmanager
def _trace_file(name: str | None) -> Iterator[TextIO | None]:
    if name is None:
        yield None
        return
    try:
        file = Path(name).open("w", encoding="utf-8", newline="\n")  # noqa: SIM115 - closed below
    except OSError as error:
        raise UserError(f"Cannot write the trace to {name}: {error.strerror or error}.") from None
    with file:
        yield file
