"""Recorded files: what the program writes is read back, all else is refused in a sentence, nothing crashes later."""

from __future__ import annotations

import contextlib
import copy
import json
import random
import re

import pytest
from fakes import Scripted, TableSession, job
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from app.verdict import verdict
from engines.cli import main
from engines.cli.record import oddity
from engines.decode import decode
from engines.errors import UserError
from engines.events import from_json, to_json
from engines.fold import fold
from engines.presets import PRESETS
from engines.proposers.base import Proposal
from engines.proposers.ngram import NgramProposer
from engines.proposers.recycle import RecycleProposer
from engines.recorded import FOLDER, MAX_BYTES, of_lesson, read, split
from engines.settings import Sampling


def lines_of(**more) -> list[str]:
    """A run of the real loop on a model of eight tokens, as `--trace` writes it."""
    options = {"proposer": RecycleProposer(3), "k": 6, "max_new_tokens": 24, "candidates": 3}
    made = job(TableSession(seed=5), **(options | more))
    made.start.prompt_text, made.start.prompt_tokens = "ab", ["a", "b"]
    made.start.costs = {"verify": {"0": 1.0, "4": 1.2}, "draft": 0.1, "pass_seconds": 0.02}
    made.start.versions = {"machine": "made for a test"}
    return [to_json(event) for event in decode(made)]


class Drawn(Scripted):
    """Draws from a flat law and hands it on, so that q is in the trace."""

    def propose(self, ids, k, go_on, chance):
        import numpy as np

        row = np.full(8, 0.125, dtype=np.float32)
        drawn = [chance.draw(row) for _ in range(k)]
        return Proposal(drawn, np.stack([row] * k), [0.125] * k, [None] * k)


T1 = Sampling(temperature=1.0)
RUNS = {
    "tree": lines_of(),
    "sampled tree": lines_of(sampling=T1, seed=3),
    "copies": lines_of(proposer=NgramProposer(), max_new_tokens=40),
    "drawn": lines_of(proposer=Drawn(None), sampling=T1, seed=1),
    "by block": lines_of(proposer=Drawn(None), sampling=T1, seed=2, verify="block"),
    "plain": lines_of(proposer=None),
    "ends at a token": lines_of(eos=(3, 5), sampling=T1, seed=4),
    "stop string": lines_of(stop=("d", "gh"), sampling=T1, seed=9),
    "stopped before a token": lines_of(stopped=lambda: True),
    "one token": lines_of(max_new_tokens=1),
    "full": lines_of(context=9),
}


@pytest.mark.parametrize("name", RUNS)
def test_what_a_run_writes_is_read_back(name):
    lines = RUNS[name]
    (run,) = split(lines)
    assert [to_json(event) for event in run] == lines
    both = split("\ufeff" + "\r\n".join([*lines, "", *lines]) + "\n")
    assert [len(r) for r in both] == [len(lines)] * 2


def test_the_runs_are_of_many_shapes():
    """Else the fuzzing below would look at less than it says."""
    events = [from_json(line) for lines in RUNS.values() for line in lines]
    verdicts = [e for e in events if e.type == "verdict"]
    assert {e.reason for e in events if e.type == "done"} >= {"eos", "stop", "stopped", "length"}
    assert {v.extra.kind for v in verdicts if v.extra} == {"corrected", "bonus", "plain"}
    assert any(v.extra is None for v in verdicts) and any(v.cut for v in verdicts) and any(v.held for v in verdicts)
    assert any(j.node for v in verdicts for j in v.judged) and any(j.top_q for v in verdicts for j in v.judged)


def test_text_with_breaks_of_other_kinds_stays_on_its_line():
    lines = RUNS["plain"].copy()
    start = json.loads(lines[0])
    start["prompt_tokens"], start["prompt_text"] = ["a\u2028", "\u0085b"], "a\u2028\u0085b"
    lines[0] = json.dumps(start, ensure_ascii=False)
    assert split("\n".join(lines))[0][0].prompt_text == "a\u2028\u0085b"


def change(name: str, index: int, path: str, value: object) -> list[str]:
    """The lines of a run with one value replaced; `path` as "judged.0.p"."""
    lines = RUNS[name].copy()
    data = json.loads(lines[index])
    *way, last = path.split(".")
    at = data
    for step in way:
        at = at[int(step)] if isinstance(at, list) else at[step]
    at[int(last) if isinstance(at, list) else last] = value
    lines[index] = json.dumps(data)
    return lines


WRONG = [
    ("tree", 0, "v", 2, "format version 2"),
    ("tree", 0, "v", True, "v must be a whole number"),
    ("tree", 0, "target", 5, "target must be text"),
    ("tree", 0, "dtype", " ", "dtype is blank"),
    ("tree", 0, "prompt_ids", [0, -1], "prompt_ids"),
    ("tree", 0, "prompt_text", "abc", "do not belong together"),
    ("tree", 0, "settings.k", "4", "settings.k must be a whole number"),
    ("tree", 0, "settings.adaptive", 1, "settings.adaptive must be true or false"),
    ("tree", 0, "settings.draft", 7, "settings.draft must be text"),
    ("tree", 0, "settings.skip_layers", 5, "settings.skip_layers must be a list"),
    ("tree", 0, "settings.sampling", "hot", "settings.sampling must be an object"),
    ("tree", 0, "settings.sampling", None, "must not be null"),
    ("tree", 0, "settings.sampling.temperature", float("nan"), "must be a number"),
    ("tree", 0, "settings.colour", "red", "Unknown setting: colour"),
    ("tree", 0, "versions.torch", 2, "versions must be text"),
    ("tree", 0, "costs.verify", {}, "costs.verify"),
    ("tree", 0, "costs.verify", {"x": 1}, "costs.verify"),
    ("tree", 0, "costs.draft", "0", "costs.draft must be a number"),
    ("tree", 0, "colour", 1, "colour"),
    ("tree", 1, "round", 2, "round 2 comes where round 1 should"),
    ("tree", 1, "seconds", -1, "seconds is out of range"),
    ("tree", 1, "tokens", {}, "tokens must be a list"),
    ("tree", 3, "tokens.0.q", "high", 'q must be a number, not "high"'),
    ("tree", 3, "tokens.0.q", 2, "q is out of range"),
    ("tree", 3, "tokens.0.id", 1.0, "id must be a whole number"),
    ("tree", 3, "tokens.0.text", "\ud800", "half a character"),
    ("tree", 3, "tokens.0.parent", 0, "token 0 of the tree"),
    ("tree", 3, "tokens.0.parent", None, "token 0 of the tree"),
    ("tree", 4, "judged.0.p", True, "p must be a number"),
    ("tree", 4, "judged.0.node", 99, "out of turn"),
    ("tree", 4, "judged.0.id", 99, "not the one that was proposed"),
    ("tree", 4, "judged.0.top_p", [[1, "a"]], "top_p"),
    ("tree", 4, "accepted", 7, "accepted is 7"),
    ("tree", 4, "cut", 1, "cut is 1"),
    ("tree", 4, "held", 1000, "held is 1000"),
    ("tree", 4, "extra.kind", "plain", "is called plain"),
    ("tree", 4, "extra.kind", "best", "kind"),
    ("tree", 4, "extra", [], "extra"),
    ("tree", 4, "seconds", {"tea": 1.0}, "unknown phase"),
    ("drawn", 2, "judged.0.accepted", 1, "true or false"),
    ("tree", -1, "keep", 25, "keep is 25"),
    ("tree", -1, "ids.0", 99, "ids are not"),
    ("tree", -1, "text", "<b>", "text is not"),
    ("tree", -1, "reason", "bored", "reason must be one of"),
    ("tree", -1, "metrics.emitted", 25, "metrics.emitted"),
    ("tree", -1, "metrics.tokens_per_second", 1e6, "metrics.tokens_per_second"),
    ("tree", -1, "metrics.fame", 1, "metrics.fame"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "index", "path", "value", "says"), WRONG)
def test_one_wrong_value_is_named_with_its_line(name, index, path, value, says):
    lines = change(name, index, path, value)
    with pytest.raises(UserError, match=re.escape(says)) as caught:
        split(lines)
    number = index + 1 if index >= 0 else len(lines)
    assert f"line {number} is wrong" in str(caught.value)


def without(lines, *indices):
    return [line for i, line in enumerate(lines) if i not in [j % len(lines) for j in indices]]


LINES = RUNS["tree"]


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ([], "no run"),
        (["", "  "], "no run"),
        (["\x00"], "line 1 "),
        (["{" * 5000], "line 1 "),
        (["1" * 9000], "line 1 "),
        (without(LINES, 0), "line 1 is wrong: a 'draft' line must belong to a run"),
        (without(LINES, 1), "line 2 is wrong: a verdict without a proposal"),
        (without(LINES, 2), "line 3 is wrong: a round begins before the last one was judged"),
        (without(LINES, -1), f"cut off after line {len(LINES) - 1}"),
        ([*LINES, LINES[1]], f"line {len(LINES) + 1} is wrong: a 'draft' line must belong"),
        ([*LINES[:5], *LINES], "line 6 is wrong: a run begins before"),
        ([*LINES[:5], *LINES[7:]], "line 6 is wrong: round 4 comes where round 3 should"),
        (LINES * 33, "more than 32 runs"),
        ([LINES[0], LINES[1] + " " * MAX_BYTES], "larger than 20 MB"),
    ],
)
def test_order_and_size(lines, says):
    with pytest.raises(UserError, match=re.escape(says)):
        split(lines)


def test_a_run_of_more_tokens_than_can_be_shown_is_refused(monkeypatch):
    monkeypatch.setattr("engines.recorded.MAX_TOKENS", 24)
    assert split(RUNS["tree"])[0][-1].keep == 24
    monkeypatch.setattr("engines.recorded.MAX_TOKENS", 23)
    with pytest.raises(UserError, match="more than 23 tokens"):
        split(RUNS["tree"])


def test_a_span_beyond_the_text_is_refused():
    index, data = next((i, json.loads(line)) for i, line in enumerate(RUNS["copies"]) if '"source"' in line and i > 3)
    for bad in ([0, 10_000], [5, 5], [-1, 2], [1]):
        data["tokens"][0]["source"] = bad
        lines = [*RUNS["copies"][:index], json.dumps(data), *RUNS["copies"][index + 1 :]]
        with pytest.raises(UserError, match=f"line {index + 1} is wrong: source"):
            split(lines)


def paths(value, way=()):
    """Every place in a JSON value."""
    if way:
        yield way
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from paths(inner, (*way, key))


VALUES = [
    None, True, False, 0, 1, -1, 2, 3.5, -0.5, 1e308, 10**400, 2**40, "", "x", "\udfff", [], {}, [[]], [1, 2],
    {"a": 1}, [None], float("inf"), [[1, "a", 0.5]], "none", "eos",
]  # fmt: skip


def broken(seed: int) -> list[str]:
    """A good file with one to three things changed: a value, a key, the order of lines."""
    rng = random.Random(seed)
    lines = [*RUNS[rng.choice(sorted(RUNS))]]
    for _ in range(rng.randint(1, 3)):
        index = rng.randrange(len(lines))
        kind = rng.random()
        if kind < 0.1:
            lines[index] = lines[rng.randrange(len(lines))]
        elif kind < 0.15:
            del lines[index]
            if not lines:
                return lines
        else:
            with contextlib.suppress(ValueError):
                data = json.loads(lines[index])
                *way, last = rng.choice(list(paths(data)))
                at = data
                for step in way:
                    at = at[step]
                kind = rng.random()
                if kind < 0.7:
                    at[last] = copy.deepcopy(rng.choice(VALUES))
                elif kind < 0.85 and isinstance(at, dict):
                    del at[last]
                elif isinstance(at, list):
                    at.append(copy.deepcopy(at[last]))
                lines[index] = json.dumps(data)
    return lines


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 10**9))
@example(seed=2943)  # a version of four hundred digits
def test_broken_files_are_refused_or_harmless(seed):
    """What passes must not crash anything that shows or compares runs."""
    try:
        runs = split(broken(seed))
    except UserError as error:
        assert "\n" not in str(error) and len(str(error)) < 400
        return
    plain = split(RUNS["plain"])[0]
    for run in runs:
        folded = fold(run)
        assert folded.text() == run[-1].text and folded.metrics().emitted == run[-1].keep
        assert split([to_json(event) for event in run]) == [run]
        assert json.dumps(verdict(plain, run), allow_nan=False)
        assert json.dumps(verdict(run, run), allow_nan=False)


@settings(max_examples=200, deadline=None)
@given(
    text=st.text(max_size=200)
    | st.recursive(st.none() | st.booleans() | st.floats() | st.text(), st.lists).map(json.dumps)
)
def test_any_text_is_refused(text):
    with pytest.raises(UserError):
        split(text)


def test_files(tmp_path):
    good = tmp_path / "run.jsonl"
    good.write_text("\n".join(RUNS["tree"]), encoding="utf-8-sig")
    assert len(read(good)) == 1
    (tmp_path / "bad").write_bytes(b"\xff\xfe\x00")
    for path, says in ((tmp_path / "bad", "UTF-8"), (tmp_path / "none", "Cannot read"), (tmp_path, "Cannot read")):
        with pytest.raises(UserError, match=says):
            read(path)
    for name in ("nothing", "../presets", "", "a/b"):
        with pytest.raises(UserError, match="no recorded run"):
            of_lesson(name)


@pytest.mark.parametrize("name", PRESETS)
def test_each_preset_has_its_recorded_runs(name):
    """Made by `python -m engines record` from the very preset, with machine and versions."""
    preset = PRESETS[name]
    assert (FOLDER / f"{name}.jsonl").stat().st_size < 250_000
    runs = of_lesson(name)
    panels = runs[-len(preset.panels) :]
    plain = runs[: -len(preset.panels)]
    assert [run[0].settings for run in panels] == [s.to_json() for s in preset.settings()]
    assert plain and all(run[0].proposer == "none" for run in plain)
    for run in runs:
        start = run[0]
        assert {"playground", "torch", "python", "machine"} <= start.versions.keys()
        assert preset.prompt.strip() in start.prompt_text and start.costs is not None
        assert run[-1].reason in ("length", "eos")
    for run in panels:
        assert any(verdict(base, run)["speedup"] is not None for base in plain)
    assert oddity(runs) == ""


def test_the_command_refuses_what_it_cannot_do(capsys, tmp_path):
    assert main(["record", "dance"]) == 2
    assert "There is no preset called 'dance'" in capsys.readouterr().err
    blocked = tmp_path / "file"
    blocked.write_text("")
    assert main(["record", "idle", "--out", str(blocked)]) == 2
    assert "Cannot write to" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("which", "factor", "says"),
    [(0, 1.0, ""), (1, 1.5, ""), (1, 0.1, "tokens a pass were"), (2, 1.0, ""), (2, 1.2, "as fast as itself"),
     (2, 0.8, "1.00 tokens a pass were")],
)  # fmt: skip
def test_a_machine_that_was_disturbed_is_noticed(which, factor, says):
    """A plain run, a speculative one, and the plain one again: the times of one of them are multiplied."""
    plain, run = copy.deepcopy(of_lesson("round"))
    runs = [plain, run, copy.deepcopy(plain)]
    for event in runs[which]:
        if event.type == "verdict":
            event.seconds = {name: factor * x for name, x in event.seconds.items()}
    assert says in oddity(runs) and bool(says) == bool(oddity(runs))


def test_a_disturbed_recording_is_not_kept(monkeypatch, tmp_path, capsys):
    tries = []
    monkeypatch.setattr("engines.models.Models.prepare", lambda *a: None)
    monkeypatch.setattr("engines.cli.record.record", lambda *a: tries.append(1))
    monkeypatch.setattr("engines.cli.record.oddity", lambda runs: "one run was odd")
    assert main(["record", "round", "--out", str(tmp_path)]) == 2
    assert len(tries) == 4 and "one run was odd in each of 4 tries" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.model
def test_the_command_records_a_preset(model_folder, models, monkeypatch, tmp_path, capsys):
    """On the real model, with fewer tokens."""
    import dataclasses

    monkeypatch.setitem(PRESETS, "round", dataclasses.replace(PRESETS["round"], max_tokens=12))
    monkeypatch.setattr("engines.models.Models", lambda: models)
    monkeypatch.setattr("engines.cli.record.oddity", lambda runs: "")  # other tests run beside this one
    assert main(["record", "round", "--out", str(tmp_path)]) == 0
    assert "round: 2 runs" in capsys.readouterr().out
    plain, run = read(tmp_path / "round.jsonl")
    assert (plain[0].proposer, run[0].proposer) == ("none", "ngram") and plain[-1].ids == run[-1].ids
    assert len(run[2].extra.top) == 5 and run[0].costs["pass_seconds"] > 0
    assert [p.name for p in tmp_path.iterdir()] == ["round.jsonl"]
