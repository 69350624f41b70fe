"""The same-distribution test finds what is not lossless, and nothing where there is nothing to find."""

from __future__ import annotations

import json
import math
from functools import cache

import numpy as np
import pytest
from exactness import chi_square_tail
from fakes import TableSession, job

from engines import judge, verify
from engines.chi_square import Fit, fit, tail
from engines.errors import UserError
from engines.law_words import PROOF, sentences, verdict_of
from engines.proposers.autoregressive import draft_tokens
from engines.proposers.ngram import NgramProposer
from engines.proposers.none import NoProposer
from engines.proposers.recycle import RecycleProposer
from engines.same_law import same_law
from engines.sampling import Chance
from engines.service import Engine
from engines.settings import RunSettings, Sampling

SETTINGS = RunSettings(sampling=Sampling(temperature=1.0), proposer="layer-skip", k=3, seed=1)


class Draft:
    """Drafts from another table: a fair guess at the target's."""

    name = "draft"

    def __init__(self, session: TableSession, sampling: Sampling) -> None:
        self.session, self.sampling = session, sampling

    def start(self, ids):
        self.session.rollback(0)
        self.session.forward(list(ids[:-1]))

    def propose(self, ids, k, go_on, chance):
        unseen = list(ids[self.session.length :])
        step = lambda feed: self.session.forward(feed, logits_from=len(feed) - 1)  # noqa: E731
        return draft_tokens(step, unseen, ids, k, self.sampling, go_on, chance)

    def commit(self, length):
        self.session.rollback(min(length, self.session.length))


class Table(TableSession):
    """Its rows are made once: these tests take many of the same."""

    def row(self, context):
        return _row(type(self), self.scale, tuple(context[-2:]))

    def make(self, context):
        return super().row(context)


class Near(Table):
    """The table of the same seed, half forgotten."""

    def make(self, context):
        mine = np.random.default_rng(7 * context[-1]).standard_normal(self.vocab_size)
        return (0.5 * super().make(context) + mine).astype(np.float32)


@cache
def _row(kind, scale, context):
    return kind(12, seed=8, scale=scale).make(context)


class Tables:
    """In the place of `engines.models.Models`."""

    def __init__(self, proposer=None, eos=(), prompt=(0, 1, 2, 0, 1), scale=1.5):
        self.proposer, self.eos, self.prompt, self.scale = proposer, eos, prompt, scale
        self.sessions: list[TableSession] = []

    def job(self, settings, prompt, say, stopped):
        session = Table(12, seed=8, scale=self.scale)
        self.sessions.append(session)
        if settings.proposer == "none":
            proposer = NoProposer()
        else:
            proposer = self.proposer or Draft(Near(12, seed=8, scale=self.scale), settings.sampling)
        settings_only = {k: getattr(settings, k) for k in ("sampling", "k", "seed", "verify", "max_new_tokens")}
        return job(session, proposer, self.prompt, self.eos, stopped=stopped, **settings_only)


def run(settings=SETTINGS, rounds=400, stopped=lambda: False, **more):
    items = list(same_law(settings, "ab", rounds)(Tables(**more), lambda *a: None, stopped))
    assert json.loads(json.dumps(items, allow_nan=False)) == items
    return items


WAYS = {
    "drawn, token by token": {},
    "drawn, by block": {"settings": SETTINGS.replace(verify="block")},
    "copied": {"proposer": NgramProposer(1, 2)},
    "a tree": {"proposer": RecycleProposer(2, {i: [((i + 1) % 12, 0.4), ((i + 5) % 12, 0.3)] for i in range(12)})},
    "warped": {"settings": SETTINGS.replace(sampling=Sampling(0.8, top_k=6, repetition_penalty=1.2))},
    "with an end": {"eos": (3, 4)},
}


@pytest.mark.parametrize("way", WAYS)
def test_lossless_verification_passes(way):
    last = run(**WAYS[way])[-1]
    assert last["verdict"] == "same" and last["p_value"] > 0.01 and last["freedom"] >= 5
    assert last["done"] == last["of"] == 400 and 0 < last["stood"] < last["proposing"] == 400
    assert last["contexts"] >= 2, "the second token must be looked at, too"
    assert "No difference was found in 400 rounds" in last["sentences"][0] and last["sentences"][-1] == PROOF


def always_accept(patch):
    patch.setattr(Chance, "accept", lambda self, probability: True)


def never_accept_twice(patch):
    """Each token stands with the chance of the one before, as well: the second is refused too often."""
    right = verify._ratio
    patch.setattr(verify, "_ratio", lambda p, q, i, token: right(p, q, i, token) * (1 if i == 0 else 0.1))


def no_residual(patch):
    patch.setattr(verify, "_correct", lambda weight, p, q, i, token, chance: (chance.draw(p[i]), 1.0))


def a_stale_cache(patch):
    """The session forgets to forget."""
    right = Table.rollback

    def rollback(self, length):
        right(self, length)
        if length and not isinstance(self, Near):
            self.ids[-1] = (self.ids[-1] + len(self.passes)) % 12

    patch.setattr(Table, "rollback", rollback)


@pytest.mark.parametrize("mutant", [always_accept, no_residual, a_stale_cache])
@pytest.mark.parametrize("way", ["drawn, token by token", "drawn, by block", "copied"])
def test_what_is_not_lossless_is_found(monkeypatch, way, mutant):
    mutant(monkeypatch)
    last = run(**WAYS[way])[-1]
    assert last["verdict"] == "differs" and last["p_value"] < 1e-4
    assert "A difference was found" in last["sentences"][0] and "not lossless" in last["sentences"][1]


def test_a_fault_in_the_second_token_alone_is_found(monkeypatch):
    never_accept_twice(monkeypatch)
    last = run(rounds=1000)[-1]
    assert last["first"]["p_value"] > 0.01 and last["verdict"] == "differs"


def test_a_mutant_of_the_tree_is_found(monkeypatch):
    right = judge.verify_tree
    swapped = lambda row, children, ids, chance: right(lambda i: row(i)[::-1].copy(), children, ids, chance)  # noqa: E731
    monkeypatch.setattr(judge, "verify_tree", swapped)
    assert run(**WAYS["a tree"])[-1]["verdict"] == "differs"


def test_false_alarms_are_as_rare_as_they_say():
    """Of 24 tests of what is right about 5 have p < 0.2; by seeds, so that this is no gamble."""
    copies = WAYS["copied"]  # the quickest
    values = [run(SETTINGS.replace(seed=seed), rounds=100, **copies)[-1]["p_value"] for seed in range(24)]
    assert min(values) > 0.001 and 1 <= sum(p < 0.2 for p in values) <= 11
    assert 0.3 < np.mean(values) < 0.7


def test_the_same_seed_gives_the_same_test():
    assert run(rounds=120)[-1] == run(rounds=120)[-1]
    assert run(rounds=120)[-1]["tokens"] != run(SETTINGS.replace(seed=2), rounds=120)[-1]["tokens"]


def test_progress_has_counts_that_add_up(monkeypatch):
    monkeypatch.setattr("engines.same_law.TELL_EVERY", 0.0)
    first, *running, last = run(rounds=120)
    assert first == {"state": "choosing", "done": 0, "of": 120}
    assert [i["state"] for i in running] == ["running"] * 120 and last["state"] == "done"
    for item in (*running, last):
        assert sum(t["seen"] for t in item["tokens"]) == item["done"]
        assert sum(t["expected"] for t in item["tokens"]) == pytest.approx(item["done"])
        assert item["tokens"][-1]["text"] is None and item["place"].isalpha()


def test_it_stops_and_says_what_is_known():
    calls = iter(range(10_000))
    last = run(stopped=lambda: next(calls) > 300)[-1]
    assert last["state"] == "done" and 100 < last["done"] < 400 and last["verdict"] == "same"
    calls = iter(range(10_000))
    last = run(stopped=lambda: next(calls) > 90)[-1]
    assert last["verdict"] == "nothing" and "too few" in last["sentences"][0]
    last = run(stopped=lambda: True)[-1]
    assert (last["state"], last["done"], last["tokens"], last["verdict"]) == ("done", 0, [], "nothing")


def test_it_ends_with_its_time(monkeypatch):
    clock = iter(x / 100 for x in range(100_000))
    monkeypatch.setattr("engines.same_law.time.monotonic", lambda: next(clock))
    items = list(same_law(SETTINGS, "ab", 1000, seconds=10)(Tables(), lambda *a: None, lambda: False))
    assert 100 < items[-1]["done"] < 1000


def test_nothing_is_left_behind():
    tables = Tables()
    list(same_law(SETTINGS, "ab", 50)(tables, lambda *a: None, lambda: False))
    assert len(tables.sessions[-1].ids) == len(tables.prompt) - 1 + len(run(rounds=50)[-1]["place"])


def test_what_cannot_be_tested_is_said():
    with pytest.raises(UserError, match="temperature 0"):
        same_law(RunSettings(), "ab")
    with pytest.raises(UserError, match="1 to 1000 rounds"):
        same_law(SETTINGS, "ab", 5000)
    certain = run(scale=500.0, rounds=120)[-1]
    assert certain["verdict"] == "nothing" and "all but certain" in certain["sentences"][0]
    silent = run(proposer=NoProposer(), rounds=120)[-1]
    assert silent["verdict"] == "same" and "nothing was proposed" in silent["sentences"][1]
    with pytest.raises(UserError, match="leaves no room"):
        list(same_law(SETTINGS, "ab")(Tables(prompt=[0] * 4094), lambda *a: None, lambda: False))


def test_the_tail_is_the_one_of_the_other_tests():
    for freedom in (1, 2, 7, 40, 300):
        for x in (0.1 * freedom, freedom, 2 * freedom, 6 * freedom):
            assert tail(x, freedom) == pytest.approx(chi_square_tail(x, freedom), rel=1e-9, abs=1e-300)
    assert Fit().p_value == 1.0


def test_cells_are_pooled_by_what_is_expected():
    law = np.array([0.5, 0.3, 0.1, 0.06, 0.04])
    found = fit(law, {0: 60, 1: 20, 2: 10, 3: 5, 4: 5})  # 4 are expected of the last: together with the fourth
    assert found.freedom == 3
    assert found.statistic == pytest.approx(10**2 / 50 + 10**2 / 30 + 0 + 0)
    many = fit(law, {0: 100, 4: 100})  # now all are cells of their own
    assert many.freedom == 4 and many.p_value < 1e-12
    assert fit(law, {0: 3}).freedom == 0 and fit(law, {}) == Fit()
    assert math.isfinite(fit(np.array([1.0, 0.0]), {1: 50}).statistic)


@pytest.mark.parametrize(
    ("p", "verdict", "says"),
    [
        (
            0.3,
            "same",
            "in 400 rounds: the first tokens, and the second ones after 3 of them, came",
        ),
        (0.004, "unclear", "chance alone does this in about 0.40 of 100 tests. Run it again with another seed."),
        (0.0002, "unclear", "0.02 of 100"),
        (1e-6, "differs", "A difference was found (chi-square 21.5 with 12 degrees of freedom, p = 1e-06)"),
    ],
)
def test_what_is_said_of_a_p_value(p, verdict, says):
    facts = {"rounds": 400, "freedom": 12, "p_value": p, "statistic": 21.5, "contexts": 3, "likeliest": 0.5}
    facts |= {"proposing": 400, "stood": 100}
    facts["verdict"] = verdict_of(facts)
    assert facts["verdict"] == verdict and says in sentences(facts)[0]
    assert "8 percentage points" in sentences(facts)[-2] and sentences(facts)[-1] == PROOF


@pytest.mark.model
def test_on_the_real_model(models, monkeypatch):
    """Through the engine's queue, with a draft that draws: silent when right, loud when all is accepted."""
    settings = RunSettings(proposer="eagle", branch=1, k=2, sampling=Sampling(temperature=1.0), seed=4)
    prompt = "Write the beginning of a story about a girl who finds a door in an old oak tree."
    engine = Engine(models)
    try:
        for wrong, verdict in ((False, "same"), (True, "differs")):
            if wrong:
                always_accept(monkeypatch)
            work = engine.work(settings.target, same_law(settings, prompt, 100))
            assert work.wait(240) and work.error is None
            last = work.take()[-1]
            assert (last["verdict"], last["done"]) == (verdict, 100) and last["proposing"] == 100
    finally:
        engine.close()
