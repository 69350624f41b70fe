"""A target writes its own training data: it samples the user's turn from its own chat template, then answers.

Nothing but the target is needed, and what it is trained on is what it will be asked to foresee. Many conversations
go through the model together; one that ends makes room for the next at once, so the batch never runs dry. The words
before the user's turn are read once and stay in the cache. The features and the likeliest next tokens of every position
are those of the very pass that wrote the text, so nothing is computed twice.

Sampling user turns from the template's own prefix is the idea of Magpie (Xu et al. 2024, arXiv 2406.08464).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..errors import UserError
from ..model.head import unit
from .store import ANSWER, TEMPLATE, USER, Sequence_, Store

WIDTH = 32  # candidates that are drawn from: the tail of a small model's law is noise, and noise teaches nothing
_MARK = "\ue000"  # stands for the words of the user while the template is looked at


@dataclass
class Plan:
    """How to write. Shares are probabilities; temperatures of answers are drawn with their weights."""

    openings: Sequence[str] = ()
    share_opened: float = 0.6
    user_tokens: int = 120
    answer_tokens: int = 160
    user_temperature: float = 1.0
    answer_temperatures: Sequence[tuple[float, float]] = ((0.0, 0.5), (0.7, 0.3), (1.0, 0.2))  # (temperature, weight)

    def draw_temperature(self, random: np.random.Generator) -> float:
        weights = np.array([w for _, w in self.answer_temperatures])
        return self.answer_temperatures[random.choice(len(weights), p=weights / weights.sum())][0]


@dataclass
class _Row:
    """One conversation under way: `forced` is what is still to be fed before the target may choose."""

    random: np.random.Generator
    ids: list[int]
    kinds: list[int]
    forced: list[tuple[int, int]]
    temperature: float
    answering: bool = False
    written: int = 0  # by the target in this turn
    top_ids: list[np.ndarray] = field(default_factory=list)
    top_p: list[np.ndarray] = field(default_factory=list)


@lru_cache(maxsize=1)
def openings() -> tuple[str, ...]:
    """The project's own ways to begin a user's turn."""
    return lines_of("openings.txt")


def lines_of(name: str) -> tuple[str, ...]:
    """The lines of a list beside this file, without blank ones and comments."""
    lines = (Path(__file__).parent / name).read_text(encoding="utf-8").splitlines()
    return tuple(line.strip() for line in lines if line.strip() and not line.startswith("#"))


@dataclass(frozen=True)
class Turns:
    """What a chat template puts around the user's words, as ids; without a template, the start of a text."""

    before: tuple[int, ...]
    after: tuple[int, ...]  # ends the user's turn and begins the answer; empty: plain text, no turns

    @classmethod
    def of(cls, tokenizer: Any) -> Turns:
        if not tokenizer.has_chat_template:
            start = tokenizer.bos_id if tokenizer.bos_id is not None else next(iter(tokenizer.eos_ids), None)
            if start is None:
                raise UserError(f"{tokenizer.name} has no token to begin a text with: give --data FILE instead.")
            return cls((start,), ())
        text = tokenizer.chat_text([{"role": "user", "content": _MARK}])
        before, found, after = text.partition(_MARK)
        if not found:
            raise UserError(f"The chat template of {tokenizer.name} loses the user's words: give --data FILE instead.")
        return cls(tuple(tokenizer.encode(before, add_bos=False)), tuple(tokenizer.encode(after, add_bos=False)))

    def ends(self, tokenizer: Any) -> frozenset[int]:
        """What ends a turn."""
        return frozenset(tokenizer.eos_ids) | set(self.after[:1])


class SelfTalk:
    """Fills a store by `rows` conversations at a time."""

    def __init__(
        self,
        decoder: Any,
        tokenizer: Any,
        store: Store,
        plan: Plan | None = None,
        rows: int = 96,
        seed: int = 0,
    ) -> None:
        self.decoder, self.tokenizer, self.store, self.seed = decoder, tokenizer, store, seed
        self.plan = plan or Plan(openings())
        self.turns = Turns.of(tokenizer)
        self.ends = self.turns.ends(tokenizer)
        self._opened = [tuple(tokenizer.encode(text, add_bos=False)) for text in self.plan.openings]
        longest = max([len(t) for t in self._opened], default=0)
        self.user_room = self.plan.user_tokens + longest
        capacity = len(self.turns.before) + self.user_room + len(self.turns.after) + self.plan.answer_tokens + 1
        if capacity > decoder.context:
            raise UserError(f"{decoder.name} holds {decoder.context} positions, and a conversation needs {capacity}.")
        self.batch = decoder.batch(rows, capacity, taps=tuple(store.meta["taps"]))
        self._head = self._read_beginning()
        self._begun = 0

    def _read_beginning(self) -> tuple[np.ndarray, np.ndarray]:
        """Put all of the template's first words but their last into every row; what the target thinks after each."""
        first = list(self.turns.before[:-1])
        K = self.store.meta["top"]
        if not first:
            return np.zeros((0, K), np.int32), np.zeros((0, K), np.float32)
        logits = self.batch.forward([first] * len(self.batch.lengths))[0]
        p, ids = logits.softmax(-1).topk(K)
        return ids.cpu().numpy(), p.cpu().numpy()

    def _begin(self, row: int) -> _Row:
        random = np.random.default_rng([self.seed, self.store.tokens, self._begun, row])
        plan, first = self.plan, list(self.turns.before)
        temperature = plan.draw_temperature(random)
        forced: list[tuple[int, int]] = []
        if self._opened and self.turns.after and random.random() < plan.share_opened:
            forced = [(i, TEMPLATE) for i in self._opened[random.integers(len(self._opened))]]
        self._begun += 1
        new = _Row(random, first, [TEMPLATE] * len(first), forced, temperature, answering=not self.turns.after)
        new.top_ids, new.top_p = list(self._head[0]), list(self._head[1])
        return new

    def run(self, tokens: int, progress: Callable[[int], None], stopped: Callable[[], bool] = lambda: False) -> None:
        """Add conversations until the store has so many tokens, or `stopped` says so."""
        self.store.cut()
        beginning = len(self.turns.before) - 1
        rows = [self._begin(i) for i in range(len(self.batch.lengths))]
        while self.store.tokens < tokens and not stopped():
            ids, p = likeliest(self.batch.forward([[row.ids[-1]] for row in rows])[:, 0])
            lengths = list(self.batch.lengths)
            for i, row in enumerate(rows):
                if self._step(row, ids[i], p[i]):
                    self._keep(i, row)
                    rows[i] = self._begin(i)
                    progress(self.store.tokens)
                    lengths[i] = beginning
            self.batch.rollback(lengths)

    def _step(self, row: _Row, ids: np.ndarray, p: np.ndarray) -> bool:
        """Take the next token of one conversation; True when it is over, its last token having been read."""
        K = self.store.meta["top"]
        row.top_ids.append(ids[:K].copy())
        row.top_p.append(p[:K].copy())
        if row.forced:
            token, kind = row.forced.pop(0)
            row.ids.append(token)
            row.kinds.append(kind)
            return False
        temperature = row.temperature if row.answering else self.plan.user_temperature
        token = chosen(row.random, ids, p, temperature)
        limit = self.plan.answer_tokens if row.answering else self.plan.user_tokens
        row.written += 1
        if token in self.ends or row.written >= limit or (temperature == 0 and loops(row.ids)):
            if row.answering:
                return True
            row.answering, row.written = True, 0
            row.forced = [(i, TEMPLATE) for i in self.turns.after]
            token, kind = row.forced.pop(0)
            row.ids.append(token)
            row.kinds.append(kind)
            return False
        row.ids.append(token)
        row.kinds.append(ANSWER if row.answering else USER)
        return False

    def _keep(self, i: int, row: _Row) -> None:
        n = len(row.ids)
        features = self.batch.features[i, :n]
        self.store.add(
            Sequence_(
                np.array(row.ids), np.array(row.kinds), kept(features, len(self.store.meta["taps"])),
                np.stack(row.top_ids), np.stack(row.top_p),
            )
        )  # fmt: skip


def kept(features: torch.Tensor, taps: int) -> np.ndarray:
    """Features as a store holds them, and as a head will be fed them."""
    return unit(features, taps).to(torch.float16).cpu().numpy()


def likeliest(logits: torch.Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Logits [..., V] -> the WIDTH likeliest ids of each row, and their probabilities, both [..., WIDTH]."""
    values, ids = logits.topk(WIDTH)
    p = (values - logits.logsumexp(-1, keepdim=True)).exp_()
    return ids.cpu().numpy(), p.cpu().numpy()


def chosen(random: np.random.Generator, ids: np.ndarray, p: np.ndarray, temperature: float) -> int:
    """One of `ids`, likeliest first, with probabilities `p` at temperature 1."""
    if temperature == 0:
        return int(ids[0])
    weights = np.cumsum(p.astype(np.float64) ** (1 / temperature))
    return int(ids[min(int(np.searchsorted(weights, random.random() * weights[-1], side="right")), len(p) - 1)])


def loops(ids: list[int]) -> bool:
    """The text has said the same up to 24 tokens three times in a row: it will do so for ever."""
    for period in range(1, 25):
        last = ids[-3 * period :]
        if len(last) == 3 * period >= 12 and last[:period] == last[period : 2 * period] == last[2 * period :]:
            return True
    return False
