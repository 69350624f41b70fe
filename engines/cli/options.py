"""The options that `run` and `compare` share, and what becomes of them."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from ..errors import UserError
from ..heads import usual_draft
from ..settings import DTYPES, MAX_K, PROPOSERS, VERIFIERS, RunSettings, Sampling

DEFAULTS = RunSettings()
MAX_PROMPT_BYTES = 4_000_000


def add_options(parser: argparse.ArgumentParser) -> None:
    text = parser.add_argument_group("prompt")
    source = text.add_mutually_exclusive_group(required=True)
    source.add_argument("--prompt", metavar="TEXT", help="the prompt itself")
    source.add_argument("--prompt-file", metavar="F", help="a UTF-8 file that holds the prompt; - reads standard input")
    text.add_argument("--raw", action="store_true", help="leave the model's chat template out")

    models = parser.add_argument_group("models")
    models.add_argument(
        "--target",
        metavar="T",
        default=DEFAULTS.target,
        help="a name from `models`, a hub id (org/name), a folder, or a GGUF file (default: %(default)s)",
    )
    models.add_argument(
        "--draft",
        metavar="D",
        help="the draft model, named like the target, or a trained draft or head (default: the "
        "one made for the target, or its smaller model in the catalogue)",
    )
    models.add_argument("--dtype", default="auto", choices=DTYPES, help="auto: what is fastest here, by measurement")
    models.add_argument("--device", default="auto", metavar="DEV", help="auto, cpu, cuda or mps (default: auto)")

    spec = parser.add_argument_group("speculation")
    spec.add_argument("--proposer", default=DEFAULTS.proposer, choices=PROPOSERS, help="who proposes (default: none)")
    spec.add_argument(
        "--k", type=int, default=DEFAULTS.k, help=f"tokens proposed in a round, 1 to {MAX_K} (default: 4)"
    )
    spec.add_argument("--adaptive", action="store_true", help="stop drafting when the next token is not worth its cost")
    spec.add_argument(
        "--branch", type=int, default=DEFAULTS.branch, metavar="B",
        help="propose a tree in which up to B tokens follow each, k in all; 1: a chain (default: as the proposer does)",
    )  # fmt: skip
    spec.add_argument(
        "--remember", action="store_true", help="let suffix lookup look in the outputs of earlier runs as well"
    )
    spec.add_argument("--verify", default=DEFAULTS.verify, choices=VERIFIERS, help="token by token, or by block")
    spec.add_argument(
        "--skip-layers", metavar="A-B,C", type=layers, default=(), help="layers that layer-skip leaves out, e.g. 4-20"
    )
    spec.add_argument("--ngram-min", type=int, default=DEFAULTS.ngram_min, help="shortest match (default: %(default)s)")
    spec.add_argument("--ngram-max", type=int, default=DEFAULTS.ngram_max, help="longest match (default: %(default)s)")
    spec.add_argument(
        "--draft-temperature", type=float, metavar="X", help="the draft's own temperature (default: the target's)"
    )

    sampling = parser.add_argument_group("sampling")
    sampling.add_argument("--temperature", type=float, default=0.0, help="0 is greedy (default: 0)")
    sampling.add_argument("--top-k", type=int, default=0, help="0 is off (default: 0)")
    sampling.add_argument("--top-p", type=float, default=1.0, help="1 is off (default: 1)")
    sampling.add_argument("--min-p", type=float, default=0.0, help="0 is off (default: 0)")
    sampling.add_argument("--repetition-penalty", type=float, default=1.0, help="1 is off (default: 1)")
    sampling.add_argument("--seed", type=int, default=0, help="the run's random numbers (default: 0)")

    end = parser.add_argument_group("end")
    end.add_argument("--max-new-tokens", type=int, default=128, metavar="N", help="(default: %(default)s)")
    end.add_argument("--stop", action="append", default=[], metavar="S", help="end before this text; may be repeated")
    end.add_argument("--ignore-eos", action="store_true", help="go on after the end-of-text token")


def layers(text: str) -> tuple[int, ...]:
    """ "4-20,25" -> (4, ..., 20, 25)."""
    out: set[int] = set()
    for part in text.split(","):
        low, dash, high = part.strip().partition("-")
        try:
            first = int(low)
            last = int(high) if dash else first
        except ValueError:
            raise argparse.ArgumentTypeError(f"{part.strip()!r} is not a layer or a range such as 4-20") from None
        if last < first or last > 10_000:
            raise argparse.ArgumentTypeError(f"{part.strip()!r} is not a range that goes up")
        out.update(range(first, last + 1))
    return tuple(sorted(out))


def settings_of(args: argparse.Namespace) -> RunSettings:
    sampling = Sampling(args.temperature, args.top_k, args.top_p, args.min_p, args.repetition_penalty)
    own = None
    if args.draft_temperature is not None:
        own = Sampling(args.draft_temperature, args.top_k, args.top_p, args.min_p, args.repetition_penalty)
    return RunSettings(
        target=args.target,
        proposer=args.proposer,
        draft=args.draft or (usual_draft(args.target) if args.proposer == "draft" else None),
        k=args.k,
        adaptive=args.adaptive,
        branch=args.branch,
        remember=args.remember,
        verify=args.verify,
        sampling=sampling,
        draft_sampling=own,
        skip_layers=args.skip_layers,
        ngram_min=args.ngram_min,
        ngram_max=args.ngram_max,
        seed=args.seed,
        max_new_tokens=args.max_new_tokens,
        stop=tuple(args.stop),
        ignore_eos=args.ignore_eos,
        raw=args.raw,
        dtype=args.dtype,
        device=args.device,
    )


def prompt_of(args: argparse.Namespace) -> str:
    """Raises UserError for a file that is not there, is not text or is far too long."""
    if args.prompt is not None:
        if any("\ud800" <= c <= "\udfff" for c in args.prompt):  # how Python hands over bytes that are not text
            raise UserError("--prompt holds bytes that are not UTF-8 text.")
        return args.prompt
    if args.prompt_file == "-":
        if sys.stdin is None:
            raise UserError("There is no standard input to read the prompt from.")
        try:
            return sys.stdin.buffer.read().decode("utf-8-sig")
        except UnicodeDecodeError:
            raise UserError("The standard input holds bytes that are not UTF-8 text.") from None
    path = Path(args.prompt_file)
    try:
        if path.stat().st_size > MAX_PROMPT_BYTES:
            raise UserError(f"{path} is longer than {MAX_PROMPT_BYTES // 1_000_000} MB: no model reads that much.")
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UserError(f"{path} is not UTF-8 text: save it as UTF-8 and try again.") from None
    except OSError as error:
        raise UserError(f"Cannot read {path}: {error.strerror or error}.") from None
