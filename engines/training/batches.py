"""From a store to training batches: sequences of like length together, in an order that the seed alone decides."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields

import numpy as np
import torch

from .store import ANSWER, TEMPLATE, Store

HELD_OUT_EVERY = 40  # one sequence in so many is never trained on
LONGEST = 1280  # a longer sequence is cut into windows of this


@dataclass
class Batch:
    """Aligned for training and padded: position t reads token t + 1 and features t, and foretells `top`.

    `ids` [B, n] (token t + 1); `features` [B, n, F] float32 or None; `top_ids` [B, n, K] in the small vocabulary, -1
    outside it; `top_p` [B, n, K]; `best` [B, n]: the target's first choice there (-1 outside); `answer` [B, n]: whether
    the foretold token is the target's own answer, the only kind that is ever proposed, so learnt and counted.
    """

    ids: torch.Tensor
    features: torch.Tensor | None
    top_ids: torch.Tensor
    top_p: torch.Tensor
    best: torch.Tensor
    answer: torch.Tensor

    def ahead(self, step: int) -> torch.Tensor:
        """[B, n]: where an answer's token is foretold `step` steps on; nothing stands before the first position for

        the later steps to go on from.
        """
        places = self.answer.clone()
        places[:, :step] = False
        return places

    def to(self, device: torch.device) -> Batch:
        own = (getattr(self, f.name) for f in fields(self))
        return Batch(*(None if x is None else x.to(device) for x in own))


def frequent_tokens(store: Store, count: int, size: int, always: Sequence[int] = ()) -> np.ndarray:
    """The `count` ids that the target says, or thinks of first, most often; ascending. `always` are among them."""
    a = store.arrays()
    own = a["kinds"] != TEMPLATE
    score = np.bincount(a["ids"][own], minlength=size).astype(np.float64)
    thought = a["top_p"][:, 0] > 0  # where it was asked what the target thinks
    score += np.bincount(a["top_ids"][thought, 0], minlength=size)
    score += 1e-3 * np.bincount(a["top_ids"][thought, 1:8].ravel(), minlength=size)
    score[list(always)] = np.inf
    return np.sort(np.argsort(-score, kind="stable")[:count]).astype(np.int64)


class Batches:
    """`sequences`: how many of the store's take part (it may still grow); `tokens` about how many a batch holds."""

    def __init__(
        self,
        store: Store,
        vocabulary: np.ndarray,
        size: int,
        sequences: int,
        tokens: int,
        with_features: bool,
        held_out_every: int = HELD_OUT_EVERY,
    ) -> None:
        self.arrays, self.with_features, self.tokens = store.arrays(), with_features, tokens
        self.small = np.full(size, -1, np.int64)
        self.small[vocabulary] = np.arange(len(vocabulary))
        spans = list(store.spans())[:sequences]
        answers = np.concatenate(([0], np.cumsum(self.arrays["kinds"] == ANSWER)))
        windows = []
        for begin, end in spans:
            cuts = [(b, min(b + LONGEST, end)) for b in range(begin, end - 3, LONGEST)]
            windows.append([(b, e) for b, e in cuts if answers[e] > answers[b + 2]])  # the rest teaches nothing
        self.train = [w for i, ws in enumerate(windows) if i % held_out_every for w in ws]
        self.held_out = [w for i, ws in enumerate(windows) if not i % held_out_every for w in ws]

    def epoch(self, seed: int, number: int) -> Iterator[list[tuple[int, int]]]:
        """The spans of each batch of one epoch, in this epoch's own order."""
        random = np.random.default_rng([seed, number])
        order = random.permutation(len(self.train))
        lengths = np.array([e - b for b, e in self.train])
        # Alike lengths within stretches of many batches: little padding, and still another mixture each epoch.
        groups: list[list[tuple[int, int]]] = []
        for i in range(0, len(order), 1024):
            part = sorted(order[i : i + 1024], key=lambda j: lengths[j])
            now: list[tuple[int, int]] = []
            for j in part:
                if now and (len(now) + 1) * lengths[j] > self.tokens:
                    groups.append(now)
                    now = []
                now.append(self.train[j])
            if now:
                groups.append(now)
        for i in random.permutation(len(groups)):
            yield groups[i]

    def held(self) -> Iterator[list[tuple[int, int]]]:
        spans = sorted(self.held_out, key=lambda s: s[1] - s[0])
        now: list[tuple[int, int]] = []
        for span in spans:
            if now and (len(now) + 1) * (span[1] - span[0]) > 2 * self.tokens:
                yield now
                now = []
            now.append(span)
        if now:
            yield now

    def read(self, spans: Sequence[tuple[int, int]]) -> Batch:
        a, B = self.arrays, len(spans)
        n = max(e - b for b, e in spans) - 1
        K = a["top_ids"].shape[1]
        ids = np.zeros((B, n), np.int64)
        top_ids = np.full((B, n, K), -1, np.int64)
        top_p = np.zeros((B, n, K), np.float32)
        best = np.full((B, n), -1, np.int64)
        answer = np.zeros((B, n), bool)
        features = np.zeros((B, n, a["features"].shape[1]), np.float16) if self.with_features else None
        for row, (b, e) in enumerate(spans):
            m = e - b - 1
            ids[row, :m] = a["ids"][b + 1 : e]
            top = np.asarray(a["top_ids"][b + 1 : e])
            top_ids[row, :m] = self.small[top]
            top_p[row, :m] = a["top_p"][b + 1 : e]
            kinds = np.asarray(a["kinds"][b + 2 : e])
            kinds = np.append(kinds, kinds[-1:])  # whose token the last one would have been
            best[row, :m] = top_ids[row, :m, 0]
            answer[row, :m] = kinds == ANSWER
            if features is not None:
                features[row, :m] = a["features"][b : e - 1]
        return Batch(
            torch.from_numpy(ids),
            None if features is None else torch.from_numpy(features).float(),
            torch.from_numpy(top_ids),
            torch.from_numpy(top_p),
            torch.from_numpy(best),
            torch.from_numpy(answer),
        )
