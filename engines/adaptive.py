"""How long to draft: a fixed number of tokens, or as long as the next one is worth its cost.

Drafting is a renewal process: the rate is tokens per time over all rounds, and one more drafted token pays as long as
(what it is expected to add) / (what it costs) exceeds the rate that is reached anyway (the marginal value rule).
Plain decoding has rate 1 in units of a target pass, so the bar never lies below 1: a proposer that does not pay is
left alone, and tried again now and then.

The decision looks only at tokens already drafted, and a drafted token is never dropped, so the length is a stopping
time and both verifications stay exact. Costs are those measured at load, not the run's own clock: the same seed
gives the same run.
"""

from __future__ import annotations

from collections.abc import Sequence

from .cost import Costs
from .proposers.base import depths


class FixedLength:
    """Always k."""

    def limit(self, k: int) -> int:
        return k

    def go_on(self, confidences: Sequence[float | None], coming: float | None = None) -> bool:
        return True

    def learn(self, confidences: Sequence[float | None], accepted: int) -> None:
        pass

    def keep(self, confidences: Sequence[float | None], parents: Sequence[int]) -> list[int]:
        return list(range(len(parents)))

    def learn_tree(self, confidences: Sequence[float | None], parents: Sequence[int], path: Sequence[int]) -> None:
        pass


class _Share:
    """A running share of successes that starts at a prior worth `weight` trials and forgets slowly."""

    def __init__(self, prior: float, weight: float = 2.0, memory: float = 0.97) -> None:
        self.good, self.all, self.memory = prior * weight, weight, memory

    def add(self, success: bool) -> None:
        self.good = self.good * self.memory + success
        self.all = self.all * self.memory + 1

    @property
    def value(self) -> float:
        return self.good / self.all


class AdaptiveLength:
    """Stops when the product of the acceptance chances so far no longer earns the next token's cost.

    A confidence is not a probability of acceptance; what each tenth of confidence was worth in this run is counted
    and used instead, starting from the confidence itself. A proposer without confidences is counted by position.
    """

    PROBE_EVERY = 12  # rounds between two tries of a proposer that does not seem to pay

    def __init__(self, costs: Costs) -> None:
        self.costs = costs
        self._chance: dict[object, _Share] = {}
        self._any = _Share(0.7)
        self._tokens, self._time = 4.0, 4.0  # as if four plain rounds had gone before
        self._idle = 0
        self._k = 0

    def _share(self, position: int, confidence: float | None) -> _Share:
        if confidence is None:
            return self._chance.setdefault(("at", min(position, 8)), _Share(0.7))
        return self._chance.setdefault(min(int(confidence * 10), 9), _Share(confidence))

    def _pays(self, reach: float, n: int, coming: float | None = None) -> bool:
        """Are one or more further tokens worth their cost, the n-th being reached with probability `reach`?

        Looks up to k ahead, because v is not convex everywhere: some kernels take a jump at the second row and are
        flat from there on, so that one token never pays and four do.
        """
        bar = max(1.0, self._tokens / self._time)
        a, gain = self._any.value, 0.0
        for m in range(n + 1, self._k + 1):
            reach *= a if coming is None else self._share(m - 1, coming).value
            gain += reach
            if gain > bar * (self.costs.round(m) - self.costs.round(n)):
                return True
        return False

    def look_ahead(self, k: int) -> None:
        """Ask `go_on` of up to k tokens, whether or not the last rounds paid."""
        self._k = k

    def limit(self, k: int) -> int:
        self._k = k
        if self._pays(1.0, 0):
            self._idle = 0
            return k
        self._idle += 1
        return k if self._idle % self.PROBE_EVERY == 0 else 0

    def go_on(self, confidences: Sequence[float | None], coming: float | None = None) -> bool:
        reach = 1.0
        for i, confidence in enumerate(confidences):
            reach *= self._share(i, confidence).value
        return self._pays(reach, len(confidences), coming)

    def learn(self, confidences: Sequence[float | None], accepted: int) -> None:
        for i, confidence in enumerate(confidences[: accepted + 1]):
            self._share(i, confidence).add(i < accepted)
            self._any.add(i < accepted)
        self._tokens = self._tokens * 0.97 + accepted + 1
        self._time = self._time * 0.97 + self.costs.round(len(confidences))

    def keep(self, confidences: Sequence[float | None], parents: Sequence[int]) -> list[int]:
        """The tokens of a tree that are worth judging: what they add, less what their rows cost at the rate that is

        reached anyway, is at its most. The tree is there already, so its drafting counts no more. Tokens of a tree are
        determined, so leaving some out is no bias.
        """
        reach = self._reach(confidences, parents)
        order = sorted(range(len(parents)), key=lambda i: (-reach[i], i))
        bar = max(1.0, self._tokens / self._time)
        best, size, gain = 0.0, 0, 0.0
        for n, i in enumerate(order, start=1):
            gain += reach[i]
            worth = gain - bar * (self.costs.v(n) - 1)
            if worth > best:
                best, size = worth, n
        return sorted(order[:size])

    def _reach(self, confidences: Sequence[float | None], parents: Sequence[int]) -> list[float]:
        """The chance of each token of a tree to be emitted, by what such confidences were worth."""
        reach: list[float] = []
        for parent, depth, confidence in zip(parents, depths(parents), confidences, strict=True):
            before = reach[parent] if parent >= 0 else 1.0
            # Just below its parent, so that the likeliest always hang together.
            reach.append(before * min(self._share(depth, confidence).value, 1 - 1e-9))
        return reach

    def expected(self, confidences: Sequence[float | None], parents: Sequence[int], nodes: Sequence[int]) -> float:
        """Tokens that a pass over these tokens of a tree is expected to yield, the target's own included."""
        reach = self._reach(confidences, parents)
        return 1 + sum(reach[i] for i in nodes)

    def learn_tree(self, confidences: Sequence[float | None], parents: Sequence[int], path: Sequence[int]) -> None:
        """At each fork on the path all children were settled: one stood, or none did."""
        stood, visited, depth_of = set(path), {-1, *path}, depths(parents)
        for i, parent in enumerate(parents):
            if parent in visited:
                self._share(depth_of[i], confidences[i]).add(i in stood)
        deepest = 1 + max(depth_of)
        for depth in range(min(len(path) + 1, deepest)):
            self._any.add(depth < len(path))
        self._tokens = self._tokens * 0.97 + len(path) + 1
        self._time = self._time * 0.97 + self.costs.v(len(parents)) + deepest * self.costs.draft
