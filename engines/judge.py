"""From a target pass to a verdict: what of the proposal stands, and all that a reader may want to see of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .events import Extra, Judged, Verdict
from .proposers.base import Proposal
from .sampling import Chance, greedy_ids, margin, raw_stats, top, warp
from .settings import RunSettings
from .verify import Outcome, verify_block, verify_greedy, verify_tokens, verify_tree, verify_tree_greedy

if TYPE_CHECKING:
    import numpy as np
    import torch


def judge(
    s: RunSettings, logits: torch.Tensor, ids: list[int], proposal: Proposal, chance: Chance
) -> tuple[Outcome, np.ndarray | None]:
    """The verdict on a proposal, and the target's rows [n+1, V] (None under greedy decoding: one-hot)."""
    if proposal.parents:
        return _judge_tree(s, logits, ids, proposal, chance)
    if s.sampling.greedy:
        return verify_greedy(greedy_ids(logits, s.sampling, ids, proposal.ids), proposal.ids), None
    p = warp(logits, s.sampling, ids, proposal.ids)
    verify = verify_block if s.verify == "block" else verify_tokens
    return verify(p, proposal.q, proposal.ids, chance), p


def _judge_tree(
    s: RunSettings, logits: torch.Tensor, ids: list[int], proposal: Proposal, chance: Chance
) -> tuple[Outcome, dict[int, np.ndarray] | None]:
    """As `judge`, with the target's rows only where the walk through the tree came by: {row: [V]}."""

    def path(i: int) -> list[int]:
        return [proposal.ids[j] for j in proposal.path_to(i)]

    if s.sampling.greedy:

        def best(i: int) -> int:
            return greedy_ids(logits[i + 1 : i + 2], s.sampling, [*ids, *path(i)])[0]

        return verify_tree_greedy(best, proposal.children, proposal.ids), None
    rows: dict[int, np.ndarray] = {}

    def row(i: int) -> np.ndarray:
        if i + 1 not in rows:
            rows[i + 1] = warp(logits[i + 1 : i + 2], s.sampling, [*ids, *path(i)])[0]
        return rows[i + 1]

    return verify_tree(row, proposal.children, proposal.ids, chance), rows


def _rows(proposal: Proposal, outcome: Outcome) -> tuple[list[int], list[int], int]:
    """The judged tokens' places in the proposal, the row that each was judged by, the row of the extra token."""
    n = len(proposal.ids)
    nodes = list(range(min(outcome.accepted + 1, n))) if outcome.judged is None else outcome.judged
    path = list(range(outcome.accepted)) if outcome.path is None else outcome.path
    at = [(proposal.parents[i] if proposal.parents else i - 1) + 1 for i in nodes]
    return nodes, at, path[-1] + 1 if path else 0


def verdict_of(number: int, logits: torch.Tensor, p: Any, proposal: Proposal, outcome: Outcome) -> Verdict:
    """The outcome with all that a reader may want to see of it. `p` [row] is the target's law after the warping."""
    nodes, at, last = _rows(proposal, outcome)
    stood = set(range(outcome.accepted) if outcome.path is None else outcome.path)
    p_raw, rank = raw_stats(logits[[*at, last]], [*(proposal.ids[i] for i in nodes), outcome.extra])
    judged = []
    for i, node in enumerate(nodes):
        token, ok = proposal.ids[node], node in stood
        q_row = None if proposal.q is None else proposal.q[node]
        judged.append(
            Judged(
                token,
                ok,
                p=float(ok) if p is None else float(p[at[i]][token]),
                q=1.0 if q_row is None else float(q_row[token]),
                ratio=float(outcome.ratios[i]),
                threshold=None if p is None else float(outcome.thresholds[i]),
                u=None if p is None else float(outcome.us[i]),
                p_raw=p_raw[i],
                rank=rank[i],
                node=node if proposal.parents else None,
            )
        )
    extra = Extra(
        outcome.extra,
        "",
        outcome.kind,
        p=1.0 if p is None else float(p[last][outcome.extra]),
        p_raw=p_raw[-1],
        rank=rank[-1],
        mass=None if outcome.mass is None else float(outcome.mass),
        margin=margin(logits[last]),
    )
    return Verdict(number, outcome.accepted, judged, extra, {})


def add_candidates(
    verdict: Verdict,
    logits: torch.Tensor,
    p: Any,
    proposal: Proposal,
    outcome: Outcome,
    count: int,
    piece: Callable[[int], str],
) -> None:
    """The `count` likeliest tokens of p and q at each judged token and the extra one, as far as the verdict has them.

    `piece(id)` is the text of one token by itself.
    """
    nodes, at, last = _rows(proposal, outcome)

    def best(row: int) -> list[list]:
        return _named(piece, top(logits[row].softmax(-1) if p is None else p[row], count))

    for judged, node, row in zip(verdict.judged, nodes, at, strict=False):
        judged.top_p = best(row)
        if proposal.q is not None:
            judged.top_q = _named(piece, top(proposal.q[node], count))
    if verdict.extra is not None:
        verdict.extra.top = best(last)


def _named(piece: Callable[[int], str], best: list[tuple[int, float]]) -> list[list]:
    return [[token, piece(token), x] for token, x in best]
