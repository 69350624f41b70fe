"""Prompts that set the target to work on a given text: summaries, answers from passages, corrections, translations.

A target that makes up the user's turn by itself seldom gives itself a text to work on, so a head that has learnt from
such turns alone is weak where people use lookup and summaries most. The texts are the target's own earlier answers.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from ..errors import UserError
from ..text.stream import decode
from .selftalk import lines_of, loops
from .store import ANSWER, Store

SHORTEST, LONGEST = 40, 200  # tokens of an answer that is taken for a text


def tasks() -> tuple[str, ...]:
    """The project's own tasks, with places for texts."""
    return tuple(line.replace("\\n", "\n") for line in lines_of("tasks.txt"))


def texts_of(store: Store, tokenizer: Any) -> list[str]:
    """Answers in the store that are long enough to be worked on, and do not go round in circles."""
    a, found = store.arrays(), []
    for begin, end in store.spans():
        ids = np.asarray(a["ids"][begin:end])[np.asarray(a["kinds"][begin:end]) == ANSWER].tolist()
        if SHORTEST <= len(ids) <= LONGEST and not loops(ids):
            found.append(decode(tokenizer, ids).strip())
    return found


def prompts_over(store: Store, tokenizer: Any, count: int, seed: int = 0) -> list[str]:
    """`count` different prompts, as far as the store's texts go round. UserError when it has too few."""
    texts, random = texts_of(store, tokenizer), np.random.default_rng(seed)
    if len(texts) < 3:
        raise UserError(f"{store.folder} has {len(texts)} answers to work on; three are needed at least.")
    made, kinds = {}, tasks()
    for _ in range(4 * count):
        task = kinds[random.integers(len(kinds))]
        a, b, c = (texts[i] for i in random.choice(len(texts), 3, replace=False))
        first = re.split(r"(?<=[.!?])\s", a, maxsplit=1)[0]
        made[_filled(task, {"a": a, "b": b, "c": c, "first": first})] = None
        if len(made) == count:
            break
    return list(made)


def _filled(task: str, texts: dict[str, str]) -> str:
    """Not str.format: a text may hold braces itself."""
    return re.sub(r"\{(\w+)\}", lambda m: texts[m[1]], task)
