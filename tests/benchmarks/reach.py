"""What the engine must reach, printed as ratios of one interleaved run: `python -m tests.benchmarks.reach`.

Each comparison runs its two sides in turn, several times, and takes the median of the paired ratios: a machine that is
shared drifts, and absolute times say little. `--prompts FILE` takes EditEval's JSON Lines (instruction, input); without
it the project's own editing prompts are used.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
sys.path.insert(0, str(ROOT / "tests"))

from engines import catalogue  # noqa: E402
from engines.settings import RunSettings  # noqa: E402

TOKENS = 64
Row = tuple[str, float, str, str]  # what, value, threshold, detail


def quiet(*_: object) -> None:
    pass


def paired(a: Callable[[], float], b: Callable[[], float], repeats: int) -> tuple[float, str]:
    """Median of a/b over interleaved repeats, and the range, each side having been run once before."""
    a(), b()
    ratios = []
    for i in range(repeats):
        first, second = (a, b) if i % 2 == 0 else (b, a)
        x, y = first(), second()
        ratios.append(x / y if i % 2 == 0 else y / x)
    return statistics.median(ratios), f"{min(ratios):.2f} to {max(ratios):.2f} over {repeats} pairs"


def against_transformers(repeats: int) -> Row:
    """Plain greedy decoding, bf16 on both sides, the same weights: seconds per token after the prompt."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from engines.decode import decode
    from engines.fold import fold
    from engines.models import Models

    folder = catalogue.resolve("smollm2-135m-instruct")
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    models = Models()
    prompt = "Describe a market in the early morning."
    settings = RunSettings(dtype="bf16", ignore_eos=True, max_new_tokens=TOKENS)
    ids = models.job(settings, prompt, quiet).start.prompt_ids
    tokenizer.pad_token_id = tokenizer.pad_token_id or 0

    def theirs_for(n: int) -> float:
        begin = time.perf_counter()
        with torch.inference_mode():
            out = model.generate(
                torch.tensor([ids]), do_sample=False, max_new_tokens=n, min_new_tokens=n, pad_token_id=0, use_cache=True
            )
        assert out.shape[1] == len(ids) + n
        return time.perf_counter() - begin

    def theirs() -> float:  # without prefill, as ours: the time of n + 1 tokens less that of one
        return (theirs_for(TOKENS + 1) - theirs_for(1)) / TOKENS

    def ours() -> float:
        metrics = fold(list(decode(models.job(settings, prompt, quiet)))).metrics()
        return 1 / metrics.tokens_per_second

    value, detail = paired(theirs, ours, repeats)
    return "plain decoding against transformers generate (bf16)", value, ">= 1.3", detail


def edit_prompts(path: str | None, count: int) -> list[str]:
    if path is None:
        from prompts import KINDS

        return (KINDS["edit"] * count)[:count]
    lines = [json.loads(line) for line in Path(path).read_text("utf-8").splitlines() if line.strip()]
    step = max(1, len(lines) // count)
    return [f"{x['instruction']}\n\n```python\n{x['input']}\n```" for x in lines[::step]][:count]


def lookup_on_edits(path: str | None, count: int, tokens: int = 256) -> list[Row]:
    """n-gram lookup against plain decoding, tokens per second over all prompts; and time outside model passes."""
    from engines.decode import decode
    from engines.fold import fold
    from engines.models import Models

    models = Models()
    plain = RunSettings(max_new_tokens=tokens)
    fast = plain.replace(proposer="ngram", k=8, adaptive=True)
    spent = {"plain": 0.0, "fast": 0.0}
    count_of = {"plain": 0, "fast": 0}
    passes = outside = total = same = 0.0
    models.prepare(plain, quiet)
    list(decode(models.job(fast.replace(max_new_tokens=16), "Hello", quiet)))
    ratios = []
    prompts = edit_prompts(path, count)
    dtype = ""
    for prompt in prompts:
        ids, rate = {}, {}
        for name, settings in (("plain", plain), ("fast", fast)):
            events = list(decode(models.job(settings, prompt, quiet)))
            dtype = events[0].dtype
            metrics = fold(events).metrics()
            seconds = sum(metrics.seconds.values()) - metrics.seconds["prefill"]
            spent[name] += seconds
            count_of[name] += metrics.emitted
            ids[name], rate[name] = events[-1].ids, metrics.tokens_per_second
            if name == "fast":
                passes += metrics.rounds
                outside += metrics.seconds["sample"] + metrics.seconds["other"] + metrics.seconds["propose"]
                total += seconds
        same += ids["plain"] == ids["fast"]
        ratios.append(rate["fast"] / rate["plain"])
    value = (count_of["fast"] / spent["fast"]) / (count_of["plain"] / spent["plain"])
    detail = (
        f"{len(prompts)} prompts, up to {tokens} tokens each, k up to 8 adaptive, {dtype}, "
        f"{count_of['fast'] / passes:.2f} tokens per pass, "
        f"median prompt {statistics.median(ratios):.2f}, same text in {same:.0f}"
    )
    return [
        ("n-gram lookup against plain decoding, tokens/s", value, ">= 1.5", detail),
        ("time outside model passes, share of a speculative run", outside / total, "<= 0.05", "the n-gram runs above"),
    ]


def peak_memory(dtype: str) -> Row:
    """Peak resident memory of a whole process that loads the model and runs, against the bytes of its weights."""
    code = (
        "import resource, sys\nfrom engines.models import Models\nfrom engines.decode import decode\n"
        "from engines.settings import RunSettings\nm = Models()\n"
        f"s = RunSettings(proposer='ngram', dtype={dtype!r}, max_new_tokens=64)\n"
        "list(decode(m.job(s, 'Write the days of the week as a list, twice.', lambda *a: None)))\n"
        "peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == 'darwin' else 1024)\n"
        "print(peak, m.get(s.target, s.dtype, s.device, lambda *a: None).decoder.weight_bytes)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    peak, weights = map(int, done.stdout.split())
    limit = 1.5 * weights + 300e6
    detail = f"{dtype}: peak {peak / 1e6:.0f} MB, weights {weights / 1e6:.0f} MB, limit {limit / 1e6:.0f} MB"
    return f"peak memory, share of 1.5 x weights + 300 MB ({dtype})", peak / limit, "<= 1", detail


def met(value: float, threshold: str) -> bool:
    relation, limit = threshold.split()
    return value >= float(limit) if relation == ">=" else value <= float(limit)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prompts", help="EditEval's JSON Lines")
    parser.add_argument("--count", type=int, default=12, help="editing prompts to run (default: 12)")
    parser.add_argument("--repeats", type=int, default=5, help="interleaved pairs (default: 5)")
    parser.add_argument("--only", nargs="*", choices=("transformers", "lookup", "page", "memory"))
    args = parser.parse_args()
    parts: dict[str, Callable[[], list[Row]]] = {
        "memory": lambda: [peak_memory(dtype) for dtype in ("auto", "bf16", "fp32")],
        "lookup": lambda: lookup_on_edits(args.prompts, args.count),
        "transformers": lambda: [against_transformers(args.repeats)],
        "page": lambda: [_page_row(args.repeats)],
    }
    import torch

    print(f"{_cpu()}, {torch.get_num_threads()} threads, torch {torch.__version__}, load {os.getloadavg()[0]:.1f}")
    failed = 0
    for name, part in parts.items():
        if args.only and name not in args.only:
            continue
        for what, value, threshold, detail in part():
            ok = met(value, threshold)
            failed += not ok
            print(f"{'ok  ' if ok else 'MISS'} {value:6.3f} {threshold:8} {what} ({detail})", flush=True)
    return int(bool(failed))


def _page_row(repeats: int) -> Row:
    from tests.benchmarks.page_speed import page_against_command_line

    value, detail = page_against_command_line(repeats)
    return "throughput with the page streaming against the command line", value, ">= 0.95", detail


def _cpu() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":")[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


if __name__ == "__main__":
    sys.exit(main())
