"""The float code of sampling and verification against the law it must follow: 20 000 rounds and a chi-square.

`test_exact_enumeration` proves the formulas; this is about float32, warping, and the real random numbers.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from exactness import ChiSquare, chi_square_tail

from engines import verify
from engines.sampling import Chance, warp
from engines.settings import Sampling
from engines.verify import verify_block, verify_tokens

VERIFIERS = {"token": verify_tokens, "block": verify_block}
ALARM = 1e-8  # about 50 checks in this file: together a false alarm stays below 1e-6
ROUNDS = 20_000
VOCAB = 5


@pytest.mark.parametrize(
    ("x", "freedom", "tail"),
    [
        (3.841458820694124, 1, 0.05),
        (6.6348966010212145, 1, 0.01),
        (5.991464547107979, 2, 0.05),
        (7.814727903251179, 3, 0.05),
        (18.307038053275146, 10, 0.05),
        (24.99579013972863, 15, 0.05),
        (124.34211340400407, 100, 0.05),
        (149.44925277903886, 100, 0.001),
        (23.92812697687947, 1, 1e-6),
        (27.63102111592855, 2, 1e-6),
    ],
)
def test_the_tail_of_chi_square(x, freedom, tail):
    """Quantiles from the tables (NIST handbook, 1.3.6.7.4, carried to full precision)."""
    assert chi_square_tail(x, freedom) == pytest.approx(tail, rel=1e-9)


def test_the_tail_against_its_integral():
    for freedom in (1, 2, 3, 7, 30, 151, 600):
        for x in (0.3 * freedom, freedom, 1.7 * freedom, 2.5 * freedom):
            grid = np.linspace(x, x + 60 * math.sqrt(2 * freedom) + 200, 400_001)
            log = (freedom / 2 - 1) * np.log(grid) - grid / 2 - freedom / 2 * math.log(2) - math.lgamma(freedom / 2)
            assert chi_square_tail(x, freedom) == pytest.approx(np.trapezoid(np.exp(log), grid), rel=1e-5, abs=1e-12)
    assert chi_square_tail(0, 3) == 1


def test_the_check_sees_two_percent():
    """And is silent where nothing is wrong."""
    law, off = np.array([0.5, 0.3, 0.2]), np.array([0.52, 0.29, 0.19])
    for weights, alarmed in ((law, False), (off, True)):
        chance, check = Chance(1), ChiSquare()
        for _ in range(ROUNDS):
            check.add("g", chance.draw(weights), dict(enumerate(law)))
        assert (check.p_value() < 1e-6) == alarmed
    check = ChiSquare()
    check.add("g", 2, {0: 1.0, 2: 0.0})
    assert check.p_value() == 0  # an impossible token is enough


def plain_law(logits: np.ndarray, s: Sampling, before: tuple[int, ...]) -> dict[int, float]:
    """The same warping, written for reading: float64, full sorts, one token at a time."""
    x = logits.astype(np.float64)
    for token in set(before):
        x[token] = x[token] * s.repetition_penalty if x[token] < 0 else x[token] / s.repetition_penalty
    x = x / s.temperature
    order = sorted(range(len(x)), key=lambda i: -x[i])
    if s.top_k:
        order = order[: s.top_k]
    weight = {i: math.exp(x[i] - x[order[0]]) for i in order}
    total, kept, mass = sum(weight.values()), {}, 0.0
    for i in order:
        if mass < s.top_p * total and weight[i] >= s.min_p:
            kept[i] = weight[i]
        mass += weight[i]
    total = sum(kept.values())
    return {i: kept.get(i, 0.0) / total for i in range(len(x))}


class Tables:
    """Target and draft over five tokens whose logits depend on the last two, each under its own sampling."""

    def __init__(self, sampling: Sampling, draft_sampling: Sampling, seed: int = 0) -> None:
        self.settings = {"p": sampling, "q": draft_sampling}
        self.seed = seed
        self._rows: dict[tuple, np.ndarray] = {}
        self._laws: dict[tuple, dict] = {}

    def logits(self, who: str, tokens: tuple[int, ...]) -> np.ndarray:
        """The draft's are the target's with noise: a fair draft, so that the later positions are reached."""
        random = np.random.default_rng([self.seed, *(1 + t for t in tokens[-2:])])
        logits = random.normal(size=VOCAB) * 1.2
        return (logits if who == "p" else logits + random.normal(size=VOCAB) * 0.7).astype(np.float32)

    def row(self, who: str, tokens: tuple[int, ...]) -> np.ndarray:
        if (who, tokens) not in self._rows:
            logits = torch.from_numpy(self.logits(who, tokens))[None]
            self._rows[who, tokens] = warp(logits, self.settings[who], tokens)[0]
        return self._rows[who, tokens]

    def law(self, tokens: tuple[int, ...]) -> dict[int, float]:
        if tokens not in self._laws:
            self._laws[tokens] = plain_law(self.logits("p", tokens), self.settings["p"], tokens)
        return self._laws[tokens]


SAMPLINGS = {
    "T": (Sampling(0.8), Sampling(1.2)),
    "top-k": (Sampling(1.0, top_k=4), Sampling(1.3, top_k=3)),
    "top-p": (Sampling(1.0, top_p=0.9), Sampling(0.8)),
    "min-p, q narrow": (Sampling(1.3, min_p=0.05), Sampling(1.0, top_k=2)),
    "penalty": (Sampling(0.9, top_p=0.95, repetition_penalty=1.4), Sampling(1.0, repetition_penalty=1.4)),
}


def play(name: str, tables: Tables, rounds: int, k: int = 3, determined: bool = False, told=None) -> list[ChiSquare]:
    """`rounds` rounds from the empty context; a chi-square for each position, grouped by the law there,

    and one for the joint law of the first two tokens. Given the tokens before it, each token that a round emits has
    the target's law (what a round leaves open is the target's, too, so the open part cannot distort the rest).
    """
    chance = Chance(len(name) + rounds)
    checks = [ChiSquare() for _ in range(k + 2)]
    pair = {(a, b): tables.law(())[a] * tables.law((a,))[b] for a in range(VOCAB) for b in range(VOCAB)}
    for r in range(rounds):
        ids: tuple[int, ...] = ()
        rows = []
        while len(ids) < k and not (r % 2 and ids and ids[-1] == 0):  # every other round stops at a drafted 0
            row = tables.row("q", ids)
            ids += (int(row.argmax()) if determined else chance.draw(row),)
            rows.append(row)
        p = np.stack([tables.row("p", ids[:i]) for i in range(len(ids) + 1)])
        out = VERIFIERS[name](p, None if determined else (told or np.stack)(rows), ids, chance)
        emitted = (*ids[: out.accepted], out.extra)
        for i, token in enumerate(emitted):
            law = tables.law(emitted[:i])
            checks[i].add(tuple(law.values()), token, law)
        if len(emitted) == 1:
            emitted += (chance.draw(tables.row("p", emitted)),)
        checks[-1].add("pair", emitted[:2], pair)
    return checks


@pytest.mark.parametrize("setting", SAMPLINGS)
@pytest.mark.parametrize("name", VERIFIERS)
def test_each_position_has_the_targets_law(name, setting):
    rounds = ROUNDS if setting == "T" else ROUNDS // 3
    checks = play(name, Tables(*SAMPLINGS[setting]), rounds)
    assert checks[0].total() == rounds and checks[3].total() > rounds / 20
    assert [check.p_value() > ALARM for check in checks] == [True] * 5


@pytest.mark.parametrize("name", VERIFIERS)
def test_each_position_has_the_targets_law_when_tokens_are_determined(name):
    checks = play(name, Tables(*SAMPLINGS["T"], seed=1), ROUNDS // 2, determined=True)
    assert [check.p_value() > ALARM for check in checks] == [True] * 5


def always_accept(patch):
    patch.setattr(Chance, "accept", lambda self, probability: True)


def residual_from_p(patch):
    patch.setattr(verify, "_correct", lambda weight, p, q, i, token, chance: (chance.draw(p[i]), 1.0))


def ratio_too_large(patch):
    right = verify._ratio
    patch.setattr(verify, "_ratio", lambda *a: right(*a) * 1.3)


@pytest.mark.parametrize("mutant", (always_accept, residual_from_p, ratio_too_large))
@pytest.mark.parametrize("name", VERIFIERS)
def test_mutants_are_caught(monkeypatch, name, mutant):
    mutant(monkeypatch)
    checks = play(name, Tables(*SAMPLINGS["T"]), ROUNDS // 2)
    assert min(check.p_value() for check in checks) < ALARM


@pytest.mark.parametrize("name", VERIFIERS)
def test_q_that_was_not_drawn_from_is_caught(name):
    """The draft samples at T = 1.2 and says T = 1."""

    def told(rows):
        sharper = np.stack(rows) ** 1.2
        return sharper / sharper.sum(axis=1, keepdims=True)

    checks = play(name, Tables(*SAMPLINGS["T"]), ROUNDS, told=told)
    assert min(check.p_value() for check in checks) < ALARM
