"""The whole loop against the target's law: proposers, cache, warping, verification, commit, over 20 000 rounds.

Models of five tokens, so that every law is seen often. What is checked: given the tokens before it, a token that
the loop emits has the target's law, at each position of a round, and so have pairs that lie next to each other in
the output.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
import torch
from exactness import ChiSquare
from fakes import TableSession, job
from test_exact_chisquare import always_accept, plain_law, residual_from_p

from engines import judge as loop
from engines import verify as verification
from engines.adaptive import AdaptiveLength, FixedLength
from engines.cost import Costs
from engines.decode import decode
from engines.events import Draft, Verdict
from engines.proposers.draft_model import DraftModelProposer
from engines.proposers.ngram import NgramProposer
from engines.settings import Sampling

ALARM = 1e-8  # fewer than 100 checks in this file: together a false alarm stays below 1e-6
VOCAB = 5
PROMPT = (0, 1)


ROWS: dict[tuple, np.ndarray] = {}


class Target(TableSession):
    """A table whose rows are computed once."""

    def row(self, context):
        key = (self.scale, self.seed, *context[-self.order :])
        if key not in ROWS:
            ROWS[key] = super().row(context)
        return ROWS[key]


class FairDraft(Target):
    """The target's logits and some noise, so that the later positions of a round are reached."""

    noise = np.random.default_rng(7).normal(size=(VOCAB, VOCAB)).astype(np.float32)

    def row(self, context):
        return super().row(context) + 0.8 * self.noise[context[-1]]


class Unwarped(DraftModelProposer):
    """A mutant (behaviour S2): draws under its own sampling and reports the model's plain distribution."""

    def propose(self, ids, k, go_on, chance):
        out = super().propose(ids, k, go_on, chance)
        logits = [torch.from_numpy(self.session.row([*ids, *out.ids[:i]])) for i in range(len(out.ids))]
        out.q = torch.softmax(torch.stack(logits), -1).numpy()
        return out


@dataclass
class Setup:
    """One way to run the loop. `tokens` a run; a penalty forgets nothing, so that its runs are short."""

    sampling: Sampling
    draft: Sampling | None = None  # None: n-gram
    k: int = 3
    adaptive: bool = False
    tokens: int = 60
    proposer: type = DraftModelProposer
    order: int = 1
    settings: dict = field(default_factory=dict)

    def run(self, seed: int, verify: str):
        target = Target(VOCAB, order=self.order, scale=1.2)
        proposer = NgramProposer()
        if self.draft is not None:
            proposer = self.proposer(FairDraft(VOCAB, order=self.order, scale=1.2), self.draft, VOCAB)
        policy = AdaptiveLength(Costs({0: 1.0, 1: 1.05, 4: 1.2}, draft=0.15)) if self.adaptive else FixedLength()
        run = job(
            target,
            proposer,
            PROMPT,
            policy=policy,
            k=self.k,
            sampling=self.sampling,
            verify=verify,
            seed=seed,
            max_new_tokens=self.tokens,
            **self.settings,
        )
        return target, decode(run)


SETUPS = {
    "draft": Setup(Sampling(1.0), Sampling(1.0)),
    "temperatures": Setup(Sampling(0.8), Sampling(1.4), k=4),
    "top-k": Setup(Sampling(1.0, top_k=4), Sampling(1.2, top_k=3)),
    "top-p, order 2": Setup(Sampling(1.1, top_p=0.9), Sampling(1.0, min_p=0.1), order=2),
    "penalty": Setup(
        Sampling(0.9, top_p=0.97, repetition_penalty=1.5), Sampling(1.0, repetition_penalty=1.5), tokens=8
    ),
    "adaptive": Setup(Sampling(1.0), Sampling(0.9), k=4, adaptive=True),
    "adaptive, narrow": Setup(Sampling(1.2, min_p=0.05), Sampling(1.0, top_k=2), k=4, adaptive=True),
    "greedy draft": Setup(Sampling(1.0), Sampling(0.0)),
    "n-gram": Setup(Sampling(1.0)),
    "n-gram, adaptive": Setup(Sampling(0.8, top_p=0.95), adaptive=True, k=4),
}


@dataclass
class Seen:
    """The chi-squares of one setup, and what was seen on the way."""

    positions: list[ChiSquare] = field(default_factory=list)
    pairs: ChiSquare = field(default_factory=ChiSquare)
    rounds: int = 0
    lengths: set[int] = field(default_factory=set)
    kinds: set[str] = field(default_factory=set)

    def p_values(self) -> list[float]:
        """Of each position reached at least 200 times, then of the pairs."""
        return [c.p_value() for c in [*(c for c in self.positions if c.total() >= 200), self.pairs]]


def play(setup: Setup, verify: str, rounds: int) -> Seen:
    """Runs of the loop, seed after seed, until `rounds` rounds are there."""
    seen = Seen(positions=[ChiSquare() for _ in range(setup.k + 1)])
    laws: dict[tuple, dict] = {}

    def law(target: TableSession, tokens: list[int]) -> dict[int, float]:
        key = (*tokens[-setup.order :], frozenset(tokens) if setup.sampling.repetition_penalty != 1 else None)
        if key not in laws:
            laws[key] = plain_law(target.row(tokens), setup.sampling, tuple(tokens))
        return laws[key]

    seed = 0
    while seen.rounds < rounds:
        seed += 1
        target, events = setup.run(seed, verify)
        ids, at, proposed = list(PROMPT), [], []
        for event in events:
            if isinstance(event, Draft):
                proposed = [t.id for t in event.tokens]
            elif isinstance(event, Verdict):
                seen.rounds += 1
                seen.lengths.add(len(proposed))
                seen.kinds.add(event.extra.kind)
                emitted = [*proposed[: event.accepted], event.extra.id]
                at += range(len(emitted))
                ids += emitted
        here = [law(target, ids[:i]) for i in range(len(PROMPT), len(ids))]
        new = ids[len(PROMPT) :]
        assert len(new) == setup.tokens == event.keep
        for position, token, row in zip(at, new, here, strict=True):
            seen.positions[position].add(tuple(row.values()), token, row)
        for i in range(0, len(new) - 1, 2):  # pairs that do not overlap
            pair = here[i], {a: law(target, [*ids[: len(PROMPT) + i], a]) for a in range(VOCAB)}
            joint = {(a, b): pair[0][a] * pair[1][a][b] for a in range(VOCAB) for b in range(VOCAB)}
            seen.pairs.add(tuple(joint.values()), (new[i], new[i + 1]), joint)
    return seen


ROUNDS = 2_000  # a setup; ten setups a verification


@pytest.mark.parametrize("name", SETUPS)
@pytest.mark.parametrize("verify", ("token", "block"))
def test_the_loop_emits_the_targets_law(verify, name):
    setup = SETUPS[name]
    seen = play(setup, verify, ROUNDS)
    assert all(p > ALARM for p in seen.p_values())
    reached = [c.total() for c in seen.positions]
    assert reached[0] == seen.rounds >= ROUNDS and reached[1] > ROUNDS / 4 and seen.pairs.total() > ROUNDS / 2
    assert {"corrected", "bonus"} <= seen.kinds
    if setup.adaptive:
        assert len(seen.lengths) > 2, "the length did not adapt"


def test_the_rounds_add_up():
    """The proof asks for 20 000 rounds a verification."""
    assert ROUNDS * len(SETUPS) >= 20_000


def bonus_from_the_likeliest(patch):
    def likeliest(right):
        def wrong(p, q, ids, chance):
            out = right(p, q, ids, chance)
            if out.kind == "bonus":
                out.extra = int(p[-1].argmax())
            return out

        return wrong

    patch.setattr(loop, "verify_tokens", likeliest(loop.verify_tokens))
    patch.setattr(loop, "verify_block", likeliest(loop.verify_block))


def ratio_doubled(patch):
    """One percent is for the enumeration; this is what so few rounds can see."""
    right = verification._ratio
    patch.setattr(verification, "_ratio", lambda *a: 2 * right(*a))


POOR_DRAFT = Setup(Sampling(0.8), Sampling(0.5))  # often refused: where faults show
MUTANTS = (always_accept, residual_from_p, ratio_doubled, bonus_from_the_likeliest)


@pytest.mark.parametrize("mutant", MUTANTS)
@pytest.mark.parametrize("verify", ("token", "block"))
def test_mutants_are_caught(monkeypatch, verify, mutant):
    if mutant is always_accept:  # the loop wants the number that was drawn
        monkeypatch.setattr(loop.Chance, "accept", lambda self, p: bool(setattr(self, "last", 0.0)) or True)
    else:
        mutant(monkeypatch)
    assert min(play(POOR_DRAFT, verify, ROUNDS // 2).p_values()) < ALARM


@pytest.mark.parametrize("verify", ("token", "block"))
def test_q_that_was_not_drawn_from_is_caught(verify):
    setup = Setup(Sampling(1.0), Sampling(0.5), proposer=Unwarped)
    assert min(play(setup, verify, ROUNDS // 2).p_values()) < ALARM


@pytest.mark.parametrize("name", ("penalty", "adaptive", "n-gram"))
def test_S3_and_S8_the_seed_decides_and_nothing_else(name):
    def written(seed):
        _, events = SETUPS[name].run(seed, "block")
        return [*events][-1].ids

    assert len({tuple(written(seed)) for seed in range(20)}) > 10
    want = written(5)
    torch.manual_seed(0)
    before = torch.get_rng_state(), np.random.get_state()
    assert written(5) == want
    assert torch.equal(before[0], torch.get_rng_state())
    assert all(np.array_equal(a, b) for a, b in zip(before[1], np.random.get_state(), strict=True))
