"""Every covered family against transformers: tiny random models, saved and loaded, float32 logits compared."""

from __future__ import annotations

import json

import pytest
import torch

from engines.errors import UserError
from engines.model.decoder import Decoder
from engines.model.load import load

transformers = pytest.importorskip("transformers")

SIZES = {
    "vocab_size": 97,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
}
LLAMA3 = {"rope_type": "llama3", "rope_theta": 500.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 16}  # fmt: skip
YARN = {"rope_type": "yarn", "rope_theta": 1000.0, "factor": 4.0, "original_max_position_embeddings": 32}

CASES = {
    "llama": ("Llama", {}),
    "llama-no-gqa": ("Llama", {"num_key_value_heads": 4}),
    "llama-one-kv-head": ("Llama", {"num_key_value_heads": 1}),
    "llama-head-dim": ("Llama", {"head_dim": 6}),
    "llama-bias": ("Llama", {"attention_bias": True, "mlp_bias": True}),
    "llama-tied": ("Llama", {"tie_word_embeddings": True}),
    "llama-llama3-rope": ("Llama", {"rope_parameters": LLAMA3}),
    "llama-linear-rope": ("Llama", {"rope_parameters": {"rope_type": "linear", "rope_theta": 100.0, "factor": 3.0}}),
    "qwen2": ("Qwen2", {}),
    "qwen2-yarn": ("Qwen2", {"rope_parameters": YARN}),
    "qwen2-window": (
        "Qwen2",
        {"use_sliding_window": True, "sliding_window": 5, "max_window_layers": 1},
    ),
    "qwen3": ("Qwen3", {"head_dim": 16}),
    "qwen3-tied": ("Qwen3", {"head_dim": 8, "tie_word_embeddings": True, "attention_bias": True}),
    "mistral": ("Mistral", {"sliding_window": None}),
    "mistral-window": ("Mistral", {"sliding_window": 6, "head_dim": 8}),
    "gemma3-window-4": ("Gemma3Text", {"sliding_window": 4, "head_dim": 8, "query_pre_attn_scalar": 10}),
    "gemma3-window-8": (
        "Gemma3Text",
        {
            "sliding_window": 8,
            "head_dim": 16,
            "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
            "rope_parameters": {
                "full_attention": {"rope_type": "linear", "rope_theta": 5000.0, "factor": 8.0},
                "sliding_attention": {"rope_type": "default", "rope_theta": 100.0},
            },
        },
    ),
}
IDS = torch.randint(0, 97, (45,), generator=torch.Generator().manual_seed(3)).tolist()


def hf_model(kind: str, changes: dict) -> transformers.PreTrainedModel:
    """A tiny model whose every weight is random: biases and norms too, which transformers would start at 0 and 1."""
    sizes = {**SIZES, **changes}
    config = getattr(transformers, f"{kind}Config")(**sizes, pad_token_id=0, bos_token_id=1, eos_token_id=2)
    names = {"Gemma3Text": "Gemma3ForCausalLM"}
    model = getattr(transformers, names.get(kind, f"{kind}ForCausalLM"))(config).eval()
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            spread = 0.3 if weight.ndim == 1 else 1.5 * weight.shape[-1] ** -0.5
            noise = torch.randn(weight.shape, generator=generator) * spread
            weight.copy_(noise + 1 if "norm" in name and kind != "Gemma3Text" else noise)
    return model


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    """name -> (transformers model, our decoder loaded from what it saved, the folder), each made once."""
    made = {}

    def get(name: str):
        if name not in made:
            folder = tmp_path_factory.mktemp(name)
            model = hf_model(*CASES[name])
            model.save_pretrained(folder)
            made[name] = (model, load(folder, "fp32", "cpu"), folder)
        return made[name]

    return get


@torch.inference_mode()
def hf_logits(model, ids) -> torch.Tensor:
    return model(torch.tensor([ids]), use_cache=False).logits[0]


def close(a: torch.Tensor, b: torch.Tensor, tolerance: float = 2e-4) -> bool:
    return a.shape == b.shape and (a - b).abs().max().item() < tolerance


@pytest.mark.parametrize("name", CASES)
def test_logits_equal_those_of_transformers(pairs, name):
    model, decoder, _ = pairs(name)
    want = hf_logits(model, IDS)
    assert want.std() > 0.3  # a test on vanishing logits would prove nothing
    assert isinstance(decoder, Decoder)
    assert close(decoder.session().forward(IDS), want)


@pytest.mark.parametrize("name", CASES)
def test_pieces_and_rollbacks_change_nothing(pairs, name):
    """E13: prefill in pieces, rows of 1 and more behind a cache, rejected tokens rolled back across the window."""
    model, decoder, _ = pairs(name)
    want = hf_logits(model, IDS)
    session = decoder.session(64)
    rows = [session.forward(IDS[:11]), session.forward(IDS[11:12])]
    wrong = [(x + 5) % 97 for x in IDS]
    at = 12
    for accepted in (1, 3, 0, 5, 2, 0, 7, 1, 4, 5, 3):  # propose 7, keep some
        block = IDS[at : at + accepted] + wrong[at + accepted : at + 7]
        logits = session.forward(block)
        session.rollback(at + accepted)
        rows.append(logits[:accepted])
        at += accepted
    rows.append(session.forward(IDS[at:]))
    assert session.length == len(IDS)
    assert close(torch.cat(rows), want)


@pytest.mark.parametrize("name", CASES)
def test_a_batch_equals_its_rows_alone(pairs, name):
    _, decoder, _ = pairs(name)
    texts = [IDS[:30], IDS[5:35], list(reversed(IDS))[:30]]
    want = [decoder.session(64).forward(t) for t in texts]
    batch = decoder.batch(3, 64)
    got = batch.forward([t[:10] for t in texts])
    assert all(close(got[b], want[b][:10]) for b in range(3))
    lengths = [10, 4, 7]  # each row keeps another number
    batch.rollback(lengths)
    for _ in range(4):
        new = batch.forward([t[n : n + 5] for t, n in zip(texts, lengths, strict=True)])
        for b, n in enumerate(lengths):
            assert close(new[b], want[b][n : n + 5])
        lengths = [n + keep for n, keep in zip(lengths, (4, 5, 2), strict=True)]
        batch.rollback(lengths)
    one = batch.forward([[t[n]] for t, n in zip(texts, lengths, strict=True)])
    assert all(close(one[b], want[b][n : n + 1]) for b, n in enumerate(lengths))


@pytest.mark.parametrize("name", CASES)
def test_an_uneven_pass_equals_its_rows_alone(pairs, name):
    """Rows of other lengths that feed other numbers of tokens, none among them."""
    _, decoder, _ = pairs(name)
    texts = [IDS[:30], IDS[5:35], list(reversed(IDS))[:30]]
    want = [decoder.session(64).forward(t) for t in texts]
    batch, at = decoder.batch(3, 64), [0, 0, 0]
    for counts in ([7, 1, 4], [1, 3, 0], [0, 0, 2], [5, 5, 5], [1, 1, 1], [2, 9, 1]):
        new = batch.forward_uneven([t[n : n + c] for t, n, c in zip(texts, at, counts, strict=True)])
        rows = new.split(counts)
        assert all(close(rows[b], want[b][n : n + counts[b]]) for b, n in enumerate(at) if counts[b])
        at = [n + c for n, c in zip(at, counts, strict=True)]
        assert batch.lengths == at
    batch.rollback([at[0] - 3, at[1], at[2] - 1])
    new = batch.forward_uneven([texts[0][at[0] - 3 : at[0]], [], texts[2][at[2] - 1 : at[2]]])
    assert close(new[:3], want[0][at[0] - 3 : at[0]]) and close(new[3:], want[2][at[2] - 1 : at[2]])
    assert batch.forward_uneven([[1], [], []], logits=False).shape == (0, decoder.vocab_size)
    with pytest.raises(ValueError, match="a token among them"):
        batch.forward_uneven([[], [], []])


# A tree of 9 rows; each row's forebears are its path.
PARENTS = [-1, 0, 0, 1, 1, 2, 3, 6, 7]


@pytest.mark.parametrize("name", CASES)
def test_each_path_of_a_tree_equals_a_text_of_its_own(pairs, name):
    """At two lengths of the text, one of them well beyond any window."""
    _, decoder, _ = pairs(name)
    for before in (3, 20):
        session = decoder.session(taps=(1, 3))
        session.forward(IDS[:before])
        ids = IDS[before : before + len(PARENTS)]
        logits = session.forward(ids, parents=PARENTS)
        for i in range(len(PARENTS)):
            path, at = [], i
            while at >= 0:
                path.insert(0, at)
                at = PARENTS[at]
            alone = decoder.session(taps=(1, 3))
            alone.forward(IDS[:before])
            expected = alone.forward([ids[j] for j in path])
            assert close(logits[path], expected), (before, i)
            assert close(session.features[[before + j for j in path]], alone.features[before : alone.length])


@pytest.mark.parametrize("name", CASES)
def test_keeping_a_path_of_a_tree_is_as_if_nothing_else_had_been_run(pairs, name):
    _, decoder, _ = pairs(name)
    for rows in ([0], [0, 1, 3, 6, 7, 8], [0, 2, 5], [0, 1, 4], []):
        session, alone = decoder.session(taps=(2,)), decoder.session(taps=(2,))
        for s in (session, alone):
            s.forward(IDS[:12])
        ids = IDS[12 : 12 + len(PARENTS)]
        session.forward(ids, parents=PARENTS)
        session.keep(rows)
        alone.forward([ids[i] for i in rows])
        assert session.length == alone.length
        assert close(session.features[: session.length], alone.features[: alone.length])
        assert close(session.forward(IDS[30:34]), alone.forward(IDS[30:34])), rows
    with pytest.raises(ValueError, match="cannot keep"):
        session.keep([3, 1])
    with pytest.raises(ValueError, match="cannot hang"):
        session.forward([1, 2], parents=[-1, 1])


@pytest.mark.parametrize("name", ["llama", "gemma3-window-4"])
def test_features_are_the_residual_stream_behind_a_layer(pairs, name):
    reference, decoder, _ = pairs(name)
    session, batch = decoder.session(taps=(1, 2)), decoder.batch(2, taps=(1, 2))
    for i in range(0, 30, 7):
        session.forward(IDS[i : i + 7])
    with torch.no_grad():
        states = reference(torch.tensor([IDS[:35]]), output_hidden_states=True).hidden_states
    assert close(session.features[:35], torch.cat([states[1][0], states[2][0]], -1))
    batch.forward([IDS[:9], IDS[3:12]])
    batch.rollback([9, 4])
    batch.forward([IDS[9:14], IDS[7:12]])
    assert close(batch.features[0, :14], session.features[:14])
    with pytest.raises(UserError, match="3 layers"):
        decoder.session(taps=(4,))


@pytest.mark.parametrize("name", ["llama", "qwen2-window", "gemma3-window-8"])
def test_a_choice_of_layers_equals_a_model_without_the_others(pairs, name):
    model, decoder, _ = pairs(name)
    kind, changes = CASES[name]
    types = model.config.layer_types if kind != "Llama" else None
    smaller = hf_model(kind, {**changes, **({"layer_types": types} if types else {})})
    keep = [0, 2]
    smaller.model.layers = torch.nn.ModuleList(smaller.model.layers[i] for i in keep)
    smaller.config.num_hidden_layers = 2
    if types:
        smaller.config.layer_types = [types[i] for i in keep]
    for i, layer in enumerate(smaller.model.layers):
        layer.self_attn.layer_idx = i
    smaller_logits = hf_logits(smaller, IDS)
    assert close(decoder.session(64).forward(IDS, layers=keep), smaller_logits)


def test_skipped_layers_share_the_cache_and_leave_it_right(pairs):
    """What a layer-skip draft writes beyond the committed length is overwritten by the full pass after a rollback."""
    model, decoder, _ = pairs("gemma3-window-4")
    want = hf_logits(model, IDS)
    session = decoder.session(64)
    session.forward(IDS[:20], logits_from=20)
    for token in IDS[20:24]:
        assert session.forward([token], layers=[0, 2]).shape == (1, 97)
    session.rollback(20)
    assert close(session.forward(IDS[20:]), want[20:])


@pytest.mark.parametrize("name", ["llama-llama3-rope", "qwen2-window", "gemma3-window-8", "mistral-window"])
def test_older_config_fields_mean_the_same(pairs, name, tmp_path):
    """transformers 4 wrote rope_theta, rope_scaling and rope_local_base_freq where 5 writes rope_parameters."""
    _, decoder, folder = pairs(name)
    config = json.loads((folder / "config.json").read_text())
    new = config.pop("rope_parameters")
    if "full_attention" in new:
        config["rope_local_base_freq"] = new["sliding_attention"]["rope_theta"]
        new = new["full_attention"]
    config["rope_theta"] = new.pop("rope_theta")
    if new["rope_type"] != "default":
        new["type"] = new.pop("rope_type")
        config["rope_scaling"] = new
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "model.safetensors").symlink_to(folder / "model.safetensors")
    older = load(tmp_path, "fp32", "cpu")
    assert torch.equal(older.session(64).forward(IDS), decoder.session(64).forward(IDS))


def test_gemma3_inside_a_picture_model(pairs, tmp_path):
    """gemma3 keeps the text model's settings in text_config, and its weights behind a prefix."""
    from safetensors.torch import load_file, save_file

    model, decoder, folder = pairs("gemma3-window-4")
    config = json.loads((folder / "config.json").read_text())
    eos = config.pop("eos_token_id")
    whole = {"model_type": "gemma3", "text_config": config, "vision_config": {}, "eos_token_id": [eos, 9]}
    (tmp_path / "config.json").write_text(json.dumps(whole))
    tensors = {f"language_model.{k}": v for k, v in load_file(folder / "model.safetensors").items()}
    save_file({**tensors, "vision_tower.patch.weight": torch.zeros(3)}, tmp_path / "model.safetensors")
    inside = load(tmp_path, "fp32", "cpu")
    assert inside.eos == (2, 9)
    assert torch.equal(inside.session(64).forward(IDS), decoder.session(64).forward(IDS))


@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
@pytest.mark.parametrize("name", ["llama-bias", "qwen3", "gemma3-window-8"])
def test_reduced_precision_is_near(pairs, name, dtype):
    from engines.model.linear import has_packed_half

    if dtype == "fp16" and not has_packed_half():
        pytest.skip("no FBGEMM on this CPU")
    model, decoder, folder = pairs(name)
    full = decoder.session(64).forward(IDS)
    near = load(folder, dtype, "cpu").session(64)
    got = torch.cat([near.forward(IDS[:20]), near.forward(IDS[20:21]), near.forward(IDS[21:])])
    error = ((got - full).norm() / full.norm()).item()
    assert 0 < error < (0.05 if dtype == "bf16" else 0.004)


@pytest.mark.parametrize("name", ["qwen2-window", "gemma3-window-8"])
def test_a_cache_in_half_precision_as_on_a_gpu(pairs, name):
    """On a GPU attention runs in the weights' type; here only its rounding may show, in single texts and batches."""
    _, decoder, folder = pairs(name)
    half = load(folder, "fp32", "cpu")
    half.cache_dtype = torch.bfloat16
    full = decoder.session(64).forward(IDS)
    session, batch = half.session(64), half.batch(2, 64)
    got = torch.cat([session.forward(IDS[:20]), session.forward(IDS[20:21]), session.forward(IDS[21:])])
    batch.forward([IDS[:20], IDS[:20]])
    batch.rollback([20, 12])
    rows = batch.forward([IDS[20:30], IDS[12:22]])
    for near, want in ((got, full), (rows[0], full[20:30]), (rows[1], full[12:22])):
        assert 0 < ((near - want).norm() / want.norm()).item() < 0.05
