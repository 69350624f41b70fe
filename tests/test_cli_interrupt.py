"""Ctrl-C on the command line: how soon it ends, what is kept, and with which exit code."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
# A program whose models are tables; `reached` tells the test that the moment for Ctrl-C has come.
PROLOGUE = """
import runpy, signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever started the tests may have it ignored
import engines.models, engines.service
from fakes import Scripted, TableSession, job

def reached():
    print("reached", file=sys.stderr, flush=True)

def forever(*args, **kwargs):
    reached()
    time.sleep(60)

class Table:
    rounds = 0
    def prepare(self, settings, say): pass
    def costs(self, settings, say):
        from engines.cost import Costs
        return Costs({0: 1.0, 4: 1.5}, 0.0, 0.01)
    def job(self, settings, prompt, say, stopped=lambda: False):
        session = TableSession(seed=1)
        forward, passes = session.forward, []
        def slow(*a, **k):
            passes.append(1)
            time.sleep(self.seconds)
            if len(passes) == 4: self.fourth()
            return forward(*a, **k)
        session.forward = slow
        return job(session, Scripted(lambda ids, k: [1] * k) if settings.proposer != "none" else None,
                   stopped=stopped, k=settings.k, max_new_tokens=settings.max_new_tokens)
    seconds, fourth = 0.0, lambda self: None

engines.models.Models = Table
"""
EPILOGUE = "\nsys.argv = ['engines', *sys.argv[1:]]\nrunpy.run_module('engines', run_name='__main__', alter_sys=True)\n"


def interrupted(body, *args, times=1):
    """(exit code, standard output, standard error without the marks, seconds from Ctrl-C to the end)."""
    paths = os.pathsep.join((str(ROOT), str(ROOT / "tests")))
    process = subprocess.Popen(
        [sys.executable, "-c", PROLOGUE + body + EPILOGUE, *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"},
    )
    before = ""
    for _ in range(times):
        while "reached" not in (line := process.stderr.readline()):
            assert line, before
            before += line
    process.send_signal(signal.SIGINT)
    begin = time.monotonic()
    out, err = process.communicate(timeout=60)
    return process.returncode, out, before + err, time.monotonic() - begin


@pytest.mark.parametrize("command", ["run", "compare"])
def test_while_fetching_or_loading_it_ends_at_once(command):
    code, out, err, took = interrupted(
        "Table.job = Table.prepare = forever", command, "--prompt", "x", "--max-new-tokens", "8"
    )
    assert (code, out) == (130, "")
    assert err == "Interrupted.\n"
    assert took < 1.5  # a second, and what a busy machine adds


def test_threads_that_go_on_do_not_hold_it_up():
    body = "import threading\nTable.job = forever\nthreading.Thread(target=time.sleep, args=(30,)).start()"
    code, _, err, took = interrupted(body, "run", "--prompt", "x")
    assert (code, err) == (130, "Interrupted.\n")
    assert took < 1.5


def test_while_decoding_it_ends_after_the_round_and_keeps_the_text(tmp_path):
    trace = tmp_path / "t.jsonl"
    body = "Table.seconds, Table.fourth = 0.05, lambda self: reached()"
    code, out, err, took = interrupted(body, "run", "--prompt", "x", "--max-new-tokens", "2000", "--trace", str(trace))
    assert code == 130 and out.strip()
    assert "ended: stopped" in err and "Traceback" not in err
    last = json.loads(trace.read_text("utf-8").splitlines()[-1])
    assert (last["type"], last["reason"]) == ("done", "stopped")
    assert took < 1.5


COMPARE = """
whole = engines.service.run_to_end
def stopping(models, settings, prompt, say):
    Table.rounds += 1
    if Table.rounds == STOP: forever()
    return whole(models, settings, prompt, say)
engines.service.run_to_end = stopping
"""
TRIES = ("--try", "ngram k=4", "--try", "layer-skip k=2")  # with plain, three settings: three runs to warm up


@pytest.mark.parametrize(
    ("stop", "rows", "said"),
    [
        (4, [], "Interrupted before anything was measured."),
        (6, ["plain", "ngram k=4"], "Interrupted: this is what was measured so far (1 of the settings not at all)."),
        (8, ["plain", "ngram k=4", "layer-skip k=2"], "Interrupted: this is what was measured so far."),
    ],
)
def test_compare_prints_what_was_measured_so_far(stop, rows, said):
    body = COMPARE.replace("STOP", str(stop))
    args = ("compare", "--prompt", "x", "--max-new-tokens", "24", *TRIES)
    code, out, err, _ = interrupted(body, *args, "--json")
    assert code == 130
    assert [row["setting"] for row in json.loads(out)] == rows
    assert all(row["measured"] for row in json.loads(out))
    assert err.splitlines()[-1] == said and "Traceback" not in err
