"""The compact decoder with SmolLM2's real weights, against transformers' own model."""

from __future__ import annotations

import pytest
import torch

from engines.model.linear import has_packed_half
from engines.model.load import load

pytestmark = pytest.mark.model
IDS = [504, 3575, 282, 4649, 314, 260, 2240, 29, 378, 970, 281, 253, 4495, 1165] * 4 + list(range(900, 1100, 5))


@pytest.fixture(scope="module")
def reference(model_folder) -> torch.Tensor:
    """float32 logits [n, V] of transformers' model over the same weights."""
    transformers = pytest.importorskip("transformers")
    model = transformers.AutoModelForCausalLM.from_pretrained(model_folder, dtype=torch.float32)
    with torch.inference_mode():
        return model(torch.tensor([IDS])).logits[0]


@pytest.mark.parametrize("dtype", ["fp32", "fp16"])
def test_logits_equal_those_of_transformers(model_folder, reference, dtype):
    """fp16 stores weights of this file exactly, and sums in float32: it is held to the same tolerance."""
    if dtype == "fp16" and not has_packed_half():
        pytest.skip("no FBGEMM on this CPU")
    session = load(model_folder, dtype, "cpu").session(128)
    got = [session.forward(IDS[:50]), session.forward(IDS[50:51])]
    session.forward([7, 8, 9, 10])
    session.rollback(51)
    got += [session.forward(IDS[51:56]), session.forward(IDS[56:])]
    assert (torch.cat(got) - reference).abs().max() < 2e-3
    assert torch.equal(torch.cat(got).argmax(-1), reference.argmax(-1))


def test_bf16_is_near_transformers(model_folder, reference):
    session = load(model_folder, "bf16", "cpu").session(128)
    got = torch.cat([session.forward(IDS[:60]), session.forward(IDS[60:])])
    p, q = reference.log_softmax(-1), got.log_softmax(-1)
    assert (p.exp() * (p - q)).sum(-1).mean() < 0.02  # Kullback-Leibler, nats
    assert (got.argmax(-1) == reference.argmax(-1)).float().mean() > 0.9


def test_a_batch_of_real_texts_equals_its_rows_alone(model_folder):
    decoder = load(model_folder, "fp32", "cpu")
    texts = [IDS[:40], IDS[20:60]]
    want = [decoder.session(64).forward(t) for t in texts]
    batch = decoder.batch(2, 64)
    batch.forward([t[:20] for t in texts])
    batch.rollback([11, 20])
    got = batch.forward([texts[0][11:22], texts[1][20:31]])
    assert (got[0] - want[0][11:22]).abs().max() < 2e-3
    assert (got[1] - want[1][20:31]).abs().max() < 2e-3
