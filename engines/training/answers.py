"""A person's own prompts as training data: the target reads many of like length at once, and answers them together.

Prompts are read in long passes, which cost a quarter of what a token at a time does, and are never shortened: what an
instruction at either end asks for is what is to be learnt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .selftalk import Plan, Turns, chosen, kept, likeliest, loops
from .store import ANSWER, TEMPLATE, Sequence_, Store

LONGEST = 1024  # tokens of a prompt
POSITIONS = 16_384  # of all texts that are answered together: bounds the memory
BLOCK = 8  # groups whose prompts are sorted by length: little padding, and short and long ones all along


@dataclass
class _Text:
    ids: list[int]
    asked: int  # how many of them are the prompt's
    random: np.random.Generator
    temperature: float
    top_ids: list[np.ndarray] = field(default_factory=list)  # of the prompt's last position, and of the answer's
    top_p: list[np.ndarray] = field(default_factory=list)
    over: bool = False


def answer_prompts(
    decoder: Any,
    tokenizer: Any,
    store: Store,
    prompts: Sequence[str],
    tokens: int,
    progress: Callable[[int], None],
    stopped: Callable[[], bool] = lambda: False,
    plan: Plan | None = None,
    rows: int = 64,
    seed: int = 0,
) -> int:
    """Add answers until the store has so many tokens, all of `prompts` are answered, or `stopped` says so.

    What the store has an answer to already is left out, so an interrupted call goes on when made again. Returns how
    many prompts were too long for the target, or for LONGEST.
    """
    store.cut()
    plan, turns = plan or Plan(), Turns.of(tokenizer)
    ends = turns.ends(tokenizer)
    room = min(LONGEST, decoder.context - plan.answer_tokens)
    asked = [(*turns.before, *tokenizer.encode(text, add_bos=False, specials=False), *turns.after) for text in prompts]
    there = _answered(store)
    fit = [(i, ids) for i, ids in enumerate(asked) if len(ids) <= room and ids not in there]
    for group in _groups(fit, rows, plan.answer_tokens, seed):
        if stopped() or store.tokens >= tokens:
            break
        texts = []
        for number, ids in group:
            random = np.random.default_rng([seed, number])
            texts.append(_Text(list(ids), len(ids), random, plan.draw_temperature(random)))
        _answer(decoder, store, texts, plan.answer_tokens, ends, stopped)
        progress(store.tokens)
    return sum(len(ids) > room for ids in asked)


def _answered(store: Store) -> set[tuple[int, ...]]:
    """What stands before each answer in the store."""
    a, found = store.arrays(), set()
    for begin, end in store.spans():
        given = np.flatnonzero(np.asarray(a["kinds"][begin:end]) == TEMPLATE)
        found.add(tuple(a["ids"][begin : begin + (given[-1] + 1 if len(given) else 0)].tolist()))
    return found


def _groups(
    fit: list[tuple[int, tuple[int, ...]]], rows: int, answer: int, seed: int
) -> Iterator[list[tuple[int, tuple[int, ...]]]]:
    """At most `rows` texts of like length, and at most POSITIONS of them all with their answers."""
    order = np.random.default_rng(seed).permutation(len(fit))
    for i in range(0, len(order), rows * BLOCK):
        now: list[tuple[int, tuple[int, ...]]] = []
        for j in sorted(order[i : i + rows * BLOCK], key=lambda j: len(fit[j][1])):
            if now and (len(now) == rows or (len(now) + 1) * (len(fit[j][1]) + answer) > POSITIONS):
                yield now
                now = []
            now.append(fit[j])
        if now:
            yield now


def _answer(
    decoder: Any, store: Store, texts: list[_Text], limit: int, ends: frozenset[int], stopped: Callable[[], bool]
) -> None:
    """Answers of at most `limit` tokens; those that `stopped` left unfinished are not kept."""
    taps, K = tuple(store.meta["taps"]), store.meta["top"]
    longest = max(text.asked for text in texts)
    batch = decoder.batch(len(texts), longest + limit, taps=taps)
    if longest > 1:  # all but each prompt's last token, which is the first to be answered
        batch.forward([t.ids[:-1] + [0] * (longest - t.asked) for t in texts], logits_from=longest)
    batch.rollback([t.asked - 1 for t in texts])
    for _ in range(limit):
        if stopped() or all(t.over for t in texts):
            break
        # Texts that are over go along, behind their end.
        ids, p = likeliest(batch.forward([[t.ids[-1]] for t in texts])[:, 0])
        for i, text in enumerate(texts):
            if text.over:
                continue
            text.top_ids.append(ids[i, :K].copy())
            text.top_p.append(p[i, :K].copy())
            token = chosen(text.random, ids[i], p[i], text.temperature)
            full = len(text.ids) - text.asked + 1 >= limit
            if token in ends or full or (text.temperature == 0 and loops(text.ids[text.asked :])):
                text.over = True
                _keep(store, text, batch.features[i, : len(text.ids)], K)
            else:
                text.ids.append(token)


def _keep(store: Store, text: _Text, features: Any, K: int) -> None:
    n, before = len(text.ids), text.asked - 1
    kinds = np.full(n, ANSWER)
    kinds[: text.asked] = TEMPLATE
    store.add(
        Sequence_(
            np.array(text.ids), kinds, kept(features, len(store.meta["taps"])),
            # Nobody asked what the target thought while it read the prompt: probability 0.
            np.concatenate((np.zeros((before, K), np.int32), text.top_ids)),
            np.concatenate((np.zeros((before, K), np.float32), text.top_p)),
        )
    )  # fmt: skip
