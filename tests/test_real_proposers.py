"""Trees, recycled thoughts and the shipped head on the default model: no greedy token changes, and much is gained."""

from __future__ import annotations

import pytest
from prompts import KINDS

from engines import heads
from engines.bench import identity
from engines.decode import decode
from engines.fold import fold
from engines.settings import RunSettings, Sampling

pytestmark = pytest.mark.model
SIX = [four[0] for four in KINDS.values()]
TOKENS = 64
WAYS = {
    "eagle": {"proposer": "eagle", "k": 3},
    "eagle-tree": {"proposer": "eagle", "k": 6, "branch": 3, "adaptive": True},
    "suffix": {"proposer": "suffix", "k": 5},
    "suffix-tree": {"proposer": "suffix", "k": 6, "branch": 3},
    "recycle": {"proposer": "recycle", "k": 5},
    "auto": {"proposer": "auto", "k": 8},
    "draft": {"proposer": "draft", "draft": "smollm2-135m-instruct-draft", "k": 3},
}


def run(models, prompt, **settings):
    settings.setdefault("max_new_tokens", TOKENS)
    return list(decode(models.job(RunSettings(**settings), prompt, lambda *a: None)))


@pytest.mark.timeout(900)
@pytest.mark.parametrize("way", WAYS)
def test_greedy_ids_equal_plain_decodings_in_single_precision(models, plain_runs, way):
    """Six prompts, one of a kind, 64 tokens each: not one id differs."""
    assert len(SIX) == 6
    for prompt in SIX:
        assert run(models, prompt, dtype="fp32", **WAYS[way])[-1].ids == plain_runs(prompt, "fp32")[-1].ids, prompt


@pytest.mark.timeout(900)
@pytest.mark.parametrize("way", WAYS)
def test_greedy_ids_in_the_chosen_kernel_differ_only_at_near_ties(models, plain_runs, way):
    passes = emitted = 0
    for prompt in SIX:
        events = run(models, prompt, **WAYS[way])
        got = identity(plain_runs(prompt, "auto"), events)
        assert got.verdict in ("identical", "near-tie"), (prompt, got)
        m = fold(events).metrics()
        passes, emitted = passes + m.rounds, emitted + m.emitted
    assert emitted / passes > {"eagle": 1.25, "eagle-tree": 1.3, "recycle": 1.2, "auto": 1.4}.get(way, 1.05)


@pytest.mark.parametrize("way", WAYS)
def test_a_seed_gives_one_run_at_a_temperature(models, way):
    hot = {"sampling": Sampling(0.8, top_p=0.95), "seed": 5, "max_new_tokens": 24}
    first, second = (run(models, SIX[0], **hot, **WAYS[way]) for _ in range(2))
    assert first[-1].ids == second[-1].ids
    assert first[-1].reason in ("length", "eos")


@pytest.mark.parametrize("kind", ["eagle", "draft"])
def test_what_is_shipped_is_small_and_has_a_card(kind):
    name = heads.for_target("smollm2-135m-instruct", kind)
    folder = heads.find(name)["folder"]
    assert (folder / "model.safetensors").stat().st_size <= 30_000_000
    assert "Held-out acceptance by depth" in (folder / "README.md").read_text(encoding="utf-8")
    assert heads.recycling("smollm2-135m-instruct")
