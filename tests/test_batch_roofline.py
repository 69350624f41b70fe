"""The roofline: numbers that can be worked out by hand, and what must hold of any GPU."""

from __future__ import annotations

import pytest

from engines.batch import roofline as r
from engines.cost import expected_tokens
from engines.errors import UserError
from engines.model.config import ModelConfig

# 1000 bytes/s and 1000 operations/s; 50 weights of 2 bytes: 100 bytes and 100 operations a token. No cache.
TOY = r.Gpu("toy", 1000.0, 1000.0, "made up")
BARE = r.Size("bare", weights=50, cache=0, width=0)
LONG = r.Size("long", weights=50, cache=5, width=0)  # 10 bytes of cache per position
H100 = r.find_gpu("h100")
LLAMA = r.find_size("Llama-3.1-8B")


def test_a_pass_takes_the_longer_of_its_bytes_and_its_operations():
    assert r.pass_seconds(TOY, BARE, 1, 1) == pytest.approx(0.1)  # 100 bytes, 100 operations: the ridge
    assert r.pass_seconds(TOY, BARE, 1, 3) == pytest.approx(0.3)  # operations
    fast = r.Gpu("fast", 1000.0, 8000.0, "made up")
    assert r.pass_seconds(fast, BARE, 1, 3) == r.pass_seconds(fast, BARE, 8, 1) == pytest.approx(0.1)  # bytes
    assert r.pass_seconds(fast, BARE, 16, 1) == pytest.approx(0.2)
    # Two sequences of 20 positions before, one new each: weights 100, and 2 x 21 x 10 bytes of cache.
    assert r.pass_seconds(TOY, LONG, 2, 1, context=20) == pytest.approx(0.52)


def test_attention_grows_with_what_is_seen():
    wide = r.Size("wide", weights=50, cache=0, width=10)
    assert r.operations(wide, 1, 1, 0) == 100 + 40  # one token sees itself: 4 x width
    assert r.operations(wide, 2, 3, 4) == 2 * (3 * 100 + 40 * (5 + 6 + 7))


def test_the_gain_is_whole_while_reading_and_a_share_of_k_plus_1_when_computing():
    fast = r.Gpu("fast", 1000.0, 100_000.0, "made up")
    per_pass = expected_tokens(0.8, 4)
    assert r.speedup(fast, BARE, 1, 0.8, 4) == pytest.approx(per_pass)
    assert r.speedup(fast, BARE, 20, 0.8, 4) == pytest.approx(per_pass)  # 5 x 20 tokens: exactly the ridge
    assert r.speedup(fast, BARE, 10_000, 0.8, 4) == pytest.approx(per_pass / 5)
    # Between: (W / bandwidth) x tokens / (batch x 5 / flops) = 1 at batch 20 x tokens per pass = 67.2
    assert r.gain_ends(fast, BARE, 0.8, 4) == 68
    assert r.speedup(fast, BARE, 67, 0.8, 4) > 1 >= r.speedup(fast, BARE, 68, 0.8, 4)


def test_nothing_accepted_never_gains_and_everything_accepted_always_breaks_even():
    assert r.gain_ends(H100, LLAMA, 0.0, 4) == 1 and r.speedup(H100, LLAMA, 1, 0.0, 4) <= 1
    fast = r.Gpu("fast", 1000.0, 100_000.0, "made up")
    assert r.speedup(fast, BARE, 100_000, 1.0, 4) == pytest.approx(1.0)


@pytest.mark.parametrize("gpu", r.GPUS, ids=lambda g: g.name)
def test_the_speed_up_falls_with_the_batch_and_rises_with_acceptance_and_context(gpu):
    batches = [2**i for i in range(14)]
    for size in r.SIZES:
        for context in (0, 512, 8192):
            curve = r.curve(gpu, size, batches, 0.7, 4, context)
            assert all(a >= b * (1 - 1e-12) for a, b in zip(curve, curve[1:], strict=False))
            assert curve[0] <= expected_tokens(0.7, 4)
        times = [r.pass_seconds(gpu, size, b, 5, 512) for b in batches]
        assert times == sorted(times)
        assert r.speedup(gpu, size, 64, 0.9, 4) > r.speedup(gpu, size, 64, 0.5, 4)
        assert r.speedup(gpu, size, 64, 0.7, 4, 8192) >= r.speedup(gpu, size, 64, 0.7, 4, 0)
        ends = r.gain_ends(gpu, size, 0.7, 4)
        assert ends and r.speedup(gpu, size, ends, 0.7, 4) <= 1 < r.speedup(gpu, size, ends - 1, 0.7, 4)


def test_long_texts_keep_the_gain_for_ever():
    """Where every sequence has more cache to read than there is to compute, the batch does not matter."""
    assert r.gain_ends(H100, LLAMA, 0.7, 2, context=100) is not None
    assert r.gain_ends(H100, LLAMA, 0.7, 2, context=60_000) is None


def test_sizes_are_those_of_the_models():
    """Parameters of the products: what the model card says, less the embedding where it is not the vocabulary layer."""
    assert LLAMA.weights == pytest.approx(8.03e9 - 128256 * 4096, rel=0.01)
    assert r.find_size("70b").weights == pytest.approx(70.6e9 - 128256 * 8192, rel=0.01)
    assert r.find_size("smollm2").weights == pytest.approx(134.5e6, rel=0.01)
    assert r.find_size("14b").weights == pytest.approx(14.8e9 - 151936 * 5120, rel=0.01)
    assert r.find_size("32b").weights == pytest.approx(32.8e9 - 151936 * 5120, rel=0.01)
    assert LLAMA.cache_total == 131072  # 32 layers x 2 x 8 heads x 128 x 2 bytes
    assert LLAMA.weight_total == 2 * LLAMA.weights
    config = ModelConfig.from_dict(
        {"model_type": "llama", "hidden_size": 576, "num_hidden_layers": 30, "num_attention_heads": 9,
         "num_key_value_heads": 3, "intermediate_size": 1536, "vocab_size": 49152, "tie_word_embeddings": True}
    )  # fmt: skip
    assert r.size_of("SmolLM2-135M", config) == r.find_size("SmolLM2-135M")


def test_the_rate_that_a_yield_amounts_to():
    for k in (1, 4, 8):
        for a in (0.1, 0.5, 0.9, 1.0):
            assert r.rate_of(expected_tokens(a, k), k) == pytest.approx(a, abs=1e-6)
        assert r.rate_of(1.0, k) == 0


def test_a_table_with_sources():
    assert len({g.name for g in r.GPUS}) == len(r.GPUS) and all(g.source for g in r.GPUS)
    assert r.find_gpu("nvidia h200 sxm").bandwidth == 4.8e12
    for name in ("H", "", "GTX 480"):
        with pytest.raises(UserError, match="choose one of"):
            r.find_gpu(name)


@pytest.mark.parametrize("numbers", [(0, 1), (1, -1), (float("nan"), 1), (1, float("inf"))])
def test_figures_that_are_none_are_refused(numbers):
    with pytest.raises(UserError, match="above 0"):
        r.Gpu("x", *numbers, "typed in")
    with pytest.raises(UserError, match="above 0"):
        r.Size("x", numbers[0] if numbers[0] != 1 else numbers[1], 0, 0)
    for bad in ((0, 1, 0), (1, 0, 0), (1, 1, -1)):
        with pytest.raises(ValueError, match="need batch"):
            r.pass_seconds(TOY, BARE, *bad)
