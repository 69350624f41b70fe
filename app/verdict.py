"""What a run amounts to beside its baseline: a number where there is an honest one, and a plain sentence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engines.bench import Speedup, disturbed, identity, measured, predicted_speedup
from engines.cost import Costs
from engines.events import Event
from engines.fold import Fold, Metrics, fold

# Up to this many tokens per pass a run is plain decoding in all but name: a gain in time can only be noise.
NO_GAIN = 1.02
# A speed-up on the other side of 1 than the costs of passes say, by this factor: either may be wrong, and it is said.
CONTRARY = 1.3
SAMPLED = (
    "The texts differ because each run draws its own random numbers; the distribution they are drawn from is the same."
)


def verdict(plain: Sequence[Event], run: Sequence[Event]) -> dict[str, Any]:
    """The fields of the page's line: `speedup` (None: see `instead`), `low` and `high` (its spread, or None),
    `predicted` (by the costs of passes, or None), `plain_rate`, `sentence`, `tone`."""
    found = measured(plain, run)
    folded, base = fold(list(run)), fold(list(plain))
    out: dict[str, Any] = {"speedup": found.value, "plain_rate": base.metrics().tokens_per_second}
    if found.value is None:
        # "too short to measure (3 tokens; ...)" or "not compared: the prompts differ"
        out["instead"] = found.sentence.split(" (")[0].split(":")[0]
        return {**out, "sentence": _sentence(found.sentence), "tone": "note"}
    settings = folded.start.settings if folded.start else {}
    out["predicted"] = expected = _expected(folded)
    tone, sentence = explain(found, folded.metrics(), settings, expected)
    sentences = [sentence]
    if folded.done is not None and base.done is not None:
        same_text = identity(plain, run)
        if same_text.verdict != "sampled":
            sentences.append(f"The text: {_end(same_text.sentence)}")
        elif any(a != b for a, b in zip(base.done.ids, folded.done.ids, strict=False)):
            sentences.append(SAMPLED)
    return {**out, "low": found.low, "high": found.high, "tone": tone, "sentence": " ".join(sentences)}


def _expected(run: Fold) -> float | None:
    """The speed-up by the costs of passes that were measured when the model was loaded; None if they were not."""
    if run.start is None or run.start.costs is None:
        return None
    return predicted_speedup(run, Costs.from_json(run.start.costs))


def tone_of(found: Speedup, m: Metrics, settings: dict[str, Any], doubt: str = "") -> str:
    """faster, slower, or same: a difference is one when all of the spread lies on one side of 1, and nothing speaks

    against it.
    """
    if settings.get("proposer") == "none" or m.proposed == 0 or found.low is None or found.high is None or doubt:
        return "same"
    if found.low > 1:
        return "faster" if (m.tokens_per_pass or 0.0) > NO_GAIN else "same"
    return "slower" if found.high < 1 else "same"


def _doubt(found: Speedup, m: Metrics) -> str:
    """Why the machine must have changed its speed between the two runs; "" when nothing says so."""
    if not disturbed(found, m):
        return ""
    why = "A round cannot cost less than a plain pass"
    return f" {why}: the machine's speed changed between the two runs. Press Run again."


def _contrary(found: Speedup, expected: float | None) -> str:
    """That the costs measured at load foretold the opposite. They may have been taken at a busy moment, or one of the
    runs was: the measured figure stands, and is to be seen twice before it is believed.
    """
    if expected is None or not (expected < 1 < found.value or found.value < 1 < expected):
        return ""
    if 1 / CONTRARY < found.value / expected < CONTRARY:
        return ""
    return (
        f" The costs of passes, measured when the model was loaded, foretold {expected:.2f}×: if the machine was busy "
        "then, or in one of the two runs, another Run will show it."
    )


def explain(found: Speedup, m: Metrics, settings: dict[str, Any], expected: float | None = None) -> tuple[str, str]:
    """The tone, and why the speed-up is what it is. A round's cost in plain passes is tokens per pass / speed-up."""
    doubt = _doubt(found, m)
    caveat = doubt or _contrary(found, expected)
    tone = tone_of(found, m, settings, doubt)
    if settings.get("proposer") == "none":
        return tone, "This panel decodes plainly, as the baseline does: what differs from 1× is the machine's noise."
    if m.proposed == 0:
        return tone, "Nothing was proposed in the whole run, so every pass gave one token, as in plain decoding."
    empty = f" In {m.nothing_proposed} of {m.rounds} rounds nothing was proposed."
    empty = empty if 2 * m.nothing_proposed > m.rounds else ""
    if tone == "same" and (m.tokens_per_pass or 0.0) <= NO_GAIN:
        what = "little was proposed, and hardly any of it" if empty else "hardly anything proposed"
        return tone, (f"Nothing was gained: {what} was accepted; the difference is noise of this machine.{empty}")
    yields = m.tokens_per_pass or 0.0
    quotient = f"{yields:.2f} tokens per pass ÷ {yields / found.value:.2f} (what a round costs, in plain passes)"
    rate = f"{100 * (m.acceptance_rate or 0.0):.0f} % of the judged tokens were accepted."
    facts = f"{quotient} = {found.value:.2f}; {rate}{empty}"
    if tone == "faster":
        return tone, f"Faster than plain decoding: {facts}{caveat}"
    if tone == "slower":
        return tone, f"Slower than plain decoding: {facts} {_why_slow(m, settings)}{caveat}"
    few = " The run had too few rounds to say how far chance goes." if found.low is None else ""
    return tone, f"No clear difference from plain decoding: {facts}{few}{caveat}"


def _why_slow(m: Metrics, settings: dict[str, Any]) -> str:
    spent = sum(m.seconds.values()) - m.seconds.get("prefill", 0.0)
    drafting = m.seconds.get("propose", 0.0) / spent if spent > 0 else 0.0
    rate = m.acceptance_rate or 0.0
    if settings.get("proposer") == "layer-skip" and rate < 0.7:
        refused = "mostly refused" if rate < 0.4 else "often refused" if rate < 0.6 else "refused too often to pay"
        return (
            f"This model was never trained to leave layers out, so what the rest of it guesses is {refused}; "
            f"guessing took {100 * drafting:.0f} % of the time."
        )
    if drafting > 0.4:
        return f"Proposing took {100 * drafting:.0f} % of the time: a cheaper proposer or a smaller k would help."
    if rate < 0.5:
        return "Too few proposals are kept to pay for checking them: a smaller k would waste less."
    return "Checking several tokens at once costs more here than it saves."


def _end(text: str) -> str:
    return text if text.endswith(".") else f"{text}."


def _sentence(text: str) -> str:
    return _end(text[:1].upper() + text[1:])
