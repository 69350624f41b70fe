"""Probability rows against transformers' own processors, and what must hold of every row."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from engines.errors import UserError
from engines.sampling import Chance, greedy_ids, margin, raw_stats, top, warp
from engines.settings import Sampling

V = 2000


def random_logits(n: int, vocab: int = V, seed: int = 0, scale: float = 3.0) -> torch.Tensor:
    return torch.randn(n, vocab, generator=torch.Generator().manual_seed(seed)) * scale


def reference(logits: torch.Tensor, s: Sampling, history: list[int], drafts: list[int]) -> torch.Tensor:
    """transformers' processors in transformers' order, row by row."""
    from transformers.generation import logits_process as hf

    steps = []
    if s.repetition_penalty != 1:
        steps.append(hf.RepetitionPenaltyLogitsProcessor(s.repetition_penalty))
    if s.temperature != 1:
        steps.append(hf.TemperatureLogitsWarper(s.temperature))
    if s.top_k:
        steps.append(hf.TopKLogitsWarper(s.top_k))
    if s.top_p < 1:
        steps.append(hf.TopPLogitsWarper(s.top_p))
    if s.min_p > 0:
        steps.append(hf.MinPLogitsWarper(s.min_p))
    rows = []
    for i, row in enumerate(logits):
        before = torch.tensor([history + drafts[:i]])
        scores = row[None].clone()
        for step in steps:
            scores = step(before, scores)
        rows.append(torch.softmax(scores, -1)[0])
    return torch.stack(rows)


GRID = list(
    itertools.product(
        (0.3, 1.0, 1.7),  # temperature
        (0, 1, 7, 300),  # top-k
        (1.0, 0.999, 0.9, 0.3),  # top-p
        (0.0, 0.02, 0.5),  # min-p
        (1.0, 1.3, 0.8),  # repetition penalty
    )
)


@pytest.mark.parametrize("temperature", (0.3, 1.0, 1.7))
def test_rows_equal_those_of_transformers(temperature):
    history, drafts = [5, 9, 5, 1700, 3], [9, 11, 3]
    for seed, setting in enumerate(s for s in GRID if s[0] == temperature):
        s = Sampling(*setting)
        logits = random_logits(4, seed=seed, scale=(0.5, 2.0, 6.0)[seed % 3])
        before = logits.clone()
        rows = warp(logits, s, history, drafts)
        want = reference(logits, s, history, drafts).numpy()
        assert rows.dtype == np.float32 and rows.shape == (4, V)
        np.testing.assert_array_equal(rows > 0, want > 0, err_msg=str(s))
        np.testing.assert_allclose(rows, want, rtol=2e-5, atol=1e-9, err_msg=str(s))
        np.testing.assert_allclose(rows.sum(axis=1, dtype=np.float64), 1, atol=2e-6)
        assert torch.equal(logits, before), "the logits must be left as they are"


@pytest.mark.parametrize("vocab", (1, 2, 63, 64, 65, 129, 49152))
@pytest.mark.parametrize("top_k", (1, 2, 50, 5000))
def test_top_k_at_every_width(vocab, top_k):
    """Narrower than the groups that the bound is taken over, not a multiple of them, and a real vocabulary."""
    s = Sampling(1.0, top_k=top_k)
    logits = random_logits(2, vocab, seed=top_k)
    np.testing.assert_allclose(warp(logits, s), reference(logits, s, [], []).numpy(), rtol=2e-5)


def test_ties_at_the_top_k_threshold_stay():
    logits = torch.tensor([[3.0, 1.0, 2.0, 2.0, 2.0, 0.0]])
    s = Sampling(1.0, top_k=2)
    rows = warp(logits, s)
    assert (rows[0] > 0).tolist() == [True, False, True, True, True, False]
    np.testing.assert_allclose(rows, reference(logits, s, [], []).numpy(), rtol=1e-6)


def test_top_p_takes_no_more_than_it_needs_of_a_tie():
    rows = warp(torch.zeros(1, 10), Sampling(1.0, top_p=0.45))
    assert np.flatnonzero(rows[0]).tolist() == [0, 1, 2, 3, 4]  # lowest ids first
    assert rows[0].max() == pytest.approx(0.2)


@pytest.mark.parametrize("top_p", (0.5, 0.9, 0.99, 0.9999))
@pytest.mark.parametrize("scale", (0.0, 0.01, 1.0, 4.0))
def test_top_p_on_flat_and_on_peaked_rows(scale, top_p):
    """From one survivor to nearly all of 49152: the fewest likeliest that reach top-p, counted in float64."""
    logits = random_logits(1, 49152, seed=3, scale=scale)
    rows = warp(logits, Sampling(1.0, top_p=top_p))
    probs = np.sort(torch.softmax(logits[0].double(), -1).numpy())[::-1]
    kept = np.count_nonzero(rows)
    assert probs[: kept + 1].sum() > top_p - 1e-6 and probs[: kept - 1].sum() < top_p + 1e-6
    likeliest = set(np.argsort(-logits[0].numpy(), kind="stable")[:kept].tolist())
    assert set(np.flatnonzero(rows[0]).tolist()) == likeliest


def test_penalty_sees_earlier_drafts_of_the_same_block():
    """Row i must not depend on whether a token was drafted or written: position by position the same."""
    s = Sampling(0.9, top_k=40, top_p=0.95, repetition_penalty=1.5)
    history, drafts = [1, 2, 3], [7, 7, 2, 8]
    logits = random_logits(5, 50, seed=1)
    block = warp(logits, s, history, drafts)
    ids = greedy_ids(logits, Sampling(0, repetition_penalty=1.5), history, drafts)
    for i in range(5):
        alone = warp(logits[i : i + 1], s, history + drafts[:i])
        np.testing.assert_array_equal(block[i], alone[0])
        assert ids[i] == greedy_ids(logits[i : i + 1], Sampling(0, repetition_penalty=1.5), history + drafts[:i])[0]
    assert not np.array_equal(block, warp(logits, s, history))


def test_penalty_is_applied_once_for_each_token_and_by_sign():
    logits = torch.tensor([[2.0, -2.0, 0.0, 1.0]])
    s = Sampling(1.0, repetition_penalty=2.0)
    rows = warp(logits, s, [0, 0, 0, 1, 1], [3, 3])  # row 0 comes before the drafts
    want = torch.softmax(torch.tensor([1.0, -4.0, 0.0, 1.0]), -1).numpy()
    np.testing.assert_allclose(rows[0], want, rtol=1e-6)


def test_penalty_of_ids_that_a_narrower_draft_lacks():
    rows = warp(random_logits(2, 10), Sampling(1.0, repetition_penalty=1.2), [3, 50], [60])
    want = warp(random_logits(2, 10), Sampling(1.0, repetition_penalty=1.2), [3], [])
    np.testing.assert_array_equal(rows, want)


@pytest.mark.parametrize("temperature", (0, 1e-4))
def test_S4_greedy_without_nan(temperature):
    s = Sampling(temperature)
    logits = random_logits(3) * 100
    assert s.greedy
    assert greedy_ids(logits, s) == logits.argmax(-1).tolist()
    rows = warp(logits, s)
    assert rows.sum(axis=1).tolist() == [1, 1, 1] and rows.argmax(axis=1).tolist() == logits.argmax(-1).tolist()


def test_greedy_takes_the_lowest_id_at_a_tie():
    assert greedy_ids(torch.tensor([[0.0, 2.0, 2.0], [1.0, 1.0, 1.0]]), Sampling()) == [1, 0]


@pytest.mark.parametrize("coldest", (1e-3, 2e-3, 0.05))
def test_the_coldest_temperature_that_still_samples(coldest):
    rows = warp(random_logits(2) * 50, Sampling(coldest))
    assert np.isfinite(rows).all() and rows.sum(axis=1) == pytest.approx([1, 1])


@pytest.mark.parametrize(
    "s", (Sampling(1.0, top_k=1), Sampling(1.0, top_p=1e-9), Sampling(1.0, min_p=1.0), Sampling(2.0, 1, 1e-9, 1.0))
)
@pytest.mark.parametrize("vocab", (1, 2, 5000))
def test_S6_support_of_one_token(s, vocab):
    logits = random_logits(3, vocab)
    rows = warp(logits, s)
    for row, want in zip(rows, logits.argmax(-1).tolist(), strict=True):
        assert np.flatnonzero(row).tolist() == [want]
        assert row[want] == 1  # exactly, so that acceptance is certain
        assert Chance(0).draw(row) == want


SETTINGS = (
    Sampling(),
    Sampling(1.0),
    Sampling(0.7, top_k=3),
    Sampling(0.7, top_p=0.9),
    Sampling(1.0, min_p=0.1),
    Sampling(0.7, 5, 0.9, 0.1, 1.2),
    Sampling(0, repetition_penalty=1.2),
)


@pytest.mark.parametrize("s", SETTINGS)
@pytest.mark.parametrize("bad", ("nan", "all -inf", "+inf"))
@pytest.mark.parametrize("vocab", (20, 5000))
def test_S7_nan_stops_the_run_with_a_clear_error(s, bad, vocab):
    logits = random_logits(3, vocab)
    if bad == "all -inf":
        logits[1] = -torch.inf
    else:
        logits[1, 13] = float("nan") if bad == "nan" else torch.inf
    with pytest.raises(UserError, match="NaN or infinity"):
        warp(logits, s, [1, 2, 13], [4, 5])


@pytest.mark.parametrize("s", SETTINGS)
@pytest.mark.parametrize("vocab", (20, 5000))
def test_S7_minus_infinity_is_a_legal_mask(s, vocab):
    logits = random_logits(3, vocab)
    logits[:, ::2] = -torch.inf
    logits[2, :] = -torch.inf
    logits[2, 7] = -4.0  # a single token that may come
    rows = warp(logits, s, [1, 2, 4], [6, 7])
    assert np.isfinite(rows).all() and rows.sum(axis=1) == pytest.approx([1, 1, 1])
    assert (rows[:, ::2] == 0).all() and rows[2, 7] == 1
    if not s.greedy:
        np.testing.assert_allclose(rows, reference(logits, s, [1, 2, 4], [6, 7]).numpy(), rtol=2e-5, atol=1e-9)


def test_fewer_tokens_left_than_top_k():
    logits = torch.full((1, 3000), -torch.inf)
    logits[0, [5, 1000]] = torch.tensor([1.0, 2.0])
    rows = warp(logits, Sampling(1.0, top_k=20))
    assert np.flatnonzero(rows[0]).tolist() == [5, 1000] and rows.sum() == pytest.approx(1)


def test_other_dtypes_strides_and_no_rows():
    logits = random_logits(2, 64)
    want = warp(logits.bfloat16().float(), Sampling(1.0, top_k=5))
    np.testing.assert_array_equal(warp(logits.bfloat16(), Sampling(1.0, top_k=5)), want)
    wide = torch.stack([logits, logits], dim=-1)[..., 0]  # strided
    np.testing.assert_array_equal(warp(wide, Sampling(0.8, top_p=0.9)), warp(logits, Sampling(0.8, top_p=0.9)))
    grown = logits.clone().requires_grad_()
    np.testing.assert_array_equal(warp(grown, Sampling(1.0)), warp(logits, Sampling(1.0)))
    for s in SETTINGS:
        assert warp(logits[:0], s).shape == (0, 64) and greedy_ids(logits[:0], s) == []


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("s", SETTINGS)
def test_rows_on_a_cuda_device_equal_those_on_the_cpu(s):
    logits = random_logits(3, 5000)
    args = ([1, 2, 13], [4, 5])
    np.testing.assert_allclose(warp(logits.cuda(), s, *args), warp(logits, s, *args), rtol=1e-5, atol=1e-9)
    assert greedy_ids(logits.cuda(), s, *args) == greedy_ids(logits, s, *args)
    there, here = raw_stats(logits.cuda(), [3, 4, 5]), raw_stats(logits, [3, 4, 5])
    assert there[1] == here[1] and there[0] == pytest.approx(here[0], rel=1e-5)


def test_raw_stats_are_probability_and_rank():
    logits = torch.tensor([[1.0, 3.0, 2.0, 2.0], [0.0, -torch.inf, 0.0, 0.0]])
    probs, rank = raw_stats(logits, [3, 1])
    assert probs == pytest.approx([torch.softmax(logits[0], -1)[3].item(), 0.0])
    assert rank == [1, 3]
    probs, rank = raw_stats(logits, [1])  # fewer ids than rows
    assert rank == [0] and probs == pytest.approx([torch.softmax(logits[0], -1)[1].item()])
    assert raw_stats(logits, []) == ([], [])


@pytest.mark.parametrize("vocab", (1, 3, 200, 5000))
@pytest.mark.parametrize("n", (0, 1, 2, 20))
def test_top_is_the_head_of_a_stable_sort(vocab, n):
    row = np.round(random_logits(1, vocab, seed=5)[0].numpy(), 1)  # many ties
    want = np.argsort(-row, kind="stable")[:n]
    for given in (row, torch.from_numpy(row)):
        assert top(given, n) == [(int(i), float(row[i])) for i in want]


def test_margin():
    assert margin(torch.tensor([1.0, 4.0, 2.5])) == 1.5
    assert margin(np.array([2.0, 2.0], dtype=np.float32)) == 0
    assert margin(torch.tensor([1.0])) is None and margin(torch.tensor([1.0, -torch.inf])) is None
