"""The tab "Tuner" without a browser: what its fields come to, what is told while it works, and what is kept."""

from __future__ import annotations

import csv
import dataclasses
import io
import json

import pytest
from tuner_bench import NoModels, PageBench

from app import tuner_form
from app.tuner_form import BUILT_IN, FILE, LIST, check, columns_of, order_from, prompts_from, same_work, told
from app.tuner_run import DOWNLOADS, Seats, TunerRun
from app.tuner_words import Names, words
from engines.errors import UserError
from engines.service import Engine
from engines.settings import RunSettings
from engines.tune.candidates import Candidate, ladder
from engines.tune.exports import ENGINES, WARNING
from engines.tune.workloads import kinds

T = "smollm2-135m-instruct"


def form(**more):
    usual = {
        "workload": BUILT_IN, "kinds": kinds(), "each": 3, "file": None, "column": None, "pasted": "",
        "proposers": ["ngram", "recycle", "eagle"], "draft": "some-draft", "temperature": 0, "max_tokens": 64,
        "budget": 600,
    }  # fmt: skip
    return {**usual, **more}


def order(**more):
    asked = form(**more)
    return order_from(T, asked, prompts_from(asked))


def written(folder, name, content):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(path)


# -- prompts -----------------------------------------------------------------------------------------------------------


def test_the_first_answer_needs_no_file():
    prompts = prompts_from(form())
    assert told(prompts) == "24 prompts of 8 kinds." and len({p.text for p in prompts.prompts}) == 24
    assert {p.category for p in prompts_from(form(kinds=["chat", "code"], each=1)).prompts} == {"chat", "code"}


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("mine.jsonl", '{"prompt": "one"}\r\n\r\n{"turns": ["two"], "category": "x"}\r\n', "2 prompts of 2 kinds."),
        ("mine.txt", "\ufeffone\nstill one\n\n\ntwo\n", "2 prompts."),
        ("mine.csv", "prompt,category\nwhat,a\nwhere,b\n", "2 prompts of 2 kinds."),
        ("twice.jsonl", '{"prompt": "a"}\n{"prompt": "a"}\n', "1 prompt. 1 prompt occurred before"),
    ],
)
def test_a_file_is_read_as_people_have_it(tmp_path, name, content, said):
    assert told(prompts_from(form(workload=FILE, file=written(tmp_path, name, content)))).startswith(said)


def test_a_table_is_read_by_the_column_that_is_chosen(tmp_path):
    named = written(tmp_path, "t.tsv", "id\tquestion\tid\n1\twhat is it?\tx\n")
    assert columns_of(named) == ["id", "question"] and columns_of(written(tmp_path, "t.txt", "a,b")) == []
    assert columns_of(None) == [] and columns_of(str(tmp_path / "gone.csv")) == []
    assert prompts_from(form(workload=FILE, file=named, column="question")).prompts[0].text == "what is it?"
    with pytest.raises(UserError, match=r"^t.tsv has no column 'prompt'; choose one of its columns: id, question"):
        prompts_from(form(workload=FILE, file=named))
    # A column that was chosen for another file says nothing of this one.
    text = written(tmp_path, "t.txt", "one\n\ntwo")
    assert len(prompts_from(form(workload=FILE, file=text, column="question")).prompts) == 2


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("bad.jsonl", '{"prompt": "a"}\n\n{"prompt": }\n', r"^bad.jsonl, line 3 is not JSON"),
        ("bad.jsonl", '{"prompt": "a"}\n{"answer": "b"}\n', r"^bad.jsonl, line 2 has no prompt"),
        ("bad.csv", 'prompt\nfine\n"never closed\n', r"^bad.csv, line \d is not a line of a table"),
        ("bad.txt", b"\x00\xff\xfe", r"^bad.txt is not UTF-8 text \(byte 1\)"),
        ("bad.txt", "\n\n", r"bad.txt holds no prompts"),
    ],
)
def test_a_bad_line_is_named_by_number_and_reason(tmp_path, name, content, message):
    with pytest.raises(UserError, match=message) as caught:
        prompts_from(form(workload=FILE, file=written(tmp_path, name, content)))
    assert str(tmp_path) not in str(caught.value)


def test_a_file_is_bounded(tmp_path, monkeypatch):
    named = written(tmp_path, "long.txt", "\n\n".join(f"prompt {i}" for i in range(2500)))
    prompts = prompts_from(form(workload=FILE, file=named))
    assert len(prompts.prompts) == 1000 and "Of 2,500 prompts 1,000 were taken, evenly spaced." in told(prompts)
    assert prompts.prompts[-1].text == "prompt 2497"
    monkeypatch.setattr(tuner_form, "MOST_BYTES", 100)
    with pytest.raises(UserError, match=r"long.txt is longer than"):
        prompts_from(form(workload=FILE, file=named))
    with pytest.raises(UserError, match=r"gone.txt cannot be read"):
        prompts_from(form(workload=FILE, file=str(tmp_path / "gone.txt")))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"workload": FILE}, "Choose a file"),
        ({"workload": LIST}, "Paste your prompts"),
        ({"workload": LIST, "pasted": '{"prompt": 3}'}, "The list, line 1 has no prompt"),
        ({"workload": LIST, "pasted": "x" * 200_001}, "give a file instead"),
        ({"kinds": []}, "at least one kind"),
        ({"each": None}, "Fill in a number for prompts of each kind"),
        ({"each": 9}, "take 1 to 8"),
        ({"proposers": []}, "at least one proposer"),
        ({"proposers": ["draft"], "draft": " "}, "Choose a draft model"),
        ({"max_tokens": 8}, "max tokens must lie in 16 to 512"),
        ({"max_tokens": None}, "Fill in a number for max tokens"),
        ({"budget": 0}, "seconds for the time budget"),
        ({"budget": None}, "seconds for the time budget"),
        ({"temperature": None}, "Fill in a number for temperature"),
        ({"temperature": 11}, "temperature must lie in 0 to 10"),
    ],
)
def test_what_was_typed_wrongly_is_a_sentence_in_the_pages_words(fields, message):
    with pytest.raises(UserError, match=message) as caught:
        order(**fields)
    assert "--" not in str(caught.value)


def test_the_fields_come_to_an_order():
    made = order(workload=LIST, pasted="one\ntwo", temperature=0.7, proposers=["draft", "ngram"], max_tokens=32)
    assert [p.text for p in made.prompts.prompts] == ["one", "two"] and made.base.sampling.temperature == 0.7
    assert made.proposers == ("ngram", "draft") and made.draft == "some-draft" and made.base.max_new_tokens == 32
    assert order().draft is None  # the field is there, and hidden
    assert check(T, form(proposers=["ngram"])).startswith("11 settings of 1 proposer to choose among, in about 600 s")
    assert same_work(order(), order(budget=5)) and not same_work(order(), order(max_tokens=32))


def test_settings_are_named_in_the_pages_words():
    assert words(Candidate("ngram", 8)) == "n-gram lookup (k = 8)"
    assert words(Candidate("eagle", 8, branch=3, adaptive=True)) == "trained head (a tree, k up to 8)"
    candidates = ladder(["ngram", "suffix", "recycle", "eagle", "layer-skip", "auto"])
    names = Names(candidates)
    assert len({names.of(c.name) for c in candidates}) == len(candidates)
    said = names.within("Turn it on: ngram k=16, then ngram k=1; ngram k=16 adaptive=yes.")
    assert said == "Turn it on: n-gram lookup (k = 16), then n-gram lookup (k = 1); n-gram lookup (k up to 16)."
    assert names.of("recycle") == "token recycling" and names.of("prompt 3") == "prompt 3"


# -- a tuning under way ------------------------------------------------------------------------------------------------


@pytest.fixture
def simulated(monkeypatch):
    monkeypatch.setattr("engines.tune.real.RealBench", PageBench)
    made = []

    def start(**more):
        made.append(Engine(NoModels(**more)))
        return made[-1]

    yield start
    for engine in made:
        engine.close()


def test_a_tuning_is_told_step_by_step_and_ends_with_report_and_files(simulated, tmp_path):
    engine = simulated(delay=0.003)
    run = TunerRun(engine, dataclasses.replace(order(), out=tmp_path / "1"))
    frames = [json.loads(frame) for frame in run.frames()]
    states = list(dict.fromkeys(f["state"] for f in frames))
    assert "running" in states and states[-1] == "done"
    running = [f for f in frames if f["state"] == "running"]
    assert all(0 <= f["fraction"] <= 1 for f in running)
    said = [f["message"] for f in running]
    assert all("At most " in m or m.startswith("The report is being written.") for m in said)
    assert any(m.startswith("Measuring acceptance: prompt ") and " runs so far." in m for m in said)
    assert all(f["report"] is None for f in frames[:-1])
    last = frames[-1]
    assert "of measuring. Ended:" in last["message"] and last["notes"][0] == "What rounds cost here was measured."
    report = last["report"]
    assert report["answer"] == "on" and report["sentence"].startswith("Turn it on: trained head (k = ")
    assert "runner-up is" in report["sentence"] and "k=" not in report["sentence"] and report["why"]
    assert 1 <= len(report["finalists"]) <= 4 and len(report["kinds"]) == 8
    shown = report["kinds"][0]
    assert set(shown["measured"]) <= set(report["finalists"]) and set(shown["predicted"]) <= set(report["finalists"])
    values = [row["measured"]["value"] for row in report["settings_table"] if row["measured"]]
    assert values == sorted(values, reverse=True) and report["settings_table"][-1]["measured"] is None
    settings = RunSettings.from_json(report["settings"])  # what the Playground's panel is set to
    assert settings.proposer == "eagle" and settings.target == T and not settings.remember
    assert [e["name"] for e in report["exports"]] == list(ENGINES)
    assert all(WARNING in e["text"] and e["text"].startswith("# Written for ") for e in report["exports"])
    assert set(run.files) == set(DOWNLOADS) and all(path.parent == tmp_path / "1" for path in run.files.values())
    page = run.files["report.html"].read_text(encoding="utf-8")
    assert "&lt;b&gt;simulated&lt;/b&gt;" in page and "<b>simulated" not in page
    rows = list(csv.DictReader(io.StringIO(run.files["runs.csv"].read_text(encoding="utf-8"))))
    assert len(rows) == len(json.loads(run.files["report.json"].read_text(encoding="utf-8"))["runs"])


def test_stop_keeps_what_is_known_and_the_same_work_goes_on_from_there(simulated, tmp_path):
    engine = simulated(delay=0.02)
    seat = Seats(tmp_path).of("a tab")
    run = seat.begin(engine, order())
    frames = []
    for frame in run.frames():
        frames.append(json.loads(frame))
        if engine._models.runs > 6:
            run.stop()
    assert frames[-1]["state"] == "stopped" and "what is known till then" in frames[-1]["message"]
    known = len(run.report["runs"])
    assert known > 2 and frames[-1]["report"]["settings_table"] and frames[-1]["report"]["answer"] == "unknown"
    assert frames[-1]["report"]["finalists"]  # what is expected to bring most
    assert frames[-1]["report"]["guess"].startswith("Predicted best, not confirmed: ")
    engine._models.delay = 0
    again = seat.begin(engine, order())
    assert again.order.out == run.order.out
    last = [json.loads(frame) for frame in again.frames()][-1]
    assert last["state"] == "done" and len(again.report["runs"]) > known
    same = ("block", "prompt", "candidate", "tokens", "passes")
    assert [[r[n] for n in same] for r in again.report["runs"][:known]] == [
        [r[n] for n in same] for r in run.report["runs"]
    ]
    other = seat.begin(engine, order(max_tokens=32))
    assert other.order.out != run.order.out and not run.order.out.exists()
    other.stop()
    seat.leave()
    assert not seat.folder.exists()


def test_leave_it_off_and_what_cannot_be_run_are_said(simulated, tmp_path):
    engine = simulated(seed=2)
    run = TunerRun(engine, dataclasses.replace(order(proposers=["recycle", "auto"]), out=tmp_path / "1"))
    last = [json.loads(frame) for frame in run.frames()][-1]
    assert last["state"] == "done" and last["report"]["answer"] == "off"
    assert last["report"]["sentence"].startswith("Leave it off: ")
    assert any("auto is not simulated" in line for line in last["report"]["dropped"]), last["report"]["dropped"]
    assert all("--spec" not in e["text"] for e in last["report"]["exports"] if e["name"] == "llama.cpp")


def test_a_fault_of_the_engine_is_the_last_word(simulated, tmp_path, monkeypatch):
    def broken(*_):
        raise UserError("k must lie in 1 to 3.")

    monkeypatch.setattr("engines.tune.real.RealBench", broken)
    run = TunerRun(simulated(), dataclasses.replace(order(), out=tmp_path / "1"))
    last = [json.loads(frame) for frame in run.frames()][-1]
    assert last["state"] == "error" and last["message"] == "k must lie in 1 to 3." and not run.files
    stopped = TunerRun(simulated(), order())
    stopped.stop()
    last = [json.loads(frame) for frame in stopped.frames()][-1]
    assert (last["state"], last["message"]) == ("stopped", "Stopped before anything was measured.")
