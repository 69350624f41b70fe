"""The search for layers to skip: it measures what layer skip would do, and finds what is there to be found."""

from __future__ import annotations

import pytest
import torch

from engines import layer_search
from engines.cost import Costs
from engines.errors import UserError
from engines.layer_search import Choice, Search, keep, known
from engines.model.load import load

transformers = pytest.importorskip("transformers")
IDS = torch.randint(3, 97, (60,), generator=torch.Generator().manual_seed(3)).tolist()
FLAT = Costs({n: 1.0 + 0.02 * n for n in range(9)})


def tiny(folder, idle=(), **changes):
    """Six layers, of which the `idle` ones add nothing to the stream."""
    torch.manual_seed(2)
    sizes = {
        "vocab_size": 97, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 6, "num_attention_heads": 4,
        "num_key_value_heads": 2, "max_position_embeddings": 256, **changes,
    }  # fmt: skip
    kind = "Qwen2" if "sliding_window" in changes else "Llama"
    model = getattr(transformers, f"{kind}ForCausalLM")(getattr(transformers, f"{kind}Config")(**sizes))
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.ndim == 2:
                weight.normal_(0, 0.3)
            if any(f"layers.{i}." in name for i in idle) and ("o_proj.weight" in name or "down_proj" in name):
                weight.zero_()
    model.save_pretrained(folder)
    return load(folder, "fp32", "cpu")


@pytest.mark.parametrize("window", [None, 5])
def test_beside_is_what_layer_skip_drafts(tmp_path, window):
    extra = {"use_sliding_window": True, "sliding_window": window, "max_window_layers": 2} if window else {}
    decoder = tiny(tmp_path, **extra)
    layers = (0, 2, 3, 5)
    session = decoder.session(100)
    session.forward(IDS)
    places = list(range(5, 60, 3))
    together = session.beside([IDS[p] for p in places], places, layers)
    assert session.length == 60
    one = decoder.session(100)
    for place, row in zip(places, together, strict=True):
        one.rollback(0)
        one.forward(IDS[:place])
        alone = one.forward([IDS[place]], layers=layers)[0]
        torch.testing.assert_close(row, alone, atol=2e-4, rtol=1e-3)


def test_idle_layers_are_found(tmp_path, monkeypatch):
    decoder = tiny(tmp_path, idle=(1, 4))
    search = Search(decoder.session(200), IDS, FLAT)
    monkeypatch.setattr(search, "cost", lambda kept: kept / 6)
    seen = []
    found = search.run(60, lambda f: seen.append(f.best.speedup))
    assert {1, 4} <= set(found.path[1].skip) == {1, 4}
    assert found.path[1].acceptance == 1.0
    assert found.best.speedup >= search.judge((1, 4)).speedup
    assert seen == sorted(seen)
    assert "1, 4" in found.sentence() or len(found.best.skip) > 2


def test_it_says_when_nothing_pays(tmp_path, monkeypatch):
    decoder = tiny(tmp_path)
    steep = Costs({n: 1.0 + 0.9 * n for n in range(9)})
    search = Search(decoder.session(200), IDS, steep)
    found = search.run(60)
    assert not found.pays and "No subset of layers pays" in found.sentence()


def test_it_can_be_stopped_and_has_something_to_say(tmp_path):
    search = Search(tiny(tmp_path).session(200), IDS, FLAT)
    found = search.run(60, stopped=lambda: True)
    assert found.best.skip == (3,) and found.sentence()
    assert search.run(0.0).best.skip == (3,)


def test_what_was_found_is_kept_by_model(tmp_path, monkeypatch):
    monkeypatch.setattr(layer_search, "home", lambda: tmp_path / "home")
    assert known("a") is None
    one, two = Choice((1, 2), 0.5, 0.8, 2, 1.1), Choice((3,), 0.9, 0.9, 1, 0.9)
    keep("a", one)
    keep("b", two)
    assert (known("a"), known("b")) == (one, two)
    (tmp_path / "home" / "layers.json").write_text("{")
    assert known("a") is None
    keep("a", two)
    assert known("a") == two


def test_a_model_that_transformers_runs(tmp_path):
    class Session:
        num_layers = 3

    with pytest.raises(UserError, match="cannot be skipped"):
        Search(Session(), IDS, FLAT)
