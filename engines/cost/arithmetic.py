"""What a pass yields and when it pays, by formula.

`a` is the acceptance rate per judged token, taken as the same for every position and independent (Leviathan et al.
2023); where it is not, `given[i]` is the share accepted at position i + 1 of the rounds in which it was judged (the
conditional reading of `engines.fold`). All times are ratios to one target pass over one token: `c` is the cost ratio
(one draft step / one target pass), `v` the verify ratio (a target pass over k + 1 tokens / over one), `overhead` what a
round takes besides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence


def expected_tokens(a: float, k: int) -> float:
    """(1 - a^(k+1)) / (1 - a), and k + 1 when a = 1: tokens per pass, the target's own included."""
    if not 0 <= a <= 1 or k < 0:
        raise ValueError(f"need 0 <= a <= 1 and k >= 0, got a={a}, k={k}")
    # The sum, not the quotient: the quotient loses its digits as a nears 1.
    return sum(a**i for i in range(k + 1))


def expected_tokens_by_position(given: Sequence[float], k: int) -> float:
    """1 + a1 + a1 a2 + ...: tokens per pass where each position has a rate of its own; beyond the last one known it

    is taken to stay. With equal rates this is `expected_tokens`.
    """
    if k < 0 or any(not 0 <= a <= 1 for a in given):
        raise ValueError(f"need rates from 0 to 1 and k >= 0, got {list(given)}, k={k}")
    total, reach = 1.0, 1.0
    for i in range(k):
        reach *= given[min(i, len(given) - 1)] if given else 0.0
        total += reach
    return total


def predicted_speedup(a: float, k: int, c: float, v: float, overhead: float = 0.0) -> float:
    """Expected tokens per pass / (v(k) + k c + overhead): plain time per token over speculative time per token."""
    return expected_tokens(a, k) / (v + k * c + overhead)


def break_even(k: int, c: float, v: float, overhead: float = 0.0) -> float | None:
    """The acceptance rate at which k proposed tokens a round earn what they cost, found by halving.

    None where not even a rate of 1 does: k + 1 tokens then cost more than k + 1 passes.
    """
    cost = v + k * c + overhead
    if cost > k + 1:
        return None
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if expected_tokens(middle, k) < cost else (low, middle)
    return high


def best_k(a: float, c: float, v: Callable[[int], float], overhead: float = 0.0, most: int = 16) -> tuple[int, float]:
    """(k, predicted speed-up) of the k from 0 to `most` that is worth most; (0, 1.0), plain decoding, when none pays.

    `v(n)` is the verify ratio of n proposed tokens. Of equally good ones the shortest.
    """
    found = max(((predicted_speedup(a, k, c, v(k), overhead), -k) for k in range(1, most + 1)), default=(0.0, 0))
    return (-found[1], found[0]) if found[0] > 1 else (0, 1.0)
