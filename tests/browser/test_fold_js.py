"""The browser's fold and the engine's are the same, event by event, over made-up runs of every shape."""

from __future__ import annotations

import json
import math
import random
from dataclasses import asdict

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.scripts import ASSETS
from engines.cost import expected_tokens
from engines.events import Done, Draft, Extra, Judged, Proposed, Start, Verdict, to_json
from engines.fold import Fold
from engines.settings import RunSettings

DRIVER = """(lines) => {
  const fold = new SpecPlay.Fold();
  return lines.map((line) => {
    fold.add(JSON.parse(line));
    const tokens = fold.tokens().map(
      ({id, text, state, round, position, parent, node}) => ({id, text, state, round, position, parent, node}));
    const rounds = fold.rounds.map((r) => ({number: r.number, seconds: r.seconds, rows: r.rows, note: r.note}));
    return {tokens, rounds, text: fold.text(), held: fold.held, metrics: fold.metrics(),
            heldBack: fold.tokens().filter((t) => t.held).length};
  });
}"""


@pytest.fixture(scope="module")
def page(browser):
    context = browser.new_context()
    page = context.new_page()
    page.add_script_tag(path=str(ASSETS / "fold.js"))
    yield page
    context.close()


def grow(rng: random.Random, proposed: list) -> tuple[int, list]:
    """Make a tree of `proposed`; a walk through it: (accepted, judged)."""
    for i, token in enumerate(proposed):
        token.parent = rng.randint(-1, i - 1)
    at, accepted, judged = -1, 0, []
    while children := [i for i, t in enumerate(proposed) if t.parent == at]:
        stands = next((i for i in children if rng.random() < 0.5), None)
        for i in children:
            judged.append(Judged(proposed[i].id, i == stands, 0.5, 0.5, 1.0, node=i))
            if i == stands:
                break
        if stands is None:
            break
        at, accepted = stands, accepted + 1
    return accepted, judged


def random_run(seed: int) -> list:
    """A run with everything that can happen: nothing proposed, an end inside a block, held and withdrawn tokens."""
    rng = random.Random(seed)
    proposer = rng.choice(["none", "ngram", "draft"])
    made = RunSettings(proposer=proposer, draft="d" if proposer == "draft" else None, k=rng.randint(1, 5))
    events: list = [Start(made.to_json(), "t", proposer, "e", "cpu", "fp32", {}, [1], "p", ["p"])]
    text = lambda: rng.choice(["", " a", "b", "\n", "é", "👩"])  # noqa: E731
    emitted = 0
    for number in range(1, rng.randint(0, 12) + 1):
        n = 0 if proposer == "none" else rng.choice([0, made.k, rng.randint(0, made.k)])
        proposed = [Proposed(rng.randint(0, 99), text(), rng.random()) for _ in range(n)]
        events.append(Draft(number, proposed, rng.random(), rng.choice([None, "a note"])))
        if n and rng.random() < 0.3:
            accepted, judged = grow(rng, proposed)
            extra = Extra(rng.randint(0, 99), text(), "corrected" if len(judged) > accepted else "bonus", 0.5)
            emitted += accepted + 1
            events.append(Verdict(number, accepted, judged, extra, {"propose": 0.1, "verify": rng.random()}))
            continue
        accepted = rng.randint(0, n)
        cut = rng.randint(0, n - accepted) if rng.random() < 0.2 else 0
        judged = [
            Judged(t.id, i < accepted, 0.5, 0.5, 1.0) for i, t in enumerate(proposed[: min(n - cut, accepted + 1)])
        ]
        kind = "plain" if n == 0 else "bonus" if accepted == n else "corrected"
        extra = None if cut and n else Extra(rng.randint(0, 99), text(), kind, 0.5)
        emitted += accepted + (extra is not None)
        seconds = {p: rng.random() for p in ("propose", "verify", "sample", "other")}
        events.append(Verdict(number, accepted, judged, extra, seconds, cut, rng.randint(0, min(3, emitted))))
    if rng.random() < 0.2:  # ended between a proposal and its verdict
        events.append(Draft(99, [Proposed(1, "x")], 0.1))
    keep = rng.choice([emitted, rng.randint(0, emitted)])
    seconds = {p: rng.random() for p in ("prefill", "propose", "verify", "sample", "other")}
    cut_text = rng.choice([None, "", "c"])
    events.append(Done(rng.choice(["eos", "stop", "length"]), "", [], keep, {}, seconds, cut_text))
    return events


def same(a, b) -> bool:
    if isinstance(a, dict):
        return set(a) == set(b) and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, float) and isinstance(b, (int, float)):
        return math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-12)
    return a == b


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10**9))
def test_both_folds_agree_after_every_event(page, seed):
    events = random_run(seed)
    theirs = page.evaluate(DRIVER, [to_json(e) for e in events])
    fold = Fold()
    for event, got in zip(events, theirs, strict=True):
        fold.add(event)
        assert got["tokens"] == [asdict(t) for t in fold.tokens()]
        rounds = [{"number": r.number, "seconds": r.seconds, "rows": r.rows, "note": r.note} for r in fold.rounds]
        assert same(rounds, got["rounds"])
        assert (got["text"], got["held"]) == (fold.text(), fold.held)
        assert got["heldBack"] == fold.held
        ours = json.loads(json.dumps(fold.metrics().to_json()))
        assert same(ours, got["metrics"])


def test_the_formula_is_the_engines(page):
    for a in (0.0, 0.3, 0.8, 0.999999, 1.0):
        for k in (1, 4, 16):
            assert page.evaluate("([a, k]) => SpecPlay.expectedTokensPerPass(a, k)", [a, k]) == pytest.approx(
                expected_tokens(a, k), rel=1e-12
            )
    assert page.evaluate("SpecPlay.expectedTokensPerPass(null, 4)") is None
