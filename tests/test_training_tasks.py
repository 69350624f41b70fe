"""Prompts that set tasks over given texts: all places filled, nothing made twice, no file written over."""

from __future__ import annotations

import json

import numpy as np
import pytest
from fakes import LetterTokenizer

from engines.cli import main
from engines.errors import UserError
from engines.training.store import ANSWER, TEMPLATE, Sequence_, Store
from engines.training.tasks import LONGEST, SHORTEST, prompts_over, tasks, texts_of

TEXTS = [
    "A ship of {a} tons left the harbour. It was early.",
    "Tea is made of leaves! Most people know.",
    "x" * SHORTEST,
]


class Bytes(LetterTokenizer):
    dummy_prefix = False

    def encode(self, text, *, add_bos=None, specials=True):
        return list(text.encode())


@pytest.fixture
def tokenizer():
    return Bytes(texts=[bytes([i]) for i in range(256)])


@pytest.fixture
def store(tmp_path, tokenizer):
    made = Store(tmp_path / "s", {"target": "t", "taps": [], "features": 1, "top": 1})
    for text in [*TEXTS, "too short", "too long" * LONGEST]:
        ids = [7, *tokenizer.encode(text)]
        kinds = [TEMPLATE] + [ANSWER] * (len(ids) - 1)
        n = len(ids)
        made.add(Sequence_(np.array(ids), np.array(kinds), np.zeros((n, 1)), np.zeros((n, 1)), np.zeros((n, 1))))
    return made


def test_only_texts_that_can_be_worked_on(store, tokenizer):
    assert texts_of(store, tokenizer) == TEXTS[:2]  # the third says one thing for ever


def test_every_task_is_filled_with_different_texts(store, tokenizer):
    other = "Bread wants time and a warm kitchen. So does a child."
    ids = np.array(tokenizer.encode(other))
    n = len(ids)
    store.add(Sequence_(ids, np.full(n, ANSWER), np.zeros((n, 1)), np.zeros((n, 1)), np.zeros((n, 1))))
    texts = [*TEXTS[:2], other]
    made = prompts_over(store, tokenizer, 2000, seed=3)
    assert len(set(made)) == len(made) > 3 * len(tasks())
    assert made == prompts_over(store, tokenizer, 2000, seed=3) != prompts_over(store, tokenizer, 2000, seed=4)
    firsts = [t[: min(i for i in map(t.find, ".!") if i > 0) + 1] for t in texts]
    for prompt in made:
        assert any(f in prompt for f in firsts)
        for text in texts:  # what is a text's own stays, braces included
            assert prompt.count(text) <= 1
        assert not any(f"{{{name}}}" in prompt.replace(TEXTS[0], "").replace(firsts[0], "") for name in "abc")


def test_too_few_texts_are_a_sentence(store, tokenizer):
    with pytest.raises(UserError, match="2 answers to work on"):
        prompts_over(store, tokenizer, 5)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--out", "p.jsonl"], "train prompts needs --store"),
        (["--out", "p.txt", "--store", "s"], "must end in .jsonl"),
        (["--out", "there.jsonl", "--store", "s"], "is there already"),
        (["--out", "p.jsonl", "--store", "nothing"], "holds no training data"),
    ],
)
def test_bad_orders(words, said, tmp_path, monkeypatch, capsys, store, tokenizer):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("engines.catalogue.resolve", lambda *a: tmp_path)
    monkeypatch.setattr("engines.text.load_tokenizer", lambda folder: tokenizer)
    (tmp_path / "there.jsonl").write_text("mine")
    assert main(["train", "prompts", *words]) == 2
    assert said in capsys.readouterr().err
    assert (tmp_path / "there.jsonl").read_text() == "mine"


def test_prompts_are_json_lines(tmp_path, monkeypatch, store, tokenizer):
    monkeypatch.setattr("engines.catalogue.resolve", lambda *a: tmp_path)
    monkeypatch.setattr("engines.text.load_tokenizer", lambda folder: tokenizer)
    monkeypatch.setattr("engines.training.tasks.prompts_over", lambda store, t, count, seed: ["é\nb", "c"][:count])
    assert main(["train", "prompts", "--store", str(store.folder), "--out", str(tmp_path / "new" / "p.jsonl")]) == 0
    lines = (tmp_path / "new" / "p.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["prompt"] for line in lines] == ["é\nb", "c"]
