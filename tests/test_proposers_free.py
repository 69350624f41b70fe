"""Proposers that need no weights: suffix lookup, token recycling, and the choice among several."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from fakes import Scripted, TableSession, greedy, job

from engines.adaptive import AdaptiveLength
from engines.cost import Costs
from engines.decode import decode
from engines.fold import fold
from engines.proposers.auto import AutoProposer, Member
from engines.proposers.base import Proposal
from engines.proposers.best_first import chain, tree
from engines.proposers.ngram import NgramProposer
from engines.proposers.recycle import RecycleProposer
from engines.proposers.suffix import Memory, SuffixProposer
from engines.settings import Sampling


def yes(*_):
    return True


def ask(proposer, ids, k=4, go_on=yes):
    proposer.start(ids)
    return proposer.propose(ids, k, go_on, None)


# -- what a model reads but never writes --------------------------------------------------------------------------


@pytest.mark.parametrize("make", [NgramProposer, SuffixProposer])
def test_a_chat_templates_marks_are_never_proposed(make):
    """A copy ends before one, and a place that one follows is none to copy from."""
    mark, text = 99, [5, 6, 7, 8, 99, 1, 2, 5, 6, 99, 3, 5, 6]
    assert ask(make(), text, k=6).ids[0] == mark  # the most recent place, or one of two
    assert ask(make(marks={mark}), text, k=6).ids == [7, 8]
    assert ask(make(marks={mark}), [5, 6, 99, 5, 6], k=6).ids == []
    branching = SuffixProposer(branch=4, marks={mark})
    assert mark not in ask(branching, text, k=8).ids and ask(branching, text, k=8).ids


# -- growing --------------------------------------------------------------------------------------------------


def branches(state):
    """Two successors of every word of letters, "a" with 0.6 and "b" with 0.3."""
    return [(0, 0.6, None, state + "a"), (1, 0.3, None, state + "b")]


def test_a_tree_has_the_greatest_products():
    out = tree(branches, "", 6, 2)
    #  a .6, aa .36, b .3, aaa .216, ab .18, ba .18
    assert out.ids == [0, 0, 1, 0, 1, 0]
    assert out.parents == [-1, 0, -1, 1, 0, 2]
    assert out.confidence == [0.6, 0.6, 0.3, 0.6, 0.3, 0.6]


def test_a_narrow_tree_and_a_chain():
    assert tree(branches, "", 3, 1).parents == [-1, 0, 1]
    assert chain(branches, "", 3, yes).ids == [0, 0, 0]
    assert chain(branches, "", 9, lambda seen, coming: len(seen) < 2 and coming == 0.6).ids == [0, 0]
    assert chain(lambda state: [], "", 3, yes).ids == [] == tree(lambda state: [], "", 3, 2).ids


# -- suffix lookup --------------------------------------------------------------------------------------------


def test_the_most_frequent_continuation_wins():
    #  1 2 is followed by 3 twice and by 4 once, the latest
    ids = [1, 2, 3, 9, 1, 2, 3, 8, 1, 2, 4, 7, 1, 2]
    out = ask(SuffixProposer(), ids, k=1)
    assert out.ids == [3]
    assert out.confidence == [pytest.approx(2 / 3 * 2 / 3)]
    assert ids[out.sources[0][1] - 1] == 3


def test_the_longer_match_wins_over_the_more_frequent():
    ids = [1, 2, 3, 1, 2, 3, 5, 6, 1, 2, 4, 0, 5, 6, 1, 2]
    assert ask(SuffixProposer(), ids, k=2).ids == [4, 0]


def test_it_goes_on_into_the_text_that_it_follows():
    out = ask(SuffixProposer(), [5, 6, 7, 5, 6, 7, 5, 6], k=3)
    assert out.ids == [7, 5, 6]


def test_nothing_where_nothing_repeats():
    for ids in ([], [3], [3, 4], [1, 2, 3, 4, 5]):
        assert ask(SuffixProposer(), ids).ids == []


def test_a_tree_of_continuations():
    ids = [1, 2, 3, 9, 1, 2, 3, 8, 1, 2, 4, 7, 1, 2]
    out = ask(SuffixProposer(branch=3), ids, k=4)
    assert sorted(zip(out.ids, out.parents, strict=True))[:2] == [(3, -1), (4, -1)]
    assert len(out.ids) == 4
    assert ask(SuffixProposer(branch=3, trees=False), ids, k=4).parents == []


def test_earlier_outputs_are_looked_in_only_when_asked_to():
    memory = Memory()
    memory.begin([4, 5, 6, 7, 8])
    out = ask(SuffixProposer(memory=memory), [1, 4, 5], k=2)
    assert out.ids == [6, 7] and out.sources == [None, None]
    assert ask(SuffixProposer(), [1, 4, 5], k=2).ids == []
    for i in range(20):
        memory.begin([i] * 10_000)
    assert sum(map(len, memory.texts)) <= memory.most


def test_a_run_is_remembered_by_the_next():
    """What one run wrote, and not its prompt, is what the next one may look things up in."""
    memory, session = Memory(), TableSession(vocab_size=6, seed=2, order=1)
    first = list(decode(job(session, SuffixProposer(memory=memory), k=4, max_new_tokens=40)))[-1].ids
    (said,) = memory.texts
    assert len(said) > 30 and said == first[: len(said)]
    proposer = SuffixProposer(memory=memory)
    proposer.start([5, *said[:2]])
    assert proposer.propose([5, *said[:2]], 1, yes, None).ids


def test_what_was_refused_is_never_indexed():
    proposer = SuffixProposer()
    proposer.start([1, 2, 3])
    proposer.propose([1, 2, 3], 4, yes, None)
    assert proposer.propose([1, 2, 3, 1, 2], 1, yes, None).ids == [3]
    assert proposer.propose([1, 2, 3, 1, 2, 9, 1, 2], 2, yes, None).ids[0] in (3, 9)


# -- token recycling ------------------------------------------------------------------------------------------


def logits_of(*rows, vocab=10):
    out = torch.full((len(rows), vocab), -20.0)
    for row, wishes in zip(out, rows, strict=True):
        for token, p in wishes.items():
            row[token] = float(np.log(p))
    return out


def test_the_targets_thoughts_come_back():
    proposer = RecycleProposer(branch=2)
    proposer.start([1, 2])
    assert proposer.propose([1, 2], 4, yes, None).ids == []
    seen = Proposal([3, 4], parents=[-1, -1], confidence=[None] * 2, sources=[None] * 2)
    #  after 2: 5 or 6; after 3: 7; after the refused 4: 8
    proposer.observe([1, 2], logits_of({5: 0.6, 6: 0.4}, {7: 1.0}, {8: 0.9, 9: 0.1}), seen, None)
    out = proposer.propose([9, 2], 4, yes, None)
    assert (out.ids[:2], out.parents[:2]) == ([5, 6], [-1, -1])
    assert out.confidence[:2] == pytest.approx([0.6, 0.4], abs=1e-3)
    assert proposer.propose([2, 4], 1, yes, None).ids == [8]
    assert RecycleProposer(branch=2, trees=False).branch == 1


def test_the_pair_is_asked_before_the_token():
    proposer = RecycleProposer(branch=1)
    proposer.start([0, 1])
    nothing = Proposal()
    proposer.observe([7, 1], logits_of({2: 1.0}), nothing, None)
    proposer.observe([8, 1], logits_of({3: 1.0}), nothing, None)
    assert proposer.propose([7, 1], 1, yes, None).ids == [2]
    assert proposer.propose([8, 1], 1, yes, None).ids == [3]
    assert proposer.propose([9, 1], 1, yes, None).ids == [3]  # the latest


def test_a_shipped_table_is_where_it_starts():
    proposer = RecycleProposer(branch=1, known={1: [(2, 0.5)], 2: [(3, 0.5)]})
    proposer.start([0, 1])
    assert proposer.propose([0, 1], 3, yes, None).ids == [2, 3]
    proposer.observe([0, 1], logits_of({4: 1.0}), Proposal(), None)
    assert proposer.propose([0, 1], 1, yes, None).ids == [4]


# -- the choice -----------------------------------------------------------------------------------------------

FREE = Costs({0: 1.0, 1: 1.0, 4: 1.1, 8: 1.3})


class Oracle:
    """Proposes what the target will say, at a price."""

    name = "oracle"

    def __init__(self, right):
        self.right, self.asked = right, 0

    def start(self, ids):
        pass

    def propose(self, ids, k, go_on, chance):
        self.asked += 1
        out = Proposal()
        session = TableSession(seed=4, order=1)
        while len(out.ids) < k and (not out.ids or go_on(out.confidence)):
            best = int(session.row([*ids, *out.ids]).argmax())
            out.ids.append(best if self.right else (best + 1) % 8)
            out.confidence.append(0.9 if self.right else 0.1)
            out.sources.append(None)
        return out

    def commit(self, length):
        pass


def auto_run(*members, tokens=120, **more):
    auto = AutoProposer(members)
    session = TableSession(seed=4, order=1)
    events = list(decode(job(session, auto, policy=auto, k=6, max_new_tokens=tokens, **more)))
    return auto, events


def test_the_good_one_is_taken():
    good = Member(Oracle(True), Costs(FREE.verify, 0.1), free=False)
    bad = Member(Oracle(False), Costs(FREE.verify, 0.3), free=False)
    _, events = auto_run(bad, good)
    assert events[-1].ids == greedy(TableSession(seed=4, order=1), (0, 1), 120)
    m = fold(events).metrics()
    assert m.tokens_per_pass > 4
    assert good.proposer.asked > 5 * bad.proposer.asked
    assert {e.note for e in events if e.type == "draft" and e.tokens} <= {"oracle"}


def test_where_nothing_pays_it_is_all_but_plain():
    """A proposer that is always wrong is tried early and then now and then: 3 % of the time at most in the long run."""
    bad = Member(Oracle(False), Costs({0: 1.0, 1: 1.05, 8: 1.1}, 0.1), free=False)
    _, events = auto_run(bad, tokens=900)
    spent = sum(FREE_COST(e) for e in events if e.type == "draft")
    assert spent < 1.03 * 900
    assert fold(events).metrics().tokens_per_pass < 1.01


def FREE_COST(draft):
    n = len(draft.tokens)
    return (1.05 if n else 1.0) + 0.1 * n


def test_free_ones_are_judged_by_what_they_offer():
    good = Member(Oracle(True), Costs(FREE.verify, 0.6), free=False)
    lookup = Member(NgramProposer(), FREE, free=True)
    _, events = auto_run(good, lookup, tokens=200)
    notes = [e.note for e in events if e.type == "draft" and e.tokens]
    assert "ngram" in notes  # a table of order 1 repeats itself: copying is as right and costs nothing
    assert notes[-10:].count("ngram") >= 8


@pytest.mark.parametrize("proposer", [SuffixProposer(), SuffixProposer(3), RecycleProposer(1), RecycleProposer(4)])
@pytest.mark.parametrize("adaptive", [False, True])
def test_the_text_is_the_plain_one(proposer, adaptive):
    for seed in range(3):
        session = TableSession(vocab_size=6, seed=seed, order=1)
        policy = AdaptiveLength(FREE) if adaptive else None
        events = list(decode(job(session, proposer, policy=policy, k=5, max_new_tokens=80)))
        assert events[-1].ids == greedy(TableSession(vocab_size=6, seed=seed, order=1), (0, 1), 80)
        assert fold(events).metrics().accepted > 10


def test_a_seed_gives_one_run_at_a_temperature():
    def run():
        session = TableSession(vocab_size=6, seed=1, order=1)
        made = job(session, RecycleProposer(3), k=5, max_new_tokens=60, seed=7, sampling=Sampling(temperature=0.8))
        return list(decode(made))[-1].ids

    assert run() == run()


def test_observe_sees_the_text_before_the_round():
    seen = []
    script = Scripted(lambda ids, k: [1])
    script.observe = lambda ids, logits, proposal, outcome: seen.append((len(ids), len(logits), proposal.ids))
    list(decode(job(TableSession(), script, k=1, max_new_tokens=4)))
    assert seen[0] == (2, 2, [1])
    assert all(rows == len(ids) + 1 for _, rows, ids in seen)
