"""`python -m engines batch`: what it prints, and with which exit code."""

from __future__ import annotations

import json

import pytest

from engines.batch import roofline
from engines.batch.results import Point, Skipped
from engines.cli import batch, main
from engines.cost import expected_tokens
from engines.settings import RunSettings

BAD = [
    ("--prompts", "a", "--batches", "1,x"),
    ("--prompts", "a", "--batches", "0"),
    ("--prompts", "a", "--k", "0"),
    ("--prompts", "a", "--proposer", "draft"),
    ("--prompts", "a", "--budget", "0"),
    ("--prompts", "a", "--max-new-tokens", "3"),
    ("--prompts", "a", "--gpu", "abacus"),
    ("--prompts", "a", "--gpu", "0,5"),
    ("--prompts", "a", "--like", "llama-3.1-8b"),
    ("--prompts", "a", "--gpu", "h100", "--like", "llama"),
    ("--prompt-file", "no/such/file"),
    ("--prompts", "a", "--prompt-file", "b"),
    (),
]


@pytest.mark.parametrize("args", BAD, ids=" ".join)
def test_bad_input_is_one_line_and_exit_code_2(args, capsys):
    """Before a model is looked for."""
    assert main(["batch", *args]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("error: ") and err.count("\n") == 1


POINTS = [
    Point(1, 0.02, 0.024, 45.0, 63.0, 1.4, 1.2, 1.6, 0.6, 1.8, 0.4, 0.02, {"identical": 6}),
    Point(8, 0.06, 0.2, 120.0, 90.0, 0.75, 0.7, 0.8, 0.6, 1.8, 0.4, 0.02, {"identical": 7, "near-tie": 1}),
    Point(16, 0.1, 0.4),
]
SKIPPED = [Skipped(64, "64 sequences would take about 90 s.")]
MACHINE = {"target": "smollm2-135m-instruct", "device": "cpu", "dtype": "fp16"}


def test_the_report_says_what_is_measured_and_what_is_calculated():
    settings = RunSettings(proposer="ngram", k=4)
    gpu, size = batch.gpu_of("3350,989"), roofline.find_size("Llama-3.1-8B")
    calculated = batch.calculation(gpu, size, POINTS, 4)
    text = batch.report(MACHINE, settings, POINTS, SKIPPED, calculated)
    measured, _, rest = text.partition("Calculated, not measured:")
    assert measured.startswith("Measured: smollm2-135m-instruct · ngram · k = 4 · cpu fp16")
    rows = measured.split("\n")[2:7]
    assert " ".join(rows[0].split()) == "batch pass, 1 pass, 5 plain spec. speed-up tok/pass wasted"
    assert " ".join(rows[2].split()) == "1 20 ms 24 ms 45.0/s 63.0/s 1.40× (1.20 to 1.60) 1.80 40%"
    assert rows[4].split()[-3:] == ["–", "–", "–"]
    assert "From 8 sequences on the gain is gone" in measured and "13 identical, 1 near-tie" in measured
    assert SKIPPED[0].reason in measured
    assert "Llama-3.1-8B on 3350 GB/s, 989 TFLOP/s" in rest and "as typed in" in rest
    assert f"gone from {calculated['gain_ends']} sequences on" in rest
    whole = json.loads(json.dumps(batch.as_json(settings, MACHINE, POINTS, SKIPPED, calculated, False)))
    assert [p["batch"] for p in whole["measured"]] == [1, 8, 16] and whole["skipped"][0]["batch"] == 64
    assert whole["calculated"]["rows"][0]["speedup"] == pytest.approx(1.8, rel=1e-3)
    assert expected_tokens(whole["calculated"]["acceptance_rate"], 4) == pytest.approx(1.8, rel=1e-3)


def test_nothing_measured_is_said_and_calculates_nothing():
    assert batch.calculation(roofline.GPUS[0], roofline.SIZES[0], [Point(1, 0.1, 0.2)], 4) is None
    assert "Nothing was measured." in batch.report(MACHINE, RunSettings(), [], SKIPPED, None)
