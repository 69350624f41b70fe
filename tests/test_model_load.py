"""Loading: what is wrong with a folder is said in words, memory stays near the weights, and limits are errors."""

from __future__ import annotations

import json
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from engines.errors import UserError
from engines.model.config import ModelConfig, NotCompact
from engines.model.decoder import Decoder
from engines.model.load import choose_device, load

ROOT = Path(__file__).parent.parent
CONFIG = {
    "model_type": "llama",
    "vocab_size": 50,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "max_position_embeddings": 32,
    "rms_norm_eps": 1e-5,
    "rope_theta": 100.0,
    "eos_token_id": 2,
    "bos_token_id": 1,
}


def tensors(config: dict = CONFIG) -> dict[str, torch.Tensor]:
    """Random weights of a Llama of the sizes in `config`, by the names in the published files."""
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    q = hidden
    kv = hidden // config["num_attention_heads"] * config["num_key_value_heads"]
    shapes = {"model.embed_tokens.weight": (config["vocab_size"], hidden), "model.norm.weight": (hidden,)}
    if not config.get("tie_word_embeddings"):
        shapes["lm_head.weight"] = (config["vocab_size"], hidden)
    for i in range(config["num_hidden_layers"]):
        layer = f"model.layers.{i}."
        shapes |= {
            f"{layer}self_attn.q_proj.weight": (q, hidden),
            f"{layer}self_attn.k_proj.weight": (kv, hidden),
            f"{layer}self_attn.v_proj.weight": (kv, hidden),
            f"{layer}self_attn.o_proj.weight": (hidden, q),
            f"{layer}mlp.gate_proj.weight": (inner, hidden),
            f"{layer}mlp.up_proj.weight": (inner, hidden),
            f"{layer}mlp.down_proj.weight": (hidden, inner),
            f"{layer}input_layernorm.weight": (hidden,),
            f"{layer}post_attention_layernorm.weight": (hidden,),
        }
    generator = torch.Generator().manual_seed(1)
    return {k: torch.randn(s, generator=generator) * (0.3 if len(s) > 1 else 1) for k, s in shapes.items()}


@pytest.fixture
def folder(tmp_path) -> Path:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    save_file(tensors(), tmp_path / "model.safetensors")
    return tmp_path


IDS = [3, 14, 15, 9, 26, 5]


def logits(folder, dtype="fp32") -> torch.Tensor:
    return load(folder, dtype, "cpu").session().forward(IDS)


def test_shards_equal_one_file(folder):
    want = logits(folder)
    whole = tensors()
    (folder / "model.safetensors").unlink()
    names = sorted(whole)
    files = {"model-00001-of-00002.safetensors": names[::2], "model-00002-of-00002.safetensors": names[1::2]}
    for file, part in files.items():
        save_file({n: whole[n] for n in part}, folder / file)
    index = {"weight_map": {n: file for file, part in files.items() for n in part}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    assert torch.equal(logits(folder), want)
    (folder / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(UserError, match="lacks model-00002-of-00002.safetensors"):
        load(folder, "fp32", "cpu")


@pytest.mark.parametrize("stored", [torch.float16, torch.bfloat16, torch.float64])
def test_weights_are_read_in_any_float_type(folder, stored):
    save_file({k: v.to(stored) for k, v in tensors().items()}, folder / "model.safetensors")
    got = logits(folder)
    save_file({k: v.to(stored).float() for k, v in tensors().items()}, folder / "model.safetensors")
    assert torch.equal(got, logits(folder))


def test_pickled_weights_are_never_opened(folder):
    class Bomb:
        def __reduce__(self):
            return (Path.touch, (folder / "exploded",))

    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(UserError, match="pickled weights.*Convert them to model.safetensors"):
        load(folder, "fp32", "cpu")
    assert not (folder / "exploded").exists()


def test_no_folder_no_config_no_weights(folder, tmp_path):
    with pytest.raises(UserError, match="There is no model folder"):
        load(tmp_path / "nowhere")
    (folder / "model.safetensors").unlink()
    with pytest.raises(UserError, match="no model.safetensors"):
        load(folder, "fp32", "cpu")
    (folder / "config.json").unlink()
    with pytest.raises(UserError, match="no config.json"):
        load(folder, "fp32", "cpu")


def edit(folder: Path, **changes) -> None:
    """Changes to config.json; None takes a key away."""
    data = {**CONFIG, **changes}
    (folder / "config.json").write_text(json.dumps({k: v for k, v in data.items() if v is not None}))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.pop("model.layers.1.mlp.up_proj.weight"), "lack the tensor model.layers.1.mlp.up_proj.weight"),
        (lambda t: t.pop("lm_head.weight"), "lack the tensor lm_head.weight"),
        (lambda t: t.pop("model.embed_tokens.weight"), "lack the tensor model.embed_tokens.weight"),
        (lambda t: t.pop("model.norm.weight"), "lack the tensor model.norm.weight"),
        (
            lambda t: t.update({"model.layers.0.self_attn.k_proj.weight": torch.zeros(4, 16)}),
            r"model.layers.0.self_attn.k_proj.weight has shape \[4, 16\], but config.json asks for \[8, 16\]",
        ),
        (lambda t: t.update({"model.norm.weight": torch.zeros(16, dtype=torch.int32)}), "stored as I32"),
    ],
)
def test_what_does_not_fit_is_named(folder, change, message):
    found = tensors()
    change(found)
    save_file(found, folder / "model.safetensors")
    with pytest.raises(UserError, match=message):
        load(folder, "fp32", "cpu")


@pytest.mark.parametrize("keep", [0, 4, 8, 100, 3000, -1])
def test_a_file_cut_off_anywhere_is_said_to_be(folder, keep):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(UserError, match="cut off|damaged"):
        load(folder, "fp32", "cpu")


def test_a_cut_off_file_names_its_whole_size_and_what_to_delete(folder, monkeypatch):
    monkeypatch.setenv("SPECPLAY_HOME", str(folder.parent))
    path = folder / "model.safetensors"
    whole = path.stat().st_size
    path.write_bytes(path.read_bytes()[: whole // 2])
    with pytest.raises(UserError) as error:
        load(folder, "fp32", "cpu")
    assert f"is cut off ({whole // 2} bytes, {whole} expected); delete the folder {folder} so that" in str(error.value)


@pytest.mark.parametrize(
    "header",
    [
        b"[]",
        b'{"x": 3}',
        b'{"x": {"dtype": "F32", "shape": [2], "data_offsets": [-8, 0]}}',
        b'{"x": {"dtype": "F32", "shape": [-2], "data_offsets": [0, 0]}}',
        b'{"x": {"dtype": "F32", "shape": ["2"], "data_offsets": [0, 0]}}',
        b'{"x": {"dtype": "F32", "shape": [2], "data_offsets": [0]}}',
        b"\xff\xfe",
        b"",
    ],
)
def test_a_damaged_header_is_said_to_be(folder, header):
    (folder / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(64))
    with pytest.raises(UserError, match="damaged"):
        load(folder, "fp32", "cpu")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hidden_size": "16"}, "hidden_size = '16'"),
        ({"num_hidden_layers": None}, "num_hidden_layers = None"),
        ({"num_hidden_layers": 0}, "num_hidden_layers = 0"),
        ({"num_attention_heads": 3, "head_dim": 4, "num_key_value_heads": 2}, "inconsistent"),
        ({"rope_scaling": {"type": "linear"}}, "rope scaling in config.json is incomplete"),
        ({"rope_theta": "much"}, "rope_theta"),
        ({"rms_norm_eps": "small"}, "rms_norm_eps"),
    ],
)
def test_a_bad_config_is_said_to_be(folder, changes, message):
    edit(folder, **changes)
    with pytest.raises(UserError, match=message):
        load(folder, "fp32", "cpu")


@pytest.mark.parametrize("text", ["", "[]", "{", '"x"'])
def test_a_config_that_is_no_json_object(folder, text):
    (folder / "config.json").write_text(text)
    with pytest.raises(UserError, match="config.json"):
        load(folder, "fp32", "cpu")


@pytest.mark.parametrize(
    "changes",
    [
        {"model_type": "gpt2"},
        {"hidden_act": "relu"},
        {"rope_scaling": {"rope_type": "longrope"}},
        {"rope_parameters": {"rope_type": "dynamic", "factor": 2.0}},
        {"quantization_config": {"bits": 4}},
        {"final_logit_softcapping": 30.0},
        {"partial_rotary_factor": 0.5},
    ],
)
def test_what_the_decoder_lacks_is_left_to_transformers(changes):
    with pytest.raises(NotCompact):
        ModelConfig.from_dict({**CONFIG, **changes})


def test_a_tensor_that_the_decoder_would_not_read_is_not_ignored(folder):
    from engines.model.load import load_decoder

    save_file({**tensors(), "model.layers.1.self_attn.sinks": torch.zeros(2)}, folder / "model.safetensors")
    with pytest.raises(NotCompact, match="self_attn.sinks"):
        load_decoder(folder, "fp32", torch.device("cpu"))


def test_generation_config_goes_before_config(folder):
    assert load(folder, "fp32", "cpu").eos == (2,)
    (folder / "generation_config.json").write_text('{"eos_token_id": [7, 9]}')
    decoder = load(folder, "fp32", "cpu")
    assert (decoder.eos, decoder.bos, decoder.context) == ((7, 9), 1, 32)
    edit(folder, eos_token_id=None)
    (folder / "generation_config.json").unlink()
    assert load(folder, "fp32", "cpu").eos == ()  # E7: a model without an EOS id


def test_bad_choices():
    with pytest.raises(UserError, match="dtype must be"):
        load(ROOT, "int3")
    for device in ("cpux", "cuda:99"):
        with pytest.raises(UserError):
            choose_device(device)


def test_progress_rises_to_one(folder):
    said = []
    load(folder, "fp32", "cpu", progress=lambda fraction, message: said.append((fraction, message)))
    fractions = [f for f, _ in said]
    assert fractions == sorted(fractions)
    assert (fractions[0], fractions[-1]) == (0.0, 1.0)
    assert all(message for _, message in said)


@pytest.mark.parametrize("length", [31, 32, 40])
def test_the_context_limit_is_an_error_and_the_session_lives(folder, length):
    """E9: up to the limit it goes on; beyond it is a clear error, and the session stays as it was."""
    session = load(folder, "fp32", "cpu").session()
    ids = [i % 50 for i in range(length)]
    if length > 32:
        with pytest.raises(UserError, match="need 40 positions, but its context limit is 32"):
            session.forward(ids)
        assert session.length == 0
        ids = ids[:31]
    session.forward(ids)
    if session.length < 32:
        session.forward([1])
    with pytest.raises(UserError, match="context limit"):
        session.forward([1])
    assert session.length == 32
    session.rollback(31)
    assert session.forward([4]).shape == (1, 50)


def test_a_session_of_less_room_says_so(folder):
    session = load(folder, "fp32", "cpu").session(5)
    with pytest.raises(UserError, match="space set aside for this run is 5"):
        session.forward(IDS)


def test_logits_from_and_rollback_bounds(folder):
    decoder = load(folder, "fp32", "cpu")
    session = decoder.session()
    want = session.forward(IDS)
    session.rollback(0)
    assert session.forward(IDS, logits_from=6).shape == (0, 50)
    session.rollback(0)
    assert torch.allclose(session.forward(IDS, logits_from=4), want[4:], atol=1e-5)
    assert session.hidden.shape == (6, 16)
    assert torch.allclose(decoder.logits(session.hidden), want, atol=1e-5)
    assert session.forward([]).shape == (0, 50)
    for length in (7, -1):
        with pytest.raises(ValueError, match="roll back"):
            session.rollback(length)
    for layers in ([1, 0], [0, 0], [2], [-1]):
        with pytest.raises(UserError, match="ascending"):
            session.forward([1], layers=layers)


def test_a_long_prompt_in_chunks_equals_one_pass(folder, monkeypatch):
    want = logits(folder)
    decoder = load(folder, "fp32", "cpu")
    monkeypatch.setattr(decoder, "chunk", lambda end: 2)
    for logits_from in range(7):
        session = decoder.session()
        got = session.forward(IDS, logits_from=logits_from)
        assert got.shape == (6 - logits_from, 50)
        assert torch.allclose(got, want[logits_from:], atol=1e-5)
    batch = decoder.batch(1)
    assert torch.allclose(batch.forward([IDS], logits_from=3)[0], want[3:], atol=1e-5)


def test_batch_bounds(folder):
    batch = load(folder, "fp32", "cpu").batch(2, 4)
    with pytest.raises(ValueError, match="2 rows"):
        batch.forward([[1, 2]])
    batch.forward([[1, 2], [3, 4]])
    with pytest.raises(ValueError, match="roll back"):
        batch.rollback([2, 3])
    with pytest.raises(ValueError, match="roll back"):
        batch.rollback([2])
    with pytest.raises(UserError, match="5 positions"):
        batch.forward([[1, 2, 3], [3, 4, 5]])


def test_no_global_random_state_is_read_or_written(folder):
    torch.manual_seed(3)
    np.random.seed(3)  # noqa: NPY002
    before = torch.random.get_rng_state(), np.random.get_state()[1].tolist()  # noqa: NPY002
    logits(folder, "auto")
    assert torch.equal(before[0], torch.random.get_rng_state())
    assert before[1] == np.random.get_state()[1].tolist()  # noqa: NPY002


def test_the_default_path_imports_no_transformers(folder):
    code = (
        "import sys; from engines.model.load import load; "
        f"load({str(folder)!r}, 'fp32', 'cpu').session().forward([1, 2]); "
        "sys.exit('transformers' in sys.modules or 'safetensors' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak from /proc in a fresh process")
@pytest.mark.parametrize("dtype", ["fp32", "bf16", "fp16"])
def test_peak_memory_is_the_weights_and_a_little(tmp_path, dtype):
    """1.5 x bytes of the weights in use + 300 MB, loading and a prompt of 600 tokens included."""
    from engines.model.linear import has_packed_half

    if dtype == "fp16" and not has_packed_half():
        pytest.skip("no FBGEMM on this CPU")
    config = {**CONFIG, "vocab_size": 40000, "hidden_size": 512, "intermediate_size": 2048, "num_hidden_layers": 16,
              "num_attention_heads": 8, "num_key_value_heads": 4, "max_position_embeddings": 2048,
              "tie_word_embeddings": True}  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(config))
    save_file({k: v.to(torch.bfloat16) for k, v in tensors(config).items()}, tmp_path / "model.safetensors")
    code = (
        "from engines.model.load import load; "
        f"d = load({str(tmp_path)!r}, {dtype!r}, 'cpu', threads=2); s = d.session(); "
        "s.forward(list(range(600)), logits_from=599); "
        # not getrusage's maximum: that one is inherited from the process that started this one
        "print(d.weight_bytes, *[x.split()[1] for x in open('/proc/self/status') if x.startswith('VmHWM')])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True)
    weights, peak = (int(x) for x in done.stdout.split())
    peak *= 1024
    size = 4 if dtype == "fp32" else 2
    assert weights >= size * sum(t.numel() for t in tensors(config).values() if t.ndim > 1)
    assert peak <= 1.5 * weights + 300e6


def test_kernels_are_measured_once_and_remembered(folder, tmp_path, monkeypatch):
    from engines.model import choose

    monkeypatch.setenv("SPECPLAY_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(choose, "_PARAMETERS", 20_000)
    config = ModelConfig.from_folder(folder)
    order = choose.ranking(config, torch.device("cpu"))
    file = tmp_path / "home" / "kernels.json"
    ((key, times),) = json.loads(file.read_text()).items()
    assert sorted(order) == sorted(times)
    assert sum(times[order[0]]) == min(sum(t) for t in times.values())
    assert torch.__version__ in key
    slowest = order[-1]
    times[slowest] = [1e-9, 1e-9]
    file.write_text(json.dumps({key: times}))
    assert choose.ranking(config, torch.device("cpu"))[0] == slowest  # read, not measured again
    assert load(folder, "auto", "cpu").dtype == slowest
    for damaged in ("{", "[]", json.dumps({key: {"fp32": [1]}}), json.dumps({key: None})):
        file.write_text(damaged)
        assert sorted(choose.ranking(config, torch.device("cpu"))) == sorted(order)
    monkeypatch.setenv("SPECPLAY_HOME", str(file / "below-a-file"))
    assert isinstance(load(folder, "auto", "cpu"), Decoder)


def test_weights_too_large_for_half(folder, tmp_path, monkeypatch):
    from engines.model import choose

    large = tensors()
    large["model.layers.1.mlp.up_proj.weight"][3, 4] = 70000.0
    save_file(large, folder / "model.safetensors")
    times = {"fp32": [2.0, 2.0], "bf16": [3.0, 3.0], "fp16": [1.0, 1.0]}
    monkeypatch.setattr(choose, "measure", lambda shapes, layers: times)
    monkeypatch.setattr("engines.model.linear.has_packed_half", lambda: True)
    monkeypatch.setenv("SPECPLAY_HOME", str(tmp_path / "home"))
    assert load(folder, "auto", "cpu").dtype == "fp32"
    with pytest.raises(UserError, match="too large for fp16"):
        load(folder, "fp16", "cpu")


def test_half_without_the_kernel_is_a_message(folder, monkeypatch):
    monkeypatch.setattr("engines.model.linear.has_packed_half", lambda: False)
    with pytest.raises(UserError, match="AVX2"):
        load(folder, "fp16", "cpu")


def test_a_large_head_in_blocks_equals_one(monkeypatch):
    from engines.model import linear

    if not linear.has_packed_half():
        pytest.skip("no FBGEMM on this CPU")
    generator = torch.Generator().manual_seed(0)
    parts = [torch.randn(n, 32, generator=generator) for n in (40, 7, 53)]
    bias = [torch.randn(len(p), generator=generator) for p in parts]
    x = torch.randn(5, 32, generator=generator)
    one = linear.make("fp16", torch.device("cpu"), parts, bias)
    monkeypatch.setattr(linear, "_BLOCK_ROWS", 30)
    several = linear.make("fp16", torch.device("cpu"), parts, bias)
    assert isinstance(several, linear.Blocks)
    assert torch.allclose(one(x), several(x), atol=1e-5)
    want = torch.nn.functional.linear(x, torch.cat(parts).half().float(), torch.cat(bias))
    assert torch.allclose(several(x), want, atol=1e-4)


def test_many_rows_in_bf16_equal_few(monkeypatch):
    """Where bfloat16 is emulated, a prompt's rows go through float32; only the last bit may differ."""
    from engines.model import linear

    monkeypatch.setattr(linear, "native_bf16", lambda: False)
    monkeypatch.setattr(linear, "_BLOCK_ROWS", 30)
    generator = torch.Generator().manual_seed(0)
    weight, bias = torch.randn(70, 32, generator=generator), torch.randn(70, generator=generator)
    kernel = linear.make("bf16", torch.device("cpu"), [weight], [bias])
    x = torch.randn(linear._MANY, 32, generator=generator)
    many, few = kernel(x), torch.cat([kernel(row[None]) for row in x])
    assert many.dtype == few.dtype == torch.bfloat16
    assert (many.float() - few.float()).abs().max() <= 2**-7 * few.float().abs().max()


@pytest.mark.parametrize("dtype", ["fp32", "bf16", "fp16"])
def test_rows_alone_and_together(dtype):
    """bf16 rows are the same bits whatever their number; the others differ by rounding only, as documented."""
    from engines.model import linear

    if dtype == "fp16" and not linear.has_packed_half():
        pytest.skip("no FBGEMM on this CPU")
    generator = torch.Generator().manual_seed(0)
    kernel = linear.make(dtype, torch.device("cpu"), [torch.randn(96, 64, generator=generator)])
    x = torch.randn(9, 64, generator=generator)
    together = kernel(x)
    alone = torch.cat([kernel(row[None]) for row in x])
    if dtype == "bf16":
        assert torch.equal(together, alone)
    assert (together - alone).norm() <= 1e-5 * together.norm()


def test_a_copy_of_the_folder_elsewhere_gives_the_same(folder, tmp_path_factory):
    """Nothing but the folder's content counts: no name, no absolute path."""
    other = tmp_path_factory.mktemp("other") / "renamed"
    shutil.copytree(folder, other)
    assert torch.equal(logits(other), logits(folder))
