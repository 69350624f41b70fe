"""Is a prompt in the training data? `python -m tests.benchmarks.overlap --store DIR --prompts FILE...`

Counts the prompts of each file that share a run of 13 tokens with the store, the length that is usual for such checks.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from engines import catalogue  # noqa: E402
from engines.settings import RunSettings  # noqa: E402
from engines.text import load_tokenizer  # noqa: E402
from engines.training.job import answered  # noqa: E402
from engines.training.store import Store  # noqa: E402

SIZE = 13


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--store", type=Path, required=True)
    parser.add_argument("--prompts", type=Path, nargs="+", required=True)
    parser.add_argument("--target", default=RunSettings().target)
    args = parser.parse_args()
    store, tokenizer = Store(args.store), load_tokenizer(catalogue.resolve(args.target))
    for path in args.prompts:
        prompts = []
        for line in path.read_text(encoding="utf-8").splitlines():
            data = json.loads(line)
            turns = data.get("turns") or [
                data.get("prompt") or f"{data.get('instruction', '')}\n\n{data.get('input', '')}"
            ]
            prompts += turns
        found = answered(prompts, store, tokenizer, SIZE)
        print(
            f"{path.name}: {len(found)} of {len(prompts)} prompts share {SIZE} tokens in a row with the training data"
        )
        for number in found:
            print(f"  {prompts[number][:100]!r}")


if __name__ == "__main__":
    main()
