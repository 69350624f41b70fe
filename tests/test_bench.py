"""Paired measuring: rows M1, M2 and M4 of the behaviours, and what counts as the same text."""

from __future__ import annotations

import numpy as np
import pytest
from fakes import Scripted, TableSession, job

from engines.bench import MIN_TOKENS, identity, measured, predicted_speedup, seconds_to, speedup, spread
from engines.cost import Costs
from engines.decode import decode
from engines.events import Extra
from engines.fold import fold
from engines.settings import Sampling


def oracle(session):
    def guess(ids, k):
        out = []
        for _ in range(k):
            out.append(int(session.row([*ids, *out]).argmax()))
        return out

    return Scripted(guess)


def timed(events, per_round):
    """The same events with every round taking `per_round(proposed)` seconds."""
    proposed = 0
    for e in events:
        if e.type == "draft":
            proposed = len(e.tokens)
        elif e.type == "verdict":
            e.seconds = {"propose": 0.0, "verify": per_round(proposed), "sample": 0.0, "other": 0.0}
    rounds = [e for e in events if e.type == "verdict"]
    events[-1].seconds = {"prefill": 9.0, "verify": sum(e.seconds["verify"] for e in rounds)}
    return events


def pair(k=4, n=40, prompt=(0, 1), **settings):
    plain_session, session = TableSession(seed=1), TableSession(seed=1)
    plain = list(decode(job(plain_session, prompt=prompt, max_new_tokens=n, **settings)))
    other = list(decode(job(session, oracle(session), prompt=prompt, max_new_tokens=n, k=k, **settings)))
    return timed(plain, lambda proposed: 1.0), timed(other, lambda proposed: 1.5 if proposed else 1.0)


def test_speedup_is_time_per_token_prefill_left_out():
    plain, other = pair()
    value, sentence = speedup(plain, other)
    assert value == pytest.approx(40 / (8 * 1.5)) and "40 tokens" in sentence


def test_different_prompts_or_settings_are_never_compared():
    """M1."""
    plain, other = pair()
    for changed in ({"prompt": (0, 2)}, {"seed": 5}, {"n": 30}, {"sampling": Sampling(1.0)}):
        _, foreign = pair(**changed)
        value, sentence = speedup(plain, foreign)
        assert value is None and sentence.startswith("not compared"), changed
    value, sentence = speedup(other, other)
    assert value is None and "not plain decoding" in sentence


def test_a_run_that_ended_early_is_too_short_to_measure():
    """M2."""
    plain, other = pair(n=3)
    value, sentence = speedup(plain, other)
    assert value is None and "too short to measure (3 tokens;" in sentence
    assert "(1 token;" in speedup(*pair(n=1))[1]
    assert speedup(*pair(n=MIN_TOKENS))[0] is not None


def test_a_stopped_run_is_measured_over_the_tokens_that_both_have():
    plain, other = pair()
    short = [e for e in other if e.type != "done" and getattr(e, "round", 0) <= 5]
    assert speedup(plain, short)[0] == pytest.approx(25 / (5 * 1.5))


def test_a_slow_draft_is_shown_as_slower():
    """M4: no floor at 1."""
    plain, other = pair()
    timed(other, lambda proposed: 20.0)
    assert speedup(plain, other)[0] == pytest.approx(40 / (8 * 20.0))


def test_seconds_to_a_token_inside_a_round():
    _, other = pair(k=4)
    view = fold(other)
    assert seconds_to(view, 5) == pytest.approx(1.5)
    assert seconds_to(view, 7) == pytest.approx(1.5 + 1.5 * 2 / 5)


class TestSpread:
    def test_steady_rounds_have_none(self):
        plain, other = pair()
        found = measured(plain, other)
        assert found.low == pytest.approx(found.value) == found.high == pytest.approx(speedup(plain, other)[0])

    def noisy(self, n, factor, seed=0):
        rng = np.random.default_rng(seed)
        return list(rng.lognormal(0, 0.5, n)), list(rng.lognormal(0, 0.5, n) / factor)

    def test_the_same_every_time_and_around_the_value(self):
        plain, other = self.noisy(60, 1.5)
        low, high = spread(plain, other)
        assert (low, high) == spread(plain, other)
        assert low < sum(plain) / sum(other) < high

    def test_more_rounds_narrow_it(self):
        widths = [high - low for low, high in (spread(*self.noisy(n, 1.0)) for n in (20, 2000))]
        assert widths[1] < widths[0] / 4

    def test_it_holds_the_truth_about_nine_times_in_ten(self):
        inside = sum(low <= 1.5 <= high for low, high in (spread(*self.noisy(80, 1.5, s)) for s in range(200)))
        assert 0.8 < inside / 200 < 0.97

    def test_a_disturbance_of_some_rounds_widens_it(self):
        steady = [1.0] * 40
        hit = [1.0] * 30 + [3.0] * 10
        low, high = spread(steady, hit)
        alternating = [3.0 if i % 4 == 0 else 1.0 for i in range(40)]
        narrow = spread(steady, alternating)
        assert high - low > 1.5 * (narrow[1] - narrow[0])  # as blocks: neighbours are disturbed together

    def test_three_rounds_say_nothing(self):
        assert spread([1.0] * 40, [1.0, 2.0, 3.0]) is None
        assert spread([1.0, 2.0, 1.5, 1.0], [1.0, 2.0, 3.0, 1.0]) is not None


class TestIdentity:
    def test_identical(self):
        plain, other = pair()
        assert identity(plain, other).verdict == "identical"

    def changed(self, margin):
        plain, other = pair()
        at = 10
        [e for e in plain if e.type == "verdict"][at].extra.margin = margin
        other[-1].ids[at] += 1
        return identity(plain, other)

    def test_a_difference_at_a_near_tie_is_reported_as_one(self):
        got = self.changed(1e-5)
        assert got.verdict == "near-tie" and got.at == 10 and "1e-05" in got.sentence

    def test_any_other_difference_is_a_difference(self):
        got = self.changed(0.5)
        assert got.verdict == "different" and "token 10" in got.sentence

    def test_sampled_text_says_nothing(self):
        assert identity(*pair(sampling=Sampling(1.0))).verdict == "sampled"

    def test_every_plain_token_records_its_margin(self):
        plain, _ = pair()
        extras = [e.extra for e in plain if e.type == "verdict"]
        assert len(extras) == 40 and all(isinstance(x, Extra) and x.margin > 0 for x in extras)


def test_prediction_equals_measurement_where_its_assumptions_hold():
    plain, other = pair(k=4)
    view = fold(other)
    costs = Costs({0: 1.0, 4: 1.5}, 0.0, pass_seconds=1.0)
    assert predicted_speedup(view, costs) == pytest.approx(speedup(plain, other)[0])
    assert predicted_speedup(fold(plain), costs) is None  # nothing was judged
