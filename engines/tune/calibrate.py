"""Taking a calibration: whole rounds of the very loop that runs use, with proposals of every length in turn.

So what is measured is what a run will meet: the pass over n + 1 rows with this cache behind it, the drafting, and the
sampling of n + 1 rows at this temperature. Lookups cost nothing to draft, so for them a proposer stands in that
proposes any tokens at all.
"""

from __future__ import annotations

import platform
import statistics
import sys
from collections.abc import Sequence
from typing import Any

import torch

from ..cost import RoundCost
from ..cost.calibration import ByTokens
from ..cost.measure import rising
from ..decode import decode
from ..errors import UserError
from ..model.choose import _cpu_name
from ..models import Models, Say
from ..proposers.base import Proposal
from ..settings import RunSettings
from .candidates import LONG, PLAIN, Candidate
from .prompts import Prompt
from .sample import sample_of

COUNTS = (0, 1, 2, 3, 4, 6, 8, 12, 16)
DRAFTED = (0, 1, 2, 4, LONG)  # of a drafter, each of whose tokens costs a step
REPEATS = 6
CONTEXTS = (48, 192, 768, 3072)


class _InTurn:
    """A length policy that asks for so many tokens in turn, the least first, so many times over."""

    def __init__(self, counts: Sequence[int], turns: int) -> None:
        self.counts, self.at, self.last = counts, -1, turns * len(counts)

    @property
    def over(self) -> bool:
        return self.at >= self.last

    def limit(self, k: int) -> int:
        self.at += 1
        return min(k, self.counts[self.at % len(self.counts)])

    def go_on(self, confidences: Sequence[float | None], coming: float | None = None) -> bool:
        return True

    def keep(self, confidences: Sequence[float | None], parents: Sequence[int]) -> list[int]:
        return list(range(len(parents)))

    def learn(self, *_: object) -> None:
        pass

    def learn_tree(self, *_: object) -> None:
        pass


class _Anything:
    """Proposes tokens that are sure to cost what any cost."""

    name = "calibration"

    def start(self, ids: Sequence[int]) -> None:
        pass

    def propose(self, ids: Sequence[int], k: int, go_on: Any, chance: Any) -> Proposal:
        return Proposal([ids[-1]] * k, None, [None] * k, [None] * k)

    def commit(self, length: int) -> None:
        pass


def machine() -> dict[str, str]:
    """What a calibration depends on beside the model."""
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else ""
    return {
        "machine": f"{gpu or _cpu_name()} ({sys.platform} {platform.machine()})",
        "torch": torch.__version__,
        "threads": str(torch.get_num_threads()),
    }


def contexts_for(target: Any, base: RunSettings, prompts: Sequence[Prompt]) -> list[int]:
    """Context lengths to measure at: those below the longest that these prompts' runs will reach, and the next one."""
    longest = max((len(target.tokenizer.encode(p.text)) for p in prompts), default=0) + base.max_new_tokens
    room = target.decoder.context - REPEATS * len(COUNTS) * 2 - max(COUNTS) - 1
    out = [c for i, c in enumerate(CONTEXTS) if (i == 0 or CONTEXTS[i - 1] < longest) and c <= room]
    return out or [max(1, min(CONTEXTS[0], room))]


def take(models: Models, candidate: Candidate, base: RunSettings, context: int, say: Say) -> ByTokens:
    """Seconds of rounds at this context length, for plain decoding and lookups (PLAIN) or for a drafter's chain.

    Medians over the repeats, sizes in turn, so that a machine that drifts does so for all. Raises UserError for a
    drafter that cannot be used.
    """
    counts = COUNTS if candidate == PLAIN else DRAFTED
    settings = candidate.settings(base).replace(
        k=max(counts), ignore_eos=True, stop=(), raw=True, max_new_tokens=_tokens(counts)
    )
    custom = (lambda session, tokenizer: _Anything()) if candidate == PLAIN else None
    policy = _InTurn(counts, REPEATS + 1)
    job = models.job(settings, _text(models, settings, context, say), say, lambda: policy.over, custom)
    job.length_policy = policy
    sample = sample_of(list(decode(job)), candidate.name, 0, 0)
    if sample.reason == "error":
        raise UserError(sample.message or "the run failed")
    seen: dict[int, list] = {}
    for p in sample.passes[len(counts) : -1]:  # the first turn warms up; the last round may have been cut
        seen.setdefault(p.proposed, []).append((p.propose, p.verify, p.rest))
    medians = {n: [statistics.median(x) for x in zip(*rows, strict=True)] for n, rows in seen.items() if len(rows) >= 3}
    verify = rising({n: of[1] for n, of in medians.items()})
    return {n: RoundCost(medians[n][0], verify[n], medians[n][2]) for n in sorted(medians)}


def _tokens(counts: Sequence[int]) -> int:
    """Enough for REPEATS turns even where all is accepted."""
    return (REPEATS + 1) * (sum(counts) + len(counts))


def _text(models: Models, settings: RunSettings, context: int, say: Say) -> str:
    """Some text of about `context` tokens."""
    tokenizer = models.get(settings.target, settings.dtype, settings.device, say).tokenizer
    words = "The harbour lies still in the morning, and the boats come back with what the night has given them. "
    text = words * (1 + context // 10)
    ids = tokenizer.encode(text)
    return text[: max(1, len(text) * context // len(ids))]
