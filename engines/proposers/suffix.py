"""Suffix lookup: all places where the text's last tokens stood before, and how often each continuation followed.

SuffixDecoding (Oliaro et al. 2024, arXiv 2411.04975) keeps a suffix tree of the prompt, this output and earlier ones,
and proposes as far as the counts are worth it. Here an index from pairs of tokens to places does the same for texts of
this size: the places are compared backwards for the longest match, and walked forwards together, so that the counts
at each step are those of a suffix tree's node.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence, Set
from dataclasses import dataclass, field

from .base import Proposal
from .best_first import chain, tree

PLACES = 64  # the most recent places of a pair that are looked at
LONGEST = 32  # a longer match tells no more


@dataclass
class Memory:
    """Outputs of earlier runs, which a run may look things up in as well: `texts` of ids, the newest last."""

    texts: list[list[int]] = field(default_factory=list)
    most: int = 50_000  # tokens in all

    def begin(self, ids: Sequence[int] = ()) -> list[int]:
        """A new text, which its run adds to as it goes; the oldest make room."""
        self.texts.append(list(ids))
        while sum(map(len, self.texts)) > self.most and len(self.texts) > 1:
            self.texts.pop(0)
        return self.texts[-1]


class SuffixProposer:
    """`branch` 1 proposes the most frequent continuation, more a tree of them by frequency.

    Confidence of a token: the share of the places that go on with it, times m / (m + 1) after m matching tokens (the
    rule of succession's guess, as in n-gram lookup). `marks`: as there, ids that are never proposed.
    """

    name = "suffix"

    def __init__(
        self, branch: int = 1, memory: Memory | None = None, trees: bool = True, marks: Set[int] = frozenset()
    ) -> None:
        self.branch, self.memory, self.marks = (branch if trees else 1), memory, marks
        self._texts: list[Sequence[int]] = []
        self._places: dict[tuple[int, int], list[tuple[int, int]]] = {}  # pair -> (text, position after it)
        self._indexed = self._prompt = 0
        self._said: list[int] | None = None

    def start(self, ids: Sequence[int]) -> None:
        self._texts, self._places = [], {}
        for text in self.memory.texts if self.memory else []:
            self._texts.append(text)
            self._take(len(self._texts) - 1, 2, len(text))
        self._texts.append(list(ids))
        self._indexed = 2
        self._prompt = len(ids)
        self._said = self.memory.begin() if self.memory else None

    def _take(self, text: int, begin: int, end: int) -> None:
        """Every pair that ends at begin .. end - 1 and has a successor there."""
        ids = self._texts[text]
        for at in range(begin, end):
            if at < len(ids) and ids[at] in self.marks:
                continue
            self._places.setdefault((ids[at - 2], ids[at - 1]), []).append((text, at))

    def propose(self, ids: Sequence[int], k: int, go_on, chance) -> Proposal:
        own = self._texts[-1]
        own[len(own) :] = ids[len(own) :]
        if self._said is not None:
            self._said += own[self._prompt + len(self._said) :]
        self._take(len(self._texts) - 1, self._indexed, len(own))
        self._indexed = max(self._indexed, len(own))
        if len(own) < 2:
            return Proposal()
        places = self._places.get((own[-2], own[-1]), [])[-PLACES:]
        if not places:
            return Proposal()
        matched = [self._match(text, at) for text, at in places]
        longest = max(matched)
        # All that match nearly as far vote; a place that matches far less is about something else.
        votes = [(text, at) for (text, at), m in zip(places, matched, strict=True) if 2 * m > longest]
        state = (votes, longest)
        return tree(self._grow, state, k, self.branch) if self.branch > 1 else chain(self._grow, state, k, go_on)

    def _match(self, text: int, at: int) -> int:
        """How many tokens before place `at` equal the last ones of this text."""
        there, own = self._texts[text], self._texts[-1]
        m = 2
        while m < LONGEST and at - m > 0 and len(own) - m > 0 and there[at - m - 1] == own[-m - 1]:
            m += 1
        return m

    def _grow(self, state: tuple[list[tuple[int, int]], int]):
        places, matched = state
        after: dict[int, list[tuple[int, int]]] = {}
        latest: dict[int, int] = {}
        for order, (text, at) in enumerate(places):
            if at < len(self._texts[text]):
                token = self._texts[text][at]
                if token in self.marks:
                    continue
                after.setdefault(token, []).append((text, at + 1))
                latest[token] = order
        counts = Counter({token: len(p) for token, p in after.items()})
        total, trust = sum(counts.values()), matched / (matched + 1)
        out = []
        for token in sorted(counts, key=lambda t: (-counts[t], -latest[t])):
            text, end = after[token][-1]
            source = (max(0, end - 1 - matched), end) if text == len(self._texts) - 1 else None
            out.append((token, trust * counts[token] / total, source, (after[token], matched + 1)))
        return out

    def commit(self, length: int) -> None:
        pass  # only committed text is ever indexed
