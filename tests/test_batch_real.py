"""Batches on the default model: the texts are those of one sequence at a time."""

from __future__ import annotations

import time

import pytest
from prompts import ALL

from engines.batch.lockstep import decode_batch
from engines.batch.plan import BatchPlan
from engines.batch.results import Point
from engines.batch.rows import Rows
from engines.bench import identity
from engines.decode import decode
from engines.settings import RunSettings, Sampling

pytestmark = pytest.mark.model
PROMPTS = ALL[::3]  # eight, of all kinds
TOKENS = 20


def quiet(*a):
    pass


def together(models, prompts, **settings):
    """Each row's events, all rows decoded in one batch; how often rows of one pass accepted different numbers; and the

    seconds from the first pass's last verdict to the end.
    """
    s = RunSettings(max_new_tokens=TOKENS, branch=1, **settings)
    target = models.get(s.target, s.dtype, s.device, quiet)
    longest = max(len(target.tokenizer.prompt_ids(p)) for p in prompts)
    rows = Rows(target.decoder, len(prompts), longest + TOKENS, s.k + 1)
    jobs = []
    for row, prompt in enumerate(prompts):
        job = models.job(s.replace(seed=s.seed + row), prompt, quiet)
        job.session = rows.sessions[row]
        jobs.append(job)
    out, apart, accepted = [[] for _ in prompts], 0, set()
    begin = None
    for row, event in decode_batch(jobs, rows):
        out[row].append(event)
        if event.type == "verdict":
            accepted.add(event.accepted)
            if begin is None and row == len(prompts) - 1:
                begin = time.perf_counter()
        elif accepted:
            apart, accepted = apart + (len(accepted) > 1), set()
    return out, apart, time.perf_counter() - begin


def alone(models, prompt, seed=0, **settings):
    job = models.job(RunSettings(max_new_tokens=TOKENS, seed=seed, **settings), prompt, quiet)
    return list(decode(job))


@pytest.mark.parametrize(("proposer", "count"), [("ngram", 8), ("recycle", 4)])
def test_greedy_texts_are_those_of_plain_decoding_one_at_a_time(models, plain_texts, proposer, count):
    """In the kernel that is fastest here; a near-tie that rounding turned over would be told as one."""
    rows, apart, _ = together(models, PROMPTS[:count], proposer=proposer, k=4)
    verdicts = [identity(plain, row) for plain, row in zip(plain_texts, rows, strict=False)]
    assert all(v.verdict in ("identical", "near-tie") for v in verdicts), verdicts
    assert sum(v.verdict == "identical" for v in verdicts) >= count - 1
    assert apart >= 3  # rounds whose rows accepted different numbers and went on together


@pytest.fixture(scope="module")
def plain_texts(models):
    return [alone(models, prompt) for prompt in PROMPTS]


def test_sampled_texts_are_those_of_the_same_seed_alone(models):
    """What rounding differs by, about 1e-6, all but never turns a draw over."""
    settings = {"proposer": "ngram", "k": 3, "sampling": Sampling(0.7)}
    rows, _, _ = together(models, PROMPTS[:4], seed=11, **settings)
    texts = [alone(models, prompt, seed=11 + i, **settings)[-1].ids for i, prompt in enumerate(PROMPTS[:4])]
    assert [row[-1].ids for row in rows] == texts and len({tuple(t) for t in texts}) == 4


def test_the_rows_seconds_sum_up_to_the_clocks(models):
    rows, _, seconds = together(models, PROMPTS[:4], proposer="ngram", k=4)
    booked = sum(sum(e.seconds.values()) for row in rows for e in row if e.type == "verdict" and e.round > 1)
    assert 0.8 < booked / seconds <= 1.0


def test_measuring_the_default_model(models):
    plan = BatchPlan(RunSettings(proposer="ngram", k=4, max_new_tokens=8), tuple(PROMPTS[3:5]), (1, 2), 60.0)
    points = {p.batch: p for p in plan(models, quiet, lambda: False) if isinstance(p, Point)}
    for batch, p in points.items():
        assert 0 < p.one < p.many * 1.5 and p.speedup > 0 and 0 <= p.wasted < 1
        assert p.texts == {"identical": 2}, (batch, p.texts)
    assert set(points) == {1, 2}
