"""The default model, real weights: speculation changes no greedy token, and runs end where they should."""

from __future__ import annotations

import json
import shutil

import pytest
import torch
from prompts import ALL, KINDS

from engines.bench import identity
from engines.decode import decode
from engines.errors import UserError
from engines.events import from_json, to_json
from engines.fold import fold
from engines.settings import RunSettings, Sampling

pytestmark = pytest.mark.model
PROMPTS = ALL
TWENTY = [p for kind, four in KINDS.items() for p in four[: 4 if kind in ("code", "edit") else 3]]
TOKENS = 64


@pytest.fixture(scope="session")
def small_draft(model_folder, tmp_path_factory):
    """A real draft model with weights of its own: the target without layers 10 to 14, saved as a model of 25 layers."""
    from safetensors import safe_open
    from safetensors.torch import save_file

    folder = tmp_path_factory.mktemp("draft") / "smollm2-25-layers"
    shutil.copytree(model_folder, folder)
    config = json.loads((folder / "config.json").read_text())
    keep = [i for i in range(config["num_hidden_layers"]) if not 10 <= i <= 14]
    (folder / "config.json").write_text(json.dumps({**config, "num_hidden_layers": len(keep)}))
    tensors = {}
    with safe_open(model_folder / "model.safetensors", "pt") as file:
        for name in file.keys():  # noqa: SIM118 - not a dict
            parts = name.split(".")
            if "layers" in parts:
                at = parts.index("layers") + 1
                if int(parts[at]) not in keep:
                    continue
                parts[at] = str(keep.index(int(parts[at])))
            tensors[".".join(parts)] = file.get_tensor(name)
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    return str(folder)


def run(models, prompt, stopped=lambda: False, **settings):
    settings.setdefault("max_new_tokens", TOKENS)
    job = models.job(RunSettings(**settings), prompt, lambda *a: None, stopped)
    return list(decode(job))


WAYS = {
    "ngram": {"proposer": "ngram", "k": 6},
    "layer-skip": {"proposer": "layer-skip", "k": 2},
    "draft": {"proposer": "draft", "k": 2},
    "adaptive ngram": {"proposer": "ngram", "k": 8, "adaptive": True},
}


def settings_of(way, draft):
    return {**WAYS[way], **({"draft": draft} if way == "draft" else {})}


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("way", WAYS)
def test_greedy_ids_equal_plain_decodings_in_single_precision(models, plain_runs, small_draft, way):
    """20 prompts of six kinds, 64 tokens each, token by token, float32: not one id differs."""
    assert len(TWENTY) == 20
    for prompt in TWENTY:
        events = run(models, prompt, dtype="fp32", **settings_of(way, small_draft))
        assert events[-1].ids == plain_runs(prompt, "fp32")[-1].ids, prompt


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("way", [w for w in WAYS if "adaptive" not in w])
def test_greedy_ids_in_the_other_kernels_differ_only_at_near_ties(models, plain_runs, small_draft, way):
    """The same prompts verified by block, in the dtype that is chosen here by itself: identical, or a near-tie."""
    for prompt in TWENTY:
        events = run(models, prompt, verify="block", **settings_of(way, small_draft))
        got = identity(plain_runs(prompt, "auto"), events)
        assert got.verdict in ("identical", "near-tie"), (prompt, got)


def test_bf16_differs_only_at_near_ties(models, plain_runs):
    for prompt in PROMPTS[4:8]:
        events = run(models, prompt, dtype="bf16", proposer="ngram", k=4, max_new_tokens=32)
        got = identity(plain_runs(prompt, "bf16", 32), events)
        assert got.verdict in ("identical", "near-tie"), (prompt, got)


@pytest.mark.parametrize("way", WAYS)
def test_a_prompt_of_one_token(models, plain_runs, small_draft, way):
    """E1."""
    one = {"raw": True, "dtype": "fp32", "max_new_tokens": 24}
    assert len(run(models, "The", **one)[0].prompt_ids) == 1
    events = run(models, "The", **one, **settings_of(way, small_draft))
    assert events[-1].ids == plain_runs("The", "fp32", 24, raw=True)[-1].ids


@pytest.mark.parametrize("dtype", ["fp32", "auto", "bf16"])
def test_a_text_that_repeats_one_word(models, plain_runs, dtype):
    """E2."""
    prompt = "serving " * 48
    plain = plain_runs(prompt, dtype, 32, raw=True)
    events = run(models, prompt, dtype=dtype, raw=True, proposer="ngram", k=4, max_new_tokens=32)
    got = identity(plain, events)
    assert got.verdict == "identical" or (dtype != "fp32" and got.verdict == "near-tie"), got
    assert fold(events).metrics().tokens_per_pass > 1.2


def test_stop_strings_on_real_text(models, plain_runs):
    """E4: wherever the stop string lies, speculation ends where plain decoding does."""
    text = plain_runs(PROMPTS[4], "auto")[-1].text
    for begin in range(5, len(text) - 12, 71):
        stop = text[begin : begin + 7]
        want = text[: text.index(stop)]
        for proposer in ("none", "ngram"):
            events = run(models, PROMPTS[4], proposer=proposer, k=6, stop=(stop,))
            done = events[-1]
            assert (done.reason, done.text) == ("stop", want)
            assert done.keep == len(done.ids) == fold(events).metrics().emitted


def test_one_token_only(models, plain_runs):
    """E5."""
    events = run(models, PROMPTS[0], proposer="ngram", k=5, max_new_tokens=1)
    assert events[-1].ids == plain_runs(PROMPTS[0], "auto")[-1].ids[:1]


def test_no_end_token_runs_to_the_limit(models):
    """E7, by leaving the end token out of account."""
    events = run(models, "Say hi.", proposer="ngram", ignore_eos=True, max_new_tokens=60)
    assert events[-1].reason == "length" and len(events[-1].ids) == 60
    assert any(e.reason == "eos" for e in [run(models, "Say hi.", max_new_tokens=60)[-1]])


@pytest.mark.timeout(600)
def test_prompts_at_the_context_limit(models, model_folder, tmp_path):
    """E9: limit - 1 continues to the limit; limit and limit + 8 are clear errors, and the models go on working.

    On the same weights with a context of 256, so that it does not take minutes.
    """
    folder = tmp_path / "short"
    shutil.copytree(model_folder, folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "max_position_embeddings": 256}))
    word = " one"
    for proposer in ("none", "ngram", "layer-skip"):
        settings = {"target": str(folder), "raw": True, "proposer": proposer, "max_new_tokens": 50}
        events = run(models, word * 255, **settings)
        assert len(events[0].prompt_ids) == 255 and len(events[-1].ids) == 1 and events[-1].reason == "length"
        events = run(models, word * 250, **settings)
        assert len(events[-1].ids) == 6 and "256" in events[-1].message
        for n in (256, 264):
            with pytest.raises(UserError, match=f"{n} tokens"):
                run(models, word * n, **settings)
    assert run(models, "Hello", max_new_tokens=3)[-1].reason == "length"


def test_an_empty_prompt_starts_from_the_beginning_of_text(models):
    """E10."""
    for prompt in ("", "   \n"):
        events = run(models, prompt, raw=True, max_new_tokens=3)
        assert len(events[0].prompt_ids) >= 1 and len(events[-1].ids) == 3
        assert run(models, prompt, max_new_tokens=3)[-1].ids


def test_a_draft_equal_to_the_target(models):
    """E15: acceptance 100 %, every round ends in a bonus token."""
    events = run(
        models,
        PROMPTS[8],
        proposer="draft",
        draft="smollm2-135m-instruct",
        k=3,
        max_new_tokens=40,
        dtype="fp32",
        ignore_eos=True,
    )
    m = fold(events).metrics()
    assert m.acceptance_rate == 1.0 and m.bonus == m.rounds == 10 and m.corrected == 0


def test_a_draft_that_cannot_be_loaded_is_an_error(models, tmp_path):
    """E16: never a silent fall back to plain decoding."""
    with pytest.raises(UserError, match="draft"):
        run(models, "Hi", proposer="draft", draft=str(tmp_path))
    with pytest.raises(UserError, match="draft"):
        run(models, "Hi", proposer="draft", draft="no-such-model")


def test_a_smaller_context_of_the_draft(models, small_draft, tmp_path):
    """E8."""
    folder = tmp_path / "short-draft"
    shutil.copytree(small_draft, folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "max_position_embeddings": 60}))
    settings = {"max_new_tokens": 40, "dtype": "fp32"}
    events = run(models, PROMPTS[0], proposer="draft", draft=str(folder), k=3, **settings)
    assert any(e.type == "draft" and e.note and "60 tokens" in e.note for e in events)
    assert events[-1].ids == run(models, PROMPTS[0], **settings)[-1].ids


@pytest.mark.parametrize("verify", ["token", "block"])
def test_the_same_seed_gives_the_same_trace(models, verify):
    """E14, S8: with another prompt between, and without touching torch's global state."""
    settings = {
        "proposer": "layer-skip", "k": 3, "verify": verify, "sampling": Sampling(0.8, top_p=0.95), "seed": 5,
        "candidates": 3, "max_new_tokens": 20,
    }  # fmt: skip
    state = torch.random.get_rng_state()

    def clean(events):
        out = [json.loads(to_json(e)) for e in events]
        for e in out:
            for name in ("seconds", "metrics", "costs"):
                e.pop(name, None)
        return out

    first = run(models, PROMPTS[20], **settings)
    other = run(models, PROMPTS[3], **{**settings, "max_new_tokens": 5})
    again = run(models, PROMPTS[20], **settings)
    assert clean(first) == clean(again) != clean(other)
    assert torch.equal(state, torch.random.get_rng_state())


def test_twenty_seeds_vary(models):
    """S3."""
    settings = {"sampling": Sampling(1.0), "max_new_tokens": 6, "proposer": "ngram"}
    texts = {run(models, PROMPTS[20], seed=seed, **settings)[-1].text for seed in range(20)}
    assert len(texts) > 10


def test_the_trace_is_the_run(models):
    events = run(models, PROMPTS[5], proposer="ngram", k=6, candidates=5, max_new_tokens=30)
    again = [from_json(to_json(e)) for e in events]
    assert again == events and fold(again).metrics().to_json() == events[-1].metrics
    start = events[0]
    assert "".join(start.prompt_tokens) == start.prompt_text and PROMPTS[5] in start.prompt_text
    ids = start.prompt_ids + events[-1].ids
    copied = [t for e in events if e.type == "draft" for t in e.tokens]
    assert copied and all(t.source for t in copied)
    for e in (e for e in events if e.type == "draft" and e.tokens):
        begin = e.tokens[0].source[1] - 1
        assert ids[begin] == e.tokens[0].id  # the copied token is where the source says


def test_stop_on_request(models):
    """U5, at the engine, on the real model."""
    asked = []
    events = []
    job = models.job(
        RunSettings(max_new_tokens=500, proposer="ngram"), PROMPTS[21], lambda *a: None, lambda: bool(asked)
    )
    for event in decode(job):
        events.append(event)
        if event.type == "verdict" and event.round == 5:
            asked.append(1)
    assert events[-1].reason == "stopped" and max(e.round for e in events if e.type == "verdict") == 5
    assert events[-1].text


def test_all_prompts_are_different():
    assert len(set(ALL)) == len(ALL) == 24
