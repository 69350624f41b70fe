"""What comes of a tuning: the page, the files, the comparison, the settings for other engines."""

from __future__ import annotations

import csv
import json
import re
import runpy
import sys
from pathlib import Path

import pytest
from tune_machines import LIMIT, SimulatedBench, world

from engines.errors import UserError
from engines.settings import RunSettings
from engines.tune import compare
from engines.tune.exports import ENGINES, exports, options, used_options
from engines.tune.figures import figures
from engines.tune.html import page
from engines.tune.ladder import Options, Tuner
from engines.tune.order import Order
from engines.tune.prompts import Prompt, finished
from engines.tune.write import read, runs_csv, write


def tuned(seed):
    here = world(seed)
    bench = SimulatedBench(here)
    *_, last = Tuner(bench, bench.prompts(), here.candidates, Options(300, LIMIT)).run()
    return last.report


@pytest.fixture(scope="module")
def report():
    return tuned(17)


@pytest.fixture(scope="module")
def other():
    return tuned(20)


def test_the_files_are_written_and_read_back(report, tmp_path):
    files = write(report, tmp_path / "deep" / "report")
    names = {str(f.relative_to(tmp_path / "deep" / "report")) for f in files}
    assert {"report.html", "report.json", "runs.csv", "exports/llama-cpp.sh", "exports/transformers.py"} <= names
    assert read(str(tmp_path / "deep" / "report")) == json.loads(json.dumps(report))
    rows = list(csv.DictReader((tmp_path / "deep" / "report" / "runs.csv").open()))
    assert len(rows) == len(report["runs"]) and {"candidate", "tokens", "seconds", "category"} <= set(rows[0])
    assert runs_csv({"runs": []}) == "block\n"


def test_the_page_needs_nothing_else_and_holds_plotly_once(report):
    html = page(report, exports(report))
    assert html.count("plotly.js v") == 1
    text = re.sub(r"<script>.*?</script>", "", html, flags=re.S)
    assert not re.search(r"""(?:src|href)=["']""", text) and "http" not in text.replace("http-equiv", "")
    assert report["verdict"]["sentence"].replace("'", "&#x27;") in html
    plots = json.loads(re.search(r'id="plots">(.*?)</script>', html, re.S)[1])
    assert {"finalists", "curves", "categories", "acceptance", "time", "calibration"} == set(plots)
    for name in plots:
        assert f'id="plot-{name}"' in html


def test_texts_of_others_are_escaped(report):
    evil = "</script><script>alert(1)</script><b>&"
    bad = json.loads(json.dumps(report))
    bad["verdict"]["sentence"] = bad["why"][0] = bad["notes"][0] = bad["of"]["target"] = evil
    bad["categories"][0]["name"] = bad["candidates"][0]["name"] = evil
    html = page(bad, exports(bad))
    assert "<script>alert" not in html and "<b>&" not in re.sub(r"<script.*?</script>", "", html, flags=re.S)
    assert compare.page(bad, report).count("<script>alert") == 0


def test_figures_of_a_tuning_that_was_stopped_at_once():
    here = world(17)
    *_, last = Tuner(SimulatedBench(here), SimulatedBench(here).prompts(), here.candidates, stopped=lambda: True).run()
    assert set(figures(last.report)) == {"calibration"}
    assert "Nothing can be said yet" in page(last.report, exports(last.report))


def test_two_reports_are_compared(report, other):
    same = compare.compare(report, report)
    assert same["sentence"].startswith("The answer is the same") and not same["cautions"]
    assert same["rows"] and not any(r["apart"] for r in same["rows"])
    found = compare.compare(report, other)
    assert (
        found["sentence"].startswith("The answers differ: A turns it on with")
        and "B leaves it off" in found["sentence"]
    )
    assert any("prompts differ" in c for c in found["cautions"]) and any("target" in c for c in found["cautions"])
    assert any(r["apart"] for r in found["rows"])
    lines = compare.as_lines(found)
    assert "tokens/s" in lines and "(predicted)" in lines and "differ" in lines
    html = compare.page(report, other)
    assert html.count("plotly.js v") == 1 and 'id="plot-both"' in html


@pytest.mark.parametrize("content", ["{", "[]", '{"kind": "x"}', '{"kind": "tuning", "v": 99}'])
def test_what_is_no_report_is_refused(tmp_path, content):
    (tmp_path / "report.json").write_text(content)
    with pytest.raises(UserError, match="not a tuning report|report version 99"):
        read(str(tmp_path))
    with pytest.raises(UserError, match="cannot be read"):
        read(str(tmp_path / "none"))


# -- for other engines -----------------------------------------------------------------------------------------------


def recommending(who, k=5, draft=None, target="qwen2.5-coder-1.5b-instruct"):
    best = None if who is None else {"proposer": who, "k": k, "draft": draft}
    return {"verdict": {"on": who is not None, "best": best}, "of": {"target": target}}


WHO = [None, "ngram", "suffix", "recycle", "eagle", "layer-skip", "auto", "draft"]


@pytest.mark.parametrize("who", WHO)
def test_every_export_uses_only_what_the_stored_list_has(who):
    made = exports(recommending(who, draft="qwen2.5-coder-0.5b-instruct" if who == "draft" else None))
    assert set(made) == set(ENGINES)
    for name, e in made.items():
        known = options()[ENGINES[name]]
        assert e["version"] == known["version"] and e["text"]
        used = used_options(name, e["text"])
        assert set(used) <= set(known["options"]), (name, used)
        assert not set(used) & set(known.get("removed", [])) and not re.search(r"--draft-(max|min)", e["text"])
        for option, values in known.get("values", {}).items():
            found = re.search(rf"{option} (\S+)", e["text"])
            assert found is None or found[1] in values
        if who is None:
            assert "stays off" in e["note"] and not re.search(r"--spec|draftModel", e["text"])
        else:
            assert "k carries over only as a starting point" in e["note"]


def test_the_draft_and_k_arrive_where_they_belong():
    made = exports(recommending("draft", 5, "qwen2.5-coder-0.5b-instruct"))
    assert "-md Qwen2.5-Coder-0.5B-Instruct.gguf" in made["llama.cpp"]["text"]
    assert (
        "--spec-type draft-simple" in made["llama.cpp"]["text"] and "--spec-draft-n-max 5" in made["llama.cpp"]["text"]
    )
    config = json.loads(re.search(r"--speculative-config '(.*)'", made["vLLM"]["text"])[1])
    assert config == {
        "method": "draft_model", "model": "Qwen/Qwen2.5-Coder-0.5B-Instruct", "num_speculative_tokens": 5
    }  # fmt: skip
    assert "--speculative-num-steps 5" in made["SGLang"]["text"]
    assert "--speculative-num-draft-tokens 6" in made["SGLang"]["text"]  # it counts the rows verified
    assert '"speculativeDecodingNumDraftTokensExact": 5' in made["LM Studio"]["text"]
    config = json.loads(re.search(r"--speculative-config '(.*)'", exports(recommending("ngram"))["vLLM"]["text"])[1])
    known = options()["vllm"]
    assert (
        set(config) <= set(known["keys"]) and config["method"] in known["methods"] and config["prompt_lookup_min"] == 1
    )


def tiny(folder, seed=0):
    import torch
    from test_layer_search import tiny as make

    make(folder)
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace
    from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

    if seed:
        model = AutoModelForCausalLM.from_pretrained(folder)
        torch.manual_seed(seed)
        with torch.no_grad():
            model.lm_head.weight.normal_(0, 0.3)
        model.save_pretrained(folder)
    words = {f"w{i}": i for i in range(96)} | {"[UNK]": 96}
    tokenizer = Tokenizer(WordLevel(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="[UNK]", pad_token="[UNK]").save_pretrained(folder)


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pair")
    tiny(folder / "target")
    tiny(folder / "draft", seed=3)
    return folder


@pytest.mark.parametrize("who", ["draft", "ngram", None])
def test_the_transformers_script_runs(pair, tmp_path, monkeypatch, capsys, who):
    made = exports(recommending(who, 3, str(pair / "draft") if who == "draft" else None, str(pair / "target")))
    script = tmp_path / "run.py"
    script.write_text(made["transformers"]["text"])
    monkeypatch.setattr(sys, "argv", [str(script), "--prompt", "w1 w2 w3 w1 w2", "--max-new-tokens", "12"])
    runpy.run_path(str(script), run_name="__main__")
    lines = capsys.readouterr().out.splitlines()
    assert re.match(r"plain: \d", lines[0]) and lines[-1].startswith("w")
    how = {"draft": "draft, k = 3", "ngram": "lookup, k = 3"}.get(who)
    assert re.match(rf"{how}: \d", lines[1]) if how else len(lines) == 2


# -- what a tuning is asked to do --------------------------------------------------------------------------------------


def order(**changes):
    return Order(finished([Prompt("a")], "x"), **changes)


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"budget": 0.5}, "budget must lie in 1"),
        ({"base": RunSettings(max_new_tokens=8)}, "16 or more"),
        ({"proposers": ["none"]}, "'none' cannot be tuned"),
        ({"proposers": ["draft"]}, "name one with --draft"),
        ({"ks": [40]}, "k must lie in 1 to 32"),
    ],
)
def test_an_order_that_cannot_be_is_refused_at_once(changes, match):
    with pytest.raises(UserError, match=match):
        order(**changes)


def test_what_is_tried_by_default():
    assert order().usual() == ["ngram", "suffix", "recycle", "eagle", "layer-skip", "auto"]
    assert order(base=RunSettings(target="x", max_new_tokens=32)).usual() == [
        "ngram", "suffix", "recycle", "layer-skip", "auto"
    ]  # fmt: skip
    assert "draft" in order(draft="qwen2.5-coder-0.5b-instruct").usual()


def test_the_folder_of_another_order_is_refused(tmp_path):
    order(out=tmp_path).store()
    with pytest.raises(UserError, match="differs in: max_new_tokens"):
        order(out=tmp_path, base=RunSettings(max_new_tokens=32)).store()
    assert order(out=tmp_path, budget=999).store().order  # a larger budget goes on
    assert Path(tmp_path / "runs.jsonl").exists()
