"""A run's own random numbers: repeatable, independent of everything global, and fair."""

from __future__ import annotations

import random
import threading

import numpy as np
import pytest
import torch
from exactness import ChiSquare

from engines.sampling import Chance, warp
from engines.settings import Sampling
from engines.verify import verify_block, verify_tokens


class Fixed(Chance):
    """Returns the given numbers instead of random ones."""

    def __init__(self, *numbers):
        super().__init__(0)
        self.numbers = list(numbers)

    def uniform(self):
        return self.numbers.pop(0)


LARGEST = 1 - 2.0**-53  # the largest number that `uniform` can return


def test_accept_is_sure_at_one_and_at_zero():
    chance = Fixed(LARGEST, 0.0, 0.5, 0.5)
    assert chance.accept(1) and chance.last == LARGEST
    assert not chance.accept(0) and chance.last == 0.0
    assert not chance.accept(0.5)
    assert chance.accept(0.5000001)


def test_draw_is_the_inverse_distribution_function():
    weights = np.array([0, 2, 0, 6, 0], dtype=np.float32)  # any sum will do
    for u, want in ((0.0, 1), (0.2499, 1), (0.25, 3), (0.9, 3), (LARGEST, 3)):
        assert Fixed(u).draw(weights) == want


@pytest.mark.parametrize("vocab", (4096, 5000, 49152, 151936))
def test_draw_over_a_vocabulary_is_the_same_function_in_two_steps(vocab):
    random_ = np.random.default_rng(vocab)
    weights = (random_.random(vocab) ** 20).astype(np.float32)
    weights[random_.random(vocab) < 0.5] = 0
    sums = np.cumsum(weights, dtype=np.float64)
    for u in random_.random(200):
        got = Fixed(u).draw(weights)
        assert weights[got] > 0
        # to within the rounding of sums that were taken in another order
        assert sums[got] - weights[got] - 1e-9 <= u * sums[-1] <= sums[got] + 1e-9


@pytest.mark.parametrize("vocab", (7, 4096, 5000, 49152))
def test_draw_never_returns_a_weight_of_zero(vocab):
    random_ = np.random.default_rng(1)
    for _ in range(60):
        weights = np.zeros(vocab, dtype=np.float32)
        at = random_.choice(vocab, size=random_.integers(1, 4), replace=False)
        weights[at] = random_.random(len(at)).astype(np.float32) ** 8 + np.float32(1e-38)
        for u in (0.0, LARGEST, random_.random()):
            assert Fixed(u).draw(weights) in at
    tiny = np.zeros(vocab)
    tiny[3] = 5e-324  # the smallest double: u * total rounds up to total
    assert Fixed(LARGEST).draw(tiny) == 3


@pytest.mark.parametrize("vocab", (1, 3, 5000))
def test_nothing_to_draw_from(vocab):
    for bad in (0.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="Nothing to draw from"):
            Chance(0).draw(np.full(vocab, bad, dtype=np.float32))
    with pytest.raises(ValueError):
        Chance(0).draw(np.zeros(0, dtype=np.float32))


@pytest.mark.parametrize("vocab", (6, 6000))
def test_draws_follow_the_weights(vocab):
    weights = np.zeros(vocab, dtype=np.float32)
    at = np.linspace(0, vocab - 1, 6).astype(int)
    weights[at] = (1, 2, 3, 4, 5, 0)
    law = {int(i): weights[i] / 15 for i in at}
    chance, check = Chance(7), ChiSquare()
    for _ in range(20_000):
        check.add("draw", chance.draw(weights), law)
    assert 1e-6 < check.p_value() < 1 - 1e-6


def test_accept_follows_the_probability():
    chance, check = Chance(8), ChiSquare()
    for p in (0.01, 0.3, 0.97):
        for _ in range(10_000):
            check.add(p, chance.accept(p), {True: p, False: 1 - p})
    assert 1e-6 < check.p_value() < 1 - 1e-6


def a_run(seed: int, verifier=verify_tokens, rounds: int = 40) -> list:
    """Draft, warp, verify, over and over: everything here that touches random numbers."""
    chance, out = Chance(seed), []
    for r in range(rounds):
        logits = torch.from_numpy(np.random.default_rng(r).normal(size=(4, 40)).astype(np.float32))
        p = warp(logits, Sampling(1.0, top_p=0.95, repetition_penalty=1.1), out[-5:])
        q = warp(logits[:3] * 0.8, Sampling(0.9, top_k=10))
        ids = [chance.draw(row) for row in q]
        got = verifier(p, q, ids, chance)
        out += [*ids[: got.accepted], got.extra]
    return out


def test_S3_other_seeds_give_other_output():
    assert len({tuple(a_run(seed)) for seed in range(20)}) == 20


@pytest.mark.parametrize("verifier", (verify_tokens, verify_block))
def test_S8_same_seed_same_output_and_no_global_state(verifier):
    """Also while other panels run, and whatever the global generators do meanwhile."""
    want = {seed: a_run(seed, verifier) for seed in range(4)}
    random.seed(1)
    np.random.seed(2)
    torch.manual_seed(3)
    before = random.getstate(), np.random.get_state(), torch.get_rng_state()
    got: dict[int, list] = {}
    start = threading.Barrier(4)

    def panel(seed):
        start.wait()
        got[seed] = a_run(seed, verifier)

    threads = [threading.Thread(target=panel, args=(seed,)) for seed in want]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert got == want
    after = random.getstate(), np.random.get_state(), torch.get_rng_state()
    assert before[0] == after[0] and torch.equal(before[2], after[2])
    assert all(np.array_equal(a, b) for a, b in zip(before[1], after[1], strict=True))
    torch.manual_seed(99)
    np.random.seed(98)
    random.seed(97)
    assert a_run(0, verifier) == want[0]
