"""Published EAGLE heads, in each layout and beside each kind of target, against their definition in plain torch."""

from __future__ import annotations

import json

import pytest
import torch
from fakes import job
from published_heads import CASES, DRAFT, HIDDEN, LAYERS, VOCAB, Case, Reference, save, tensors_of
from test_model_families import hf_model

from engines import heads
from engines.decode import decode
from engines.errors import UserError
from engines.fold import fold
from engines.model.head_load import load_head
from engines.model.head_published import is_published, load_published
from engines.model.load import load
from engines.proposers.eagle import EagleProposer
from engines.settings import Sampling

TARGETS = {
    "llama": ("Llama", {}),
    "qwen3": ("Qwen3", {"head_dim": 16}),
    "gemma": ("Gemma3Text", {"sliding_window": 4, "head_dim": 8, "query_pre_attn_scalar": 10}),
}
IDS = torch.randint(0, VOCAB, (40,), generator=torch.Generator().manual_seed(5)).tolist()


def close(got: torch.Tensor, want: torch.Tensor) -> bool:
    """Row by row: a random head's states grow with each guess."""
    return got.shape == want.shape and bool(((got - want).norm(dim=-1) < 2e-4 * want.norm(dim=-1)).all())


@pytest.fixture(scope="module")
def targets(tmp_path_factory):
    """name -> (transformers model, our decoder), each made once."""
    made = {}

    def get(name: str):
        if name not in made:
            kind, changes = TARGETS[name]
            sizes = {"vocab_size": VOCAB, "hidden_size": HIDDEN, "num_hidden_layers": LAYERS}
            model = hf_model(kind, {**sizes, **changes})
            folder = tmp_path_factory.mktemp("target") / name
            model.save_pretrained(folder)
            made[name] = (model, load(folder, "fp32", "cpu"))
        return made[name]

    return get


@pytest.fixture
def made(targets, tmp_path):
    """name of a case -> (the head as loaded, its reference, the target's decoder)."""

    def get(name: str):
        case = CASES[name]
        model, decoder = targets(case.target)
        head = load_head(save(case, tmp_path / name), decoder)
        return head, Reference(case, model, case.target), decoder

    return get


def features(decoder, taps, ids):
    session = decoder.session(64, taps=taps)
    session.forward(ids)
    return session.features[: len(ids)]


@pytest.mark.parametrize("name", CASES)
def test_states_and_logits_are_those_of_the_definition(made, name):
    """Text in pieces, then a chain of guesses, each on the state of the one before."""
    head, reference, decoder = made(name)
    assert head.taps == reference.case.taps and head.ids.tolist() == reference.ids.tolist()
    text, guesses = IDS[:14], [DRAFT[i] for i in (3, 1, 8, 1, 5)]
    want = reference.chain(text, guesses)
    assert want.std() > 0.3  # vanishing states would prove nothing
    taken = features(decoder, head.taps, text[:-1])
    own = head.session(64)
    parts = [own.read(text[1:6], taken[:5]), own.read(text[6:7], taken[5:6]), own.read(text[7:], taken[6:])]
    for i, token in enumerate(guesses):
        parts.append(own.guess([token], parts[-1][-1:], [i - 1]))
    got = torch.cat(parts)
    assert close(got, want)
    assert close(head.logits(got), reference.logits(want))
    assert head.logits(got).std() > 0.3


@pytest.mark.parametrize("name", CASES)
def test_each_path_of_a_tree_is_a_chain_and_the_text_goes_on_after_it(made, name):
    head, reference, decoder = made(name)
    text, tokens, parents = IDS[:9], [2, 5, 7, 3, 0, 11], [-1, -1, 0, 1, 2, 2]
    taken = features(decoder, head.taps, IDS[:20])
    own = head.session(64)
    first = own.read(text[1:], taken[:8])[-1:]
    one = own.guess(tokens[:2], first[[0, 0]], parents[:2])
    two = own.guess(tokens[2:4], one, parents[2:4])
    three = own.guess(tokens[4:], two[[0, 0]], parents[4:])
    got = torch.cat((one, two, three))
    for i in range(len(tokens)):
        path, at = [], i
        while at >= 0:
            path.insert(0, at)
            at = parents[at]
        want = reference.chain(text, [tokens[j] for j in path])
        assert close(got[path], want[len(text) - 1 :]), path
    own.rollback(6)  # some of the text is taken back, too
    assert close(own.read(IDS[7:20], taken[6:19]), reference.chain(IDS[:20], [])[6:])


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("branch", [1, 3])
def test_decoding_with_it_changes_nothing_and_a_chain_is_its_own_greedy_one(made, name, branch):
    head, reference, decoder = made(name)

    def ids_of(session, proposer, prompt, **settings):
        events = list(decode(job(session, proposer, prompt, max_new_tokens=30, **settings)))
        assert events[-1].reason == "length"
        return events[-1].ids, fold(events).metrics()

    accepted = 0
    for prompt in (IDS[:12], IDS[3:5], IDS[30:31]):
        plain, _ = ids_of(decoder.session(128), None, prompt)
        session = decoder.session(128, taps=head.taps)
        proposer = EagleProposer(head, session, Sampling(), branch=branch)
        asked, inner = [], proposer.propose

        def propose(ids, k, go_on, chance, asked=asked, inner=inner):
            proposal = inner(ids, k, go_on, chance)
            asked.append((list(ids), list(proposal.ids)))
            return proposal

        proposer.propose = propose
        got, metrics = ids_of(session, proposer, prompt, k=4)
        assert got == plain
        accepted += metrics.accepted
        if branch == 1:
            for ids, proposed in asked[::7]:
                if len(ids) > 1:
                    assert proposed == reference.greedy(ids, len(proposed))
    assert accepted > 0  # or nothing was tried of what comes after an acceptance


def test_an_embedding_like_the_targets_is_not_kept_twice(targets, tmp_path):
    case = CASES["eagle3-shared"]
    model, decoder = targets(case.target)
    same = {"embed_tokens.weight": model.get_input_embeddings().weight.data.clone()}
    without = load_head(save(case, tmp_path / "a"), decoder)
    head = load_head(save(case, tmp_path / "b", same), decoder)
    assert head.layers._embedding is decoder._embedding
    assert head.layers.weight_bytes == without.layers.weight_bytes
    plain = CASES["eagle1-llama"]
    products = sum(t.nbytes for t in tensors_of(plain).values() if t.ndim == 2)
    assert load_head(save(plain, tmp_path / "d"), decoder).layers.weight_bytes == products
    other = load_head(save(case, tmp_path / "c", {"embed_tokens.weight": same["embed_tokens.weight"] + 1}), decoder)
    assert other.layers.weight_bytes == head.layers.weight_bytes + 4 * VOCAB * HIDDEN


@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
@pytest.mark.parametrize("name", ["eagle1-qwen3", "spec3-llama"])
def test_reduced_precision_is_near(targets, tmp_path, name, dtype):
    from engines.model.linear import has_packed_half

    if dtype == "fp16" and not has_packed_half():
        pytest.skip("no FBGEMM on this CPU")
    case = CASES[name]
    model, _ = targets(case.target)
    model.save_pretrained(tmp_path / "target")
    decoder = load(tmp_path / "target", dtype, "cpu")
    head = load_head(save(case, tmp_path / "head"), decoder)
    got = head.session(32).read(IDS[1:20], features(decoder, head.taps, IDS[:19]))
    want = Reference(case, model, case.target).chain(IDS[:20], [])
    assert 0 < ((got - want).norm() / want.norm()).item() < (0.1 if dtype == "bf16" else 0.01)


def test_which_folders_are_published_heads(targets, tmp_path):
    for name in ("eagle1-llama", "eagle3-llama", "spec3-qwen3", "spec1-llama"):
        assert is_published(save(CASES[name], tmp_path / name))
        assert heads.resolve(str(tmp_path / name), "anything", "eagle") == tmp_path / name
    model, _ = targets("llama")
    model.save_pretrained(tmp_path / "model")
    assert not is_published(tmp_path / "model") and not is_published(tmp_path / "nothing")


def refuse(targets, tmp_path, name, match, changes=None, card=None, case=None):
    case = case or CASES[name]
    with pytest.raises(UserError, match=match) as error:
        load_head(save(case, tmp_path / "head", changes, card), targets(case.target)[1], "Ernie")
    return str(error.value)


NEW = torch.ones(HIDDEN)
LAYER = {"layers.1.self_attn.q_proj.weight": torch.zeros(4, 4)}


@pytest.mark.parametrize(
    ("name", "match", "changes", "card"),
    [
        ("eagle1-llama", "hidden size of 48, and llama has one of 32", {}, {"hidden_size": 48}),
        ("eagle3-qwen3", "hidden size of 64, and qwen3 has one of 32", {}, {"target_hidden_size": 64}),
        ("eagle3-llama", "vocabulary of 99, and llama has one of 17", {}, {"vocab_size": 99}),
        ("spec3-llama", "no transformer_layer_config", {}, {"transformer_layer_config": None}),
        ("spec3-llama", "'dflash'", {}, {"speculators_model_type": "dflash"}),
        ("eagle1-llama", "more than one layer", LAYER, {}),
        ("spec3-llama", "more than one layer", LAYER, {}),
        ("eagle1-llama", "lack the tensor layers.0.self_attn.k_proj", {"layers.0.self_attn.k_proj.weight": None}, {}),
        ("eagle3-llama", "lack the tensor d2t", {"d2t": None}, {}),
        ("eagle3-llama", "lack the tensor norm.weight", {"norm.weight": None}, {}),
        ("eagle3-llama", "lack the tensor lm_head", {"lm_head.weight": None}, {}),
        ("eagle3-llama", "lack the tensor fc.weight", {"fc.weight": None}, {}),
        ("eagle3-qwen3", "lack the tensor embed_tokens", {"embed_tokens.weight": None}, {}),
        ("eagle1-llama", "no tensor fc.weight", {"fc.weight": None}, {}),
        ("spec3-qwen3", "lack the tensor layers.0.self_attn.q_norm", {"layers.0.self_attn.q_norm.weight": None}, {}),
        ("eagle3-llama", r"shape \[32, 64\]", {"fc.weight": torch.zeros(HIDDEN, 2 * HIDDEN)}, {}),
        ("spec1-llama", "pre_lm_head_layernorm", {"pre_lm_head_layernorm.weight": NEW}, {}),
        ("eagle1-llama", "layers.0.input_layernorm", {"layers.0.input_layernorm.weight": NEW}, {}),
        ("spec3-llama", "norm_before_fc", {}, {"norm_before_fc": True}),
        ("eagle3-llama", "norm_output", {}, {"eagle_config": {"norm_output": True}}),
        ("eagle3-llama", "only the target's last state", {}, {"eagle_config": {"use_aux_hidden_state": False}}),
        ("eagle3-llama", r"layers \[0, 3, 5\]", {}, {"eagle_aux_hidden_state_layer_ids": [0, 3, 5]}),
        ("eagle3-llama", "with 7 layers", {}, {"eagle_aux_hidden_state_layer_ids": [2, 3, 8]}),
        ("eagle3-llama", r"layers \[2, 2, 3\]", {}, {"eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 1, 2]}}),
        ("eagle3-llama", "rotary positions of the kind 'dynamic'", {}, {"rope_scaling": {"type": "dynamic"}}),
        ("spec3-llama", "family 'gemma3_text'", {}, {"transformer_layer_config": {"model_type": "gemma3_text"}}),
        ("eagle1-llama", "intermediate_size", {}, {"intermediate_size": None}),
        ("eagle3-llama", "draft_vocab_size", {}, {"draft_vocab_size": "many"}),
        ("eagle3-llama", "d2t", {"d2t": torch.tensor(DRAFT)}, {}),  # ids where differences belong
        ("eagle3-llama", "d2t", {"d2t": torch.arange(9).flip(0) - torch.arange(9)}, {}),  # against t2d
        ("eagle3-llama", "d2t", {"d2t": -torch.arange(9), "t2d": None}, {}),  # all the same token
        ("eagle3-llama", "d2t", {"d2t": torch.arange(9) + 1, "t2d": None}, {}),  # beyond the vocabulary
    ],
)
def test_what_does_not_fit_is_refused_with_the_reason(targets, tmp_path, name, match, changes, card):
    message = refuse(targets, tmp_path, name, match, changes, card)
    assert "Ernie" in message or "tensor" in message or "config.json" in message


def test_a_target_of_too_few_layers_is_refused(targets, tmp_path):
    hf_model("Llama", {"vocab_size": VOCAB, "num_hidden_layers": 4}).save_pretrained(tmp_path / "short")
    with pytest.raises(UserError, match=r"layers \[2, 2, 1\] .* short, with 4 layers"):
        load_published(save(CASES["eagle3-llama"], tmp_path / "head"), load(tmp_path / "short", "fp32", "cpu"))


def test_pickled_weights_are_refused(targets, tmp_path):
    folder = save(CASES["eagle1-llama"], tmp_path / "head")
    (folder / "model.safetensors").unlink()
    torch.save(tensors_of(CASES["eagle1-llama"]), folder / "pytorch_model.bin")
    with pytest.raises(UserError, match="pickled"):
        load_head(folder, targets("llama")[1])


def test_a_target_that_transformers_runs_is_refused(tmp_path):
    class Fallback:
        name = "bloom"

    with pytest.raises(UserError, match="bloom is run by transformers"):
        load_head(save(CASES["eagle3-llama"], tmp_path / "head"), Fallback())


def test_an_ordinary_model_is_no_head(targets, tmp_path):
    model, decoder = targets("llama")
    model.save_pretrained(tmp_path / "model")
    with pytest.raises(UserError, match="no trained head"):
        load_head(tmp_path / "model", decoder)
    with pytest.raises(UserError, match="no config.json"):
        load_head(tmp_path, decoder)


def test_weights_too_large_for_fp16_are_refused(targets, tmp_path):
    from engines.model.linear import has_packed_half

    if not has_packed_half():
        pytest.skip("no FBGEMM on this CPU")
    targets("llama")[0].save_pretrained(tmp_path / "target")
    folder = save(CASES["eagle1-llama"], tmp_path / "head", {"fc.weight": torch.full((HIDDEN, 2 * HIDDEN), 1e5)})
    with pytest.raises(UserError, match="too large for fp16"):
        load_head(folder, load(tmp_path / "target", "fp16", "cpu"))


def test_the_cases_say_what_they_are_meant_to(tmp_path):
    """The checkpoints have the names and shapes of the published ones."""
    from safetensors.torch import load_file

    def read(name: str) -> tuple[dict, dict]:
        folder = save(CASES[name], tmp_path / name)
        return load_file(folder / "model.safetensors"), json.loads((folder / "config.json").read_text())

    tensors, card = read("eagle1-llama")
    assert tensors["fc.weight"].shape == (32, 64) and "layers.0.mlp.up_proj.weight" in tensors
    tensors, card = read("eagle3-llama")
    assert tensors["midlayer.self_attn.q_proj.weight"].shape == (48, 64) and tensors["fc.weight"].shape == (32, 96)
    assert tensors["d2t"].dtype == torch.int64 and tensors["t2d"].dtype == torch.bool
    assert card["draft_vocab_size"] == 9
    tensors, card = read("spec1-llama")
    assert {"fusion_fc.bias", "transformer.self_attn.q_proj.weight"} < set(tensors)
    assert card["speculators_model_type"] == "eagle" and "hidden_size" not in card
    assert isinstance(CASES["spec1-llama"], Case)
