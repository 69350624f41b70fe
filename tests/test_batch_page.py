"""The tab "Batching" without a browser: what its fields come to, and what it is told while a measurement goes on."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import gradio as gr
import pytest

from app.batching_tab import Shown, build_batching_tab, plan_of
from app.examples import EXAMPLES
from app.roofline_form import OTHER, calculate
from engines.batch import roofline
from engines.batch.results import Point, Progress, Skipped
from engines.cost import expected_tokens
from engines.errors import UserError

T = "smollm2-135m-instruct"
H100 = ("NVIDIA H100 SXM", 3350, 989)
LLAMA = ("Llama-3.1-8B", 7.505, 2, 131.1, 512)


def test_the_fields_come_to_a_plan():
    plan = plan_of(T, "suffix", 6.0, 8, 90, "")
    assert plan.settings.proposer == "suffix" and plan.settings.k == 6 and plan.settings.target == T
    assert plan.sizes == (1, 2, 4, 8) and plan.budget == 90 and plan.prompts == tuple(text for _, text in EXAMPLES)
    assert plan_of(T, "ngram", 4, 1, 90, "one\n\ntwo\n").prompts == ("one", "two")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (("ngram", None, 8, 90, ""), "Fill in a number for k"),
        (("ngram", 2.5, 8, 90, ""), "k must be a whole number"),
        (("ngram", 99, 8, 90, ""), "k must be a whole number"),
        (("ngram", 4, 8, None, ""), "seconds for the time limit"),
        (("ngram", 4, 8, -1, ""), "above 0"),
        (("ngram", 4, 8, 90, '{"prompt": 3}'), "prompt"),
        (("draft", 4, 8, 90, ""), "draft"),
    ],
)
def test_what_was_typed_wrongly_is_a_sentence(fields, message):
    with pytest.raises(UserError, match=message):
        plan_of(T, *fields)


def work(phase="working", **more):
    return SimpleNamespace(**{"phase": phase, "ahead": 0, "error": None, "stopped": False, **more})


ENGINE = SimpleNamespace(state=lambda: {"message": "Loading torch."})


def test_a_measurement_is_told_step_by_step():
    shown = Shown(plan_of(T, "ngram", 4, 8, 90, ""))

    def add(items, **more):
        return json.loads(shown.add(items, work(**more), ENGINE))

    assert add([], phase="queued", ahead=2)["message"] == "Waits for its turn. 2 runs or other work before it."
    assert add([])["message"] == "Loading torch."
    begun = add([Progress("Begins.", 0.0, 80.4)])
    assert begun["state"] == "running" and begun["message"] == "Begins. About 80 s to go." and begun["fraction"] == 0
    first = Point(1, 0.02, 0.03)
    assert add([first])["points"] == [first.to_json()] and shown.rate is None
    better = Point(1, 0.02, 0.03, 50.0, 70.0, 1.4, 1.2, 1.6, 0.6, expected_tokens(0.4, 4), 0.3, 0.02, {"identical": 6})
    told = add([better, Point(2, 0.03, 0.05), Skipped(8, "8 sequences would take too long.")])
    assert [p["speedup"] for p in told["points"]] == [1.4, None] and "1.40×" in told["conclusion"]
    assert told["skipped"] == ["8 sequences would take too long."] and shown.rate == 0.4
    assert json.loads(shown.end(work("done")))["message"] == "Measured: 1 batch size."
    stopped = json.loads(shown.end(work("done", stopped=True)))
    assert stopped["state"] == "stopped" and len(stopped["points"]) == 2  # what is known stays
    failed = json.loads(shown.end(work("done", error="The context is too short.")))
    assert failed["state"] == "error" and failed["message"] == "The context is too short." and failed["points"]


def test_the_calculator_says_what_the_functions_say():
    told = json.loads(calculate(*H100, 0.7, 4, *LLAMA))
    gpu, size = roofline.find_gpu("H100"), roofline.find_size("Llama-3.1-8B")
    assert told["state"] == "done" and told["message"].startswith(
        "Calculated, not measured: Llama-3.1-8B on NVIDIA H100"
    )
    assert told["ends"] == pytest.approx(roofline.gain_ends(gpu, size, 0.7, 4, 512), rel=0.01)
    assert f"from {told['ends']} sequences on the gain is gone" in told["message"] and "data sheet" in told["source"]
    by_batch = {p["batch"]: p for p in told["points"]}
    assert by_batch[1]["speedup"] == pytest.approx(expected_tokens(0.7, 4), rel=0.01)
    assert by_batch[4096]["one"] == pytest.approx(roofline.pass_seconds(gpu, size, 4096, 1, 512), rel=0.01)
    typed = json.loads(calculate(OTHER, 1000, 100, 0.7, 4, "Llama-3.1-8B", 1.2, 0.5, 40, 0))
    assert "this model on this GPU" in typed["message"] and typed["source"] == "as typed in"
    assert "any number" in json.loads(calculate(*H100, 0.7, 2, *LLAMA[:4], 60_000))["message"]
    assert "nothing to lose" in json.loads(calculate(*H100, 0.0, 4, *LLAMA))["message"]


@pytest.mark.parametrize(
    ("at", "value", "message"),
    [
        (1, None, "memory"),
        (1, 0, "above 0"),
        (3, 1.5, "0 to 1"),
        (4, 0, "k must"),
        (6, -1, "above 0"),
        (9, None, "context"),
    ],
)
def test_what_cannot_be_calculated_is_a_sentence(at, value, message):
    fields = [*H100, 0.7, 4, *LLAMA]
    fields[at] = value
    told = json.loads(calculate(*fields))
    assert told["state"] == "error" and message in told["message"] and "points" not in told


def test_the_tab_is_laid_out_without_torch():
    with gr.Blocks() as page, gr.Tab("Batching"):
        build_batching_tab(SimpleNamespace(), T)
    labels = {b.label for b in page.blocks.values() if getattr(b, "label", None)}
    assert {"who proposes", "largest batch", "time limit (s)", "GPU", "acceptance rate", "tokens of context"} <= labels
    code = "import sys, app.batching_tab; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parent.parent, timeout=120)
