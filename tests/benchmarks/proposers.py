"""What each proposer brings on given prompts: `python -m tests.benchmarks.proposers --prompts FILE`.

FILE is JSON Lines as Spec-Bench has them (`category`, `turns`), or EditEval (`instruction`, `input`), or with `prompt`.
For each prompt plain decoding and every setting run one after another, in an order that turns from prompt to prompt;
speed-ups are ratios to the plain run of the same prompt. Printed are tokens per pass (all emitted / all passes), the
share of first proposed tokens that stand, and the mean over prompts of the measured speed-up with its standard error;
and, for greedy decoding, how many texts are the same as plain ones.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from engines.bench import identity, speedup  # noqa: E402
from engines.decode import decode  # noqa: E402
from engines.fold import fold  # noqa: E402
from engines.models import Models  # noqa: E402
from engines.settings import RunSettings, Sampling  # noqa: E402

# name -> settings; {draft} and {head} are what --draft and --head name.
SETTINGS = {
    "ngram": {"proposer": "ngram", "k": 5, "adaptive": True},
    "suffix": {"proposer": "suffix", "k": 5, "adaptive": True},
    "recycle": {"proposer": "recycle", "k": 5, "adaptive": True},
    "draft": {"proposer": "draft", "k": 2},
    "draft-3": {"proposer": "draft", "k": 3},
    "draft-adaptive": {"proposer": "draft", "k": 5, "adaptive": True},
    "eagle": {"proposer": "eagle", "k": 3, "branch": 1},
    "eagle-adaptive": {"proposer": "eagle", "k": 5, "branch": 1, "adaptive": True},
    "eagle-tree-3": {"proposer": "eagle", "k": 3, "branch": 2},
    "eagle-tree": {"proposer": "eagle", "k": 5, "branch": 3},
    "eagle-tree-adaptive": {"proposer": "eagle", "k": 8, "branch": 3, "adaptive": True},
    "auto": {"proposer": "auto", "k": 8},
    "auto-tree": {"proposer": "auto", "k": 8, "branch": 3},
}


def prompts_of(path: Path, count: int, seed: int) -> list[tuple[str, str]]:
    """(category, prompt) of `count` lines, as evenly over the categories as they come."""
    by_kind = defaultdict(list)
    for line in path.read_text(encoding="utf-8").splitlines():
        data = json.loads(line)
        text = data.get("prompt") or (data.get("turns") or [None])[0]
        if text is None:
            text = f"{data['instruction']}\n\n{data['input']}"
        by_kind[data.get("category", "all")].append(text)
    shuffled = random.Random(seed)
    for texts in by_kind.values():
        shuffled.shuffle(texts)
    out = []
    while len(out) < count and any(by_kind.values()):
        for kind in sorted(by_kind):
            if by_kind[kind] and len(out) < count:
                out.append((kind, by_kind[kind].pop()))
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--prompts", type=Path, required=True)
    parser.add_argument("--count", type=int, default=65)
    parser.add_argument("--tokens", type=int, default=96)
    parser.add_argument("--only", default="", help="settings, separated by commas (default: all)")
    parser.add_argument("--target", default=RunSettings().target)
    parser.add_argument("--draft", help="a trained draft (default: the target's own)")
    parser.add_argument("--head", help="a trained head (default: the target's own)")
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--by-kind", action="store_true")
    args = parser.parse_args()
    names = args.only.split(",") if args.only else list(SETTINGS)
    models, base = Models(), RunSettings(
        target=args.target, max_new_tokens=args.tokens, sampling=Sampling(args.temperature), candidates=0
    )  # fmt: skip

    def settings_for(name: str) -> RunSettings:
        own = dict(SETTINGS[name])
        named = {"draft": args.draft, "eagle": args.head, "auto": args.head}.get(own["proposer"])
        if own["proposer"] == "draft" and named is None:
            from engines import heads

            named = heads.for_target(args.target, "draft")
        return base.replace(**own, draft=named)

    tries = {name: settings_for(name) for name in names}
    prompts = prompts_of(args.prompts, args.count, args.seed)
    for settings in [base, *tries.values()]:  # load, calibrate, warm up
        models.prepare(settings, print_nothing)
        list(decode(models.job(settings.replace(max_new_tokens=8), prompts[0][1], print_nothing)))
    runs: dict[str, list] = {name: [] for name in names}
    for number, (kind, prompt) in enumerate(prompts):
        order = ["plain", *names]
        order = order[number % len(order) :] + order[: number % len(order)]
        events = {n: list(decode(models.job(tries.get(n, base), prompt, print_nothing))) for n in order}
        for name in names:
            runs[name].append((kind, events["plain"], events[name]))
        print(f"\r{number + 1} of {len(prompts)}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    print(f"{len(prompts)} prompts of {args.prompts.name}, {args.tokens} tokens, temperature {args.temperature:g}")
    print(f"{'':22}{'tokens/pass':>12}{'first':>8}{'speed-up':>10}{'± s.e.':>8}{'same text':>11}")
    for name in names:
        print(row(name, runs[name]))
        if args.by_kind:
            for kind in sorted({k for k, _, _ in runs[name]}):
                print(row(f"  {kind}", [r for r in runs[name] if r[0] == kind]))


def row(name: str, runs: list) -> str:
    passes = emitted = first = firsts = same = 0
    ratios = []
    for _, plain, events in runs:
        run = fold(events)
        m = run.metrics()
        passes, emitted = passes + m.rounds, emitted + m.emitted
        for round_ in run.rounds:
            states = [t.state for t in round_.tokens if t.position == 0 and t.state in ("accepted", "rejected")]
            firsts += bool(states)
            first += "accepted" in states
        ratio = speedup(plain, events)[0]
        if ratio is not None:
            ratios.append(ratio)
        same += identity(plain, events).verdict in ("identical", "near-tie")
    mean = statistics.mean(ratios) if ratios else float("nan")
    error = statistics.stdev(ratios) / len(ratios) ** 0.5 if len(ratios) > 1 else float("nan")
    return (
        f"{name:22}{emitted / passes:12.2f}{first / max(1, firsts):8.2f}{mean:10.2f}{error:8.2f}"
        f"{f'{same}/{len(runs)}':>11}"
    )


def print_nothing(*_: object) -> None:
    pass


if __name__ == "__main__":
    main()
