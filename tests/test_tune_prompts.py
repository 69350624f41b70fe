"""The tuner reads prompts as people have them, and names what it cannot read."""

from __future__ import annotations

import json

import pytest

from engines.errors import UserError
from engines.tune import workloads
from engines.tune.prompts import Prompt, pasted, read_prompts


def file(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(path)


def texts(found):
    return [p.text for p in found.prompts]


def test_json_lines_with_bom_crlf_and_blank_lines(tmp_path):
    lines = [
        '{"prompt": "one", "category": "a"}',
        "",
        '{"turns": ["two", "never asked"], "category": 7}',
        '{"messages": [{"role": "user", "content": "three"}, {"role": "assistant", "content": "x"}]}',
        '{"task_id": "HumanEval/0", "prompt": "def f():\\n", "entry_point": "f"}',
    ]
    found = read_prompts(file(tmp_path, "p.jsonl", b"\xef\xbb\xbf" + "\r\n".join(lines).encode() + b"\r\n\r\n"))
    assert texts(found) == ["one", "two", "three", "def f():\n"]
    assert [p.category for p in found.prompts] == ["a", "7", "", ""]
    assert [p.number for p in found.prompts] == [1, 2, 3, 4] and not found.notes
    assert found.prompts[2].asked == "three"  # a lone first turn needs no chat


def test_a_chat_is_asked_up_to_its_last_user_turn(tmp_path):
    said = [("system", "Be short."), ("user", "Hi"), ("assistant", "Hello"), ("user", "And now?"), ("assistant", "-")]
    parts = [{"type": "text", "text": "And "}, {"type": "text", "text": "now?"}]
    messages = [{"role": r, "content": parts if c == "And now?" else c} for r, c in said]
    [p] = read_prompts(file(tmp_path, "c.jsonl", json.dumps({"messages": messages}))).prompts
    assert p.text == "Hi" and p.asked == [{"role": r, "content": c} for r, c in said[:4]]


def test_text_tables_and_pasted_lists(tmp_path):
    assert texts(read_prompts(file(tmp_path, "a.txt", "\nfirst\nline two\r\n \r\n\n\nsecond\n"))) == [
        "first\nline two",
        "second",
    ]
    table = 'id,question,category\r\n1,"one, and\ntwo",x\r\n\r\n2,three,y\r\n'
    found = read_prompts(file(tmp_path, "t.csv", table), column="question")
    assert texts(found) == ["one, and\ntwo", "three"] and [p.category for p in found.prompts] == ["x", "y"]
    assert texts(read_prompts(file(tmp_path, "t.tsv", "prompt\tn\na b\t1\n"))) == ["a b"]
    assert texts(pasted("one\ntwo\n\n")) == ["one", "two"]
    assert texts(pasted("one\nmore\n\ntwo")) == ["one\nmore", "two"]
    assert texts(pasted('\ufeff{"prompt": "x"}\n{"prompt": "y"}')) == ["x", "y"]
    assert texts(read_prompts(file(tmp_path, "anything", '{"prompt": "x"}'))) == ["x"]


@pytest.mark.parametrize(
    ("name", "content", "column", "match"),
    [
        ("a.jsonl", '{"prompt": "x"}\n\n{"prompt": }', None, r"line 3 is not JSON: .* at character 12"),
        ("a.jsonl", '["x"]', None, "line 1 is JSON but no object"),
        ("a.jsonl", '{"text": "x"}', None, "line 1 has no prompt"),
        ("a.jsonl", '{"prompt": "  "}', None, "line 1 has no prompt"),
        ("a.jsonl", '{"messages": [{"role": "user"}]}', None, "line 1: a message has no text"),
        ("a.jsonl", '{"messages": ["x"]}', None, "line 1: each of `messages` needs a role"),
        ("a.csv", "id,text\n1,x\n", None, r"no column 'prompt'; choose one with --column: id, text"),
        ("a.csv", "id,text\n1,x\n2,\n", "text", "line 3 has nothing in its column 'text'"),
        ("a.csv", 'text\n"x', "text", "not a line of a table"),
        ("a.csv", "", None, "it is empty"),
        ("a.txt", "\n \n", None, "holds no prompts"),
        ("a.txt", "x", "text", "--column is for tables"),
        ("a.txt", b"\xff\xfex", None, "not UTF-8"),
    ],
)
def test_what_cannot_be_read_is_named(tmp_path, name, content, column, match):
    with pytest.raises(UserError, match=match):
        read_prompts(file(tmp_path, name, content), column)
    with pytest.raises(UserError, match="cannot be read"):
        read_prompts(str(tmp_path / "none.jsonl"))


def test_a_repeated_prompt_is_measured_once_and_that_is_said(tmp_path):
    found = read_prompts(file(tmp_path, "a.txt", "x\n\ny\n\nx\n\nx"))
    assert texts(found) == ["x", "y"] and "2 prompts occurred before" in found.notes[0]
    assert found.digest == read_prompts(file(tmp_path, "b.txt", "x\n\ny")).digest
    assert found.digest != read_prompts(file(tmp_path, "b.txt", "x\n\nz")).digest


def test_the_built_in_workloads():
    kinds = workloads.kinds()
    assert {"code", "editing", "structured", "summary", "questions", "maths", "chat", "prose"} == set(kinds)
    found = workloads.built_in()
    assert len(found.prompts) == 64 == len(set(texts(found))) and not found.notes
    for kind in kinds:
        mine = [p for p in found.prompts if p.category == kind]
        assert len(mine) == 8 and all(isinstance(p, Prompt) for p in mine)
    assert {p.category for p in workloads.built_in(["code", "chat"]).prompts} == {"code", "chat"}
    with pytest.raises(UserError, match="no built-in workload 'poems'"):
        workloads.built_in(["poems"])
