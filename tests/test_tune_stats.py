"""Intervals of ratios: they hold the truth as often as they say, whatever the prompts are like."""

from __future__ import annotations

import numpy as np
import pytest

from engines.tune.stats import Pair, ratio, student


@pytest.mark.parametrize(
    ("p", "degrees", "wanted"),
    [(0.95, 1, 6.314), (0.95, 2, 2.920), (0.95, 3, 2.353), (0.95, 7, 1.895), (0.99, 5, 3.365), (0.99, 30, 2.457)],
)
def test_students_quantiles_are_the_tables(p, degrees, wanted):
    assert student(p, degrees) == pytest.approx(wanted, rel=0.005)


def draw(rng, prompts, kinds=1, noise=0.05, repeats=1):
    """Prompts of kinds that differ, whose speed-ups vary; the truth is the ratio of the expected times."""
    pairs, truth = [], [0.0, 0.0]
    for kind in range(kinds):
        gain = 1.2 + 0.5 * kind
        truth[0] += np.exp(0.3**2 / 2)
        truth[1] += np.exp(0.3**2 / 2) * np.exp(0.25**2 / 2) / gain
        for i in range(prompts // kinds):
            plain = np.exp(0.3 * rng.normal())
            other = plain / gain * np.exp(0.25 * rng.normal())
            for _ in range(repeats):
                a, b = plain * np.exp(noise * rng.normal()), other * np.exp(noise * rng.normal())
                pairs.append(Pair(100 * kind + i, f"kind {kind}", a, b))
    return pairs, truth[0] / truth[1]


@pytest.mark.parametrize(("prompts", "kinds", "repeats"), [(6, 1, 1), (8, 1, 1), (30, 1, 1), (12, 4, 2), (6, 6, 1)])
def test_coverage_at_the_stated_rate(prompts, kinds, repeats):
    rng = np.random.default_rng(7)
    inside = tried = 0
    for seed in range(300):
        pairs, truth = draw(rng, prompts, kinds, repeats=repeats)
        found = ratio(pairs, {f"kind {k}": 1 / kinds for k in range(kinds)}, resamples=300, seed=seed)
        inside += found.low <= truth <= found.high
        tried += 1
    assert 0.85 <= inside / tried <= (0.96 if kinds < prompts else 1.0)  # single prompts of a kind: wide on purpose


def test_categories_count_by_their_share_of_the_workload():
    pairs = [Pair(1, "a", 2.0, 1.0), Pair(2, "a", 2.0, 1.0), Pair(3, "b", 1.0, 1.0), Pair(4, "b", 1.0, 1.0)]
    assert ratio(pairs, {"a": 0.5, "b": 0.5}).value == pytest.approx(1.5)
    assert ratio(pairs, {"a": 0.9, "b": 0.1}).value == pytest.approx(1.9)
    assert ratio(pairs[:3], {"a": 0.5, "b": 0.5}).value == pytest.approx(1.5)  # half of b was not run yet


def test_repetitions_are_no_further_prompts():
    rng = np.random.default_rng(1)
    pairs, _ = draw(rng, 6)
    once, often = ratio(pairs), ratio(pairs * 10)
    assert often.prompts == 6 and often.high - often.low > 0.8 * (once.high - once.low)


def test_one_prompt_says_how_steady_the_runs_were_and_no_more():
    alone = ratio([Pair(1, "", 2.0, 1.0)])
    assert (alone.value, alone.low, alone.high) == (2.0, None, None) and not alone.above_one
    some = ratio([Pair(1, "", 2.0, 1.0 + 0.01 * i) for i in range(5)])
    assert not some.of_prompts and some.low < some.value < some.high
    assert ratio([]) is None


def test_the_same_every_time():
    pairs, _ = draw(np.random.default_rng(2), 9, 3)
    assert ratio(pairs, seed=4) == ratio(pairs, seed=4) != ratio(pairs, seed=5)
