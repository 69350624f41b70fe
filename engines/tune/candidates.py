"""What may be recommended: proposers with their numbers of tokens, and how the acceptance of each comes to be known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import UserError
from ..settings import MAX_K, RunSettings

KS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16)
LONG = 8  # the longest proposal of one that drafts token by token: each of its tokens costs a step
# From text alone; from one long proposal; only by running it. The order is that of the default choice, too.
BY_TEXT = ("ngram", "suffix")
BY_LONG = ("draft", "eagle", "layer-skip")
OFFERED = ("ngram", "suffix", "recycle", "eagle", "draft", "layer-skip", "auto")


@dataclass(frozen=True)
class Candidate:
    """One setting to choose among. `draft` is None where the proposer has none, or takes the target's own head."""

    proposer: str
    k: int = 1
    branch: int = 0
    adaptive: bool = False
    draft: str | None = None

    @property
    def name(self) -> str:
        """As `compare --try` takes it, but for the draft's name; "plain" for plain decoding."""
        if self.proposer == "none":
            return "plain"
        return f"{self.proposer} k={self.k}{self._manner}"

    @property
    def _manner(self) -> str:
        return (f" branch={self.branch}" if self.branch else "") + (" adaptive=yes" if self.adaptive else "")

    @property
    def family(self) -> str:
        """The name without k: what differs in k alone lies on one curve."""
        return f"{self.proposer}{self._manner}"

    @property
    def way(self) -> str:
        """How its acceptance is known without running it at this k.

        "text": a lookup's proposals depend on the text alone, so it can be asked again at every place of the plain
        run's text, for any k, with adaptive lengths or trees. Exact for greedy runs; at a temperature a copied token
        stands with probability p(token), which is how often the plain text has it. Not with earlier outputs in memory.

        "long": a drafter that always writes k tokens, one after the other, has written those of every shorter k as
        well. For a draft model, whose guess at a place depends on the text before it alone, the rounds of a shorter k
        follow exactly from a greedy long run, but for the places of bonus tokens, where nobody guessed. For a head and
        for layer skip, which rely on their own guesses' states, acceptance falls with depth, and what a shorter k
        would have accepted there is corrected for by the rates by depth: an estimate.

        "own": trees beside lookups (their nodes compete for k), adaptive lengths of drafters (their rule learns from
        its own rounds), recycling (its table is filled by the rows of its own passes) and auto must be run as they are.
        """
        if self.proposer in BY_TEXT:
            return "text"
        return "long" if self.proposer in BY_LONG and self.branch <= 1 and not self.adaptive else "own"

    def settings(self, base: RunSettings) -> RunSettings:
        """`base` with this setting; earlier outputs are never looked into, since each prompt is run several times."""
        if self.proposer == "none":
            return base.plain()
        return base.replace(
            proposer=self.proposer, k=self.k, branch=self.branch, adaptive=self.adaptive, draft=self.draft,
            remember=False,
        )  # fmt: skip

    def to_json(self) -> dict[str, Any]:
        return {**self.__dict__, "name": self.name, "family": self.family, "way": self.way}


PLAIN = Candidate("none")


def ladder(proposers: Sequence[str], ks: Sequence[int] = (), draft: str | None = None) -> list[Candidate]:
    """All candidates of these proposers. `ks` empty: the usual ones, for drafters up to LONG. Raises UserError.

    `draft` names a draft model, or a trained draft or head; it goes to the proposer draft if that is among them, else
    to eagle. Recycling and auto, which cannot be foretold, come with one or two lengths.
    """
    unknown = [p for p in proposers if p not in OFFERED]
    if unknown:
        why = " (plain decoding is always measured)" if unknown[0] == "none" else ""
        raise UserError(f"{unknown[0]!r} cannot be tuned: choose among {', '.join(OFFERED)}{why}.")
    bad = [k for k in ks if not 1 <= k <= MAX_K]
    if bad:
        raise UserError(f"k must lie in 1 to {MAX_K}, not {bad[0]}.")
    if not proposers:
        raise UserError(f"Name at least one proposer of {', '.join(OFFERED)}.")
    if "draft" in proposers and not draft:
        raise UserError("The proposer draft needs a draft model: name one with --draft.")
    wanted = sorted(set(ks))
    out: list[Candidate] = []
    for p in dict.fromkeys(proposers):
        own = draft if p == "draft" or (p in ("eagle", "auto") and "draft" not in proposers) else None
        mine = wanted or [k for k in KS if p in BY_TEXT or k <= LONG]
        if p in BY_TEXT or p in BY_LONG:
            out += [Candidate(p, k, draft=own) for k in mine]
        if p in BY_TEXT:
            out.append(Candidate(p, mine[-1], adaptive=True))
        elif p == "draft":
            out.append(Candidate(p, mine[-1], adaptive=True, draft=own))
        elif p == "eagle":
            out.append(Candidate(p, mine[-1], branch=3, adaptive=True, draft=own))
        elif p == "recycle":
            out += [Candidate(p, k) for k in (wanted[-2:] or (4, 8))]
        elif p == "auto":
            out.append(Candidate(p, mine[-1], draft=own))
    return out
