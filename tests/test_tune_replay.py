"""What a setting would have done is told from another's run: held against really running it, on a fake model."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
from fakes import Scripted, TableSession, job

from engines.adaptive import AdaptiveLength
from engines.cost import Costs
from engines.decode import decode
from engines.proposers.ngram import NgramProposer
from engines.proposers.suffix import SuffixProposer
from engines.settings import Sampling
from engines.tune.candidates import Candidate, ladder
from engines.tune.replay import acceptance, looked_up, rates_by_depth, shortened
from engines.tune.sample import Pass, Sample, sample_of

LIMIT = 120
COSTS = Costs({0: 1.0, 8: 1.5}, 0.0, 0.01)


def counts(passes):
    return [(p.proposed, p.accepted, p.rejected, p.emitted) for p in passes]


def run(session, proposer=None, policy=None, eos=(), **settings):
    settings.setdefault("max_new_tokens", LIMIT)
    events = decode(job(session, proposer, prompt=(0, 1, 2), policy=policy, eos=eos, **settings))
    return sample_of(list(events), "x", 0, 0)


def draft(session, right=0.7):
    """Right at most places: which ones depends on the text alone, as with a draft model's greedy tokens."""

    def guess(ids, k):
        out = []
        for _ in range(k):
            text = [*ids, *out]
            best = int(session.row(text).argmax())
            lucky = zlib.crc32(repr(text[-7:]).encode()) % 1000 < 1000 * right
            out.append(best if lucky else (best + 1) % session.vocab_size)
        return out

    return Scripted(guess)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("k", [1, 2, 4, 7])
def test_one_long_proposal_of_a_draft_tells_every_shorter_one(seed, k):
    session = TableSession(vocab_size=12, seed=seed, order=6)
    long = run(session, draft(session), k=8)
    session = TableSession(vocab_size=12, seed=seed, order=6)
    real = run(session, draft(session), k=k)
    told = shortened(long, k, rates_by_depth([long]), LIMIT)
    assert sum(p.emitted for p in told) == real.tokens == LIMIT
    # All but the places of bonus tokens of the long run is known: the two lists differ by a few rounds at most.
    assert abs(len(told) - len(real.passes)) <= 3
    assert abs(acceptance([Sample("", 0, 0, told)]) - acceptance([real])) < 0.08


def test_the_longest_itself_comes_back_as_it_was():
    session = TableSession(vocab_size=12, seed=1, order=6)
    long = run(session, draft(session), k=8)
    assert counts(shortened(long, 8, rates_by_depth([long]), LIMIT)) == counts(long.passes)


def test_what_falls_with_depth_is_corrected_for():
    """A head: right at a place with a chance that falls by a tenth with each step of its own guesses."""
    rng = np.random.default_rng(0)
    hits = rng.random((40, LIMIT)) < 0.8  # would be right at depth 0
    luck = rng.random((40, LIMIT))

    def rounds(row, k):
        out, at = [], 0
        while at < LIMIT:
            room, accepted = min(k, LIMIT - at - 1), 0
            while accepted < room and hits[row, at + accepted] and luck[row, at + accepted] < 0.85**accepted:
                accepted += 1
            out.append(Pass(room, accepted, int(accepted < room), accepted + 1))
            at += accepted + 1
        return out

    long = [Sample("long", row, 0, rounds(row, 8)) for row in range(40)]
    rates = rates_by_depth(long)
    assert rates[0] == pytest.approx(0.8, abs=0.03) and rates[3] < 0.6
    for k in (1, 2, 3, 5):
        real = sum(len(rounds(row, k)) for row in range(40))
        told = sum(len(shortened(s, k, rates, LIMIT)) for s in long)
        blind = sum(len(shortened(s, k, [], LIMIT)) for s in long)
        assert abs(told / real - 1) < 0.04 and abs(told / real - 1) <= abs(blind / real - 1) + 0.005


def lookups():
    for k in (1, 3, 8):
        yield f"ngram {k}", lambda: NgramProposer(), k, lambda: None
        yield f"suffix {k}", lambda: SuffixProposer(), k, lambda: None
    yield "ngram adaptive", lambda: NgramProposer(), 8, lambda: AdaptiveLength(COSTS)
    yield "suffix tree", lambda: SuffixProposer(3), 6, lambda: None
    yield "suffix tree adaptive", lambda: SuffixProposer(3), 6, lambda: AdaptiveLength(COSTS)


@pytest.mark.parametrize(
    ("name", "make", "k", "policy"), list(lookups()), ids=lambda x: x if isinstance(x, str) else ""
)
def test_a_lookup_is_told_exactly_from_the_plain_runs_text(name, make, k, policy):
    for seed, eos in ((3, ()), (5, ()), (6, (7,))):
        plain = run(TableSession(vocab_size=12, seed=seed, order=1), eos=eos)
        branch = 3 if "tree" in name else 0
        rule = policy()
        real = run(TableSession(vocab_size=12, seed=seed, order=1), make(), rule, eos, k=k, branch=branch)
        told = looked_up(make(), plain.prompt_ids, plain.ids, k, LIMIT, policy())
        assert real.ids == plain.ids
        mine, its = counts(told), counts(real.passes)
        if eos:  # where the text ends inside a round, what lay beyond is not judged in the real run
            mine, its = mine[:-1], its[:-1]
        if branch:  # brothers that were judged: the path is what counts
            mine, its = ([(p, a, e) for p, a, _, e in rows] for rows in (mine, its))
        assert mine == its
        assert all(p.propose >= 0 and p.verify == 0 for p in told)


def test_at_a_temperature_the_plain_text_accepts_a_copy_as_often_as_the_model_does():
    hot = {"sampling": Sampling(0.7), "max_new_tokens": 4000}
    plain = run(TableSession(vocab_size=8, seed=2, order=1, capacity=5000), **hot)
    real = run(TableSession(vocab_size=8, seed=2, order=1, capacity=5000), NgramProposer(), k=3, **hot)
    told = looked_up(NgramProposer(), plain.prompt_ids, plain.ids, 3, 4000)
    assert acceptance([Sample("", 0, 0, told)]) == pytest.approx(acceptance([real]), abs=0.04)


def test_samples_count_as_the_fold_does_and_come_back_from_json():
    session = TableSession(vocab_size=12, seed=1, order=6)
    events = list(decode(job(session, draft(session), prompt=(0, 1, 2), max_new_tokens=60, k=4)))
    sample = sample_of(events, "draft k=4", 3, 9)
    metrics = events[-1].metrics
    assert sample.tokens == metrics["emitted"] == 60 and len(sample.passes) == metrics["rounds"]
    assert sum(p.accepted for p in sample.passes) == metrics["accepted"]
    assert sum(p.proposed for p in sample.passes) == metrics["proposed"]
    assert acceptance([sample]) == pytest.approx(metrics["acceptance_rate"])
    assert rates_by_depth([sample]) == pytest.approx(metrics["acceptance_by_position_judged"])
    assert sample.seconds() == pytest.approx(sum(p.seconds for p in sample.passes))
    assert 0 < sample.seconds(10) < sample.seconds(30) < sample.seconds()
    again = Sample.from_json(sample.to_json())
    assert counts(again.passes) == counts(sample.passes) and again.ids == sample.ids


def test_how_each_candidate_becomes_known():
    ways = {
        c.name: c.way for c in ladder(["ngram", "suffix", "recycle", "eagle", "draft", "layer-skip", "auto"], (), "d")
    }
    assert ways["ngram k=16"] == ways["suffix k=16 adaptive=yes"] == "text"
    assert ways["draft k=8"] == ways["eagle k=3"] == ways["layer-skip k=1"] == "long" and "draft k=10" not in ways
    assert ways["recycle k=4"] == ways["auto k=8"] == ways["eagle k=8 branch=3 adaptive=yes"] == "own"
    assert [c.k for c in ladder(["ngram"], [2, 2, 9])] == [2, 9, 9]
    assert Candidate("none").name == "plain"
