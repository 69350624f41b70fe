"""The command line: what it prints, where, and with which exit code."""

from __future__ import annotations

import argparse
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from fakes import LetterTokenizer, TableSession, job

from engines.cli import main, options, terminal
from engines.cli.compare import default_tries, parse_try
from engines.decode import decode
from engines.errors import UserError
from engines.events import from_json
from engines.fold import fold
from engines.settings import RunSettings

ROOT = Path(__file__).parent.parent
RUN_KEYS = {
    "text", "ids", "reason", "rounds", "emitted", "accepted", "rejected", "corrected", "bonus", "plain", "unjudged",
    "acceptance_rate", "draft_yield", "tokens_per_pass", "acceptance_by_position", "tokens_per_second", "seconds",
    "settings", "versions",
}  # fmt: skip


def call(*args, env=None):
    return subprocess.run(
        [sys.executable, "-m", "engines", *args], capture_output=True, text=True, cwd=ROOT, timeout=280, env=env
    )


BAD = [
    ("run", "--prompt", "x", "--k", "0"),
    ("run", "--prompt", "x", "--k", "many"),
    ("run", "--prompt", "x", "--temperature", "-1"),
    ("run", "--prompt", "x", "--top-p", "0"),
    ("run", "--prompt", "x", "--proposer", "magic"),
    ("run", "--prompt", "x", "--target", "org/name", "--proposer", "draft"),
    ("run", "--prompt", "x", "--skip-layers", "9-4"),
    ("run", "--prompt", "x", "--skip-layers", "a"),
    ("run", "--prompt", "x", "--stop", ""),
    ("run", "--prompt", "x", "--dtype", "int1"),
    ("run", "--prompt", "x", "--max-new-tokens", "0"),
    ("run", "--prompt", "x", "--seed", "-3"),
    ("run", "--prompt", "x", "--prompt-file", "y"),
    ("run",),
    ("run", "--prompt-file", "no/such/file"),
    ("run", "--prompt", "x", "--nonsense"),
    ("run", "--prompt", "x", "--target", "no-such-model"),
    ("run", "--prompt", "x", "--trace", "no/such/folder/t.jsonl"),
    ("compare", "--prompt", "x", "--repeats", "0"),
    ("compare", "--prompt", "x", "--try", "magic k=3"),
    ("compare", "--prompt", "x", "--try", "ngram k:3"),
    ("compare", "--prompt", "x", "--try", "ngram k=x"),
    ("compare", "--prompt", "x", "--try", 'ngram "k'),
    ("compare", "--prompt", "x", "--try", ""),
    ("run", "--prompt", "x", "--draft", "smollm2-135m-instruct"),
    ("run", "--prompt", "x", "--draft", "smollm2-135m-instruct", "--proposer", "ngram"),
    ("run", "--prompt", "x", "--skip-layers", "4-9"),
    ("models", "--fetch", "../../no-such/passwd"),
    ("models", "--fetch", "smollm2-135m-instuct"),
    ("dance",),
    (),
]


@pytest.mark.parametrize("args", BAD, ids=" ".join)
def test_bad_values_give_one_line_and_exit_code_2(args, capsys):
    assert main(args) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("error: ") and err.count("\n") == 1 and "Traceback" not in err


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("compare", "--try", ""), "--try is empty: begin with one of none, draft, ngram"),
        (("compare", "--try", "ngram k=eight"), "k must be a whole number, not 'eight'"),
        (("compare", "--try", "draft draft-temperature=hot"), "draft-temperature must be a number, not 'hot'"),
        (("compare", "--try", "ngram adaptive=maybe"), "write yes or no"),
        (("run", "--draft", "x"), "add --proposer draft (or eagle"),
        (("run", "--skip-layers", "4-9"), "add --proposer layer-skip"),
    ],
)
def test_a_bad_value_says_what_to_write(args, says, capsys):
    assert main([*args, "--prompt", "x"]) == 2
    err = capsys.readouterr().err
    assert says in err and "literal" not in err and "unpack" not in err


def test_one_is_not_many():
    assert [terminal.counted(n, "token") for n in (0, 1, 2)] == ["0 tokens", "1 token", "2 tokens"]
    session = TableSession(seed=2)
    assert "1 token in 1 target pass ·" in terminal.summary(list(decode(job(session, max_new_tokens=1))))


def test_a_prompt_file_that_is_not_text(tmp_path, capsys):
    path = tmp_path / "p"
    path.write_bytes(b"\xff\xfe\x00bad")
    assert main(["run", "--prompt-file", str(path)]) == 2
    assert "UTF-8" in capsys.readouterr().err


def test_help_is_enough_to_work_from():
    out = call("run", "--help").stdout
    options_named = (
        "--prompt --raw --target --proposer --draft --skip-layers --k --adaptive --verify --temperature --top-k "
        "--top-p --min-p --repetition-penalty --seed --max-new-tokens --stop --dtype --trace --json Example"
    )
    for option in options_named.split():
        assert option in out, option


def test_help_and_the_catalogue_need_no_torch():
    code = "import sys; from engines.cli import main\nfor a in (['run', '--help'], ['models']):\n  try: main(a)\n"
    code += "  except SystemExit: pass\nassert not {'torch', 'transformers', 'gradio'} & set(sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "smollm2-135m-instruct" in done.stdout and "qwen2.5-coder-1.5b-instruct" in done.stdout


def test_layers():
    assert options.layers("4-6, 9") == (4, 5, 6, 9)


def test_tries():
    base = RunSettings(seed=3)
    name, settings = parse_try("ngram k=8 max=3 adaptive=yes verify=block", base)
    assert (settings.proposer, settings.k, settings.ngram_max, settings.adaptive) == ("ngram", 8, 3, True)
    assert settings.seed == 3 and settings.verify == "block"
    _, settings = parse_try("draft draft=a/b draft-temperature=0.5 k=2", base)
    assert settings.draft == "a/b" and settings.draft_sampling.temperature == 0.5
    assert [s.k for _, s in default_tries(base)] == [4, 8, 4, 8]
    assert [s.proposer for _, s in default_tries(base.replace(draft="d"))][-2:] == ["draft", "draft"]
    with pytest.raises(UserError, match="--draft"):
        parse_try("draft k=2", base.replace(target="org/name"))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("train", "table", "--store", "s", "--out", "file"), "file"),
        (("run", "--prompt", "bad \udcff byte"), "not UTF-8"),
    ],
)
def test_what_the_system_refuses_is_a_line(words, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("x")
    monkeypatch.setattr("engines.training.table.save_table", lambda store, out: (out / "x").write_text("y"))
    monkeypatch.setattr("engines.training.store.Store", lambda folder: None)
    assert main([*words]) == 2
    err = capsys.readouterr().err
    assert err.startswith("error: ") and said in err and len(err.splitlines()) == 1


@pytest.mark.parametrize(
    ("redirect", "code", "said"),
    [
        ("models > /dev/full", 2, "No space left"),
        ("models >&-", 0, ""),
        ("run --prompt-file - <&-", 2, "no standard input"),
        ("run --prompt-file - < FILE", 2, "not UTF-8"),
    ],
)
def test_streams_that_are_closed_or_full(redirect, code, said, tmp_path):
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\xff")
    command = f"{sys.executable} -m engines {redirect}".replace("FILE", str(tmp_path / "bytes"))
    done = subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == code and said in done.stderr and "Traceback" not in done.stderr


def test_a_draft_that_nobody_named():
    """The one trained for the target, else the catalogue's smaller model; never in the place of one that is named."""
    parser = argparse.ArgumentParser()
    options.add_options(parser)

    def of(*words):
        return options.settings_of(parser.parse_args(["--prompt", "x", *words])).draft

    qwen = ("--target", "qwen2.5-coder-1.5b-instruct")
    assert of("--proposer", "draft") == "smollm2-135m-instruct-draft"
    assert of("--proposer", "draft", *qwen) == "qwen2.5-coder-0.5b-instruct"
    assert of("--proposer", "draft", "--draft", "a/b") == "a/b"
    assert of("--proposer", "ngram") is None
    assert parse_try("draft k=2", RunSettings())[1].draft == "smollm2-135m-instruct-draft"
    assert parse_try("draft k=2", RunSettings(draft="a/b"))[1].draft == "a/b"


class Terminal(io.StringIO):
    def isatty(self):
        return True


def shown(stream, monkeypatch, no_color=False, tokenizer=None, **settings):
    from test_decode import oracle

    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    if no_color:
        monkeypatch.setenv("NO_COLOR", "1")
    session = TableSession(seed=2)
    view = terminal.TerminalView(stream)
    events = list(decode(job(session, oracle(session, (1,)), k=3, max_new_tokens=12, tokenizer=tokenizer, **settings)))
    for event in events:
        view.show(event)
    return stream.getvalue(), fold(events), events


class TestTerminal:
    def test_plain_text_when_not_a_terminal(self, monkeypatch):
        out, view, _ = shown(io.StringIO(), monkeypatch)
        assert out == view.text()

    def test_no_color_is_kept(self, monkeypatch):
        out, view, _ = shown(Terminal(), monkeypatch, no_color=True)
        assert out == view.text()

    def test_states_have_colours_and_marks(self, monkeypatch):
        out, view, _ = shown(Terminal(), monkeypatch)
        for token in view.tokens():
            assert f"\x1b[{terminal.STYLES[token.state]}m{token.text}" in out
        assert out.count("↻") == view.metrics().corrected > 0

    def test_held_tokens_wait(self, monkeypatch):
        text = shown(io.StringIO(), monkeypatch)[1].text()
        out, view, _ = shown(io.StringIO(), monkeypatch, stop=[text[4:9]])
        assert out == view.text() == text[: text.index(text[4:9])]

    def test_control_characters_do_not_reach_the_terminal(self, monkeypatch):
        evil = LetterTokenizer([b"\x1b[2J", b"\x07a\r", "\x9b31mb".encode(), *[b"ok\n"] * 23])
        for no_color in (True, False):
            out, _, _ = shown(Terminal(), monkeypatch, no_color=no_color, tokenizer=evil)
            bare = out
            for style in terminal.STYLES.values():
                bare = bare.replace(f"\x1b[{style}m", "")
            assert "\x1b" not in bare.replace("\x1b[0m", "") and "\x07" not in bare and "\x9b" not in bare

    def test_summary(self, monkeypatch):
        _, view, events = shown(io.StringIO(), monkeypatch)
        text = terminal.summary(events)
        m = view.metrics()
        assert f"{m.emitted} tokens in {m.rounds} target passes" in text and f"accepted {m.accepted}" in text
        assert "ended: length" in text


@pytest.mark.model
class TestOnTheModel:
    def test_json_has_everything(self, tmp_path, capsys):
        trace = tmp_path / "out.jsonl"
        args = ["run", "--prompt", "Name three fruits.", "--proposer", "ngram", "--k", "4", "--max-new-tokens", "24"]
        assert main([*args, "--json", "--trace", str(trace)]) == 0
        report = json.loads(capsys.readouterr().out)
        assert set(report) >= RUN_KEYS
        assert set(report["seconds"]) == {"prefill", "propose", "verify", "sample", "other"}
        assert len(report["ids"]) == report["emitted"] and report["settings"]["k"] == 4
        events = [from_json(line) for line in trace.read_text("utf-8").splitlines()]
        assert events[-1].text == report["text"] and fold(events).metrics().emitted == report["emitted"]

    def test_text_goes_out_and_the_rest_to_standard_error(self, capsys):
        assert main(["run", "--prompt", "Count to five.", "--max-new-tokens", "12"]) == 0
        out, err = capsys.readouterr()
        assert out.strip() and "\x1b" not in out and "target passes" in err and "target passes" not in out

    def test_raw_leaves_the_template_out(self, capsys):
        main(["run", "--prompt", "Once upon a time", "--raw", "--max-new-tokens", "4", "--json"])
        raw = json.loads(capsys.readouterr().out)
        main(["run", "--prompt", "Once upon a time", "--max-new-tokens", "4", "--json"])
        chat = json.loads(capsys.readouterr().out)
        assert raw["prompt_tokens"] == 4 < chat["prompt_tokens"]

    def test_as_a_program(self):
        done = call("run", "--prompt", "Say yes.", "--max-new-tokens", "4")
        assert done.returncode == 0 and done.stdout.strip() and "ended" in done.stderr

    def test_the_default_path_leaves_transformers_alone(self):
        code = (
            "import sys; from engines.cli import main; main(['run', '--prompt', 'Hi', '--max-new-tokens', '2', "
            "'--proposer', 'ngram']); assert 'transformers' not in sys.modules and 'gradio' not in sys.modules"
        )
        done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=200)
        assert done.returncode == 0, done.stderr

    def test_compare(self, capsys):
        prompt = "red green blue white " * 6
        args = ["compare", "--prompt", prompt, "--raw", "--max-new-tokens", "24", "--repeats", "2"]
        args += ["--try", "ngram k=6", "--try", "layer-skip k=2"]
        assert main([*args, "--json"]) == 0
        rows = json.loads(capsys.readouterr().out)
        assert [r["setting"] for r in rows] == ["plain", "ngram k=6", "layer-skip k=2"]
        assert rows[0]["tokens_per_pass"] == 1 and rows[0]["measured"]["median"] == 1
        for row in rows[1:]:
            assert row["text"] in ("identical", "near-tie")
            assert row["measured"]["min"] <= row["measured"]["median"] <= row["measured"]["max"]
            assert row["predicted"] > 0
        assert rows[1]["tokens_per_pass"] > 1

    def test_compare_prints_a_table(self, capsys):
        assert main(["compare", "--prompt", "Hi", "--max-new-tokens", "8", "--repeats", "1", "--try", "ngram k=2"]) == 0
        out = capsys.readouterr().out
        assert "measured speed-up" in out and "too short to measure" in out  # M2
