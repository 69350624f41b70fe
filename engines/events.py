"""The one contract: a run is a list of these events, and as JSON Lines it is the trace.

`start`, then for each round one `draft` and one `verdict`, then `done`. Whatever shows or counts anything reads
events and nothing else (see `fold`), so a live run, a recorded one and one on somebody else's server look alike.
Versioned: `start.v` is 1. Words and states are those of the README.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import Any, ClassVar

from .errors import UserError
from .trace_types import told

VERSION = 1

# The kinds that the extra token of a verdict can have, and all states that a token can have.
EXTRA_KINDS = ("corrected", "bonus", "plain")
STATES = ("pending", "accepted", "rejected", "corrected", "bonus", "plain", "unjudged")
REASONS = ("eos", "stop", "length", "stopped", "error")


@dataclass
class Proposed:
    """One proposed token, before judgement.

    `text` is what it would add to the decoded text were it and all before it accepted. `q` is its probability
    under the distribution that it was drawn from (1 where the proposer is deterministic), `confidence` what the
    proposer thought of it before warping (None where it has no opinion). `source` is the span [start, end) of
    token positions in prompt + output that an n-gram was copied from: the copied token is at `end - 1`. `parent`, in
    a tree, is the proposed token that this one follows, -1 being the text before the round; None everywhere means a
    chain, in which each token follows the one before it. `piece` is the token's own name where `text` is empty, as for
    <|im_end|>, so that a view has something to show for it.
    """

    id: int
    text: str
    q: float = 1.0
    confidence: float | None = None
    source: list[int] | None = None
    parent: int | None = None
    piece: str | None = None


@dataclass
class Judged:
    """One judged token, in the order of judgement; the last one is a rejection unless all were accepted. In a tree

    `node` says which of the proposed tokens it is; in a chain they are the first ones, and it is None.

    `p` and `q` are after warping, `ratio` is min(1, p/q). `u` was drawn and compared with `threshold` (`ratio`
    itself when verifying token by token; the block's own acceptance probability when verifying by block); both are
    None under greedy decoding, where nothing is drawn. `p_raw` is the target's softmax probability before any
    warping and `rank` the token's rank there (0 = the target's first choice). `top_p`, `top_q`: [id, text,
    probability] of the likeliest candidates after warping, when asked for; raw probabilities under greedy decoding.
    """

    id: int
    accepted: bool
    p: float
    q: float
    ratio: float
    threshold: float | None = None
    u: float | None = None
    p_raw: float | None = None
    rank: int | None = None
    top_p: list[list] | None = None
    top_q: list[list] | None = None
    node: int | None = None


@dataclass
class Extra:
    """The target's own token that ends a round: `kind` is corrected, bonus or plain (nothing was proposed).

    `p` is its probability under the law it was drawn from was the target's (before the residual is taken),
    `mass` the residual mass, sum of max(p - q, 0), for a corrected token. `top` as `Judged.top_p`.
    """

    id: int
    text: str
    kind: str
    p: float
    p_raw: float | None = None
    rank: int | None = None
    mass: float | None = None
    top: list[list] | None = None
    margin: float | None = None  # logit gap between the target's first and second choice


@dataclass
class Start:
    type: ClassVar[str] = "start"
    settings: dict[str, Any]
    target: str
    proposer: str
    engine: str
    device: str
    dtype: str
    versions: dict[str, str]
    prompt_ids: list[int]
    prompt_text: str
    prompt_tokens: list[str]  # the text of each prompt token, joined they are prompt_text
    draft: str | None = None
    context: int | None = None  # the target's context limit in tokens
    prompt: str | None = None  # as it was asked, before the chat template; None where a whole chat was
    costs: dict[str, Any] | None = None  # as `engines.cost.Costs.to_json`, where measured
    v: int = VERSION


@dataclass
class Draft:
    """A round begins. `note` says why fewer tokens than asked for were proposed, when there is something to say."""

    type: ClassVar[str] = "draft"
    round: int
    tokens: list[Proposed]
    seconds: float
    note: str | None = None


@dataclass
class Verdict:
    """The round ends.

    `accepted` tokens of the proposal are kept: of a chain the first ones, of a tree those of one path. `judged` covers
    them and the rejected ones (in a chain one at most); what the draft event proposed beyond is unjudged. `cut` counts
    the proposed tokens that lie beyond the end of the run (EOS inside the block): they are all that were not judged,
    have no state and are not counted. `held` is how many of the last emitted tokens of the run might yet be withdrawn,
    because their text may turn out to be the beginning of a stop string; a view keeps them back until the next event.
    `seconds`: propose, verify, sample, other.
    """

    type: ClassVar[str] = "verdict"
    round: int
    accepted: int
    judged: list[Judged]
    extra: Extra | None
    seconds: dict[str, float]
    cut: int = 0
    held: int = 0


@dataclass
class Done:
    """The run ends. `keep` of the emitted tokens stay, the last of them with its text cut to `last_text` if given

    (a stop string began inside it); everything after the last kept token, rejected tokens included, is neither
    shown nor counted. `ids` and `text` are exactly what was kept. `message` says in a sentence what a reader
    should know (the context is full; what went wrong). `seconds`: prefill, propose, verify, sample, other.
    `metrics` as in `engines.fold.Metrics`.
    """

    type: ClassVar[str] = "done"
    reason: str
    text: str
    ids: list[int]
    keep: int
    metrics: dict[str, Any]
    seconds: dict[str, float]
    last_text: str | None = None
    message: str | None = None


Event = Start | Draft | Verdict | Done
_TYPES = {c.type: c for c in (Start, Draft, Verdict, Done)}
_NESTED = {
    ("draft", "tokens"): Proposed,
    ("verdict", "judged"): Judged,
    ("verdict", "extra"): Extra,
}


def _plain(value: Any) -> Any:
    """Like dataclasses.asdict without its deep copies, and without keys that are None (five times faster)."""
    if dataclasses.is_dataclass(value):
        return {k: _plain(v) for k, v in value.__dict__.items() if v is not None}
    if isinstance(value, list) and value and dataclasses.is_dataclass(value[0]):
        return [_plain(v) for v in value]
    return value


def to_json(event: Event) -> str:
    """One line of JSON, without the newline. Floats as Python prints them; no NaN (ValueError)."""
    return json.dumps({"type": event.type, **_plain(event)}, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def from_json(line: str) -> Event:
    """The event on one line of a trace. Raises UserError when it is not one."""
    try:
        data = json.loads(line)
        kind = data.pop("type")
        cls = _TYPES[kind]
        if kind == "start" and data.get("v") != VERSION:
            raise UserError(
                f"This trace has format version {told(data.get('v'))}; this program reads version {VERSION}."
            )
        for (owner, key), nested in _NESTED.items():
            if owner == kind and data.get(key) is not None:
                value = data[key]
                data[key] = [nested(**v) for v in value] if isinstance(value, list) else nested(**value)
        if kind == "verdict":
            data.setdefault("extra", None)
        return cls(**data)
    except UserError:
        raise
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise UserError(f"Not a line of a trace: {error}.") from None
