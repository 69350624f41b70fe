"""GGUF -> folder: every tensor under its name, in its layout, with its values; the configuration behind them."""

from __future__ import annotations

import json

import gguf
import numpy as np
import pytest
import torch
from gguf_samples import HEADS, KV_HEADS, hf_tensors, write_gguf
from safetensors import safe_open

from engines.errors import UserError
from engines.weights.convert import convert
from engines.weights.gguf_file import GGUFFile
from engines.weights.safetensors_file import Plan, to_bf16, write

Q = gguf.GGMLQuantizationType
ARCHITECTURES = ["llama", "qwen2", "qwen3", "gemma3"]


def load(folder) -> dict[str, torch.Tensor]:
    with safe_open(folder / "model.safetensors", "pt") as file:
        return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


def converted(tmp_path, arch="llama", **options):
    tensors = write_gguf(tmp_path / "m.gguf", arch, **options)
    return tensors, convert(tmp_path / "m.gguf", tmp_path / "out")


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_every_tensor_comes_back_as_the_hub_has_it(arch, tmp_path):
    """Names, shapes and values, the rope layout of a llama's q and k and Gemma's norms included."""
    tensors, folder = converted(tmp_path, arch)
    found = load(folder)
    assert set(found) == set(tensors)
    for name, value in tensors.items():
        assert found[name].dtype == (torch.float16 if value.ndim == 2 else torch.float32)
        assert torch.equal(found[name].float(), torch.from_numpy(value)), name


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_transformers_gets_the_same_logits_from_the_folder_as_from_the_tensors(arch, tmp_path):
    """The configuration is right, too: the folder against a model that is built by hand and filled with the tensors."""
    import transformers

    tensors, folder = converted(tmp_path, arch)
    ours = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    shape = {
        "vocab_size": len(tensors["model.embed_tokens.weight"]),
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "head_dim": 16,
        "rms_norm_eps": 1e-5,
        "tie_word_embeddings": True,
        "max_position_embeddings": 512,
    }
    if arch == "gemma3":
        more = {"sliding_window": 8, "query_pre_attn_scalar": 16, "layer_types": ["sliding_attention"] * 2}
        ropes = {
            "full_attention": {"rope_type": "default", "rope_theta": 10000.0},
            "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
        }
        config = transformers.Gemma3TextConfig(**shape, **more, rope_parameters=ropes)
        model = transformers.Gemma3ForCausalLM(config)
    else:
        name = {"llama": "Llama", "qwen2": "Qwen2", "qwen3": "Qwen3"}[arch]
        config = getattr(transformers, f"{name}Config")(**shape)
        model = getattr(transformers, f"{name}ForCausalLM")(config)
    state = {k: torch.from_numpy(v) for k, v in tensors.items()}
    model.load_state_dict(state | {"lm_head.weight": state["model.embed_tokens.weight"]})
    ids = torch.tensor([[3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8]])
    with torch.no_grad():
        assert torch.allclose(ours(ids).logits, model(ids).logits, atol=1e-5)


def test_a_llamas_q_is_not_in_ggufs_order(tmp_path):
    """Had the rows not been put back, the test above would see the difference."""
    write_gguf(tmp_path / "m.gguf")
    raw = np.concatenate(list(GGUFFile(tmp_path / "m.gguf").rows("blk.0.attn_q.weight")()))
    assert not np.array_equal(raw, hf_tensors("llama", 1)["model.layers.0.self_attn.q_proj.weight"])


@pytest.mark.parametrize("kind", [Q.Q4_0, Q.Q4_1, Q.Q5_0, Q.Q5_1, Q.Q8_0, Q.F16, Q.BF16])
def test_quantised_tensors_are_unpacked_to_what_they_say(kind, tmp_path):
    """q_proj as well: its rows are reordered while they are still packed."""
    rng = np.random.default_rng(1)
    tensors = hf_tensors("llama", 270)
    names = [n for n, v in tensors.items() if v.ndim == 2]
    tensors |= {n: rng.standard_normal(tensors[n].shape).astype(np.float32) for n in names}
    write_gguf(tmp_path / "m.gguf", tensors=tensors, kinds=dict.fromkeys(names, kind))
    found = load(convert(tmp_path / "m.gguf", tmp_path / "out"))
    for name in names:
        want = torch.from_numpy(gguf.dequantize(gguf.quantize(tensors[name], kind), kind))
        assert found[name].dtype == (torch.bfloat16 if kind == Q.BF16 else torch.float16)
        assert torch.equal(found[name], want.to(found[name].dtype)), name


def test_a_value_too_large_for_fp16_makes_that_tensor_bf16(tmp_path):
    tensors = hf_tensors("llama", 270)
    name = "model.layers.1.mlp.up_proj.weight"
    tensors[name][-1, -1] = 70000.0
    write_gguf(tmp_path / "m.gguf", tensors=tensors)
    found = load(convert(tmp_path / "m.gguf", tmp_path / "out"))
    assert {n for n, v in found.items() if v.dtype == torch.bfloat16} == {name}
    assert torch.equal(found[name], torch.from_numpy(tensors[name]).bfloat16())


def test_blocks_of_a_tensor_are_put_together(tmp_path, monkeypatch):
    """Tensors are unpacked a few rows at a time; a change of type in the last block starts the tensor anew."""
    monkeypatch.setattr("engines.weights.gguf_file.BLOCK_BYTES", 3 * 4 * 64)
    tensors = hf_tensors("llama", 270)
    tensors["model.embed_tokens.weight"][-1, 0] = -1e30
    write_gguf(tmp_path / "m.gguf", tensors=tensors)
    found = load(convert(tmp_path / "m.gguf", tmp_path / "out"))
    for name, value in tensors.items():
        assert torch.equal(found[name], torch.from_numpy(value).to(found[name].dtype))


def test_bf16_is_rounded_as_torch_rounds():
    values = np.random.default_rng(0).standard_normal(100_000).astype(np.float32)
    values[:4] = 0.0, -0.0, 1e-40, np.float32(3.3895314e38)
    want = torch.from_numpy(values).bfloat16().view(torch.int16).numpy().view(np.uint16)
    assert np.array_equal(to_bf16(values), want)


def test_the_file_is_written_once_and_never_in_memory_as_a_whole(tmp_path):
    """Peak memory of a write is a block, not the model."""
    import tracemalloc

    block = np.ones((256, 1024), np.float32)  # 1 MB
    plans = [Plan(f"t{i}", (256 * 16, 1024), "F16", lambda: iter([block] * 16)) for i in range(4)]  # 64 MB as float32
    tracemalloc.start()
    write(tmp_path / "x.safetensors", plans)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8e6
    with safe_open(tmp_path / "x.safetensors", "pt") as file:
        assert file.get_tensor("t3").float().sum().item() == 256 * 16 * 1024


def test_configuration_keys(tmp_path):
    _, folder = converted(
        tmp_path, "gemma3", meta={"gemma3.rope.scaling.type": "linear", "gemma3.rope.scaling.factor": 8.0}
    )
    config = json.loads((folder / "config.json").read_text())
    assert config["sliding_window"] == 8 and config["rope_local_base_freq"] == 10000.0
    assert config["rope_scaling"] == {"rope_type": "linear", "factor": 8.0}
    assert config["tie_word_embeddings"] is True and config["head_dim"] == 16


def test_an_output_layer_of_its_own(tmp_path):
    tensors = hf_tensors("qwen2", 270)
    tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"] * 2
    write_gguf(tmp_path / "m.gguf", "qwen2", tensors=tensors)
    folder = convert(tmp_path / "m.gguf", tmp_path / "out")
    assert json.loads((folder / "config.json").read_text())["tie_word_embeddings"] is False
    assert torch.equal(load(folder)["lm_head.weight"].float(), torch.from_numpy(tensors["lm_head.weight"]))


def test_gemma_pattern_of_windows(tmp_path):
    from engines.weights import gguf_config

    write_gguf(tmp_path / "m.gguf", "gemma3", meta={"gemma3.block_count": 12})
    kinds = gguf_config.config(GGUFFile(tmp_path / "m.gguf"))["layer_types"]
    assert [i for i, k in enumerate(kinds) if k == "full_attention"] == [5, 11]


def test_llama3_stretching_is_read_back_from_its_divisors(tmp_path):
    """Against transformers' own computation of the frequencies from the four numbers."""
    from transformers import LlamaConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    scaling = {
        "rope_type": "llama3",
        "factor": 32.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
        "rope_theta": 500000.0,
    }
    config = LlamaConfig(hidden_size=64, num_attention_heads=4, head_dim=16, rope_parameters=scaling)
    stretched, _ = ROPE_INIT_FUNCTIONS["llama3"](config, "cpu")
    plain = 500000.0 ** (-np.arange(0, 16, 2) / 16)
    tensors = hf_tensors("llama", 270)
    write_gguf(tmp_path / "m.gguf", tensors=tensors, meta={"llama.rope.freq_base": 500000.0})
    file = GGUFFile(tmp_path / "m.gguf")
    from engines.weights import gguf_config

    divisors = (plain / stretched.numpy()).astype(np.float32)
    found = _with_divisors(file, divisors, gguf_config)
    del scaling["rope_theta"]
    assert found == scaling
    with pytest.raises(UserError, match="stretches its positions"):
        _with_divisors(file, np.linspace(1, 32, 8, dtype=np.float32), gguf_config)


def _with_divisors(file, divisors, gguf_config):
    file.tensors["rope_freqs.weight"] = None
    file.rows = lambda name: lambda: iter([divisors[None]])
    return gguf_config._rope_scaling(file, 16)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"arch": "mamba"}, "architecture 'mamba'.*llama, qwen2, qwen3, gemma3"),
        ({"meta": {"llama.expert_count": 8}}, "mixture of experts"),
        ({"meta": {"llama.rope.dimension_count": 8}}, "partial rotary"),
        ({"meta": {"llama.rope.scaling.type": "longrope", "llama.rope.scaling.factor": 2.0}}, "'longrope'"),
        ({"meta": {"split.count": 3}}, "split GGUF"),
        ({"meta": {"llama.attention.head_count": [4, 2]}}, "different shapes"),
        ({"meta": {"llama.block_count": 3}}, "lacks the tensor model.layers.2"),
        ({"drop": ("llama.block_count",)}, "lacks llama.block_count"),
    ],
)
def test_models_that_cannot_be_converted_are_refused(options, message, tmp_path):
    options = dict(options)
    arch = options.pop("arch", "llama")
    if arch == "mamba":
        write_gguf(tmp_path / "m.gguf", arch, tensors=hf_tensors("llama", 270))
    else:
        write_gguf(tmp_path / "m.gguf", arch, **options)
    with pytest.raises(UserError, match=message):
        convert(tmp_path / "m.gguf", tmp_path / "out")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m.gguf"]


def test_a_tensor_without_a_place_is_not_dropped_in_silence(tmp_path):
    write_gguf(tmp_path / "m.gguf", "llama", tensors=hf_tensors("qwen3", 270))
    with pytest.raises(UserError, match=r"'blk\.0\.attn_q_norm\.weight', which a llama model here has no place for"):
        convert(tmp_path / "m.gguf", tmp_path / "out")


@pytest.mark.parametrize("keep", [0.05, 0.3, 0.9, 0.999])
def test_a_file_that_was_cut_short_is_a_clear_error(keep, tmp_path):
    write_gguf(tmp_path / "m.gguf")
    data = (tmp_path / "m.gguf").read_bytes()
    (tmp_path / "m.gguf").write_bytes(data[: int(len(data) * keep)])
    with pytest.raises(UserError, match="damaged GGUF"):
        convert(tmp_path / "m.gguf", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_files_that_are_no_gguf(tmp_path):
    path = tmp_path / "m.gguf"
    for data, message in (
        (b"", "too short"),
        (b"x" * 100, "not a GGUF"),
        (b"GGUF" + b"\x00\x00\x00\x03" + b"\0" * 90, "version"),  # big-endian
        (b"GGUF\x03\0\0\0" + b"\xff" * 90, "damaged"),
    ):
        path.write_bytes(data)
        with pytest.raises(UserError, match=message):
            convert(path, tmp_path / "out")


def test_a_weight_that_is_not_a_number_stops_the_conversion(tmp_path):
    tensors = hf_tensors("llama", 270)
    tensors["model.layers.0.mlp.up_proj.weight"][3, 3] = np.nan
    write_gguf(tmp_path / "m.gguf", tensors=tensors)
    with pytest.raises(UserError, match=r"up_proj.*not a finite number"):
        convert(tmp_path / "m.gguf", tmp_path / "out")
    assert not (tmp_path / "out").exists() and not (tmp_path / "out.partial").exists()


def test_our_reader_agrees_with_the_gguf_packages(tmp_path):
    write_gguf(tmp_path / "m.gguf", "gemma3", kinds={"model.embed_tokens.weight": Q.Q8_0})
    theirs, ours = gguf.GGUFReader(tmp_path / "m.gguf"), GGUFFile(tmp_path / "m.gguf")
    fields = {k: f.contents() for k, f in theirs.fields.items() if not k.startswith("GGUF.")}
    assert ours.meta == fields and len(fields) > 15
    assert list(ours.tensors) == [t.name for t in theirs.tensors]
    for t in theirs.tensors:
        want = gguf.dequantize(t.data, t.tensor_type)
        assert np.array_equal(np.concatenate(list(ours.rows(t.name)())).reshape(want.shape), want)


def test_progress_grows_to_one(tmp_path):
    seen = []
    write_gguf(tmp_path / "m.gguf")
    convert(tmp_path / "m.gguf", tmp_path / "out", lambda fraction, message: seen.append((fraction, message)))
    fractions = [f for f, _ in seen if f is not None]
    assert fractions == sorted(fractions) and fractions[-1] == 1 and len(set(fractions)) > 10
    assert "MB" in seen[-1][1]
