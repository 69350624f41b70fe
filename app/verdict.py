"""What a run amounts to beside its baseline: a number where there is an honest one, and a plain sentence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engines.bench import identity, speedup
from engines.events import Event
from engines.fold import Metrics, fold

# A shared machine moves by a few per cent from run to run: within this, two speeds are called the same.
SAME = 0.05


def verdict(plain: Sequence[Event], run: Sequence[Event]) -> dict[str, Any]:
    """The fields of the page's line: `speedup` (None: see `instead`), `plain_rate`, `sentence`, `tone`."""
    value, reason = speedup(plain, run)
    folded = fold(list(run))
    metrics = folded.metrics()
    out: dict[str, Any] = {"speedup": value, "plain_rate": fold(list(plain)).metrics().tokens_per_second}
    if value is None:
        # "too short to measure (3 tokens; ...)" or "not compared: the prompts differ"
        out["instead"] = reason.split(" (")[0].split(":")[0]
        return {**out, "sentence": _sentence(reason), "tone": "note"}
    out["tone"] = "slower" if value < 1 - SAME else "faster" if value > 1 + SAME else "same"
    sentences = [explain(value, metrics, folded.start.settings if folded.start else {})]
    if folded.done is not None and folded.start is not None:
        same_text = identity(plain, run)
        if same_text.verdict != "sampled":
            sentences.append(f"The text: {_end(same_text.sentence)}")
    return {**out, "sentence": " ".join(sentences)}


def explain(value: float, m: Metrics, settings: dict[str, Any]) -> str:
    """Why the speed-up is what it is. A round's cost in plain steps is tokens per pass / speed-up, by definition."""
    if settings.get("proposer") == "none":
        return "This panel decodes plainly, as the baseline does: what differs from 1× is the machine's noise."
    if m.proposed == 0:
        return "Nothing was proposed in the whole run, so every pass gave one token, as in plain decoding."
    yields = m.tokens_per_pass or 0.0
    cost = f"a round takes as long as {yields / value:.2f} plain steps"
    rate = f"{100 * (m.acceptance_rate or 0.0):.0f} % of the judged tokens were accepted"
    if value > 1 + SAME:
        return f"Faster than plain decoding: {cost} and yields {yields:.2f} tokens, since {rate}."
    if value >= 1 - SAME:
        return f"About as fast as plain decoding: {cost} and yields {yields:.2f} tokens ({rate})."
    return f"Slower than plain decoding: {cost} but yields only {yields:.2f} tokens ({rate}). {_why_slow(m, settings)}"


def _why_slow(m: Metrics, settings: dict[str, Any]) -> str:
    spent = sum(m.seconds.values()) - m.seconds.get("prefill", 0.0)
    drafting = m.seconds.get("propose", 0.0) / spent if spent > 0 else 0.0
    if settings.get("proposer") == "layer-skip" and (m.acceptance_rate or 0.0) < 0.6:
        return (
            "This model was never trained to leave layers out, so what the rest of it guesses is mostly refused; "
            f"guessing took {100 * drafting:.0f} % of the time."
        )
    if drafting > 0.4:
        return f"Proposing took {100 * drafting:.0f} % of the time: a cheaper proposer or a smaller k would help."
    if (m.acceptance_rate or 0.0) < 0.5:
        return "Too few proposals are kept to pay for checking them: a smaller k would waste less."
    return "Checking several tokens at once costs more here than it saves."


def _end(text: str) -> str:
    return text if text.endswith(".") else f"{text}."


def _sentence(text: str) -> str:
    return _end(text[:1].upper() + text[1:])
