"""Losslessness proved: the joint law of all tokens of a round, in exact fractions, by running the real code.

Each round drafts from q through the same chance that verifies, over all outcomes. What it emits is completed by the
target to a fixed horizon and must equal the target's own joint law, fraction by fraction.
"""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from exactness import is_lossless, law, outcomes, stack, table, warped

from engines import verify
from engines.verify import verify_block, verify_tokens

VERIFIERS = {"token": verify_tokens, "block": verify_block}


def one_hot(vocab: int, token: int) -> np.ndarray:
    row = np.array([Fraction(0)] * vocab, dtype=object)
    row[token] = Fraction(1)
    return row


# Lengths of a proposal as a function of the tokens drafted so far: (drafted, k) -> draft one more?
def fixed(drafted, k, q):
    return len(drafted) < k


def by_token(drafted, k, q):
    """Stops after an even token."""
    return len(drafted) < k and (not drafted or drafted[-1] % 2 == 1)


def by_confidence(drafted, k, q):
    """Stops when the draft's own probabilities so far fall below a bar, as adaptive drafting does."""
    reach = Fraction(1)
    for i, token in enumerate(drafted):
        reach *= q(drafted[:i])[token]
    return len(drafted) < k and reach > Fraction(1, 4)


def by_context(drafted, k, q):
    """Stops before a row that is not peaked; may propose nothing at all."""
    return len(drafted) < k and max(q(drafted)) > Fraction(1, 2)


STOPS = {"fixed": fixed, "by-token": by_token, "by-confidence": by_confidence, "by-context": by_context}


def round_of(verifier, p, q, vocab, k, stop, *, told=None, determined=False, keep=lambda o, ids, rows: None):
    """A round as the loop does it: draft, verify, emit. `told` is what the verifier is told that q was (a mutant's
    lie); `determined`: the draft takes its likeliest token and passes no q."""

    def run(chance):
        ids: tuple[int, ...] = ()
        rows = []
        while stop(ids, k, q):
            row = q(ids)
            rows.append((told or q)(ids))
            ids += (int(np.argmax(row)) if determined else chance.draw(row),)
        target = stack([p(ids[:i]) for i in range(len(ids) + 1)], vocab)
        out = verifier(target, None if determined else stack(rows, vocab), list(ids), chance)
        extra = keep(out, ids, target)
        return (*ids[: out.accepted], out.extra if extra is None else extra)

    return run


def pairs(vocab: int):
    """Named (p, q): how the two may relate."""
    p = table(1, vocab)
    half = max(1, vocab // 2)
    return {
        "random": (p, table(2, vocab)),
        "zeros": (table(3, vocab, zeros=0.4), table(4, vocab, zeros=0.4)),
        "equal": (p, p),
        "disjoint": (table(5, vocab, only=range(half)), table(6, vocab, only=range(half, vocab))),
        "one-hot q": (p, lambda tokens: one_hot(vocab, len(tokens) % vocab)),
        "one-hot p": (lambda tokens: one_hot(vocab, sum(tokens) % vocab), table(7, vocab)),
        "q warped": (p, warped(table(8, vocab), keep=max(1, vocab - 1))),
        "both warped": (warped(p, keep=max(2, vocab - 1), power=1), warped(p, keep=2, power=3)),
    }


SIZES = [*itertools.product((2, 3), (1, 2, 3)), (4, 1), (4, 2)]


@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize("pair", pairs(2))
@pytest.mark.parametrize("name", VERIFIERS)
def test_the_joint_law_of_a_round_is_the_targets(name, pair, stop):
    for vocab, k in SIZES:
        p, q = pairs(vocab)[pair]
        emitted = law(round_of(VERIFIERS[name], p, q, vocab, k, STOPS[stop]))
        assert is_lossless(emitted, p, vocab, k + 1), (vocab, k)


@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize("name", VERIFIERS)
def test_four_tokens_three_deep(name, stop):
    p, q = pairs(4)["zeros"]
    assert is_lossless(law(round_of(VERIFIERS[name], p, q, 4, 3, STOPS[stop])), p, 4, 4)


@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize("name", VERIFIERS)
def test_determined_tokens_have_q_one(name, stop):
    """No q at all, as the n-gram has it, and as a greedy draft has it: exact, and the same as a one-hot q."""
    for vocab, k in SIZES:
        for zeros in (0.0, 0.5):
            p, q = table(11, vocab, zeros), table(12, vocab)
            emitted = law(round_of(VERIFIERS[name], p, q, vocab, k, STOPS[stop], determined=True))
            assert is_lossless(emitted, p, vocab, k + 1), (vocab, k)

            def sharp(tokens, q=q, vocab=vocab):
                return one_hot(vocab, int(np.argmax(q(tokens))))

            if stop in ("fixed", "by-token"):  # the others ask q itself, which is another one here
                assert emitted == law(round_of(VERIFIERS[name], p, sharp, vocab, k, STOPS[stop]))


@pytest.mark.parametrize("name", VERIFIERS)
def test_vocabularies_of_different_width(name):
    """The draft lacks the target's last token, or has one more than the target."""
    for width in (2, 4):
        p, q = table(21, 3), table(22, width)
        for k in (1, 2):
            # A context with a token that the target lacks is never asked for twice: the token is never accepted.
            emitted = law(round_of(VERIFIERS[name], p, q, 3, k, fixed))
            assert is_lossless(emitted, p, 3, k + 1), (width, k)


@pytest.mark.parametrize("pair", pairs(2))
@pytest.mark.parametrize("stop", STOPS)
def test_block_keeps_at_least_as_many_as_token_by_token(pair, stop):
    strictly = False
    for vocab, k in SIZES:
        p, q = pairs(vocab)[pair]
        mean = {}
        for name, verifier in VERIFIERS.items():
            run = round_of(verifier, p, q, vocab, k, STOPS[stop], keep=lambda o, ids, rows: o.accepted)
            mean[name] = sum((emitted[-1] * weight for emitted, weight in outcomes(run)), Fraction(0))
        assert mean["block"] >= mean["token"], (vocab, k)
        strictly |= mean["block"] > mean["token"]
    if pair == "random" and stop == "fixed":
        assert strictly


def test_the_block_bound_is_reached():
    """Sun et al.: P(the first i tokens stand | they were drafted) = w_i, so that the mean is the sum of E[w_i]."""
    vocab, k = 3, 3
    p, q = pairs(vocab)["random"]
    run = round_of(verify_block, p, q, vocab, k, fixed, keep=lambda o, ids, rows: o.accepted)
    mean = sum((emitted[-1] * weight for emitted, weight in outcomes(run)), Fraction(0))
    bound = Fraction(0)
    for ids in itertools.product(range(vocab), repeat=k):
        drafted = weight = Fraction(1)
        for i in range(k):
            drafted *= q(ids[:i])[ids[i]]
            weight = min(Fraction(1), weight * p(ids[:i])[ids[i]] / q(ids[:i])[ids[i]])
            # each prefix is met once for every ending: vocab ** (k - 1 - i) times
            bound += drafted * weight / vocab ** (k - 1 - i)
    assert mean == bound


# --- Mutants: each a known way to be wrong. The same check must refuse it. ---


class AlwaysAccept:
    def __init__(self, chance):
        self.chance = chance
        self.draw = chance.draw

    def accept(self, probability):
        return True


def always_accept(patch, verifier):
    return lambda p, q, ids, chance: verifier(p, q, ids, AlwaysAccept(chance))


def residual_from_p(patch, verifier):
    patch.setattr(verify, "_correct", lambda weight, p, q, i, token, chance: (chance.draw(p[i]), 1))
    return verifier


def ratio_too_large(patch, verifier):
    right = verify._ratio
    patch.setattr(verify, "_ratio", lambda *a: right(*a) * Fraction(101, 100))
    return verifier


def residual_without_weight(patch, verifier):
    """Block: the residual of the single token where the prefix's weight belongs."""
    right = verify._correct
    patch.setattr(verify, "_correct", lambda weight, *a: right(1, *a))
    return verifier


def prefix_weight_as_threshold(patch, verifier):
    """Block: w_i where h_i belongs."""
    patch.setattr(verify, "_prefix_good", lambda weight, *a: weight)
    return verifier


def unweighted_mass(patch, verifier):
    """Block: h_i from the mass of p - q, not of w_i * p - q, and that residual drawn from, too."""
    right = verify._residual
    patch.setattr(verify, "_residual", lambda weight, *a: right(1, *a))
    return verifier


ANY = [always_accept, residual_from_p, ratio_too_large]
MUTANTS = [("token", m) for m in ANY] + [
    ("block", m) for m in (*ANY, residual_without_weight, prefix_weight_as_threshold, unweighted_mass)
]


@pytest.mark.parametrize("stop", ["fixed", "by-token"])
@pytest.mark.parametrize(("name", "mutant"), MUTANTS)
def test_mutants_are_caught(monkeypatch, name, mutant, stop):
    p, q = pairs(3)["random"]
    wrong = mutant(monkeypatch, VERIFIERS[name])
    assert not is_lossless(law(round_of(wrong, p, q, 3, 2, STOPS[stop])), p, 3, 3)


@pytest.mark.parametrize("stop", ["fixed", "by-token"])
@pytest.mark.parametrize("name", VERIFIERS)
def test_q_that_was_not_drawn_from_is_caught(name, stop):
    """Behaviour S2 from the other side: the draft samples under its own warping, the test uses the unwarped q."""
    p, q = table(1, 3), table(2, 3)
    own = warped(q, keep=2)
    run = round_of(VERIFIERS[name], p, own, 3, 2, STOPS[stop])
    lie = round_of(VERIFIERS[name], p, own, 3, 2, STOPS[stop], told=q)
    assert is_lossless(law(run), p, 3, 3)
    assert not is_lossless(law(lie), p, 3, 3)


@pytest.mark.parametrize("instead", ["greedy", "draft"])
@pytest.mark.parametrize("name", VERIFIERS)
def test_a_bonus_that_is_not_the_targets_is_caught(name, instead):
    p, q = pairs(3)["random"]

    def bonus(out, ids, rows):
        row = rows[-1] if instead == "greedy" else q(ids)
        return int(np.argmax(row)) if out.kind == "bonus" else None

    assert not is_lossless(law(round_of(VERIFIERS[name], p, q, 3, 2, fixed, keep=bonus)), p, 3, 3)


@pytest.mark.parametrize("name", VERIFIERS)
def test_dropping_a_drafted_token_by_its_own_confidence_is_caught(name):
    """Why adaptive drafting keeps the token that made it stop."""
    p, q = table(1, 3), table(2, 3)

    def run(chance):
        ids = [chance.draw(q(()))]
        if q(())[ids[0]] < max(q(())):
            ids = []
        rows = stack([p(tuple(ids[:i])) for i in range(len(ids) + 1)], 3)
        out = VERIFIERS[name](rows, stack([q(())] * len(ids), 3), ids, chance)
        return (*ids[: out.accepted], out.extra)

    assert not is_lossless(law(run), p, 3, 2)


def test_the_check_itself_sees_a_small_error():
    """One part in a thousand in one emitted law is not equal."""
    p, q = pairs(2)["random"]
    emitted = law(round_of(verify_tokens, p, q, 2, 1, fixed))
    assert is_lossless(emitted, p, 2, 2)
    (first, second), step = list(emitted)[:2], Fraction(1, 1000)
    emitted[first] += step
    emitted[second] -= step
    assert not is_lossless(emitted, p, 2, 2)
