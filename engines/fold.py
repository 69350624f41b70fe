"""Events -> what to show and what to count. Every metric is defined here and nowhere else.

Acceptance by position has two readings. *Unconditional*: accepted at i / rounds in which i was proposed.
*Conditional*: accepted at i / rounds in which i was judged. For independent, equally likely acceptances the
second is flat at a and the first is a^(i+1).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from .events import Done, Draft, Event, Start, Verdict

_RANKING = ("accepted", "rejected", "unjudged")
PHASES = ("prefill", "propose", "verify", "sample", "other")


@dataclass
class Token:
    """One token as shown: its state (see `events.STATES`), where it stands, and its text."""

    id: int
    text: str
    state: str
    round: int
    position: int  # how many tokens of the round go before it: in a chain its index, in a tree its depth
    parent: int | None = None  # in a tree: the index, in the proposal, of the token that it follows; -1: the text
    node: int | None = None  # in a tree: its own index in the proposal; None for the extra token


@dataclass
class Round:
    """One round after folding: proposed tokens that lie beyond the end are already gone."""

    number: int
    tokens: list[Token] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    rows: int = 1  # rows of the target pass: proposed + 1, whatever was cut afterwards
    note: str | None = None
    judged: bool = False  # its verdict has come

    def count(self, *states: str) -> int:
        return sum(t.state in states for t in self.tokens)


@dataclass
class Metrics:
    """The numbers of a run. Ratios are None where nothing was there to divide by."""

    rounds: int
    emitted: int
    proposed: int
    accepted: int
    rejected: int
    corrected: int
    bonus: int
    plain: int
    unjudged: int
    nothing_proposed: int  # rounds of a speculative run in which the proposer had nothing to offer
    acceptance_rate: float | None  # accepted / (accepted + rejected)
    draft_yield: float | None  # accepted / proposed
    tokens_per_pass: float | None  # emitted / rounds
    acceptance_by_position: list[float]  # unconditional
    acceptance_by_position_judged: list[float | None]  # conditional
    seconds: dict[str, float]
    tokens_per_second: float | None  # emitted / all seconds but prefill

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def _ratio(a: float, b: float) -> float | None:
    return a / b if b else None


class Fold:
    """Feed it events in order; `rounds`, `tokens()` and `metrics()` are true at any moment."""

    EMITTED = ("accepted", "corrected", "bonus", "plain")

    def __init__(self) -> None:
        self.start: Start | None = None
        self.done: Done | None = None
        self.rounds: list[Round] = []
        self.held = 0
        self.prefill_seconds = 0.0
        self._cut_last = 0

    def add(self, event: Event) -> None:
        if isinstance(event, Start):
            self.start = event
        elif isinstance(event, Draft):
            tokens = []
            for i, t in enumerate(event.tokens):
                if t.parent is None:
                    tokens.append(Token(t.id, t.text, "pending", event.round, i))
                else:
                    depth = tokens[t.parent].position + 1 if t.parent >= 0 else 0
                    tokens.append(Token(t.id, t.text, "pending", event.round, depth, t.parent, i))
            self.rounds.append(Round(event.round, tokens, {"propose": event.seconds}, len(tokens) + 1, event.note))
        elif isinstance(event, Verdict):
            self._judge(self.rounds[-1], event)
        else:
            self._finish(event)

    def _judge(self, round_: Round, v: Verdict) -> None:
        """States; then the order of showing: accepted, rejected, unjudged, the extra token."""
        for i, judged in enumerate(v.judged):
            token = round_.tokens[i if judged.node is None else judged.node]
            token.state = "accepted" if judged.accepted else "rejected"
        by_state: dict[str, list[Token]] = {"accepted": [], "rejected": [], "pending": []}
        for token in round_.tokens:
            by_state[token.state].append(token)
        kept = by_state["accepted"] + by_state["rejected"]
        if not v.cut:
            for token in by_state["pending"]:
                token.state = "unjudged"
            kept += by_state["pending"]
        if v.extra is not None:
            kept.append(Token(v.extra.id, v.extra.text, v.extra.kind, v.round, v.accepted))
        round_.tokens = kept
        round_.seconds, round_.judged = v.seconds, True
        self.held = v.held

    def _finish(self, done: Done) -> None:
        self.done = done
        self.held = 0
        self.prefill_seconds = done.seconds.get("prefill", 0.0)
        left = done.keep
        rounds = []
        for round_ in self.rounds:
            tokens = [t for t in round_.tokens if t.state != "pending"]
            inside = sum(t.state in self.EMITTED for t in tokens)
            if inside > left:  # the end lies in this round: keep up to the last kept token
                tokens = self._upto(tokens, left)
            left -= min(inside, left)
            round_.tokens = tokens
            if tokens:
                rounds.append(round_)
            if left == 0 and inside:
                break
        self.rounds = rounds
        if done.last_text is not None:
            last = [t for r in rounds for t in r.tokens if t.state in self.EMITTED][-1:]
            for token in last:
                token.text = done.last_text

    def _upto(self, tokens: list[Token], keep: int) -> list[Token]:
        out = []
        for token in tokens:
            if keep == 0:
                break
            out.append(token)
            keep -= token.state in self.EMITTED
        return [t for t in out if t.state in self.EMITTED]

    def tokens(self) -> list[Token]:
        """All tokens in the order in which they are shown: by round; in a round accepted, rejected, unjudged,
        then the target's own."""
        return [t for r in self.rounds for t in r.tokens]

    def text(self) -> str:
        return "".join(t.text for t in self.tokens() if t.state in self.EMITTED)

    def metrics(self) -> Metrics:
        n = {s: sum(r.count(s) for r in self.rounds) for s in (*self.EMITTED, "rejected", "unjudged")}
        judged_rounds = [r for r in self.rounds if r.judged]
        emitted = sum(n[s] for s in self.EMITTED)
        proposed = n["accepted"] + n["rejected"] + n["unjudged"]
        seconds = {p: sum(r.seconds.get(p, 0.0) for r in judged_rounds) for p in PHASES}
        seconds["prefill"] = self.prefill_seconds
        if self.done is not None:
            seconds = {p: self.done.seconds.get(p, 0.0) for p in PHASES}
        unconditional, conditional = self._by_position(judged_rounds)
        speculative = self.start is not None and self.start.proposer != "none"
        return Metrics(
            rounds=len(judged_rounds),
            emitted=emitted,
            proposed=proposed,
            **{s: n[s] for s in ("accepted", "rejected", "corrected", "bonus", "plain", "unjudged")},
            nothing_proposed=n["plain"] if speculative else 0,
            acceptance_rate=_ratio(n["accepted"], n["accepted"] + n["rejected"]),
            draft_yield=_ratio(n["accepted"], proposed),
            tokens_per_pass=_ratio(emitted, len(judged_rounds)),
            acceptance_by_position=unconditional,
            acceptance_by_position_judged=conditional,
            seconds=seconds,
            tokens_per_second=_ratio(emitted, sum(seconds.values()) - seconds["prefill"]),
        )

    @staticmethod
    def _by_position(rounds: list[Round]) -> tuple[list[float], list[float | None]]:
        """Per round the best state at each position: in a tree several tokens share one, and one of them may stand."""
        proposals: list[dict[int, str]] = []
        for round_ in rounds:
            at: dict[int, str] = {}
            for t in round_.tokens:
                if t.state in _RANKING and _RANKING.index(t.state) < _RANKING.index(at.get(t.position, _RANKING[-1])):
                    at[t.position] = t.state
                elif t.state in _RANKING:
                    at.setdefault(t.position, t.state)
            proposals.append(at)
        unconditional, conditional = [], []
        for i in range(max((max(p) + 1 for p in proposals if p), default=0)):
            states = [p[i] for p in proposals if i in p]
            accepted = states.count("accepted")
            unconditional.append(accepted / len(states))
            conditional.append(_ratio(accepted, accepted + states.count("rejected")))
        return unconditional, conditional


def fold(events: list[Event]) -> Fold:
    """A whole recorded run at once."""
    out = Fold()
    for event in events:
        out.add(event)
    return out
