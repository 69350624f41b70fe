"""Trees are lossless: proved in exact fractions over small trees of every shape, and watched in the real loop."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from exactness import ChiSquare, is_lossless, law, table
from fakes import Scripted, TableSession, greedy, job

from engines import verify
from engines.decode import decode
from engines.errors import UserError
from engines.fold import fold
from engines.proposers.base import Proposal
from engines.settings import Sampling
from engines.verify import Outcome, verify_tree, verify_tree_greedy


def trees(most: int):
    """Every tree of up to `most` nodes, as lists of parents."""
    for n in range(most + 1):
        yield from itertools.product(*(range(-1, i) for i in range(n)))


def proposal_of(parents, vocab, q):
    """Determined tokens: each is the next best of q after its forebears, so brothers differ while there are enough."""
    made = Proposal(parents=list(parents))
    for i, parent in enumerate(parents):
        path = tuple(made.ids[j] for j in made.path_to(parent)) if parent >= 0 else ()
        elder = sum(p == parent for p in parents[:i])
        order = np.argsort([-float(x) for x in q(path)], kind="stable")
        made.ids.append(int(order[elder % vocab]))
    return made


def children_of(made):
    return lambda i: [j for j, parent in enumerate(made.parents) if parent == i]


def round_of(verifier, p, q, vocab, parents):
    made = proposal_of(parents, vocab, q)

    def path(i):
        return tuple(made.ids[j] for j in made.path_to(i)) if i >= 0 else ()

    def run(chance):
        out = verifier(lambda i: p(path(i)), children_of(made), made.ids, chance)
        tokens = tuple(made.ids[i] for i in out.path)
        assert out.accepted == len(out.path)
        return (*tokens, out.extra)

    return run


def depth(parents):
    made = Proposal(ids=[0] * len(parents), parents=list(parents))
    return max((len(made.path_to(i)) for i in range(len(parents))), default=0)


@pytest.mark.parametrize("zeros", [0.0, 0.4])
@pytest.mark.parametrize("vocab", [2, 3])
def test_the_joint_law_of_a_round_is_the_targets(vocab, zeros):
    """Brothers of one and the same token included: the second finds nothing left."""
    p, q = table(1, vocab, zeros), table(2, vocab)
    for parents in trees(4):
        emitted = law(round_of(verify_tree, p, q, vocab, parents))
        assert is_lossless(emitted, p, vocab, depth(parents) + 1), parents


def test_a_token_that_the_target_does_not_have():
    p, q = table(3, 2), table(4, 3)
    shapes = ((-1,), (-1, -1, -1), (-1, -1, -1, 0), (-1, 0, 1))
    assert sum(2 in proposal_of(parents, 3, q).ids for parents in shapes) >= 2
    for parents in shapes:
        assert is_lossless(law(round_of(verify_tree, p, q, 3, parents)), p, 2, depth(parents) + 1)


def test_a_chain_is_verified_token_by_token():
    p, q = table(5, 3), table(6, 3)
    made = proposal_of((-1, 0, 1), 3, q)

    def chain(chance):
        rows = np.stack([p(tuple(made.ids[:i])) for i in range(4)])
        out = verify.verify_tokens(rows, None, made.ids, chance)
        return (*made.ids[: out.accepted], out.extra)

    assert law(round_of(verify_tree, p, q, 3, (-1, 0, 1))) == law(chain)


def _mutant(accept=lambda mine, left: mine / left, strike=True, residual=True):
    """`verify_tree` again, with one step of it wrong."""

    def run(row, children, ids, chance):
        at, path = -1, []
        while True:
            rest = row(at).copy()
            stood = None
            for child in children(at):
                left = rest.sum()
                ratio = min(1, accept(rest[ids[child]], left)) if left > 0 else 0
                if chance.accept(ratio):
                    stood = child
                    break
                if strike:
                    rest[ids[child]] = 0
            if stood is None:
                if not residual or not rest.sum() > 0:
                    rest = row(at)
                return Outcome(len(path), chance.draw(rest), "corrected", [], [], [], None, path, [])
            path.append(stood)
            at = stood

    return run


MUTANTS = {
    "always accept": _mutant(accept=lambda mine, left: 1),
    "not renormalised": _mutant(accept=lambda mine, left: mine),
    "ratio x 1.01": _mutant(accept=lambda mine, left: Fraction(101, 100) * mine / left),
    "refused ones not struck out": _mutant(strike=False),
    "residual drawn from p": _mutant(residual=False),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_mutants_are_found_out(name):
    p, q = table(7, 3), table(8, 3)
    assert is_lossless(law(round_of(_mutant(), p, q, 3, (-1, -1, 0))), p, 3, 3)  # the frame itself is right
    assert not all(
        is_lossless(law(round_of(MUTANTS[name], p, q, 3, parents)), p, 3, depth(parents) + 1)
        for parents in ((-1, -1), (-1, -1, 0, 0))
    )


class Tree:
    """Proposes a random tree of the target's likely and unlikely tokens, another one each round."""

    name = "tree"

    def __init__(self, session, seed, nodes=6):
        self.session, self.random, self.nodes = session, np.random.default_rng(seed), nodes

    def start(self, ids):
        pass

    def propose(self, ids, k, go_on, chance):
        made = Proposal()
        for i in range(min(k, self.nodes)):
            parent = int(self.random.integers(-1, i)) if i else -1
            made.parents.append(parent)
            path = [made.ids[j] for j in made.path_to(parent)] if parent >= 0 else []
            row = self.session.row([*ids, *path])
            made.ids.append(int(np.argsort(-row)[self.random.integers(0, 3)]))
        made.confidence = made.sources = [None] * len(made.ids)
        return made

    def commit(self, length):
        pass


@pytest.mark.parametrize("seed", range(12))
def test_greedy_ids_are_plain_ones(seed):
    session = TableSession(seed=seed)
    events = list(decode(job(session, Tree(session, seed), k=6, max_new_tokens=60)))
    assert events[-1].ids == greedy(TableSession(seed=seed), (0, 1), 60)
    m = fold(events).metrics()
    assert m.accepted > 5 and m.rejected > 5 and m.unjudged > 0
    assert m.emitted == 60 == m.accepted + m.corrected + m.bonus + m.plain
    assert session.length == 2 + 60 - 1  # the cache holds what was kept, in its order
    assert session.ids == [0, 1, *events[-1].ids[:-1]]


def test_greedy_with_a_penalty_looks_at_the_own_path_only():
    sampling = Sampling(repetition_penalty=1.7)
    plain = list(decode(job(TableSession(seed=3), sampling=sampling, max_new_tokens=50)))[-1].ids
    session = TableSession(seed=3)
    assert list(decode(job(session, Tree(session, 5), k=6, sampling=sampling, max_new_tokens=50)))[-1].ids == plain


def test_chi_square_through_the_loop():
    """Each emitted token has the target's law, whatever tree it came through: 20 000 rounds."""
    sampling, rounds, chi = Sampling(temperature=0.9), 0, ChiSquare()
    from engines.sampling import warp

    run = 0
    while rounds < 20_000:
        session = TableSession(vocab_size=5, seed=1, order=1, scale=1.0)
        events = list(decode(job(session, Tree(session, run), k=5, seed=run, sampling=sampling, max_new_tokens=400)))
        run += 1
        ids = [0, 1]
        folded = fold(events)
        for round_ in folded.rounds:
            rounds += 1
            for t in round_.tokens:
                if t.state in folded.EMITTED:
                    row = warp(session_row(session, ids), sampling)[0]
                    chi.add((ids[-1], t.position), t.id, dict(enumerate(row.tolist())))
                    ids.append(t.id)
    assert chi.p_value() > 1e-6


def session_row(session, ids):
    import torch

    return torch.tensor(session.row(ids))[None]


def test_events_tell_the_tree():
    session = TableSession(seed=2)
    script = Scripted(lambda ids, k: [])
    best = greedy(TableSession(seed=2), (0, 1), 3)
    wrong = [(b + 1) % 8 for b in best]
    #   text -> wrong[0], best[0] -> wrong[1], best[1], and a child of the wrong one that nobody will ask for
    tree = Proposal([wrong[0], best[0], wrong[0], wrong[1], best[1]], parents=[-1, -1, 0, 1, 1])
    tree.confidence = tree.sources = [None] * 5
    script.propose = lambda ids, k, go_on, chance: tree if len(ids) == 2 else Proposal()
    events = list(decode(job(session, script, k=5, max_new_tokens=6)))
    draft, verdict = events[1], events[2]
    assert [t.parent for t in draft.tokens] == [-1, -1, 0, 1, 1]
    assert [(j.node, j.accepted) for j in verdict.judged] == [(0, False), (1, True), (3, False), (4, True)]
    assert verdict.accepted == 2 and verdict.extra.kind == "bonus"
    tokens = fold(events).rounds[0].tokens
    assert [t.state for t in tokens] == ["accepted", "accepted", "rejected", "rejected", "unjudged", "bonus"]
    assert [t.position for t in tokens] == [0, 1, 0, 1, 1, 2]
    m = fold(events).metrics()
    assert m.acceptance_by_position == [1.0, 1.0]


def test_the_end_inside_a_tree_leaves_nothing_behind_it():
    best = greedy(TableSession(seed=2), (0, 1), 3)
    tree = Proposal(
        [best[0], best[1], (best[1] + 1) % 8, best[2]], parents=[-1, 0, 0, 1], confidence=[None] * 4, sources=[None] * 4
    )
    script = Scripted(None)
    script.propose = lambda ids, k, go_on, chance: tree
    events = list(decode(job(TableSession(seed=2), script, k=8, eos=[best[1]])))
    assert events[-1].reason == "eos" and events[-1].ids == best[:2]
    assert [t.state for t in fold(events).rounds[0].tokens] == ["accepted", "accepted"]
    assert events[2].cut == 2 and events[2].extra is None


@pytest.mark.parametrize(
    "bad",
    [
        Proposal([1, 2], parents=[-1]),
        Proposal([1, 2], parents=[-1, 1]),
        Proposal([1], q=np.ones((1, 8)) / 8, parents=[-1]),
    ],
)
def test_a_tree_that_is_none_is_refused(bad):
    script = Scripted(None)
    script.propose = lambda ids, k, go_on, chance: bad
    last = list(decode(job(TableSession(), script)))[-1]
    assert last.reason == "error" and "tree" in last.message


def test_greedy_walk():
    ids = [7, 3, 5, 3]
    parents = [-1, -1, 1, 1]
    out = verify_tree_greedy({-1: 3, 1: 3, 3: 9}.get, lambda i: [j for j in range(4) if parents[j] == i], ids)
    assert (out.path, out.judged, out.extra, out.kind) == ([1, 3], [0, 1, 2, 3], 9, "bonus")
    with pytest.raises(UserError):
        TableSession(capacity=3).forward([1, 2, 3, 4], parents=[-1, 0, 0, 1])
