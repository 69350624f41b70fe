"""Training on a tiny model: its own text, a net that learns, a stop that changes nothing, and the head that runs."""

from __future__ import annotations

import dataclasses
import itertools
import json

import numpy as np
import pytest
import torch

from engines.decode import decode
from engines.errors import UserError
from engines.fold import fold
from engines.model.head import Head
from engines.model.head_load import load_head
from engines.model.load import load
from engines.proposers.draft_model import DraftModelProposer
from engines.proposers.eagle import EagleProposer
from engines.settings import Sampling
from engines.training.answers import answer_prompts
from engines.training.batches import Batches, frequent_tokens
from engines.training.job import Job, Order, answered
from engines.training.muon import orthogonal
from engines.training.save import save_head, saved_net
from engines.training.selftalk import Plan, SelfTalk, Turns, kept, openings
from engines.training.start import Target, begin, shape_for
from engines.training.store import ANSWER, TEMPLATE, USER, Store
from engines.training.table import save_table
from engines.training.texts import read_files, read_texts
from engines.training.trainer import Recipe, Trainer

from fakes import LetterTokenizer, job  # isort: skip

transformers = pytest.importorskip("transformers")
VOCAB, TAPS = 61, (1, 2, 3)


class Chat(LetterTokenizer):
    """ "u" and "a" begin turns, "." ends them."""

    name, bos_id, eos_ids, has_chat_template = "chat", 0, (2,), True

    def encode(self, text, *, add_bos=None, specials=True):
        return [3 + ord(c) % (VOCAB - 3) if c not in "\x00\x01\x02" else ord(c) for c in text]

    def chat_text(self, messages):
        return f"\x00{messages[0]['content']}\x02\x01"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A tiny Llama that has learnt a little language: what comes next depends on the last two tokens."""
    where = tmp_path_factory.mktemp("target")
    torch.manual_seed(1)
    config = transformers.LlamaConfig(
        vocab_size=VOCAB, hidden_size=32, intermediate_size=64, num_hidden_layers=3, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=256, bos_token_id=0, eos_token_id=2, tie_word_embeddings=True,
    )  # fmt: skip
    model = transformers.LlamaForCausalLM(config)
    after = torch.randint(3, VOCAB, (VOCAB, VOCAB // 8 + 1, 2))  # two successors of each pair
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(150):
        ids = torch.randint(3, VOCAB, (16, 2))
        for _ in range(38):
            two = after[ids[:, -1], ids[:, -2] // 8]
            choice = (torch.rand(16, 1) < 0.2).long()
            ids = torch.cat((ids, two.gather(1, choice)), 1)
        model(ids, labels=ids).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    model.save_pretrained(where)
    return where


@pytest.fixture(scope="module")
def decoder(folder):
    return load(folder, "fp32", "cpu")


def meta(**changes):
    return {"target": "tiny", "taps": list(TAPS), "features": 96, "top": 8, **changes}


@pytest.fixture(scope="module")
def store(decoder, tmp_path_factory):
    made = Store(tmp_path_factory.mktemp("store") / "s", meta())
    plan = Plan(["ab", "cde"], user_tokens=12, answer_tokens=30, answer_temperatures=((1.0, 1.0),))
    SelfTalk(decoder, Chat(size=VOCAB), made, plan, rows=16, seed=3).run(9000, lambda n: None)
    return made


# -- the target's own text ------------------------------------------------------------------------------------


def test_the_store_holds_what_the_target_says_and_thinks(store, decoder):
    a = store.arrays()
    assert store.tokens >= 9000 and len(a["ids"]) == store.tokens
    for begin_, end in itertools.islice(store.spans(), 0, len(store), 40):
        ids = a["ids"][begin_:end].tolist()
        session = decoder.session(taps=TAPS)
        logits = session.forward(ids)
        features = session.features[: len(ids)].view(len(ids), 3, 32)
        unit = features * features.square().mean(-1, keepdim=True).rsqrt()
        assert np.abs(a["features"][begin_:end].reshape(-1, 3, 32) - unit.numpy()).max() < 0.02
        best = logits.softmax(-1).topk(8)
        assert (a["top_ids"][begin_:end, 0] == best.indices[:, 0].numpy()).mean() > 0.99
        assert np.abs(a["top_p"][begin_:end] - best.values.numpy()).max() < 0.01


def test_turns_are_in_their_places(store):
    a = store.arrays()
    for begin_, end in store.spans():
        kinds, ids = a["kinds"][begin_:end].tolist(), a["ids"][begin_:end].tolist()
        assert ids[0] == 0 and kinds[0] == TEMPLATE
        at = next(i for i in range(1, len(ids)) if ids[i] == 1 and kinds[i] == TEMPLATE)  # the answer begins
        assert ids[at - 1] == 2 and USER not in kinds[at:]
        assert all(k == ANSWER for k in kinds[at + 1 :]) and len(ids) - at - 1 <= 30
        assert ANSWER not in kinds[:at]
        assert 2 not in ids[at + 1 :]


def test_a_store_is_gone_on_with(decoder, tmp_path):
    plan = Plan(user_tokens=8, answer_tokens=12)
    made = Store(tmp_path / "s", meta())
    SelfTalk(decoder, Chat(size=VOCAB), made, plan, rows=4).run(300, lambda n: None)
    before, count = made.arrays()["ids"].tolist(), len(made)
    with open(tmp_path / "s" / "ids.bin", "ab") as file:  # an interruption left half a sequence
        file.write(b"12345678")
    again = Store(tmp_path / "s", meta())
    SelfTalk(decoder, Chat(size=VOCAB), again, plan, rows=4).run(600, lambda n: None)
    ids = again.arrays()["ids"].tolist()
    assert ids[: len(before)] == before and again.tokens >= 600 and len(again) > count
    with pytest.raises(UserError, match="taps"):
        Store(tmp_path / "s", meta(taps=[1]))
    with pytest.raises(UserError, match="no training data"):
        Store(tmp_path / "nothing")


def test_a_persons_prompts_are_answered(decoder, tmp_path):
    path = tmp_path / "p.jsonl"
    lines = [
        '{"prompt": "hello"}',
        "",
        '{"turns": ["two", "x"]}',
        '{"messages": [{"role": "user", "content": "three"}]}',
    ]
    path.write_text("\n".join(lines))
    prompts, texts = read_files([str(path)])
    assert (prompts, texts) == (["hello", "two", "three"], [])
    made, tokenizer = Store(tmp_path / "s", meta()), Chat(size=VOCAB)
    greedy = Plan(answer_tokens=9, answer_temperatures=((0.0, 1.0),))

    def answer(tokens, prompts=prompts):
        return answer_prompts(decoder, tokenizer, made, prompts, tokens, lambda n: None, plan=greedy, rows=2)

    assert answer(1) == 0 and 0 < len(made) < 3  # as far as was asked for
    assert answer(10_000) == 0 and len(made) == 3  # and gone on with: nothing twice
    assert answer(10_000, [*prompts, "long" * decoder.context]) == 1 and len(made) == 3
    said = sorted(bytes(made.arrays()["ids"][b:e].astype(np.uint8)) for b, e in made.spans())
    wanted = sorted(bytes([0, *tokenizer.encode(p), 2, 1]) for p in prompts)
    assert all(s.startswith(w) for s, w in zip(said, wanted, strict=True))
    assert answered(["three", "another one"], made, tokenizer, size=5) == [0]


def test_answers_are_the_targets_own(decoder, tmp_path):
    """Texts of unlike length, padded and over at different times: ids, law and features are those of each alone."""
    made, tokenizer = Store(tmp_path / "s", meta()), Chat(size=VOCAB)
    greedy = Plan(answer_tokens=12, answer_temperatures=((0.0, 1.0),))
    prompts = ["a", "the second, much longer", "third one"]
    answer_prompts(decoder, tokenizer, made, prompts, 10_000, lambda n: None, plan=greedy)
    a, taps = made.arrays(), tuple(made.meta["taps"])
    assert len(made) == 3
    for start, end in made.spans():
        ids, kinds = a["ids"][start:end], a["kinds"][start:end]
        alone = decoder.session(taps=taps)
        logits = alone.forward(ids.tolist())
        asked = int((kinds == TEMPLATE).sum())
        assert (kinds[:asked] == TEMPLATE).all() and (kinds[asked:] == ANSWER).all() and asked < end - start
        np.testing.assert_array_equal(ids[asked:], logits[asked - 1 : -1].argmax(-1).numpy())
        told = slice(start + asked - 1, end)
        p, top = logits[asked - 1 :].softmax(-1).topk(made.meta["top"])
        np.testing.assert_array_equal(a["top_ids"][told], top.numpy())
        np.testing.assert_allclose(a["top_p"][told], p.numpy(), atol=2e-3)
        assert not a["top_p"][start : start + asked - 1].any()
        np.testing.assert_allclose(a["features"][start:end], kept(alone.features[: end - start], len(taps)), atol=5e-3)


@pytest.mark.parametrize(("files", "say"), [((), "raise --self"), (("mine.txt",), "give more of it")])
def test_too_few_texts_are_refused_before_training(files, say, folder, decoder, tmp_path, monkeypatch):
    """Also where the data is there already: what is refused once must not be trained on at the next try."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("engines.training.job.resolve", lambda name, tell: folder)
    (tmp_path / "mine.txt").write_text("some text")
    few = Store(tmp_path / "s", meta(target=str(folder), top=16, features=3 * 32))
    SelfTalk(decoder, Chat(size=VOCAB), few, Plan(user_tokens=8, answer_tokens=12), rows=4).run(100, lambda n: None)
    order = Order("head", str(folder), tmp_path / "out", files, own_tokens=50, store=few.folder)
    for resume in (False, True):
        with pytest.raises(UserError, match=f"too few to learn from.*{say}"):
            Job(dataclasses.replace(order, resume=resume), print, print, lambda: False).run()
    assert not (tmp_path / "out").exists()


def test_what_nobody_asked_the_target_is_not_counted(decoder, tmp_path):
    """A prompt's positions have no law: neither the small vocabulary nor recycling's table learn from them."""
    made, tokenizer = Store(tmp_path / "s", meta()), Chat(size=VOCAB)
    answer_prompts(decoder, tokenizer, made, ["abc" * 9] * 4, 10_000, lambda n: None, plan=Plan(answer_tokens=8))
    a = made.arrays()
    thought = {int(i) for ids, p in zip(a["top_ids"], a["top_p"], strict=True) for i in ids if p[0] > 0}
    said = set(a["ids"][a["kinds"] != TEMPLATE].tolist())
    few = frequent_tokens(made, len(thought | said), VOCAB)
    assert set(few.tolist()) <= thought | said


@pytest.mark.parametrize(
    ("name", "content", "match"),
    [
        ("a.jsonl", '{"prompt": "x"}\nnot json', "line 2 is not JSON"),
        ("a.jsonl", '{"text": 1}', "line 1 has no prompt"),
        ("a.txt", b"\xff\xfe", "not UTF-8"),
        ("a.txt", "  \n", "no text"),
    ],
)
def test_bad_files_are_named(tmp_path, name, content, match):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(UserError, match=match):
        read_files([str(path)])
    with pytest.raises(UserError, match="cannot be read"):
        read_files([str(tmp_path / "none")])


def test_a_persons_text_is_read(decoder, tmp_path):
    (tmp_path / "a.txt").write_text("some words that are read " * 30 + "\n\n\n" + "and others, too, in another part")
    _, texts = read_files([str(tmp_path / "a.txt")])
    assert len(texts) == 2
    made = Store(tmp_path / "s", meta())
    read_texts(decoder, Chat(size=VOCAB), made, texts, 10_000, lambda n: None)
    assert made.tokens == sum(map(len, texts))
    assert len(made) == 4  # 750 letters in windows of 256


def test_openings_are_plain_lines():
    assert len(openings()) > 150 and len(set(openings())) == len(openings())
    assert Turns.of(Chat(size=VOCAB)) == Turns((0,), (2, 1))


def test_the_table_of_successors(store, tmp_path, monkeypatch):
    from engines import heads

    count = save_table(store, tmp_path / "tiny-table")
    monkeypatch.setattr(heads, "SHIPPED", tmp_path)
    heads.recycling.cache_clear()
    table = heads.recycling("tiny")
    heads.recycling.cache_clear()
    a = store.arrays()
    assert len(table) == count > 40
    token = int(np.bincount(a["ids"]).argmax())
    at = np.flatnonzero(a["ids"] == token)
    share: dict[int, float] = {}
    for ids, p in zip(a["top_ids"][at].tolist(), a["top_p"][at].tolist(), strict=True):
        for i, x in zip(ids, p, strict=True):
            share[i] = share.get(i, 0) + x / len(at)
    best = max(share, key=share.get)
    assert table[token][0][0] == best and table[token][0][1] == pytest.approx(share[best], abs=0.01)
    assert heads.recycling("../tiny") == {} == heads.recycling("none")


# -- learning ---------------------------------------------------------------------------------------------------


def trainer_for(folder, store, taps=TAPS, steps=60, ahead=2, mixing="sum", layers=1):
    target = Target(folder)
    vocabulary = frequent_tokens(store, 48, VOCAB, always=(2,))
    shape = shape_for(target.config, layers, 48, taps, mixing)
    batches = Batches(store, vocabulary, VOCAB, len(store), 1024, bool(taps), held_out_every=6)
    net = begin(target, shape, vocabulary)
    recipe = Recipe(steps, 1024, 3e-3, 1e-2, warm_up=5, steps_ahead=ahead)
    return Trainer(net, batches, target.embedding(), recipe), target, vocabulary


@pytest.mark.parametrize(("taps", "mixing"), [(TAPS, "sum"), (TAPS, "eagle3"), ((), "sum")])
def test_held_out_acceptance_rises(folder, store, taps, mixing):
    trainer, _, _ = trainer_for(folder, store, taps, mixing=mixing)
    before = trainer.measure(1)[0]
    reports = []
    assert trainer.run(reports.append, measure_every=30)
    after = trainer.measure(1)[0]
    assert after > before + 0.1 and after > 0.2
    assert reports[-1].step == 60 and reports[-1].accepted is not None
    assert reports[-1].loss < reports[0].loss


def test_a_stop_and_a_resume_change_nothing(folder, store, tmp_path):
    straight, _, _ = trainer_for(folder, store, steps=14)
    straight.run(lambda r: None)
    first, _, _ = trainer_for(folder, store, steps=14)
    path = tmp_path / "checkpoint.safetensors"
    assert not first.run(lambda r: None, stopped=lambda: first.step >= 6, save=lambda: first.save(path))
    second, _, _ = trainer_for(folder, store, steps=14)
    second.restore(path)
    assert second.step == 6
    assert second.run(lambda r: None)
    for (name, a), b in zip(straight.net.state_dict().items(), second.net.state_dict().values(), strict=True):
        assert torch.equal(a, b), name
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(UserError, match="cannot be gone on from"):
        second.restore(path)


def test_steps_of_matrices_are_nearly_orthogonal():
    torch.manual_seed(0)
    for shape in ((24, 40), (40, 24), (32, 32)):
        ill = torch.randn(shape) @ torch.diag(torch.logspace(0, -2, shape[1]))
        left, values, right = torch.linalg.svd(orthogonal(ill, steps=10), full_matrices=False)
        assert values.min() > 0.6 and values.max() < 1.3
        u, _, v = torch.linalg.svd(ill, full_matrices=False)
        assert ((left @ right) * (u @ v)).sum() > 0.99 * min(shape)  # the same turn, its stretching gone


def test_a_window_without_an_answer_is_left_out(store):
    made = Batches(store, np.arange(48), VOCAB, len(store), 1024, False, held_out_every=6)
    kinds = store.arrays()["kinds"]
    assert all((kinds[b + 2 : e] == ANSWER).any() for b, e in made.train + made.held_out)
    whole = list(store.spans())
    begin, end = whole[0]
    answer = begin + int(np.argmax(kinds[begin:end] == ANSWER))
    store_like = type("S", (), {"arrays": lambda s: store.arrays(), "spans": lambda s: iter([(begin, answer)])})()
    assert not any(Batches(store_like, np.arange(48), VOCAB, 1, 1024, False, held_out_every=6).held_out)


def test_training_goes_on_from_what_another_one_left(folder, store, tmp_path):
    first, target, vocabulary = trainer_for(folder, store, steps=60)
    first.run(lambda r: None)
    save_head(first.net, vocabulary, target, tmp_path / "a", {"target_name": "tiny"})
    net, same = saved_net(tmp_path / "a", target.config, "head")
    assert (same == vocabulary).all() and net.shape == first.net.shape
    batches = first.batches
    more = Trainer(net, batches, target.embedding(), Recipe(30, 1024, 3e-3, 1e-2, warm_up=5, steps_ahead=2))
    kept = more.measure(1)[0]
    assert kept == pytest.approx(first.measure(1)[0], abs=0.02)  # float16 aside, nothing is lost
    more.run(lambda r: None)
    assert more.measure(1)[0] > kept - 0.02 and more.loss < first.loss
    with pytest.raises(UserError, match="holds a head, not a draft"):
        saved_net(tmp_path / "a", target.config, "draft")
    other = dataclasses.replace(target.config, layers=7)
    with pytest.raises(UserError, match="was made for tiny"):
        saved_net(tmp_path / "a", other, "head")


def test_training_changes_the_depths_it_is_unrolled_to(folder, store):
    shallow, _, _ = trainer_for(folder, store, steps=60, ahead=1)
    deep, _, _ = trainer_for(folder, store, steps=60, ahead=3)
    for t in (shallow, deep):
        t.run(lambda r: None)
    assert deep.measure(3)[2] > shallow.measure(3)[2]


# -- running what was trained -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trained(folder, store, tmp_path_factory):
    out = {}
    cases = {"head": (TAPS, "sum", 1), "two": (TAPS, "sum", 2), "wide": (TAPS, "eagle3", 2), "draft": ((), "sum", 2)}
    for name, (taps, mixing, layers) in cases.items():
        trainer, target, vocabulary = trainer_for(folder, store, taps, 30, mixing=mixing, layers=layers)
        trainer.run(lambda r: None)
        where = tmp_path_factory.mktemp("heads") / name
        save_head(trainer.net, vocabulary, target, where, {"target_name": "tiny"})
        out[name] = (trainer.net, vocabulary, where)
    return out


IDS = [0, 9, 4, 33, 21, 50, 2, 1, 17, 17, 8, 40, 5, 6]


@pytest.mark.parametrize("name", ["head", "two", "wide"])
def test_the_running_head_is_the_net_that_was_trained(name, trained, decoder):
    """True features, then three guesses ahead on its own states, at every place of a text."""
    net, _, where = trained[name]
    head = load_head(where, decoder)
    assert isinstance(head, Head)
    session = decoder.session(taps=head.taps)
    session.forward(IDS)
    features = session.features[: len(IDS) - 1]
    e = decoder.embed(torch.tensor(IDS[1:]))
    with torch.no_grad():
        stored = torch.from_numpy(kept(features, len(TAPS))).float()  # what training reads
        steps = [net.logits(s[0]) for s in net.unroll(e[None], stored[None], 3)]
    # The net's step j at position t has read true features up to t - j and guessed from there on.
    for last in range(3, len(IDS) - 1):
        own = head.session(64)
        state = own.read(IDS[1 : last - 1], features[: last - 2])[-1:]
        torch.testing.assert_close(head.logits(state)[0], steps[0][last - 3], atol=2e-2, rtol=1e-2)
        for j in (1, 2):
            state = own.guess(IDS[last - 2 + j : last - 1 + j], state, [j - 2])
            torch.testing.assert_close(head.logits(state)[0], steps[j][last - 3 + j], atol=2e-2, rtol=1e-2)


def test_guesses_in_a_tree_are_those_of_their_paths(trained, decoder):
    head = load_head(trained["two"][2], decoder)
    session = decoder.session(taps=head.taps)
    session.forward(IDS)
    own, alone = head.session(64), head.session(64)
    state = own.read(IDS[1:6], session.features[:5])[-1:]
    first = own.guess([7, 8], state.expand(2, -1), [-1, -1])
    second = own.guess([9, 10], first[[1, 0]], [1, 0])
    for path, want in (([8, 9], second[0]), ([7, 10], second[1])):
        s = alone.read(IDS[1:6], session.features[:5])[-1:] if alone.length == 0 else state
        alone.rollback(5)
        s = alone.guess(path[:1], s, [-1])
        s = alone.guess(path[1:], s, [0])
        torch.testing.assert_close(s[0], want, atol=1e-4, rtol=1e-4)


def plain(decoder, n=90, **more):
    return list(decode(job(decoder.session(200), prompt=IDS, max_new_tokens=n, **more)))[-1].ids


@pytest.mark.parametrize("penalty", [1.0, 1.3])
@pytest.mark.parametrize("branch", [1, 2, 4])
@pytest.mark.parametrize("name", ["head", "two", "wide"])
def test_greedy_ids_are_plain_ones(name, branch, penalty, trained, decoder):
    sampling = Sampling(repetition_penalty=penalty)
    head = load_head(trained[name][2], decoder)
    session = decoder.session(200, taps=head.taps)
    proposer = EagleProposer(head, session, sampling, branch)
    events = list(decode(job(session, proposer, prompt=IDS, max_new_tokens=90, k=5, sampling=sampling)))
    assert events[-1].ids == plain(decoder, sampling=sampling)
    assert fold(events).metrics().accepted > 5


def test_the_draft_runs_beside_its_target(trained, decoder):
    draft = load_head(trained["draft"][2], decoder)
    assert draft.vocab_size == VOCAB
    for sampling in (Sampling(), Sampling(temperature=0.7)):
        session = decoder.session(200)
        proposer = DraftModelProposer(draft.session(200), sampling, VOCAB)
        events = list(decode(job(session, proposer, prompt=IDS, max_new_tokens=60, k=3, sampling=sampling)))
        assert fold(events).metrics().accepted > 3
        if sampling.greedy:
            assert events[-1].ids == plain(decoder, 60)
    small = set(trained["draft"][1].tolist())
    proposed = {t.id for e in events if e.type == "draft" for t in e.tokens}
    assert proposed <= small


@pytest.mark.parametrize("prompt", [[5], [5, 6], [5, 6, 7]])
def test_short_prompts(prompt, trained, decoder):
    head = load_head(trained["head"][2], decoder)
    session = decoder.session(200, taps=head.taps)
    proposer = EagleProposer(head, session, Sampling(), 2)
    events = list(decode(job(session, proposer, prompt=prompt, max_new_tokens=20, k=4)))
    want = list(decode(job(decoder.session(200), prompt=prompt, max_new_tokens=20)))[-1].ids
    assert events[-1].ids == want


def test_the_end_of_the_context(trained, decoder):
    head = load_head(trained["head"][2], decoder)
    prompt = (IDS * 18)[:240]
    for branch in (1, 3):
        session = decoder.session(taps=head.taps)
        proposer = EagleProposer(head, session, Sampling(), branch)
        events = list(decode(job(session, proposer, prompt=prompt, max_new_tokens=99, k=8)))
        assert events[-1].reason == "length" and len(prompt) + len(events[-1].ids) == 256


def test_a_head_of_another_target_is_refused(trained, decoder, tmp_path, folder):
    other = tmp_path / "other"
    config = transformers.LlamaConfig(
        vocab_size=VOCAB, hidden_size=16, intermediate_size=32, num_hidden_layers=3, num_attention_heads=4
    )
    transformers.LlamaForCausalLM(config).save_pretrained(other)
    with pytest.raises(UserError, match="made for tiny .hidden 32., and .* has hidden 16"):
        load_head(trained["head"][2], load(other, "fp32", "cpu"))
    broken = tmp_path / "broken"
    broken.mkdir()
    card = json.loads((trained["head"][2] / "config.json").read_text())
    del card["shape"]["layers"]
    (broken / "config.json").write_text(json.dumps(card))
    (broken / "model.safetensors").write_bytes((trained["head"][2] / "model.safetensors").read_bytes())
    with pytest.raises(UserError, match="incomplete"):
        load_head(broken, decoder)
