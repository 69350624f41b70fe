"""The loop: where it ends, what it counts, and that speculation changes nothing but the number of passes.

Rows E1 to E17 of the behaviours are named where they are tested; the real model's share is in test_real_model.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from fakes import LetterTokenizer, Scripted, TableSession, greedy, job

from engines.decode import decode
from engines.errors import UserError
from engines.events import from_json, to_json
from engines.fold import Fold, fold
from engines.proposers.draft_model import DraftModelProposer
from engines.proposers.layer_skip import LayerSkipProposer, default_skip, kept_layers
from engines.proposers.ngram import NgramProposer
from engines.settings import Sampling


def run(*args, **kwargs):
    events = list(decode(job(*args, **kwargs)))
    return events, events[-1], fold(events)


def oracle(session, wrong_at=()):
    """Proposes the target's own greedy tokens, but a wrong one at the given positions of a proposal."""

    def guess(ids, k):
        out = []
        for i in range(k):
            right = int(session.row([*ids, *out]).argmax())
            out.append((right + 1) % session.vocab_size if i in wrong_at else right)
        return out

    return Scripted(guess)


def drafter(session, seed, sampling=None, capacity=4096, **kwargs):
    own = TableSession(session.vocab_size, seed=seed, capacity=capacity, **kwargs)
    return DraftModelProposer(own, sampling or Sampling(), session.vocab_size)


PROPOSERS = {
    "oracle": lambda s: oracle(s),
    "wrong at 0": lambda s: oracle(s, (0,)),
    "wrong at 2": lambda s: oracle(s, (2,)),
    "ngram": lambda s: NgramProposer(),
    "draft": lambda s: drafter(s, 99),
    "itself": lambda s: drafter(s, s.seed),
    "layer-skip": lambda s: LayerSkipProposer(s, (), Sampling()) if s.num_layers > 1 else oracle(s, (1,)),
}


@pytest.mark.parametrize("who", PROPOSERS)
@pytest.mark.parametrize("verify", ["token", "block"])
@pytest.mark.parametrize("prompt", [(3,), (0, 1), (5,) * 40])
def test_greedy_ids_are_plain_decodings(who, verify, prompt):
    """E1 among others: a prompt of one token, any proposer."""
    for seed, k in itertools.product(range(4), (1, 3, 6)):
        session = TableSession(seed=seed)
        want = greedy(session, prompt, 40)
        _, done, view = run(session, PROPOSERS[who](session), prompt, k=k, verify=verify, max_new_tokens=40)
        assert done.ids == want
        assert done.reason == "length"
        assert session.length == len(prompt) + 40 - 1  # the cache holds all but the last token
        assert (
            view.metrics().emitted
            == 40
            == view.metrics().accepted + sum(getattr(view.metrics(), kind) for kind in ("corrected", "bonus", "plain"))
        )


def test_draft_equal_to_target_accepts_everything():
    """E15: acceptance 100 %, every round ends in a bonus token (the last may be cut short by the limit)."""
    session = TableSession(seed=3)
    events, done, view = run(session, drafter(session, 3), k=4, max_new_tokens=25)
    m = view.metrics()
    assert m.acceptance_rate == 1.0 and m.rejected == m.corrected == 0
    assert m.bonus == m.rounds == 5 and m.tokens_per_pass == 5.0


def test_eos_inside_a_block_ends_the_run_there():
    """E3: the token that plain decoding emits third is EOS, k = 5."""
    session = TableSession(seed=1)
    want = greedy(session, (0, 1), 40)
    third = want[2]
    first = want.index(third)
    events, done, view = run(session, oracle(session), k=5, eos=[third])
    assert done.reason == "eos" and done.ids == want[: first + 1]
    assert view.metrics().emitted == first + 1
    assert [t.id for t in view.tokens()] == want[: first + 1]  # nothing after it is shown ...
    assert view.metrics().proposed == view.metrics().accepted == first + 1  # ... or counted
    assert events[-2].extra is None and events[-2].cut == 5 - (first + 1)
    assert done.text == "".join(chr(97 + t) for t in want[:first])  # EOS itself has no text


def test_eos_as_the_corrected_token_hides_what_was_unjudged():
    session = TableSession(seed=1)
    eos = greedy(session, (0, 1), 1)[0]
    events, done, view = run(session, oracle(session, (0,)), k=5, eos=[eos])
    assert done.ids == [eos] and done.reason == "eos"
    m = view.metrics()
    assert (m.accepted, m.rejected, m.corrected, m.unjudged) == (0, 1, 1, 0)
    assert events[-2].cut == 4


@pytest.mark.parametrize("wrong", [(), (0,), (2,)])
@pytest.mark.parametrize("k", [1, 2, 3, 5, 8])
def test_stop_strings_end_everything_at_the_same_place(k, wrong):
    """E4: a stop string that straddles blocks or ends inside one; independent of where blocks begin."""
    session = TableSession(seed=5)
    text = "".join(chr(97 + t) for t in greedy(session, (0, 1), 60))
    for begin, size in itertools.product(range(2, 30, 4), (1, 3, 4)):
        stop = text[begin : begin + size]
        for stops in ((stop,), (stop, "zz"), (text[50:60], stop)):
            # The one that is complete first ends the run; of those complete at the same token, the one begun first.
            places = [text.index(s) for s in stops if s in text]
            end = min(text.index(s) + len(s) for s in stops if s in text)
            want = text[: min(at for at, s in zip(places, stops, strict=False) if at + len(s) == end)]
            events, done, view = run(session, oracle(session, wrong), k=k, max_new_tokens=60, stop=stops)
            assert done.reason == "stop"
            assert done.text == want == view.text()
            assert len(done.ids) == done.keep == view.metrics().emitted == len(want)
            counted = view.metrics()
            assert counted.accepted + counted.corrected + counted.bonus + counted.plain == len(want)
            assert all(t.state != "pending" for t in view.tokens())
            session.rollback(0)


@pytest.mark.parametrize("wrong", [(), (1,)])
def test_no_view_ever_shows_what_a_stop_string_takes_back(wrong):
    """A view that keeps the held tokens back only ever grows, and ends at exactly the kept text."""
    session = TableSession(seed=5)
    text = "".join(chr(97 + t) for t in greedy(session, (0, 1), 60))
    for begin, size, k in itertools.product(range(2, 20, 3), (1, 3, 4), (1, 8)):
        stop = text[begin : begin + size]
        view, shown = Fold(), ""
        for event in decode(job(session, oracle(session, wrong), k=k, max_new_tokens=60, stop=(stop,))):
            view.add(event)
            if event.type in ("verdict", "done"):
                emitted = [t.text for t in view.tokens() if t.state in Fold.EMITTED]
                now = "".join(emitted[: len(emitted) - view.held])
                assert now.startswith(shown)
                shown = now
        assert shown == text[: text.index(stop)]
        session.rollback(0)


def test_stop_inside_a_token_cuts_its_text():
    """E4: the token in which the stop string begins stays, with what comes before it."""
    tokenizer = LetterTokenizer([b"one", b" END of", b" it", b"x"])
    session = TableSession(4)
    session.row = lambda context: np.eye(4, dtype=np.float32)[(context[-1] + 1) % 4]
    _, done, view = run(session, prompt=(3,), tokenizer=tokenizer, stop=["ND o"])
    assert done.text == "one E" and done.ids == [0, 1] and done.last_text == " E"
    assert [t.text for t in view.tokens()] == ["one", " E"]


def test_tokens_that_may_begin_a_stop_string_are_held_back():
    session = TableSession(4)
    session.row = lambda context: np.eye(4, dtype=np.float32)[(context[-1] + 1) % 4]
    events, done, _ = run(session, prompt=(3,), stop=["bcx", "abcdab"], max_new_tokens=5)
    held = [e.held for e in events if e.type == "verdict"]
    assert held == [1, 2, 3, 4, 5] and done.reason == "length" and done.text == "abcda"
    events, _, _ = run(session, prompt=(3,), stop=["bx"], max_new_tokens=5)
    assert [e.held for e in events if e.type == "verdict"] == [0, 1, 0, 0, 0]


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 6, 7])
def test_the_limit_inside_a_block(limit):
    """E5 and E17: exactly so many tokens; text, ids, states and counts stop there."""
    session = TableSession(seed=2)
    for wrong in ((), (0,), (2,)):
        _, done, view = run(session, oracle(session, wrong), k=5, max_new_tokens=limit)
        assert len(done.ids) == len(done.text) == view.metrics().emitted == limit
        assert done.reason == "length"
        assert len([t for t in view.tokens() if t.state in view.EMITTED]) == limit
        session.rollback(0)


def test_nothing_to_propose_is_plain_decoding_and_counted():
    """E6: an n-gram with no repeat, a prompt shorter than n."""
    session = TableSession(vocab_size=26, order=30, seed=4)
    want = greedy(session, (7,), 4)
    events, done, view = run(session, NgramProposer(3, 4), prompt=(7,), k=4, max_new_tokens=4)
    assert done.ids == want
    m = view.metrics()
    assert m.nothing_proposed == m.plain == 4 and m.proposed == 0 and m.acceptance_rate is None


def test_without_eos_it_runs_to_the_limit():
    """E7."""
    _, done, _ = run(TableSession(seed=6), eos=(), max_new_tokens=100)
    assert done.reason == "length" and len(done.ids) == 100


def test_a_draft_with_a_smaller_context_stops_drafting_and_says_so():
    """E8."""
    session = TableSession(seed=8)
    want = greedy(session, (0, 1), 60)
    events, done, view = run(session, drafter(session, 8, capacity=20), k=4, max_new_tokens=60)
    assert done.ids == want
    notes = [e.note for e in events if e.type == "draft" and e.note]
    assert notes and "20 tokens" in notes[0]
    late = [e for e in events if e.type == "draft"][-2]  # in the last round there is room for one token only
    assert late.tokens == [] and late.note


def test_a_prompt_longer_than_the_drafts_context():
    session = TableSession(seed=8)
    prompt = tuple(i % 8 for i in range(30))
    events, done, _ = run(session, drafter(session, 8, capacity=20), prompt=prompt, k=4, max_new_tokens=10)
    assert done.ids == greedy(session, prompt, 10)
    assert all(e.tokens == [] and e.note for e in events if e.type == "draft" and e.round < 10)


@pytest.mark.parametrize("room", [1, 2, 3, 7])
def test_the_context_limit_ends_the_run(room):
    """E9, first part: it continues to the limit."""
    session = TableSession(seed=9, capacity=20)
    prompt = tuple(i % 8 for i in range(20 - room))
    _, done, view = run(session, oracle(session), prompt=prompt, k=5, max_new_tokens=100)
    assert len(done.ids) == room and done.reason == "length" and "20 tokens" in done.message
    assert done.ids == greedy(session, prompt, room)


def test_stop_on_request_halts_within_one_round():
    session = TableSession(seed=2)
    seen = []
    events = []
    for event in decode(job(session, oracle(session), k=3, max_new_tokens=400, stopped=lambda: bool(seen))):
        events.append(event)
        if event.type == "verdict" and event.round == 4:
            seen.append(True)
    assert events[-1].reason == "stopped"
    assert max(e.round for e in events if e.type == "verdict") == 4
    assert len(events[-1].ids) == 16


def test_nan_ends_the_run_with_a_message_and_keeps_the_text():
    """S7 through the loop."""
    session = TableSession(seed=2)
    row = session.row

    def broken(context):
        return row(context) * (np.nan if len(context) > 6 else 1)

    session.row = broken
    for temperature in (0.0, 1.0):
        _, done, view = run(session, sampling=Sampling(temperature), prompt=(0, 1))
        assert done.reason == "error" and "NaN" in done.message
        assert len(done.ids) == 5 == view.metrics().emitted and len(done.text) == 5
        session.rollback(0)


def test_a_proposer_that_misbehaves_is_named():
    session = TableSession()
    greedy_k = Scripted(lambda ids, k: [0] * k)
    greedy_k.propose = lambda ids, k, go_on, chance: __import__("engines.proposers.base", fromlist=["x"]).Proposal(
        [0] * (k + 1)
    )
    _, done, _ = run(session, greedy_k, k=2)
    assert done.reason == "error" and "scripted" in done.message
    _, done, _ = run(TableSession(), Scripted(lambda ids, k: [8]), k=2)
    assert done.reason == "error" and "id 8" in done.message


def without_times(events):
    def clean(e):
        data = {k: v for k, v in e.__dict__.items() if k != "seconds"}
        if e.type == "done":
            data["metrics"] = {k: v for k, v in e.metrics.items() if "second" not in k}
        return data

    return [clean(e) for e in events]


@pytest.mark.parametrize("verify", ["token", "block"])
def test_same_seed_same_trace(verify):
    """E14 and S8: the same seed gives the same trace, whatever ran in between; nothing global is touched."""
    settings = {"sampling": Sampling(1.0, top_k=6), "k": 4, "verify": verify, "max_new_tokens": 50, "seed": 7}

    def once(prompt=(0, 1), **changes):
        session = TableSession(seed=1)
        return without_times(
            run(session, drafter(session, 2, settings["sampling"]), prompt, **{**settings, **changes})[0]
        )

    torch.manual_seed(1), np.random.seed(1)
    before = torch.random.get_rng_state(), np.random.get_state()[1].copy()
    first = once()
    once(prompt=(4, 5, 6))
    assert once() == first
    assert once(seed=8) != first
    assert torch.equal(before[0], torch.random.get_rng_state()) and (before[1] == np.random.get_state()[1]).all()


def test_twenty_seeds_vary():
    """S3."""
    outputs = set()
    for seed in range(20):
        session = TableSession(seed=1)
        outputs.add(tuple(run(session, drafter(session, 2, Sampling(1.0)), sampling=Sampling(1.0), seed=seed)[1].ids))
    assert len(outputs) == 20


def test_events_survive_json():
    session = TableSession(seed=1)
    for settings in ({}, {"sampling": Sampling(0.8), "candidates": 5, "verify": "block"}):
        events, _, view = run(session, drafter(session, 2, settings.get("sampling")), k=3, **settings)
        again = [from_json(to_json(e)) for e in events]
        assert again == events
        assert fold(again).metrics() == view.metrics()
        session.rollback(0)


def test_what_a_verdict_says():
    """p, q, the ratio, u and the ranks are those of the decision."""
    session = TableSession(seed=1)
    sampling = Sampling(1.0)
    events, _, _ = run(session, drafter(session, 2, sampling), k=3, sampling=sampling, candidates=3, max_new_tokens=60)
    rejected = 0
    for draft, verdict in zip(events[1:-1:2], events[2:-1:2], strict=True):
        assert len(verdict.judged) == min(verdict.accepted + 1, len(draft.tokens))
        for token, judged in zip(draft.tokens, verdict.judged, strict=False):
            assert judged.id == token.id and judged.q == pytest.approx(token.q)
            assert judged.ratio == pytest.approx(min(1, judged.p / judged.q))
            assert judged.accepted == (judged.u < judged.threshold)
            assert len(judged.top_p) == len(judged.top_q) == 3
            best = judged.top_p[0][2]
            assert (judged.rank == 0) == (judged.p == pytest.approx(best))
        if verdict.extra.kind == "corrected":
            rejected += 1
            assert 0 < verdict.extra.mass <= 1
    assert rejected > 3


class TestNgram:
    def propose(self, ids, k=4, **sizes):
        proposer = NgramProposer(**sizes)
        proposer.start(ids[:1])
        return proposer.propose(ids, k, lambda *_: True, None)

    def test_longest_match_first_then_the_most_recent(self):
        ids = [1, 2, 3, 9, 2, 3, 8, 5, 2, 3, 7, 1, 2, 3]
        assert self.propose(ids, 1).ids == [9]  # 1 2 3 occurred once, followed by 9
        assert self.propose(ids, 1, longest=2).ids == [7]  # 2 3 last by 7
        got = self.propose(ids, 3, longest=2)
        assert got.ids == [7, 1, 2] and got.sources == [(8, 11), (8, 12), (8, 13)]
        assert all(ids[end - 1] == token for token, (_, end) in zip(got.ids, got.sources, strict=True))

    def test_goes_on_into_what_it_proposed(self):
        """E2's kind: a text with a period shorter than k."""
        assert self.propose([4, 5, 4, 5, 4], 6).ids == [5, 4, 5, 4, 5, 4]
        assert self.propose([7] * 48, 5).ids == [7] * 5

    def test_no_match(self):
        assert self.propose([1, 2, 3]).ids == []
        assert self.propose([1]).ids == []
        assert self.propose([1, 2, 1], shortest=2).ids == []

    def test_only_committed_text_is_searched(self):
        proposer = NgramProposer()
        proposer.start([1, 2])
        proposer.propose([1, 2, 3], 4, lambda *_: True, None)
        assert proposer.propose([1, 2, 3, 1], 4, lambda *_: True, None).ids == [2, 3, 1, 2]


class TestLayerSkip:
    def test_default_is_the_middle_sixth(self):
        assert default_skip(30) == (10, 11, 12, 13, 14)
        assert default_skip(2) == (0,)

    def test_bad_subsets_are_refused(self):
        with pytest.raises(UserError, match="no layer 30"):
            kept_layers(30, (30,))
        with pytest.raises(UserError, match="keep at least one"):
            kept_layers(2, (0, 1))

    def test_the_cache_is_the_targets_own_and_comes_back(self):
        session = TableSession(seed=1)
        session.num_layers = 3
        seen = []
        forward = session.forward
        session.forward = lambda ids, **kw: seen.append(kw.get("layers")) or forward(ids, **kw)
        proposer = LayerSkipProposer(session, (1,), Sampling())
        session.forward([0, 1, 2])
        got = proposer.propose([0, 1, 2, 3], 3, lambda *_: True, None)
        assert len(got.ids) == 3 and session.length == 3
        assert seen[1:] == [(0, 2)] * 3


def test_a_proposed_token_without_text_says_its_name():
    """The end-of-text token, when it is proposed: the trace keeps its text empty, and says what it is called."""
    session = TableSession(seed=1, vocab_size=8)
    tokenizer = LetterTokenizer([b"<|im_end|>", *[bytes([97 + i]) for i in range(25)]])
    events, _, _ = run(session, Scripted(lambda ids, k: [3, 0, 4][:k]), eos=[0], tokenizer=tokenizer, k=3)
    first = next(e for e in events if e.type == "draft").tokens
    assert [(t.text, t.piece) for t in first] == [("c", None), ("", "<|im_end|>"), ("d", None)]
    assert '"piece":"<|im_end|>"' in to_json(next(e for e in events if e.type == "draft"))
    assert all(from_json(to_json(e)) == e for e in events if e.type == "draft")
