"""The command line: a subcommand a file."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from ..errors import UserError
from . import batch, compare, layers, models, record, run, sweep, train, tune


class Parser(argparse.ArgumentParser):
    """One line for a bad value, and exit code 2; usage is what --help is for."""

    def error(self, message: str):
        raise UserError(f"{message} (try: {self.prog} --help)")


def main(argv: Sequence[str] | None = None) -> int:
    parser = Parser(
        prog="python -m engines",
        description="Speculative decoding on a real model: run it, compare settings, train a head, list models.",
    )
    names = "run|compare|models|train|layers|record|batch|sweep|tune"
    commands = parser.add_subparsers(dest="command", required=True, metavar=names, parser_class=Parser)
    for module in (run, compare, models, train, layers, record, batch, sweep, tune):
        module.add_parser(commands)
    if sys.stdout is None:  # closed by who called (`>&-`): what is printed goes nowhere
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - as long as the program
    try:
        args = parser.parse_args(argv)
        return args.act(args)
    except UserError as error:
        print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        sys.stderr.close()  # the reader of our output has gone (as with `| head`): no complaint
        return 1
    except OSError as error:  # a full disk, a file where a folder is wanted, a folder that nobody may write to
        print(f"error: {error.filename or 'the output'}: {error.strerror or error}.", file=sys.stderr)
        return 2
