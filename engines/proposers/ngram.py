"""n-gram lookup: what followed the last tokens the last time they occurred, in the prompt or in the output.

Prompt lookup decoding (Saxena 2023) and LLMA (Yang et al. 2023, arXiv 2304.04487): free of weights, and strong
wherever the output quotes its prompt or repeats itself.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

from .base import Proposal


class NgramProposer:
    """Longest match first (`longest` tokens down to `shortest`), the most recent one among equals.

    A copy that reaches the end of the text goes on into what it has just proposed, so a text with a period shorter
    than k is continued at that period rather than cut off. The confidence of a copied token rests on how much agreed
    before it: after m matching tokens, those of the copy included, it is m / (m + 1), the rule of succession's guess;
    adaptive drafting counts what such a guess was worth in this run.

    `marks` are ids that the target reads but never writes, such as a chat template's: no copy goes on into one.
    """

    name = "ngram"

    def __init__(self, shortest: int = 1, longest: int = 4, marks: Set[int] = frozenset()) -> None:
        self.shortest, self.longest, self.marks = shortest, longest, marks
        # by size: n-gram -> position after its latest occurrence that something follows
        self._after: dict[int, dict[tuple[int, ...], int]] = {}
        self._indexed = 0

    def start(self, ids: Sequence[int]) -> None:
        self._after = {n: {} for n in range(self.shortest, self.longest + 1)}
        self._indexed = 0
        self._index(ids)

    def _index(self, ids: Sequence[int]) -> None:
        """Take in every n-gram that has a successor in `ids`; only what is new since the last call."""
        for end in range(self._indexed + 1, len(ids)):
            if ids[end] in self.marks:
                continue
            for n, after in self._after.items():
                if n <= end:
                    after[tuple(ids[end - n : end])] = end
        self._indexed = max(self._indexed, len(ids) - 1)

    def propose(self, ids: Sequence[int], k: int, go_on, chance) -> Proposal:
        self._index(ids)
        for n in range(min(self.longest, len(ids)), self.shortest - 1, -1):
            after = self._after[n].get(tuple(ids[-n:]))
            if after is not None:
                return self._copy(ids, after, n, k, go_on)
        return Proposal()

    def _copy(self, ids: Sequence[int], after: int, n: int, k: int, go_on) -> Proposal:
        out = Proposal()
        while len(out.ids) < k:
            at, matched = after + len(out.ids), n + len(out.ids)
            confidence = matched / (matched + 1)
            token = ids[at] if at < len(ids) else out.ids[at - len(ids)]
            if token in self.marks or not go_on(out.confidence, confidence):
                break
            out.ids.append(token)
            out.sources.append((after - n, at + 1))
            out.confidence.append(confidence)
        return out

    def commit(self, length: int) -> None:
        pass  # only committed text is ever indexed
