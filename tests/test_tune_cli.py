"""`python -m engines tune`: what it takes, what it refuses, and, on the real model, from a file to the report."""

from __future__ import annotations

import json

import pytest

from engines import cli
from engines.cost import calibration
from engines.cost.calibration import known
from engines.errors import UserError
from engines.tune.candidates import PLAIN, Candidate, ladder
from engines.tune.order import Order
from engines.tune.prompts import Prompt, finished
from engines.tune.real import RealBench


def refused(capsys, *words):
    assert cli.main(["tune", *words]) == 2
    err = capsys.readouterr().err
    assert err.startswith("error: ") and err.count("\n") == 1
    return err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "Name a folder for the report with --out"),
        (["--out", "x", "--prompts", "/no/such"], "cannot be read"),
        (["--out", "x", "--budget", "soon"], "--budget takes a time"),
        (["--out", "x", "--budget", "0"], "budget must lie"),
        (["--out", "x", "--ks", "4-2"], "smaller number first"),
        (["--out", "x", "--ks", "a"], "--ks takes numbers"),
        (["--out", "x", "--proposers", "magic"], "'magic' cannot be tuned"),
        (["--out", "x", "--kinds", "poems"], "no built-in workload 'poems'"),
        (["--out", "x", "--column", "q"], "--column belongs to a CSV"),
        (["--out", "x", "--temperature", "-1"], "temperature must lie"),
        (["--compare", "/no/a", "/no/b"], "cannot be read"),
    ],
)
def test_what_is_refused_is_said_in_one_line(capsys, tmp_path, monkeypatch, words, said):
    monkeypatch.chdir(tmp_path)
    assert said in refused(capsys, *words)


def test_times_and_numbers():
    from engines.cli.tune import ks_of, seconds_of

    assert [seconds_of(t) for t in ("90", "120s", "2m", "1.5 min", "1h")] == [90, 120, 120, 90, 3600]
    assert ks_of("1-4, 8") == [1, 2, 3, 4, 8] and ks_of("") == []


def test_a_folder_of_another_tuning_is_refused_before_anything_is_loaded(capsys, tmp_path):
    (tmp_path / "p.txt").write_text("one\n\ntwo")
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / "runs.jsonl").write_text('{"order": {"v": 1}}\n')
    assert "holds a tuning of another kind" in refused(
        capsys, "--prompts", str(tmp_path / "p.txt"), "--out", str(tmp_path / "r")
    )


TEXT = "Repeat this list three times: red, green, blue, red, green, blue, red, green, blue."


@pytest.mark.model
@pytest.mark.timeout(280)
def test_from_a_file_to_the_report_on_the_real_model(capsys, tmp_path, monkeypatch):
    """One command, then the same command again: it goes on, runs nothing twice, and the report stands."""
    monkeypatch.setattr(calibration, "home", lambda: tmp_path / "home")
    rows = [
        {"prompt": TEXT, "category": "copy"},
        {"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Count to thirty."}]},
    ]
    path, out = tmp_path / "p.jsonl", tmp_path / "report"
    path.write_text("\n".join(map(json.dumps, rows)))
    words = ["tune", "--prompts", str(path), "--proposers", "ngram,recycle", "--ks", "2,4", "--max-new-tokens", "20"]
    words += ["--budget", "5s", "--out", str(out)]
    assert cli.main(words) == 0
    said = capsys.readouterr()
    report = json.loads((out / "report.json").read_text())
    assert said.out.startswith(report["verdict"]["sentence"]) and report["verdict"]["best"]
    assert report["prompts"]["count"] == 2 and set(report["prompts"]["categories"]) == {"copy", ""}
    assert {c["name"] for c in report["candidates"]} >= {"ngram k=4", "recycle k=2"}
    assert all(c["same_text"] is None or c["same_text"].split(" of ")[1] != "0" for c in report["candidates"])
    assert (out / "report.html").stat().st_size > 1e6 and (out / "exports" / "vllm.sh").exists()
    assert known(report["calibration"]["of"]).rounds  # kept for the next tuning on this machine
    lines = (out / "runs.jsonl").read_text()
    assert cli.main(words) == 0
    assert "costs known from before" in capsys.readouterr().err
    assert (out / "runs.jsonl").read_text().startswith(lines)
    assert cli.main(["tune", "--compare", str(out), str(out), "--out", str(tmp_path / "both")]) == 0
    assert "The answer is the same" in capsys.readouterr().out and (tmp_path / "both" / "comparison.html").exists()


@pytest.mark.model
def test_a_lookup_is_foretold_exactly_on_the_real_model(models):
    """The rounds told from the plain text are those that the run then has; all but their times."""
    order = Order(finished([Prompt(TEXT)], "x"))
    bench = RealBench(models, order.base.replace(max_new_tokens=24, dtype="fp32"), lambda *a: None)
    plain = bench.run(PLAIN, order.prompts.prompts[0], 0, 0)
    for c in (Candidate("suffix", 3), Candidate("ngram", 8, adaptive=True)):
        real = bench.run(c, order.prompts.prompts[0], 0, 0)
        told = bench.looked_up(c, plain)
        assert real.ids == plain.ids
        rows = [[(p.proposed, p.accepted, p.rejected, p.emitted) for p in passes] for passes in (told, real.passes)]
        assert rows[0] == rows[1], c.name


def test_candidates_of_a_named_head_and_draft():
    assert {c.draft for c in ladder(["eagle"], [2], "my-head")} == {"my-head"}
    assert {c.proposer: c.draft for c in ladder(["eagle", "draft"], [2], "d")} == {"eagle": None, "draft": "d"}
    with pytest.raises(UserError, match="at least one proposer"):
        ladder([])
