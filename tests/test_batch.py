"""Batches: each row is the loop of one sequence, and what is measured of them adds up. On a model that is a table."""

from __future__ import annotations

import json
import time
from types import SimpleNamespace

import pytest
import torch
from fakes import LetterTokenizer, Scripted, TableSession, job

from engines.batch.lockstep import decode_batch
from engines.batch.plan import BatchPlan
from engines.batch.results import Point, Progress, Skipped, conclusion
from engines.batch.rows import Rows
from engines.cost import Costs
from engines.decode import decode
from engines.errors import UserError
from engines.events import to_json
from engines.fold import fold
from engines.proposers.ngram import NgramProposer
from engines.settings import RunSettings, Sampling

SETTINGS = {"k": 4, "max_new_tokens": 20}


class TableDecoder:
    """`TableSession` for several rows; `reads` has the positions of every pass by row, each of which takes `delay`."""

    vocab_size, num_layers, name, dtype, weight_bytes = 8, 1, "table", "fp32", 8
    device = torch.device("cpu")

    def __init__(self, seed: int = 0, context: int = 200, delay: float = 0.0) -> None:
        self.seed, self.context, self.delay, self.reads = seed, context, delay, []

    def chunk(self, end):
        return 64

    def batch(self, rows, capacity):
        return TableBatch(self, rows, capacity)


class TableBatch:
    def __init__(self, decoder, rows, capacity):
        self.decoder, self.capacity = decoder, capacity
        self.rows = [TableSession(seed=decoder.seed, capacity=capacity) for _ in range(rows)]

    @property
    def lengths(self):
        return [row.length for row in self.rows]

    def forward_uneven(self, ids, *, logits=True):
        assert max(self.lengths) + max(map(len, ids)) <= self.capacity
        self.decoder.reads.append([len(row) for row in ids])
        time.sleep(self.decoder.delay)
        return torch.cat([row.forward(new) for row, new in zip(self.rows, ids, strict=True)])

    def forward(self, ids):
        return self.forward_uneven(ids)

    def rollback(self, lengths):
        for row, length in zip(self.rows, lengths, strict=True):
            row.rollback(length)


PROMPTS = [(0, 1), (3, 4, 3, 4, 3), (5,), (7, 6, 5, 4, 3, 2, 1), (2, 2)]


def jobs_of(rows, prompts=PROMPTS, proposer=NgramProposer, stopped=None, **settings):
    made = [
        job(session, proposer(), prompt, stopped=stopped, **{**SETTINGS, "seed": 40 + i, **settings})
        for i, (session, prompt) in enumerate(zip(rows.sessions, prompts, strict=True))
    ]
    return made


def by_row(pairs):
    out = {}
    for row, event in pairs:
        out.setdefault(row, []).append(event)
    return out


def clean(events):
    """Without times, and without the width of the context, which a batch keeps a little of for itself."""
    out = [json.loads(to_json(e)) for e in events]
    for e in out:
        for name in ("seconds", "metrics", "context"):
            e.pop(name, None)
    return out


@pytest.mark.parametrize("temperature", [0.0, 0.8])
@pytest.mark.parametrize("verify", ["token", "block"])
def test_every_row_is_what_it_would_be_alone(temperature, verify):
    """At any temperature: the table's arithmetic is the same for one row and for many, and so are the seeds."""
    more = {"sampling": Sampling(temperature), "verify": verify, "k": 3}
    rows = Rows(TableDecoder(), len(PROMPTS), 40, 4)
    together = by_row(decode_batch(jobs_of(rows, eos=(6,), **more), rows))
    lengths = set()
    for i, prompt in enumerate(PROMPTS):
        alone = list(decode(job(TableSession(), NgramProposer(), prompt, (6,), **{**SETTINGS, **more, "seed": 40 + i})))
        assert clean(together[i]) == clean(alone)
        lengths.add(len(alone[-1].ids))
    assert len(lengths) > 1  # rows that end at different times
    assert any(e.accepted for events in together.values() for e in events if e.type == "verdict")


def test_a_round_is_one_pass_over_exactly_what_the_rows_feed():
    decoder = TableDecoder()
    rows = Rows(decoder, 3, 40, 5)
    guesses = [lambda ids, k: [1] * k, lambda ids, k: [], lambda ids, k: [2, 3]]
    jobs = [job(s, Scripted(g), (1, 2, 3), **SETTINGS) for s, g in zip(rows.sessions, guesses, strict=True)]
    order = [(row, event.type) for row, event in decode_batch(jobs, rows)]
    assert decoder.reads[0] == [2, 2, 2]  # all of the prompts but their last tokens, together
    assert decoder.reads[1] == [5, 1, 3]
    assert order[:9] == [(0, "start"), (0, "draft"), (1, "start"), (1, "draft"), (2, "start"), (2, "draft"),
                         (0, "verdict"), (1, "verdict"), (2, "verdict")]  # fmt: skip
    first_over = next(i for i, (_, kind) in enumerate(order) if kind == "done")
    assert all(len(reads) == 3 for reads in decoder.reads) and any(0 in reads for reads in decoder.reads)
    assert first_over < len(order) - 1


def test_a_row_that_begins_anew_finds_its_prompt_in_the_cache():
    decoder = TableDecoder()
    rows = Rows(decoder, 2, 40, 5)
    prompts = [(1, 2, 3, 4, 5, 6), (6, 5, 4)]
    turns = []

    def again(row):
        turns.append(row)
        if len(turns) > 4:
            return None
        prompt = (1, 2, 3, 7) if row == 0 and len(turns) > 2 else prompts[row]
        return job(rows.sessions[row], NgramProposer(), prompt, **SETTINGS)

    events = by_row(decode_batch(jobs_of(rows, prompts), rows, again))
    assert decoder.reads[0] == [5, 2]
    fed = sum(len(e.tokens) + 1 for row in events.values() for e in row if e.type == "draft")
    assert sum(map(sum, decoder.reads)) == 5 + 2 + fed  # no prompt is read again
    runs = [e for e in events[0] if e.type == "done"]
    assert len(runs) >= 2 and runs[0].ids == runs[1].ids
    for row, pairs in events.items():
        start = None
        for e in pairs:
            start = e if e.type == "start" else start
            if e.type == "done":
                alone = list(decode(job(TableSession(), NgramProposer(), tuple(start.prompt_ids), **SETTINGS)))
                assert e.ids == alone[-1].ids, row


def test_stop_ends_every_row_behind_the_same_pass():
    asked = []
    rows = Rows(TableDecoder(), len(PROMPTS), 40, 5)
    seen = []
    for row, event in decode_batch(jobs_of(rows, stopped=lambda: bool(asked)), rows):
        seen.append((row, event))
        if event.type == "verdict" and event.round == 2:
            asked.append(1)
    done = [e for _, e in seen if e.type == "done"]
    assert len(done) == len(PROMPTS) and {e.reason for e in done} == {"stopped"}
    assert max(e.round for _, e in seen if e.type == "verdict") == 2


def test_what_does_not_fit_or_does_not_belong_is_refused():
    with pytest.raises(UserError, match="context limit is 50"):
        Rows(TableDecoder(context=50), 2, 46, 5)
    with pytest.raises(UserError, match="transformers"):
        Rows(SimpleNamespace(context=50), 2, 10, 5)
    rows = Rows(TableDecoder(), 2, 40, 5)
    with pytest.raises(ValueError, match="session of its row"):
        next(decode_batch([job(TableSession(), **SETTINGS)] * 2, rows))
    with pytest.raises(ValueError, match="1 to 5"):
        rows.announce({0: [1] * 6})
    rows.announce({0: [1, 2]})
    with pytest.raises(ValueError, match="announced"):
        rows.sessions[0].forward([1, 3])
    with pytest.raises(UserError, match="chains"):
        rows.sessions[0].forward([1, 2], parents=[-1, 0])
    with pytest.raises(UserError, match="40"):
        rows.sessions[0].forward([1] * 41)


# Measuring.


class TableModels:
    """What measuring asks of `Models`, over a table."""

    def __init__(self, decoder=None, pass_seconds=1e-6):
        self.decoder = decoder or TableDecoder()
        self.tokenizer = LetterTokenizer()
        self.tokenizer.prompt_ids = lambda text, raw=False: [ord(c) - ord("a") for c in text]
        self.pass_seconds = pass_seconds

    def get(self, name, dtype, device, say):
        return SimpleNamespace(decoder=self.decoder, tokenizer=self.tokenizer)

    def costs(self, settings, say):
        return Costs({0: 1.0, 4: 1.2, 15: 2.0}, 0.0, self.pass_seconds)

    def job(self, settings, prompt, say, stopped):
        proposer = None if settings.proposer == "none" else NgramProposer()
        values = {k: getattr(settings, k) for k in ("k", "max_new_tokens", "sampling", "seed", "branch")}
        return job(TableSession(), proposer, self.tokenizer.prompt_ids(prompt), stopped=stopped, **values)


def plan(sizes=(1, 2, 4), prompts=("ab", "abcabc", "h"), budget=100.0, **settings):
    settings = {"proposer": "ngram", "max_new_tokens": 12, **settings}
    return BatchPlan(RunSettings(**settings), prompts, sizes, budget)


def measure(plan, models=None, stopped=lambda: False):
    return list(plan(models or TableModels(), lambda *a: None, stopped))


def test_measuring_tells_all_numbers_of_every_size():
    items = measure(plan(sizes=(4, 1, 2, 2)), TableModels(pass_seconds=1e-3))
    last = {p.batch: p for p in items if isinstance(p, Point)}
    assert list(last) == [1, 2, 4]
    for batch, p in last.items():
        assert p.one > 0 and p.many > 0 and p.plain_rate > 0 and p.speculative_rate > 0
        assert p.speedup == pytest.approx(p.speculative_rate / p.plain_rate)
        assert p.low <= p.speedup * 1.2 and p.high >= p.speedup / 1.2
        assert 0 < p.acceptance_rate < 1 and 1 < p.tokens_per_pass < 5 and 0 < p.wasted < 1 and 0 < p.aside < 1
        assert p.texts == {"identical": {1: 3, 2: 4, 4: 4}[batch]}  # groups of the three prompts, all seen
        json.dumps(p.to_json())
    progress = [i for i in items if isinstance(i, Progress)]
    assert isinstance(items[0], Progress) and items[0].fraction < 0.5
    assert all(0 <= p.fraction <= 1 and p.seconds_left >= 0 for p in progress)


def test_the_share_of_waste_is_that_of_the_rounds():
    """Of 1 + k positions a round with nothing accepted wastes k; the table rejects what it is told to."""
    from engines.batch.results import Tally, compare

    rows = Rows(TableDecoder(), 2, 40, 5)
    plain, wrong = Tally(2), Tally(2)
    for row, event in decode_batch([job(s, None, (1, 2), **SETTINGS) for s in rows.sessions], rows):
        plain.add(row, event)
    best = {}  # the table's own next tokens, so as never to propose one

    def refused(ids, k):
        return [(best[tuple(ids)] + 1) % 8] * k if tuple(ids) in best else [0] * k

    walker = list(decode(job(TableSession(), None, (1, 2), **SETTINGS)))[-1].ids
    for n in range(len(walker)):
        best[(1, 2, *walker[:n])] = walker[n]
    for row, event in decode_batch([job(s, Scripted(refused), (1, 2), **SETTINGS) for s in rows.sessions], rows):
        wrong.add(row, event)
    found = compare(plain, wrong)
    assert found["acceptance_rate"] == 0 and found["tokens_per_pass"] == 1
    # k is 4 until the last rounds, where there is room for 3, 2, 1, 0: 2 rows x (16 x 5 + 4 + 3 + 2 + 1) positions.
    assert wrong.computed == 2 * 90 and wrong.emitted == plain.emitted == 40
    assert found["wasted"] == pytest.approx(1 - 40 / 180)
    assert len(plain.passes) == len(wrong.passes) == 20


def test_rows_are_busy_all_the_time_and_seeds_differ():
    models = TableModels()
    seeds = []
    original = models.job
    models.job = lambda settings, *a: seeds.append((settings.proposer, settings.seed)) or original(settings, *a)
    items = measure(plan(sizes=(3,), sampling=Sampling(1.0), seed=7), models)
    assert all(len(reads) == 3 for reads in models.decoder.reads)
    decoding = [r for r in models.decoder.reads if min(r) > 0]
    assert len(decoding) >= len(models.decoder.reads) - 3  # only while prompts are read has a row nothing to do
    assert {s for _, s in seeds} >= {7, 8, 9} and items[-1].texts == {"sampled": 3}


def test_stopping_keeps_what_is_known():
    items, asked = [], []
    for item in plan(sizes=(1, 2, 4))(TableModels(), lambda *a: None, lambda: bool(asked)):
        items.append(item)
        if isinstance(item, Point) and item.batch == 2 and item.speedup:
            asked.append(1)
    points = {p.batch: p for p in items if isinstance(p, Point)}
    assert set(points) == {1, 2} and all(p.speedup for p in points.values())
    assert measure(plan(), stopped=lambda: True)[0].message == "Begins."
    assert not any(isinstance(i, Point) for i in measure(plan(), stopped=lambda: True))


def test_sizes_that_do_not_fit_the_time_or_the_memory_are_left_out_with_a_sentence():
    late = measure(plan(sizes=(1, 256), budget=2.0), TableModels(TableDecoder(delay=0.004), pass_seconds=0.004))
    assert [i.batch for i in late if isinstance(i, Skipped)] == [256]
    assert "time limit" in late[-1].reason and any(isinstance(i, Point) and i.speedup for i in late)
    cut = measure(plan(sizes=(1,), budget=1.0), TableModels(TableDecoder(delay=0.03)))
    assert cut[-1].reason.endswith(("after 1 of 3 turns.", "after 2 of 3 turns."))
    assert any(isinstance(i, Point) and i.speedup for i in cut)
    decoder = TableDecoder()
    decoder.new_cache = None
    decoder.config = SimpleNamespace(layers=10**4, kv_heads=8, head_dim=128)
    decoder.cache_dtype = torch.float32
    large = measure(plan(sizes=(1, 64)), TableModels(decoder))
    assert [i.batch for i in large if isinstance(i, Skipped)] == [64] and "GB" in large[-1].reason


BAD = [
    ({"proposer": "draft", "draft": "x"}, "one of ngram"),
    ({"proposer": "none"}, "one of ngram"),
    ({"prompts": ()}, "at least one"),
    ({"sizes": ()}, "whole numbers from 1"),
    ({"sizes": (0,)}, "whole numbers from 1"),
    ({"sizes": (1000,)}, "whole numbers from 1"),
    ({"budget": 0.0}, "above 0"),
    ({"max_new_tokens": 2}, "8 or more"),
]


@pytest.mark.parametrize(("change", "message"), BAD)
def test_what_cannot_be_measured_is_a_sentence(change, message):
    with pytest.raises(UserError, match=message):
        plan(**change)


def test_a_prompt_too_long_is_a_sentence():
    with pytest.raises(UserError, match="context limit"):
        measure(plan(prompts=("ab" * 120,)))


def test_the_conclusion_says_where_the_gain_goes():
    def point(batch, speedup):
        return Point(batch, 0.1, 0.3, speedup=speedup, tokens_per_pass=1.5)

    assert conclusion([]) == conclusion([Point(1, 0.1, 0.2)]) == ""
    assert conclusion([point(1, 1.5)]).endswith("1.50× plain decoding's tokens/s.")
    assert "not gone" in conclusion([point(1, 1.5), point(8, 1.1)])
    gone = conclusion([point(1, 1.5), point(2, 0.99), point(4, 1.1), point(8, 0.9), point(16, 0.8)])
    assert "From 8 sequences on the gain is gone" in gone and "3.0× the time" in gone and "1.50 tokens" in gone
    assert "no gain to lose" in conclusion([point(1, 0.9), point(8, 0.8)])


def test_folding_a_rows_events_gives_its_metrics():
    rows = Rows(TableDecoder(), len(PROMPTS), 40, 5)
    for events in by_row(decode_batch(jobs_of(rows), rows)).values():
        assert fold(events).metrics().to_json() == events[-1].metrics
