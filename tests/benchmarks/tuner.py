"""How near the tuner's predictions come on the real default model: `python -m tests.benchmarks.tuner`.

For each kind of the built-in workloads, acceptance is measured as the tuner does it (plain decoding and one long
proposal of each drafter, on every prompt), every (proposer, k) is predicted from that, and then really run on the same
prompts beside plain decoding, in random order. A cell is one proposer, k and kind; those whose runs took less than
--least seconds are left out. Printed are predicted and measured speed-ups by cell, and the share of cells that agree
within a tenth. Costs are measured anew.

`--worlds N` instead tries the tuner on N simulated machines (see tests/tune_machines.py) and prints what
tests/test_tune_proof.py asserts.
"""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from engines.settings import RunSettings, Sampling  # noqa: E402
from engines.tune import workloads  # noqa: E402
from engines.tune.ladder import Options, Tuner  # noqa: E402
from engines.tune.order import Order  # noqa: E402
from engines.tune.prompts import Prompts  # noqa: E402


def cells(args: argparse.Namespace) -> None:
    from engines.models import Models
    from engines.tune.real import RealBench

    found = workloads.built_in(args.kinds.split(",") if args.kinds else None)
    seen: dict[str, int] = {}
    few = []
    for p in found.prompts:
        seen[p.category] = seen.get(p.category, 0) + 1
        if seen[p.category] <= args.prompts:
            few.append(p)
    base = RunSettings(target=args.target, max_new_tokens=args.tokens, sampling=Sampling(args.temperature))
    order = Order(Prompts(tuple(few)), base, args.proposers.split(",") if args.proposers else (), draft=args.draft)
    wanted = [int(k) for k in args.ks.split(",")]
    known = [c for c in order.candidates() if c.way != "own" and not c.adaptive]
    bench = RealBench(Models(), base, lambda phase, message, fraction=None: None, fresh=True)
    tuner = Tuner(bench, order.prompts, known, Options(1e9, args.tokens))
    list(tuner._calibrate())
    for number in range(len(few)):
        list(tuner.blocks.run(number, tuner._arms()))
        print(f"\racceptance: {number + 1} of {len(few)}", end="", file=sys.stderr, flush=True)
    tuner._predict()
    predictions = [p for p in tuner.predictions if p.candidate.k in wanted]
    before = len(tuner.measured.blocks)
    for number in range(len(few) * args.repeats):
        list(tuner.blocks.run(number % len(few), [p.candidate for p in predictions]))
        print(f"\rconfirming: {number + 1} of {len(few) * args.repeats} ", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    # The long runs of the first part would be the prediction's own data.
    tuner.measured.blocks = {n: b for n, b in tuner.measured.blocks.items() if n >= before}
    near = total = 0
    print(f"{'kind':12}{'setting':18}{'predicted':>10}{'measured':>10}{'interval':>16}{'one rate':>10}")
    for p in sorted(predictions, key=lambda p: (p.candidate.family, p.candidate.k)):
        for kind, predicted in p.by_category.items():
            measured = tuner.measured.speedup(p.candidate.name, category=kind)
            spent = sum(x.bottom for x in tuner.measured.pairs("plain", p.candidate.name, kind))
            if measured is None or spent < args.least:
                continue
            total += 1
            near += abs(math.log(predicted / measured.value)) <= math.log(1.1)
            span = f"{measured.low:.2f} to {measured.high:.2f}" if measured.low is not None else ""
            iid = f"{p.iid:10.2f}" if p.iid else f"{'–':>10}"
            print(f"{kind:12}{p.candidate.name:18}{predicted:10.2f}{measured.value:10.2f}{span:>16}{iid}")
    print(f"{near} of {total} cells within a tenth" if total else f"no cell took {args.least:g} s")


def worlds(count: int) -> None:
    import os

    os.environ["TUNE_WORLDS"] = str(count)
    from test_tune_proof import NEAR, tuned

    outcomes = []
    for seed in range(count):
        outcomes.append(tuned(seed))
        print(f"\r{seed + 1} of {count}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    hopeless = [o for o in outcomes if o.best <= 1]
    good = [o for o in outcomes if o.best >= 1.1]
    grid = [o for o in outcomes if o.grid_seconds]
    print(f"best or within 3 % of it: {sum(o.chosen >= NEAR * o.best for o in outcomes)} of {count}")
    print(f"left off where nothing pays: {sum(not o.on for o in hopeless)} of {len(hopeless)}")
    print(f"turned on where a tenth or more is to be gained: {sum(o.on for o in good)} of {len(good)}")
    print(f"the 90 % interval holds the truth: {sum(o.low <= o.leader <= o.high for o in outcomes)} of {count}")
    if grid:
        ratio = sum(o.grid_seconds for o in grid) / sum(o.seconds for o in grid)
        near = sum(o.grid_chosen >= NEAR * o.best for o in grid)
        print(f"a grid takes {ratio:.1f} times as long, and is within 3 % in {near} of {len(grid)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--worlds", type=int, default=0)
    parser.add_argument("--target", default=RunSettings().target)
    parser.add_argument("--draft")
    parser.add_argument("--proposers", default="ngram,suffix,eagle")
    parser.add_argument("--ks", default="2,4,8")
    parser.add_argument("--kinds", default="")
    parser.add_argument("--prompts", type=int, default=8, help="of each kind")
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--least", type=float, default=5.0, help="seconds of a cell's runs")
    args = parser.parse_args()
    worlds(args.worlds) if args.worlds else cells(args)


if __name__ == "__main__":
    main()
