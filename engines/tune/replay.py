"""The rounds that a setting would have had, told from a run of another: see `Candidate.way`."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..adaptive import FixedLength
from ..proposers.base import Proposal, Proposer
from .sample import Pass, Sample


def rates_by_depth(samples: Sequence[Sample]) -> list[float]:
    """Share accepted at each position of those judged there, over chains' rounds (conditional)."""
    accepted = Counter(p.accepted for s in samples for p in s.passes)
    rejected = Counter(p.accepted for s in samples for p in s.passes if p.rejected)
    deepest = max((*accepted, *(n + 1 for n in rejected)), default=0)
    rates = []
    for depth in range(deepest):
        good = sum(times for n, times in accepted.items() if n > depth)
        rates.append(good / (good + rejected[depth]) if good + rejected[depth] else 0.0)
    return rates


def acceptance(samples: Sequence[Sample]) -> float | None:
    """Accepted / judged, as `engines.fold` defines the acceptance rate, over all these runs."""
    accepted = sum(p.accepted for s in samples for p in s.passes)
    judged = accepted + sum(p.rejected for s in samples for p in s.passes)
    return accepted / judged if judged else None


def shortened(sample: Sample, k: int, rates: Sequence[float], limit: int, seed: int = 0) -> list[Pass]:
    """The rounds of k tokens that follow from `sample`, whose rounds proposed more, all of them chains.

    Each place of the text is known to have been guessed right, or wrong, or not guessed at all (a bonus token). The
    rounds of k start where they start, in the midst of the long ones too: within an accepted stretch they go on being
    right, at a wrong place they end. An unknown place is drawn at the rate at which a token after an accepted one
    stands. A wrong guess made at depth d is right at a smaller depth as often as `rates`, by depth, say that it should
    be. `limit` is the run's limit of new tokens, which cuts the last proposals short. No times are told.
    """
    rng = np.random.default_rng((seed, sample.prompt, k))
    places = _places(sample.passes)
    after = _rate_after_accepted(places)
    for i, (right, depth) in enumerate(places):
        if right is None:
            places[i] = (bool(rng.random() < after), depth)
    out, at = [], 0
    while at < len(places):
        room = min(k, limit - at - 1)
        accepted = 0
        while accepted < room and at + accepted < len(places):
            right, depth = places[at + accepted]
            if not right and not _better_here(accepted, depth, rates, rng):
                break
            accepted += 1
        ended = at + accepted >= len(places)  # the text ended with an accepted token
        rejected = int(accepted < room and not ended)
        emitted = accepted + (0 if ended else 1)
        out.append(Pass(max(0, room), accepted, rejected, emitted))
        at += emitted
    return out


def _places(passes: Sequence[Pass]) -> list[tuple[bool | None, int]]:
    """Of each emitted token: was it guessed (None: nobody tried), and at which depth (0 the first) of its round."""
    out: list[tuple[bool | None, int]] = []
    for p in passes:
        out += [(True, i) for i in range(p.accepted)]
        if p.emitted > p.accepted:
            out.append((False if p.rejected else None, p.accepted))
    return out


def _rate_after_accepted(places: Sequence[tuple[bool | None, int]]) -> float:
    follows = [b for (a, _), (b, _) in zip(places, places[1:], strict=False) if a and b is not None]
    return (sum(follows) + 0.5) / (len(follows) + 1)


def _better_here(depth: int, judged_at: int, rates: Sequence[float], rng: np.random.Generator) -> bool:
    """Whether a guess that was wrong at depth `judged_at` is right at a smaller one, where rates are higher."""
    if depth >= judged_at or judged_at >= len(rates) or rates[judged_at] >= 1:
        return False
    wrong_here, wrong_there = 1 - rates[depth], 1 - rates[judged_at]
    return bool(rng.random() > wrong_here / wrong_there)


def looked_up(
    proposer: Proposer, prompt: Sequence[int], text: Sequence[int], k: int, limit: int, policy: Any = None
) -> list[Pass]:
    """The rounds of a lookup on a text that is known: each is asked as the loop would ask it, and judged by the text.

    `policy` is the loop's length policy (None: always k). Seconds of proposing are measured; those of the passes are 0.
    """
    policy = policy or FixedLength()
    proposer.start(prompt)
    out, ids, at = [], list(prompt), 0
    while at < len(text):
        begin = time.perf_counter()
        room = min(k, limit - at - 1)
        n = policy.limit(room) if room > 0 else 0
        proposal = proposer.propose(ids, n, policy.go_on, None) if n > 0 else Proposal()
        if proposal.parents:
            proposal = proposal.only(policy.keep(proposal.confidence, proposal.parents))
        seconds = time.perf_counter() - begin
        path, judged = _judged_by(proposal, text[at : at + len(proposal.ids)])
        emitted = min(len(path) + 1, len(text) - at)
        out.append(Pass(len(proposal.ids), len(path), judged - len(path), emitted, seconds))
        ids += text[at : at + emitted]
        at += emitted
        proposer.commit(len(ids) - 1)
        if proposal.parents:
            policy.learn_tree(proposal.confidence, proposal.parents, path)
        else:
            policy.learn(proposal.confidence, len(path))
    return out


def _judged_by(proposal: Proposal, text: Sequence[int]) -> tuple[list[int], int]:
    """(indices of the proposed tokens that the text goes on with, how many were judged)."""
    path: list[int] = []
    judged, at = 0, -1
    for token in text:
        children = proposal.children(at)
        match = next((j for j, i in enumerate(children) if proposal.ids[i] == token), None)
        if match is None:
            return path, judged + len(children)
        judged += match + 1
        at = children[match]
        path.append(at)
    return path, judged
