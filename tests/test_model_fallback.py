"""Models outside the compact decoder, through transformers: rollback, windows, and refusals."""

from __future__ import annotations

import json

import pytest
import torch

from engines.errors import UserError
from engines.model.fallback import Fallback
from engines.model.load import load

transformers = pytest.importorskip("transformers")

IDS = torch.randint(3, 97, (40,), generator=torch.Generator().manual_seed(5)).tolist()
SMALL = {"vocab_size": 97, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
         "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64,
         "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}  # fmt: skip


def saved(folder, config):
    torch.manual_seed(0)  # transformers starts weights from the global generator
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(4 if weight.ndim > 1 else 1)
    model.save_pretrained(folder)
    return model


OTHERS = {
    "gpt2": lambda: transformers.GPT2Config(vocab_size=97, n_embd=32, n_layer=2, n_head=4, n_positions=64,
                                            bos_token_id=1, eos_token_id=2),
    "gemma2-window-4": lambda: transformers.Gemma2Config(**SMALL, head_dim=8, sliding_window=4),
    "mixtral-window-5": lambda: transformers.MixtralConfig(**SMALL, sliding_window=5, num_local_experts=2),
    "phi3-window-6": lambda: transformers.Phi3Config(**SMALL, sliding_window=6),
    "smollm3": lambda: transformers.SmolLM3Config(**SMALL, no_rope_layers=[1, 0]),
    "llama-dynamic-rope": lambda: transformers.LlamaConfig(
        **SMALL, rope_parameters={"rope_type": "dynamic", "rope_theta": 100.0, "factor": 2.0}),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_rows_and_rollbacks_equal_a_fresh_run(name, tmp_path):
    """E13 for the fall-back: a text longer than the window, with rejections across its edge."""
    model = saved(tmp_path, OTHERS[name]())
    loaded = load(tmp_path, "fp32", "cpu")
    assert isinstance(loaded, Fallback)
    assert (loaded.vocab_size, loaded.num_layers, loaded.context, loaded.eos) == (97, 2, 64, (2,))
    with torch.inference_mode():
        want = model(torch.tensor([IDS]), use_cache=False).logits[0]
    assert want.std() > 0.05
    session = loaded.session(50)
    assert session.forward(IDS[:9], logits_from=9).shape == (0, 97)
    rows, at = [], 9
    for accepted in (1, 3, 0, 5, 2, 0, 6, 1, 4):
        logits = session.forward(IDS[at : at + accepted] + [(x + 5) % 97 for x in IDS[at + accepted : at + 6]])
        session.rollback(at + accepted)
        rows.append(logits[:accepted])
        at += accepted
    rows.append(session.forward(IDS[at:]))
    assert session.length == len(IDS)
    assert (torch.cat(rows) - want[9:]).abs().max() < 2e-4
    assert torch.allclose(session.forward([5, 6, 7], logits_from=2), model_row(model, [*IDS, 5, 6, 7]), atol=2e-4)
    session.rollback(0)
    assert torch.allclose(session.forward(IDS[:3]), want[:3], atol=2e-4)


def model_row(model, ids):
    with torch.inference_mode():
        return model(torch.tensor([ids]), use_cache=False).logits[0, -1:]


@pytest.mark.parametrize(
    "config",
    [
        lambda: transformers.MambaConfig(vocab_size=97, hidden_size=32, num_hidden_layers=2, state_size=4),
        lambda: transformers.RwkvConfig(vocab_size=97, hidden_size=32, num_hidden_layers=2, context_length=64),
        lambda: transformers.RecurrentGemmaConfig(
            **{k: v for k, v in SMALL.items() if k != "num_key_value_heads"}, lru_width=32, attention_window_size=16,
        ),
        lambda: transformers.Qwen3NextConfig(**SMALL, num_experts=2, num_experts_per_tok=1, moe_intermediate_size=16,
                                             shared_expert_intermediate_size=16, linear_num_key_heads=2,
                                             linear_num_value_heads=2, linear_key_head_dim=8,
                                             linear_value_head_dim=8, head_dim=8),
        lambda: transformers.JambaConfig(**SMALL, num_experts=2, mamba_d_state=4, mamba_dt_rank=4,
                                         attn_layer_period=2, attn_layer_offset=1, use_mamba_kernels=False),
    ],
    ids=["mamba", "rwkv", "recurrent-gemma", "qwen3-next", "jamba"],
)  # fmt: skip
def test_a_recurrent_state_is_refused_with_the_reason(config, tmp_path):
    """E18: refused before any weight is read, so the file need only be there."""
    from safetensors.torch import save_file

    config().save_pretrained(tmp_path)
    save_file({"x": torch.zeros(1)}, tmp_path / "model.safetensors")
    with pytest.raises(UserError, match="recurrent state that cannot be rolled back"):
        load(tmp_path, "fp32", "cpu")


def test_a_model_that_forgets_wrongly_is_caught_by_the_trial(tmp_path, monkeypatch):
    """A cache whose crop does nothing stands for any cache of which nobody knew that it cannot go back."""
    saved(tmp_path, OTHERS["gpt2"]())
    monkeypatch.setattr(transformers.cache_utils.DynamicLayer, "crop", lambda self, tokens_to_remove: None)
    with pytest.raises(UserError, match="after tokens are rolled back"):
        load(tmp_path, "fp32", "cpu")


def test_some_layers_only_is_refused(tmp_path):
    saved(tmp_path, OTHERS["gpt2"]())
    with pytest.raises(UserError, match="cannot run some layers only"):
        load(tmp_path, "fp32", "cpu").session(8).forward([1], layers=[0])


def test_the_context_limit_is_an_error(tmp_path):
    saved(tmp_path, OTHERS["gpt2"]())
    session = load(tmp_path, "fp32", "cpu").session()
    session.forward(IDS + IDS[:23])
    session.forward([1])
    with pytest.raises(UserError, match="context limit is 64"):
        session.forward([1])
    assert session.length == 64


def test_what_transformers_does_not_know_is_a_message(tmp_path):
    from safetensors.torch import save_file

    save_file({"x": torch.zeros(1)}, tmp_path / "model.safetensors")
    for config in ({"model_type": "no-such-family"}, {"model_type": "t5"}, {}):
        (tmp_path / "config.json").write_text(json.dumps(config))
        with pytest.raises(UserError):
            load(tmp_path, "fp32", "cpu")


def test_missing_weights_are_not_made_up(tmp_path):
    from safetensors.torch import load_file, save_file

    saved(tmp_path, OTHERS["gpt2"]())
    tensors = load_file(tmp_path / "model.safetensors")
    name = next(k for k in tensors if k.endswith("h.1.mlp.c_fc.weight"))
    del tensors[name]
    save_file(tensors, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(UserError, match="mlp.c_fc.weight"):
        load(tmp_path, "fp32", "cpu")
