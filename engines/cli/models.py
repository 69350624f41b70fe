"""`models`: the catalogue, what of it is on this machine, and where that is."""

from __future__ import annotations

import argparse
import json

from .. import catalogue, heads
from . import terminal


def add_parser(commands) -> None:
    parser = commands.add_parser(
        "models",
        help="list the catalogue: what is cached, its size, and where the rest would come from",
        description="The models that have a name here. Any hub id (org/name), folder or GGUF file will do as well.",
    )
    parser.add_argument("--fetch", metavar="NAME", help="fetch and convert this model now, so that a run need not")
    parser.add_argument("--json", action="store_true", help="print the list as JSON")
    parser.set_defaults(act=act)


def act(args: argparse.Namespace) -> int:
    if args.fetch:
        progress = terminal.Progress()
        folder = catalogue.resolve(args.fetch, lambda fraction, message: progress("fetching", message, fraction))
        progress.clear()
        print(folder)
        return 0
    rows, trained = catalogue.table(), [{**row, "folder": str(row["folder"])} for row in heads.table()]
    if args.json:
        whole = {"folder": str(catalogue.home()), "models": rows, "heads": trained}
        print(json.dumps(whole, ensure_ascii=False))
        return 0
    print(table(rows))
    if trained:
        print("\nTrained heads (--proposer eagle) and drafts (--proposer draft), named with --draft:")
        for row in trained:
            print(f"  {row['name']} ({'head' if row['kind'] == 'eagle' else 'draft'} for {row['target']})")
    return 0


def table(rows: list[dict]) -> str:
    lines = [("name", "cached", "draft", "licence", "source")]
    for row in rows:
        cached = "–" if row["cached"] is None else f"{row['cached'] / 1e6:,.0f} MB"
        lines.append((row["id"], cached, row["draft"] or "–", row["licence"], row["sources"][-1]))
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    out = ["  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip() for line in lines]
    return "\n".join([out[0], "  ".join("-" * w for w in widths), *out[1:], "", f"Kept in {catalogue.home()}"])
