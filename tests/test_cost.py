"""The arithmetic of speculation, against the textbook and by simulation."""

from __future__ import annotations

import json

import numpy as np
import pytest
from fakes import TableSession

from engines.adaptive import AdaptiveLength
from engines.cost import (
    Calibration,
    Costs,
    RoundCost,
    best_k,
    break_even,
    calibration,
    expected_tokens,
    expected_tokens_by_position,
    measure_verify,
    predicted_speedup,
)
from engines.cost.calibration import keep, known


def test_textbook_numbers():
    assert expected_tokens(0.8, 4) == pytest.approx(3.3616)
    assert expected_tokens(0.5, 4) == pytest.approx(1.9375)
    assert expected_tokens(0.0, 4) == 1 and expected_tokens(1.0, 4) == 5 and expected_tokens(0.7, 0) == 1
    assert predicted_speedup(0.8, 4, 0.1, 1.0) == pytest.approx(2.4, abs=0.01)
    for a in (0.1, 0.5, 0.9):
        assert expected_tokens(a, 6) == pytest.approx((1 - a**7) / (1 - a))


def test_expected_tokens_is_what_independent_acceptance_gives():
    random = np.random.default_rng(0)
    for a, k in ((0.3, 2), (0.8, 4), (0.95, 8)):
        runs = random.random((200_000, k)) < a
        accepted = np.cumprod(runs, axis=1).sum(axis=1)
        assert accepted.mean() + 1 == pytest.approx(expected_tokens(a, k), rel=0.01)


@pytest.mark.parametrize(("a", "k"), [(-0.1, 2), (1.1, 2), (0.5, -1)])
def test_what_makes_no_sense_is_refused(a, k):
    with pytest.raises(ValueError, match="need"):
        expected_tokens(a, k)


def test_verify_ratio_between_and_beyond_what_was_measured():
    costs = Costs({0: 1.0, 1: 1.1, 4: 1.4, 8: 2.0}, draft=0.2)
    assert costs.v(1) == 1.1 and costs.v(2) == pytest.approx(1.2) and costs.v(6) == pytest.approx(1.7)
    assert costs.v(10) == pytest.approx(2.3)  # along the last two
    assert costs.round(4) == pytest.approx(2.2)
    assert Costs().v(5) == 1.0


def test_measuring_leaves_the_session_as_it_was():
    session = TableSession(capacity=12)
    session.forward([1, 2, 3])
    verify, seconds = measure_verify(session)
    assert session.length == 3 and verify[0] == 1.0 and seconds > 0
    assert set(verify) == set(range(9))  # 13 rows do not fit


class TestAdaptive:
    """The rule against simulated proposers of known acceptance."""

    def rate(self, policy, costs, a, rounds=3000, k=8, fixed=None, confidence=None, seed=0):
        random = np.random.default_rng(seed)
        tokens = spent = 0.0
        for _ in range(rounds):
            chances = [a if confidence is None else random.choice(confidence) for _ in range(k)]
            shown = [None if confidence is None else c for c in chances]
            if fixed is not None:
                n = fixed
            else:
                limit, n = policy.limit(k), 0
                while n < limit and (n == 0 or policy.go_on(shown[:n])):
                    n += 1
            accepted = 0
            while accepted < n and random.random() < chances[accepted]:
                accepted += 1
            if fixed is None:
                policy.learn(shown[:n], accepted)
            tokens += accepted + 1
            spent += costs.round(n)
        return tokens / spent

    @pytest.mark.parametrize("a", [0.2, 0.5, 0.8, 0.95])
    @pytest.mark.parametrize("draft", [0.02, 0.15, 0.4])
    def test_close_to_the_best_fixed_length(self, a, draft):
        costs = Costs({0: 1.0, 8: 1.4}, draft=draft)
        best = max(self.rate(None, costs, a, fixed=n) for n in range(9))
        assert self.rate(AdaptiveLength(costs), costs, a) > 0.93 * best

    def test_better_than_any_fixed_length_where_confidence_tells(self):
        costs = Costs({0: 1.0, 8: 1.4}, draft=0.2)
        mixed = (0.05, 0.98, 0.98)
        best = max(self.rate(None, costs, None, fixed=n, confidence=mixed) for n in range(9))
        assert self.rate(AdaptiveLength(costs), costs, None, confidence=mixed) > 1.05 * best

    def test_a_proposer_that_does_not_pay_is_left_alone_but_tried_again(self):
        costs = Costs({0: 1.0, 1: 1.9, 8: 3.0}, draft=0.2)
        policy = AdaptiveLength(costs)
        assert self.rate(policy, costs, 0.05) > 0.85
        assert self.rate(policy, costs, 0.97) > 1.2  # the text has changed: it is found out

    def test_a_jump_at_the_second_row_is_looked_beyond(self):
        costs = Costs({0: 1.0, 1: 2.0, 2: 2.0, 8: 2.1})
        assert self.rate(AdaptiveLength(costs), costs, 0.9) > 2.0

    def test_a_confidence_known_beforehand_is_asked_for_before_the_first_token(self):
        """n-gram lookup: short matches that were never worth anything are no longer proposed, long ones still are."""
        costs = Costs({0: 1.0, 1: 1.1, 8: 1.6})
        policy = AdaptiveLength(costs)
        for _ in range(200):
            if policy.limit(8) and policy.go_on([], 0.5):
                policy.learn([0.5], 0)
            if policy.limit(8) and policy.go_on([], 0.8):
                policy.learn([0.8], 1)
        assert policy.limit(8) == 8
        assert policy.go_on([], 0.8) and not policy.go_on([], 0.5)


def test_costs_come_back_from_json():
    costs = Costs({0: 1.0, 4: 1.5}, 0.2, 0.01)
    assert Costs.from_json(json.loads(json.dumps(costs.to_json()))) == costs


class TestArithmetic:
    def test_by_position_is_the_same_where_all_rates_are(self):
        for a, k in ((0.8, 4), (0.3, 1), (1.0, 5), (0.0, 3)):
            assert expected_tokens_by_position([a] * k, k) == pytest.approx(expected_tokens(a, k))
        assert expected_tokens_by_position([0.9, 0.5], 2) == pytest.approx(1 + 0.9 + 0.45)
        assert expected_tokens_by_position([0.9, 0.5], 3) == pytest.approx(1 + 0.9 + 0.45 + 0.225)  # the last one stays
        assert expected_tokens_by_position([], 3) == 1
        with pytest.raises(ValueError, match="need"):
            expected_tokens_by_position([1.1], 2)

    def test_the_textbook(self):
        assert best_k(0.8, 0.1, lambda n: 1.0)[1] > predicted_speedup(0.8, 4, 0.1, 1.0) - 1e-9
        assert predicted_speedup(0.5, 4, 0.1, 1.0) == pytest.approx(1.94 / 1.4, abs=0.01)  # little gain
        k, gain = best_k(0.8, 0.1, lambda n: 1.0)
        assert gain == max(predicted_speedup(0.8, n, 0.1, 1.0) for n in range(1, 17)) and k == 6

    @pytest.mark.parametrize(("k", "c", "v"), [(1, 0.1, 1.0), (4, 0.1, 1.2), (8, 0.3, 1.5), (2, 0.9, 1.1)])
    def test_at_break_even_nothing_is_gained(self, k, c, v):
        a = break_even(k, c, v)
        assert predicted_speedup(a, k, c, v) == pytest.approx(1.0)
        assert predicted_speedup(min(1, a + 0.05), k, c, v) > 1

    def test_where_nothing_can_pay(self):
        assert break_even(1, 1.0, 1.5) is None
        assert break_even(1, 0.5, 1.5) == pytest.approx(1.0)
        assert best_k(0.3, 0.9, lambda n: 1 + 0.2 * n) == (0, 1.0)


class TestCalibration:
    def table(self, slow=1.0):
        rounds = {n: RoundCost(0.0, slow * (1 + 0.1 * n), 0.05) for n in (0, 1, 2, 4, 8)}
        drafts = {n: RoundCost(slow * 0.2 * n, slow * (1 + 0.1 * n), 0.05) for n in (0, 1, 4, 8)}
        return {"": {100: rounds}, "draft d": {100: drafts}}

    def test_between_and_beyond_what_was_measured(self):
        rounds = self.table()
        rounds[""][300] = self.table(2.0)[""][100]
        c = Calibration({"machine": "m"}, "2026-01-01", rounds)
        assert c.at("", 100, 3).verify == pytest.approx(1.3) and c.at("", 100, 12).verify == pytest.approx(2.2)
        assert c.at("", 200, 0).verify == pytest.approx(1.5)
        assert c.at("", 1, 0) == c.at("", 100, 0) and c.at("", 9999, 4).verify == pytest.approx(2.8)
        with pytest.raises(KeyError):
            c.at("nobody", 100, 1)

    def test_in_the_formulas_terms(self):
        c = Calibration({}, "", self.table(0.01))
        costs = c.costs("draft d", 100)
        assert costs.draft == pytest.approx(0.2) and costs.v(4) == pytest.approx(1.4)
        assert costs.pass_seconds == pytest.approx(0.01) and c.overhead("", 100, 4) == pytest.approx(0.0)

    def test_kept_by_machine_and_model(self, tmp_path, monkeypatch):
        monkeypatch.setattr(calibration, "home", lambda: tmp_path / "home")
        one = Calibration({"machine": "m", "model": "a"}, "2026-01-01", self.table())
        two = Calibration({"machine": "n", "model": "a"}, "2026-01-02", self.table(3.0))
        keep(one)
        keep(two)
        assert known(one.of) == one and known(two.of) == two
        assert known({"machine": "m", "model": "b"}).rounds == {}
        assert one.has("draft d", [100]) and not one.has("draft d", [100, 200]) and not one.has("x", [100])
        (tmp_path / "home" / "calibration.json").write_text('{"' + one.key + '": {"rounds": 3}}')
        assert known(one.of).rounds == {}
        (tmp_path / "home" / "calibration.json").write_text("{")
        keep(two)
        assert known(two.of) == two
