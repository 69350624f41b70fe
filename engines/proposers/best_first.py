"""Growing a proposal from guesses that cost nothing: always on from the likeliest token found so far."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from typing import Any

from .base import Proposal

# (state) -> [(token, confidence, source, state after it), ...], the likeliest first.
Grow = Callable[[Any], Sequence[tuple[int, float, tuple[int, int] | None, Any]]]


def chain(grow: Grow, state: Any, k: int, go_on: Callable[..., bool]) -> Proposal:
    """The likeliest token after each, up to k, as long as `go_on` says so before each."""
    out = Proposal()
    while len(out.ids) < k:
        found = grow(state)
        if not found:
            break
        token, confidence, source, state = found[0]
        if not go_on(out.confidence, confidence):
            break
        out.ids.append(token)
        out.confidence.append(confidence)
        out.sources.append(source)
    return out


def tree(grow: Grow, state: Any, k: int, branch: int) -> Proposal:
    """The k tokens with the greatest products of confidences, each followed by `branch` others at most.

    Best first is exact here, since no token outranks its parent. Parents come before children, likelier brothers first.
    """
    out = Proposal()
    heap: list[tuple[float, int, int, int, float, Any, Any]] = []
    count = 0

    def push(after: Any, parent: int, reach: float) -> None:
        nonlocal count
        for token, confidence, source, state in grow(after)[:branch]:
            heapq.heappush(heap, (-reach * confidence, count, parent, token, confidence, source, state))
            count += 1

    push(state, -1, 1.0)
    while heap and len(out.ids) < k:
        reach, _, parent, token, confidence, source, after = heapq.heappop(heap)
        out.ids.append(token)
        out.parents.append(parent)
        out.confidence.append(confidence)
        out.sources.append(source)
        push(after, len(out.ids) - 1, -reach)
    return out
