"""`layers`: the search for the layers to skip."""

from __future__ import annotations

import argparse

from ..errors import UserError
from ..settings import RunSettings
from . import options, terminal
from .interrupt import Interrupt


def add_parser(commands) -> None:
    parser = commands.add_parser(
        "layers",
        help="search the layers that layer skip may leave out, on your text",
        description="Tries subsets of the target's layers on its own greedy answer to a prompt, and keeps the one that "
        "should bring most; --proposer layer-skip then takes it by itself. Says so when no subset pays. Ctrl-C stops "
        "with what is known so far.",
    )
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--prompt", metavar="TEXT")
    source.add_argument("--prompt-file", metavar="F", help="a UTF-8 file; - reads standard input")
    parser.add_argument("--raw", action="store_true", help="leave the model's chat template out")
    parser.add_argument("--target", metavar="T", default=RunSettings().target, help="(default: %(default)s)")
    parser.add_argument("--max-new-tokens", type=int, default=192, metavar="N", help="tokens of text (default: 192)")
    parser.add_argument("--budget", type=float, default=120.0, metavar="S", help="seconds to search (default: 120)")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--device", default="auto")
    parser.set_defaults(act=act)


def act(args: argparse.Namespace) -> int:
    if not 0 < args.budget < 1e6:
        raise UserError("--budget is a number of seconds above 0.")
    settings = RunSettings(
        target=args.target, max_new_tokens=args.max_new_tokens, dtype=args.dtype, device=args.device, raw=args.raw
    )
    prompt = options.prompt_of(args)
    from .. import layer_search
    from ..models import Models

    progress = terminal.Progress()
    models = Models()

    def tell(found) -> None:
        b = found.best
        words = f"{found.tried} subsets; best so far: {b.speedup:.2f}x, {100 * b.acceptance:.0f} % accepted"
        progress("searching", words, None)

    with Interrupt() as stopped:
        found = models.search_layers(settings, prompt, args.budget, progress, tell, stopped)
    progress.clear()
    layer_search.keep(settings.target, found.best)
    for choice in found.path:
        print(
            f"{len(choice.skip):3} skipped  {choice.acceptance:5.2f} accepted  {choice.speedup:5.2f}x at k={choice.k}"
        )
    print(found.sentence())
    return 0
