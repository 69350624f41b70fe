"""A model of a few tokens whose law is a table, for the logic of the loop. Never the proof that a feature works."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np
import torch

from engines.adaptive import FixedLength
from engines.decode import Job
from engines.errors import UserError
from engines.events import Start
from engines.proposers.base import Proposal
from engines.proposers.none import NoProposer
from engines.settings import RunSettings
from engines.text.stream import TextStream


class TableSession:
    """Logits that depend on the last `order` tokens and a seed; the full prefix is remembered, so a cache that

    were rolled back wrongly would give other logits.
    """

    num_layers = 1
    device = torch.device("cpu")
    trees = True

    def __init__(self, vocab_size: int = 8, seed: int = 0, order: int = 2, scale: float = 2.0, capacity: int = 4096):
        self.vocab_size, self.seed, self.order, self.scale, self.capacity = vocab_size, seed, order, scale, capacity
        self.ids: list[int] = []
        self.passes: list[int] = []

    @property
    def length(self) -> int:
        return len(self.ids)

    def row(self, context: Sequence[int]) -> np.ndarray:
        key = zlib.crc32(repr((self.seed, tuple(context)[-self.order :])).encode())
        return (np.random.default_rng(key).standard_normal(self.vocab_size) * self.scale).astype(np.float32)

    def forward(self, ids, *, logits_from=0, layers=None, parents=None):
        if len(self.ids) + len(ids) > self.capacity:
            raise UserError(f"The context of {self.capacity} tokens is full.")
        self.passes.append(len(ids))
        rows = []
        if parents is not None:
            text, paths = list(self.ids), []
            for token, parent in zip(ids, parents, strict=True):
                paths.append([*(paths[parent] if parent >= 0 else []), token])
                rows.append(self.row([*text, *paths[-1]]))
            self.ids += ids
            return torch.tensor(np.array(rows[logits_from:]).reshape(-1, self.vocab_size))
        for token in ids:
            self.ids.append(token)
            rows.append(self.row(self.ids))
        return torch.tensor(np.array(rows[logits_from:]).reshape(-1, self.vocab_size))

    def rollback(self, length):
        if length > len(self.ids):
            raise ValueError(length)
        del self.ids[length:]

    def keep(self, rows):
        start = len(self.ids) - self.passes[-1]
        kept = [self.ids[start + row] for row in rows]
        self.ids[start:] = kept


class LetterTokenizer:
    """Token i is the i-th of `texts`, "a", "b", ... by default."""

    bos_id = None
    eos_ids = ()
    has_chat_template = False

    def __init__(self, texts: Sequence[bytes] | None = None, size: int = 26):
        self.texts = list(texts) if texts is not None else [bytes([97 + i]) for i in range(size)]
        self.size = len(self.texts)

    def token_bytes(self, id: int) -> bytes:
        return self.texts[id] if id < self.size else b""

    def piece(self, id: int) -> str:
        return self.token_bytes(id).decode("utf-8", "replace")

    def is_special(self, id: int) -> bool:
        return False


class Scripted:
    """A custom proposer: says what it was told, round by round, or what `guess(ids, k)` returns."""

    name = "scripted"

    def __init__(self, guess):
        self.guess = guess
        self.committed: list[int] = []

    def start(self, ids):
        pass

    def propose(self, ids, k, go_on, chance):
        guess = list(self.guess(list(ids), k))[:k]
        return Proposal(guess, confidence=[None] * len(guess), sources=[None] * len(guess))

    def commit(self, length):
        self.committed.append(length)


def job(
    session, proposer=None, prompt=(0, 1), eos=(), tokenizer=None, stopped=None, policy=None, context=None, **settings
):
    """A `Job` on a fake model; `settings` are RunSettings fields."""
    tokenizer = tokenizer or LetterTokenizer(size=max(26, session.vocab_size))
    settings.setdefault("max_new_tokens", 32)
    proposer = proposer or NoProposer()
    run = RunSettings(**settings)
    stream = TextStream(tokenizer)
    start = Start(
        settings=run.to_json(),
        target="table",
        proposer=proposer.name,
        engine="test",
        device="cpu",
        dtype="fp32",
        versions={},
        prompt_ids=list(prompt),
        prompt_text="",
        prompt_tokens=["?"] * len(prompt),
        context=context or session.capacity,
    )
    return Job(
        start=start,
        session=session,
        proposer=proposer,
        settings=run,
        text=stream,
        eos_ids=frozenset(eos),
        piece=tokenizer.piece,
        length_policy=policy or FixedLength(),
        stopped=stopped or (lambda: False),
    )


def greedy(session: TableSession, prompt: Sequence[int], n: int) -> list[int]:
    """Plain greedy decoding without the loop: what the loop is checked against."""
    ids = list(prompt)
    for _ in range(n):
        ids.append(int(session.row(ids).argmax()))
    return ids[len(prompt) :]
