"""`batch`: many sequences at once, and what is left of the gain."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Any

from ..batch import roofline
from ..batch.plan import PROPOSERS, SIZES, BatchPlan
from ..batch.results import Point, Progress, Skipped, conclusion
from ..errors import UserError
from ..settings import DTYPES, MAX_K, RunSettings, Sampling
from ..tune.prompts import read_prompts
from . import terminal
from .interrupt import Interrupt

DEFAULT_TOKENS = 32


def add_parser(commands) -> None:
    parser = commands.add_parser(
        "batch",
        help="measure what speculation brings with many sequences at once",
        description="Decodes batches of sequences plainly and speculatively, in turn, and prints for each batch size "
        "the time of a pass over 1 and over k + 1 tokens of every sequence, the tokens per second of all together, the "
        "speed-up, and the share of the work that was wasted. With --gpu it adds what such a GPU would make of it, by "
        "calculation. Ctrl-C stops with what is known so far.",
    )
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--prompts", metavar="TEXT", nargs="+", help="the prompts themselves")
    source.add_argument(
        "--prompt-file", metavar="F", help="JSON Lines, CSV, or text separated by blank lines; - reads standard input"
    )
    parser.add_argument("--raw", action="store_true", help="leave the model's chat template out")
    parser.add_argument("--target", metavar="T", default=RunSettings().target, help="(default: %(default)s)")
    parser.add_argument("--dtype", default="auto", choices=DTYPES)
    parser.add_argument("--device", default="auto", metavar="DEV")
    parser.add_argument("--proposer", default="ngram", choices=PROPOSERS, help="(default: %(default)s)")
    parser.add_argument("--k", type=int, default=4, help=f"tokens proposed in a round, 1 to {MAX_K} (default: 4)")
    parser.add_argument(
        "--batches", type=sizes, default=(1, 2, 4, 8, 16), metavar="A,B,C", help="batch sizes (default: 1,2,4,8,16)"
    )
    parser.add_argument("--temperature", type=float, default=0.0, help="0 is greedy (default: 0)")
    parser.add_argument("--seed", type=int, default=0, help="of the first row; the others' follow (default: 0)")
    parser.add_argument(
        "--max-new-tokens", type=int, default=DEFAULT_TOKENS, metavar="N",
        help="tokens that each sequence writes in a measured stretch (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument("--budget", type=float, default=180.0, metavar="S", help="seconds in all (default: 180)")
    parser.add_argument(
        "--gpu", metavar="G", help="a GPU to calculate for: a name such as H100, or its GB/s,TFLOP/s, such as 3350,989"
    )
    parser.add_argument(
        "--like", metavar="M", help=f"calculate for a model of this size: {', '.join(s.name for s in roofline.SIZES)}"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of tables")
    parser.set_defaults(act=act)


def sizes(text: str) -> tuple[int, ...]:
    """ "1,2,4" -> (1, 2, 4)."""
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of whole numbers such as 1,2,4") from None


def act(args: argparse.Namespace) -> int:
    settings = RunSettings(
        target=args.target,
        proposer=args.proposer,
        k=args.k,
        sampling=Sampling(args.temperature),
        seed=args.seed,
        max_new_tokens=args.max_new_tokens,
        raw=args.raw,
        dtype=args.dtype,
        device=args.device,
    )
    prompts = args.prompts or [p.asked for p in read_prompts(args.prompt_file).prompts]
    plan = BatchPlan(settings, tuple(prompts), args.batches, args.budget)
    gpu = gpu_of(args.gpu) if args.gpu else None
    like = roofline.find_size(args.like) if args.like else None
    if like is not None and gpu is None:
        raise UserError("--like says for which model to calculate: name the GPU, too, with --gpu.")

    from ..models import Models

    models, progress = Models(), terminal.Progress()
    points: dict[int, Point] = {}
    skipped: list[Skipped] = []
    with Interrupt() as stopped:
        for item in plan(models, progress, stopped):
            if isinstance(item, Progress):
                progress("measuring", f"{item.message} About {item.seconds_left:.0f} s to go.", item.fraction)
            elif isinstance(item, Skipped):
                skipped.append(item)
            else:
                points[item.batch] = item
        ended = stopped()
    progress.clear()
    done = list(points.values())
    machine = machine_of(models, settings, progress)
    calculated = None
    if gpu is not None:
        loaded = models.get(settings.target, settings.dtype, settings.device, progress)
        size = like or roofline.size_of(settings.target, loaded.decoder.config)
        calculated = calculation(gpu, size, done, settings.k)
    if args.json:
        print(json.dumps(as_json(settings, machine, done, skipped, calculated, ended), ensure_ascii=False))
    else:
        print(report(machine, settings, done, skipped, calculated))
    if ended:
        print("Interrupted: this is what was measured so far.", file=sys.stderr)
    return 130 if ended else 0


def gpu_of(text: str) -> roofline.Gpu:
    """A name, or "GB/s,TFLOP/s"."""
    parts = text.split(",")
    try:
        bandwidth, flops = (float(part) for part in parts)
    except ValueError:
        return roofline.find_gpu(text)
    return roofline.Gpu(f"{bandwidth:g} GB/s, {flops:g} TFLOP/s", bandwidth * 1e9, flops * 1e12, "as typed in")


def machine_of(models: Any, settings: RunSettings, progress: Any) -> dict[str, str]:
    """What was measured on, from the event that opens a run."""
    start = models.job(settings.plain(), "x", progress).start
    return {"target": start.target, "device": start.device, "dtype": start.dtype, **start.versions}


def calculation(gpu: roofline.Gpu, size: roofline.Size, points: Sequence[Point], k: int) -> dict[str, Any] | None:
    """The roofline of `size` on `gpu` at the yield that was measured; None where none was."""
    known = [p for p in points if p.tokens_per_pass is not None]
    if not known:
        return None
    rate = roofline.rate_of(known[-1].tokens_per_pass, k)
    rows = [
        {
            "batch": batch,
            "one": roofline.pass_seconds(gpu, size, batch, 1),
            "many": roofline.pass_seconds(gpu, size, batch, k + 1),
            "speedup": roofline.speedup(gpu, size, batch, rate, k),
        }
        for batch in (*SIZES, 128, 256, 512)
    ]
    return {
        "gpu": gpu.name,
        "bandwidth": gpu.bandwidth,
        "flops": gpu.flops,
        "source": gpu.source,
        "model": size.name,
        "acceptance_rate": rate,
        "tokens_per_pass": known[-1].tokens_per_pass,
        "rows": rows,
        "gain_ends": roofline.gain_ends(gpu, size, rate, k),
    }


def as_json(
    settings: RunSettings,
    machine: dict[str, str],
    points: Sequence[Point],
    skipped: Sequence[Skipped],
    calculated: dict[str, Any] | None,
    ended: bool,
) -> dict[str, Any]:
    return {
        "settings": settings.to_json(),
        "machine": machine,
        "measured": [p.to_json() for p in points],
        "skipped": [{"batch": s.batch, "reason": s.reason} for s in skipped],
        "calculated": calculated,
        "conclusion": conclusion(points),
        "interrupted": ended,
    }


def report(
    machine: dict[str, str],
    settings: RunSettings,
    points: Sequence[Point],
    skipped: Sequence[Skipped],
    calculated: dict[str, Any] | None,
) -> str:
    """Tables and sentences for people; each says whether it was measured or calculated."""
    what = f"{machine['target']} · {settings.proposer} · k = {settings.k} · {machine['device']} {machine['dtype']}"
    parts = [f"Measured: {what}", measured_table(points, settings.k) if points else "Nothing was measured."]
    notes = [conclusion(points), texts(points), *(s.reason for s in skipped)]
    parts += ["\n".join(note for note in notes if note)]
    if calculated:
        parts.append(calculated_part(calculated, settings.k))
    return "\n\n".join(part for part in parts if part)


def measured_table(points: Sequence[Point], k: int) -> str:
    head = ("batch", "pass, 1", f"pass, {k + 1}", "plain", "spec.", "speed-up", "tok/pass", "wasted")
    rows = []
    for p in points:
        speed = "–"
        if p.speedup is not None:
            speed = f"{p.speedup:.2f}×" + (f" ({p.low:.2f} to {p.high:.2f})" if p.low is not None else "")
        rows.append(
            (
                str(p.batch),
                f"{1e3 * p.one:.0f} ms",
                f"{1e3 * p.many:.0f} ms",
                "–" if p.plain_rate is None else f"{p.plain_rate:.1f}/s",
                "–" if p.speculative_rate is None else f"{p.speculative_rate:.1f}/s",
                speed,
                "–" if p.tokens_per_pass is None else f"{p.tokens_per_pass:.2f}",
                terminal.percent(p.wasted),
            )
        )
    return terminal.columns(head, rows)


def texts(points: Sequence[Point]) -> str:
    """Whether the texts are those of plain decoding: the losslessness, seen."""
    counts: dict[str, int] = {}
    for p in points:
        for verdict, n in p.texts.items():
            counts[verdict] = counts.get(verdict, 0) + n
    if not counts or "sampled" in counts:
        return ""
    return f"Texts beside plain decoding's: {', '.join(f'{n} {verdict}' for verdict, n in counts.items())}."


def calculated_part(c: dict[str, Any], k: int) -> str:
    rows = [
        (str(r["batch"]), f"{1e3 * r['one']:.2f} ms", f"{1e3 * r['many']:.2f} ms", f"{r['speedup']:.2f}×")
        for r in c["rows"]
    ]
    begin = (
        f"Calculated, not measured: {c['model']} on {c['gpu']} ({c['bandwidth'] / 1e9:,.0f} GB/s, "
        f"{c['flops'] / 1e12:,.0f} TFLOP/s dense bf16; {c['source']}), at the {c['tokens_per_pass']:.2f} tokens per "
        f"pass that were measured, which an acceptance rate of {c['acceptance_rate']:.2f} amounts to"
    )
    ends = c["gain_ends"]
    end = f"The gain is gone from {ends} sequences on." if ends else "The gain does not end with the batch."
    return "\n".join([begin, terminal.columns(("batch", "pass, 1", f"pass, {k + 1}", "speed-up"), rows), end])
