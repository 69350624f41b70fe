"""`train`: a head or a draft for a target, on its own text or on yours; may be stopped and gone on with."""

from __future__ import annotations

import argparse
import ctypes
import json
import sys
import time
from pathlib import Path
from typing import Any

from ..errors import UserError
from ..settings import RunSettings
from .interrupt import Interrupt

_TRIM_THRESHOLD, _MMAP_MAX = -1, -4  # of glibc's malloc.h


def add_parser(commands) -> None:
    parser = commands.add_parser(
        "train",
        help="train a head or a draft for a target, on its own text or on yours",
        description="Makes an EAGLE-style head, or a small draft, for a target. Without --data the target writes its "
        "own training text from its chat template. Ctrl-C stops and keeps what was done; --resume goes on.",
        epilog="Example: python -m engines train head --target smollm2-135m-instruct --self 200000 --out my-head, and "
        "then: python -m engines run --proposer eagle --draft my-head --prompt ...",
    )
    parser.add_argument(
        "kind",
        choices=("head", "draft", "table", "prompts"),
        help="a head reads the target's features, a draft tokens; a table is what token recycling may start from; "
        "prompts (for --data) set tasks over texts in a store: summaries, answers from passages, corrections",
    )
    parser.add_argument("--target", metavar="T", default=RunSettings().target, help="(default: %(default)s)")
    parser.add_argument(
        "--out",
        metavar="DIR",
        required=True,
        help="where it is written, with what --resume needs; for prompts a file that ends in .jsonl",
    )
    data = parser.add_argument_group("data")
    data.add_argument(
        "--data", metavar="FILE", nargs="+", default=[],
        help="your own: .jsonl files give prompts (prompt, turns or messages), which the target answers; any other "
        "file is text, which it reads",
    )  # fmt: skip
    data.add_argument("--self", type=int, default=200_000, metavar="N", dest="tokens",
                      help="tokens of training data to make, or to take of --data (default: %(default)s)")  # fmt: skip
    data.add_argument(
        "--store",
        metavar="DIR",
        help="keep the data there, to be shared by several trainings; table and prompts are made of it",
    )
    data.add_argument("--count", type=int, default=500, metavar="N", help="prompts to make (default: 500)")
    data.add_argument("--rows", type=int, default=64, help="conversations that are written at a time (default: 64)")
    net = parser.add_argument_group("network and training")
    net.add_argument("--begin", metavar="DIR", help="train what an earlier training wrote there further, on new data")
    net.add_argument("--layers", type=int, default=0, help="decoder layers (default: 1 for a head, 2 for a draft)")
    net.add_argument("--vocab", type=int, default=8192, help="tokens that it can propose (default: 8192)")
    net.add_argument("--epochs", type=float, default=4.0, help="times that the data is read (default: 4)")
    net.add_argument("--steps", type=int, default=0, help="training steps, in place of --epochs")
    net.add_argument("--batch", type=int, default=2048, metavar="N", help="tokens a step (default: 2048)")
    net.add_argument("--rate", type=float, default=1e-3, help="learning rate (default: 0.001; for matrices twice that)")
    net.add_argument("--steps-ahead", type=int, default=3, help="how deep a head is trained on its own output (3)")
    net.add_argument("--seed", type=int, default=0)
    net.add_argument("--device", default="auto", help="auto, cuda, mps or cpu (default: auto)")
    parser.add_argument("--resume", action="store_true", help="go on with the training in --out")
    parser.set_defaults(act=act)


def act(args: argparse.Namespace) -> int:
    for name, low in (("tokens", 1), ("count", 1), ("rows", 1), ("vocab", 16), ("batch", 16), ("steps_ahead", 1)):
        if getattr(args, name) < low:
            raise UserError(f"--{'self' if name == 'tokens' else name.replace('_', '-')} must be {low} or more.")
    for bad, say in (
        (not 0 <= args.layers <= 8, "--layers goes from 1 to 8 (0: as many as is usual)."),
        (args.epochs <= 0, "--epochs must be above 0."),
        (args.steps < 0, "--steps must not be below 0 (0: by --epochs)."),
        (not 0 < args.rate < 1, "--rate must lie between 0 and 1."),
    ):
        if bad:
            raise UserError(say)
    from ..training.job import Job, Order
    from ..training.trainer import Recipe

    if args.kind in ("table", "prompts"):
        if not args.store:
            raise UserError(f"train {args.kind} needs --store DIR: the training data of an earlier training.")
        return _table(args) if args.kind == "table" else _prompts(args)
    recipe = Recipe(args.steps, args.batch, args.rate, 2 * args.rate, steps_ahead=args.steps_ahead, seed=args.seed)
    order = Order(
        args.kind, args.target, Path(args.out).expanduser(), tuple(args.data), args.tokens,
        _folder(args.store), _folder(args.begin), args.layers, args.vocab, recipe, args.epochs, args.rows, args.seed,
        args.device, args.resume,
    )  # fmt: skip
    _keep_freed_memory()
    with Interrupt() as stopped:
        begun = time.monotonic()
        done = Job(order, _say, lambda report: _say(_words(report, time.monotonic() - begun)), stopped).run()
    if not done:
        _say("Stopped. The same command with --resume goes on from here.")
        return 130
    return 0


def _folder(name: str | None) -> Path | None:
    return Path(name).expanduser() if name else None


def _table(args: argparse.Namespace) -> int:
    """From training data that is there already: the target's successors of each token."""
    from ..training.store import Store
    from ..training.table import save_table

    out = Path(args.out).expanduser()
    count = save_table(Store(Path(args.store).expanduser()), out)
    _say(f"Successors of {count:,} tokens, written to {out}.")
    return 0


def _prompts(args: argparse.Namespace) -> int:
    """Tasks over texts of training data that is there already, as JSON Lines."""
    from ..catalogue import resolve
    from ..text import load_tokenizer
    from ..training.store import Store
    from ..training.tasks import prompts_over

    out = Path(args.out).expanduser()
    if out.suffix not in (".jsonl", ".ndjson"):
        raise UserError(f"train prompts writes JSON Lines: --out must end in .jsonl, not {out.name!r}.")
    if out.exists():
        raise UserError(f"{out} is there already: name another file.")
    tokenizer = load_tokenizer(resolve(args.target, lambda fraction, message: _say(message)))
    made = prompts_over(Store(Path(args.store).expanduser()), tokenizer, args.count, args.seed)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text("".join(json.dumps({"prompt": p}, ensure_ascii=False) + "\n" for p in made), encoding="utf-8")
    _say(f"{len(made):,} prompts, written to {out}.")
    return 0


def _keep_freed_memory() -> None:
    """glibc gives each large block back to the system, which must fill the next one with zeros: a third of a step's

    time on two cores. Elsewhere nothing happens.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        mallopt(_MMAP_MAX, 0)
        mallopt(_TRIM_THRESHOLD, 2**31 - 1)


def _say(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


def _words(report: Any, seconds: float) -> str:
    from ..training.job import span

    words = f"step {report.step} of {report.steps}, loss {report.loss:.3f}"
    if report.accepted:
        words += ", held-out acceptance by depth " + " ".join(f"{a:.3f}" for a in report.accepted)
    return f"{words}, {span(report.seconds_left)} left" if report.seconds_left else words
