"""The engine's thread: queue, stop, faults, and consumers that are slow or gone."""

from __future__ import annotations

import json
import threading
import time

import pytest
from fakes import Scripted, TableSession, job

from engines.errors import UserError
from engines.events import from_json
from engines.fold import fold
from engines.service import Engine
from engines.settings import RunSettings, Sampling


class FakeModels:
    """Jobs on a table; each pass takes `delay` seconds."""

    def __init__(self, delay=0.0, fail=None):
        self.delay, self.fail, self.threads = delay, fail, set()

    def get(self, name, dtype, device, say):
        say("loading", f"Loading {name}.")
        if self.fail:
            raise self.fail

    def prepare(self, settings, say):
        self.get(settings.target, settings.dtype, settings.device, say)
        if settings.draft:
            say("fetching", f"asking the model hub for {settings.draft}")
            raise UserError(f"There is no model {settings.draft}.")

    def job(self, settings, prompt, say, stopped):
        self.threads.add(threading.current_thread().name)
        self.prepare(settings, say)
        session = TableSession(seed=len(prompt))
        forward = session.forward
        session.forward = lambda *a, **k: (time.sleep(self.delay), forward(*a, **k))[1]
        proposer = Scripted(lambda ids, k: [(ids[-1] + 1) % 8] * k)
        return job(
            session,
            proposer,
            stopped=stopped,
            max_new_tokens=settings.max_new_tokens,
            sampling=settings.sampling,
            seed=settings.seed,
        )


@pytest.fixture
def engine_of():
    engines = []

    def make(**kwargs):
        engines.append(Engine(FakeModels(**kwargs)))
        return engines[-1]

    yield make
    for engine in engines:
        engine.close()


def settings(n=64, **changes):
    return RunSettings(max_new_tokens=n, **changes)


def drain(run):
    lines = []
    while not run.over:
        lines += run.take(5.0)
    return lines


def test_a_run_from_queue_to_done(engine_of):
    engine = engine_of()
    run = engine.submit(settings(), "hi")
    events = [from_json(line) for line in drain(run)]
    assert events == run.events and events[0].type == "start" and events[-1].reason == "length"
    assert run.phase == "done" and engine.state()["phase"] == "ready"
    assert run.take(0.0) == []


def test_one_thread_does_the_computing(engine_of):
    engine = engine_of()
    runs = [engine.submit(settings(), "x" * i) for i in range(5)]
    assert all(run.wait(10) for run in runs)
    assert engine._models.threads == {"engine"}


def test_a_slow_consumer_does_not_slow_the_engine(engine_of):
    engine = engine_of()
    run = engine.submit(settings(400), "hi")
    assert run.wait(20)  # nothing was taken yet
    assert fold([from_json(line) for line in drain(run)]).metrics().emitted == 400


def test_runs_queue_in_order_and_know_their_place(engine_of):
    engine = engine_of(delay=0.01)
    runs = [engine.submit(settings(40), "hi") for _ in range(3)]
    while runs[0].phase == "queued":
        time.sleep(0.001)
    assert [r.ahead for r in runs] == [0, 1, 2] and runs[2].phase == "queued"
    assert runs[2].wait(20) and [r.ahead for r in runs] == [0, 0, 0]


def test_two_prompts_at_once_are_each_what_they_are_alone(engine_of):
    """S8 and U8: same seed, same output, whatever else runs."""
    sampled = settings(50, sampling=Sampling(1.0), seed=3)
    alone = [drain(engine_of().submit(sampled, p))[-1] for p in ("one", "three")]
    engine = engine_of()
    runs = [engine.submit(sampled, p) for p in ("one", "three")]
    together = [drain(r)[-1] for r in runs]
    ids = [[json.loads(line)["ids"] for line in pair] for pair in (alone, together)]
    assert ids[0] == ids[1] and ids[0][0] != ids[0][1]


def test_stop_halts_within_one_round_and_keeps_the_text(engine_of):
    """U5, at the engine."""
    engine = engine_of(delay=0.01)
    run = engine.submit(settings(1000), "hi")
    while len(run.events) < 9:
        time.sleep(0.001)
    rounds = sum(e.type == "verdict" for e in run.events)
    run.stop()
    assert run.wait(1.0)
    assert run.events[-1].reason == "stopped" and run.events[-1].text
    assert sum(e.type == "verdict" for e in run.events) <= rounds + 1
    assert engine.submit(settings(8), "hi").wait(5)


def test_a_run_stopped_while_it_waits_never_starts(engine_of):
    engine = engine_of(delay=0.01)
    first, second = engine.submit(settings(60), "hi"), engine.submit(settings(60), "hi")
    second.stop()
    assert second.wait(10) and second.events[-1].reason == "stopped"
    assert [e.type for e in second.events] == ["done"] and first.events[-1].reason == "length"


def test_stop_twenty_times_then_run(engine_of):
    """U6: nothing locked, no thread left behind."""
    engine = engine_of(delay=0.002)
    before = threading.active_count()
    for i in range(20):
        run = engine.submit(settings(1000), "hi")
        if i % 2:
            time.sleep(0.01)
        run.stop()
        assert run.wait(5)
    run = engine.submit(settings(16), "hi")
    assert run.wait(5) and run.events[-1].reason == "length"
    assert threading.active_count() <= before + 1


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        (UserError("The draft cannot be loaded."), "The draft cannot be loaded."),
        (MemoryError(), "Out of memory"),
        (RuntimeError("boom"), "RuntimeError: boom"),
    ],
)
def test_a_failed_load_is_an_error_that_is_seen_and_the_engine_lives(engine_of, fault, says):
    """E16."""
    engine = engine_of(fail=fault)
    run = engine.submit(settings(), "hi")
    assert run.wait(5)
    done = run.events[-1]
    assert done.reason == "error" and says in done.message
    assert engine.state()["phase"] == "error" and says in engine.state()["message"]
    engine._models.fail = None
    assert engine.submit(settings(), "hi").wait(5) and engine.state()["phase"] == "ready"


def test_an_unknown_draft_is_the_runs_fault_and_the_target_stays_ready(engine_of):
    engine = engine_of()
    bad = settings(proposer="draft", draft="no/such-draft")
    run = engine.submit(bad, "hi")
    assert run.wait(5)
    assert "no/such-draft" in run.events[-1].message and run.events[-1].reason == "error"
    settled(engine)
    assert engine.state() == {"phase": "ready", "message": f"{bad.target} is ready.", "fraction": None}
    engine.preload(bad)
    assert engine.submit(settings(), "hi").wait(5)
    settled(engine)
    assert engine.state()["phase"] == "ready"


def settled(engine):
    deadline = time.time() + 5
    while engine.state()["phase"] not in ("ready", "error") and time.time() < deadline:
        time.sleep(0.005)


def test_another_target_that_cannot_be_had_is_an_error(engine_of):
    engine = engine_of()
    assert engine.submit(settings(), "hi").wait(5)
    engine._models.fail = UserError("There is no such model.")
    assert engine.submit(settings(target="other"), "hi").wait(5)
    settled(engine)
    assert engine.state()["phase"] == "error"


def test_what_the_thread_swallows_is_logged(engine_of, caplog):
    engine = engine_of(fail=RuntimeError("boom"))
    assert engine.submit(settings(), "hi").wait(5)
    settled(engine)
    assert any(r.levelname == "ERROR" and r.exc_info and "boom" in str(r.exc_info[1]) for r in caplog.records)


def test_a_fault_in_mid_run_keeps_what_was_written(engine_of):
    engine = engine_of()
    make = engine._models.job

    def broken(*args):
        made = make(*args)
        forward, calls = made.session.forward, []

        def fail(*a, **k):
            calls.append(1)
            if len(calls) > 6:
                raise RuntimeError("boom")
            return forward(*a, **k)

        made.session.forward = fail
        return made

    engine._models.job = broken
    run = engine.submit(settings(), "hi")
    assert run.wait(5)
    done = run.events[-1]
    assert done.reason == "error" and "boom" in done.message and len(done.ids) == done.keep >= 5
    assert fold(run.events).text() == done.text != ""


def test_preload_reports_its_state(engine_of):
    engine = engine_of()
    assert engine.state()["phase"] == "idle"
    engine.preload(settings())
    deadline = time.time() + 5
    while engine.state()["phase"] != "ready" and time.time() < deadline:
        time.sleep(0.005)
    assert engine.state()["phase"] == "ready"


def test_a_closed_engine_says_so(engine_of):
    engine = engine_of(delay=0.01)
    run = engine.submit(settings(1000), "hi")
    time.sleep(0.05)
    engine.close()
    assert run.wait(2) and run.events[-1].reason == "stopped"
    with pytest.raises(UserError, match="closed"):
        engine.submit(settings(), "hi")


def test_work_of_another_kind_takes_its_turn_on_the_engines_thread_and_can_be_stopped(engine_of):
    engine = engine_of(delay=0.01)
    run = engine.submit(RunSettings(max_new_tokens=8), "abc")
    threads = []

    def count(models, say, stopped):
        threads.append(threading.current_thread().name)
        number = 0
        while not stopped():
            yield number
            number += 1
            time.sleep(0.005)

    work = engine.work("smollm2-135m-instruct", count)
    assert run.wait(10)
    seen = []
    while len(seen) < 5:
        seen += work.take(1.0)
    work.stop()
    assert work.wait(10)
    seen += work.take()
    assert seen == list(range(len(seen))) and work.over and work.error is None
    assert threads == ["engine"]
    assert engine.submit(RunSettings(max_new_tokens=8), "abc").wait(10)


def test_work_that_fails_says_so_and_the_engine_lives_on(engine_of):
    engine = engine_of()

    def broken(models, say, stopped):
        yield 1
        raise UserError("The file has no prompts.")

    work = engine.work("smollm2-135m-instruct", broken)
    assert work.wait(10)
    assert (work.take(), work.error, work.over) == ([1], "The file has no prompts.", True)
    stopped = engine.work("smollm2-135m-instruct", broken)
    stopped.stop()
    assert stopped.wait(10)
    assert engine.submit(RunSettings(max_new_tokens=8), "abc").wait(10)
