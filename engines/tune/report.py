"""The report as data: what `report.json` holds, and what the page, the HTML report and the comparison are made from."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ..bench import MIN_TOKENS
from .candidates import PLAIN, Candidate
from .replay import acceptance, rates_by_depth
from .verdict import failed_assumption, judge, times

if TYPE_CHECKING:
    from .ladder import Tuner

VERSION = 1


def report(tuner: Tuner) -> dict[str, Any]:
    """Everything that is known, as plain JSON data."""
    measured = tuner.measured
    finalists = tuner.race.all if tuner.race else []
    standing = tuner.race.standing() if tuner.race else []
    verdict = judge(standing)
    return {
        "v": VERSION,
        "kind": "tuning",
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "of": tuner.bench.describe(),
        "options": dict(tuner.options.__dict__),
        "ended": tuner.ended,
        "seconds": round(tuner.budget.spent, 2),
        "verdict": verdict.to_json(),
        "why": _why(tuner, verdict.best),
        "differences": _differences(tuner, finalists),
        "notes": _notes(tuner),
        "prompts": {
            "count": len(measured.prompts),
            "digest": tuner.given.digest,
            "measured": len({p.prompt for c in finalists[:1] for p in measured.pairs(PLAIN.name, c.name)}),
            "categories": measured.shares,
        },
        "candidates": [_row(tuner, c) for c in tuner.candidates],
        "plain": times(measured.samples(PLAIN.name)),
        "categories": _categories(tuner, finalists),
        "calibration": tuner.calibration.to_json(),
        "dropped": [{"name": name, "why": why} for name, why in tuner.why.items()],
        "runs": [_run(s, measured.prompts[s.prompt]) for b in measured.blocks.values() for s in b.values()],
    }


def _row(tuner: Tuner, c: Candidate) -> dict[str, Any]:
    """One candidate: predicted, and measured where it was run."""
    prediction = next((p for p in tuner.predictions if p.candidate == c), None)
    samples = tuner.measured.samples(c.name)
    speedup = tuner.measured.speedup(c.name)
    return {
        **c.to_json(),
        "predicted": prediction.to_json() if prediction else None,
        "measured": speedup.to_json() if speedup else None,
        "acceptance": acceptance(samples),
        "by_position": rates_by_depth(samples) if c.branch <= 1 and c.proposer not in ("recycle", "auto") else None,
        "seconds": times(samples) or None,
        "same_text": _same_text(tuner, c),
    }


def _same_text(tuner: Tuner, c: Candidate) -> str | None:
    """ "11 of 12": greedy answers that are plain decoding's to the last token."""
    if not tuner.bench.describe().get("greedy", True):
        return None
    both = [
        (b[PLAIN.name].ids, b[c.name].ids) for b in tuner.measured.blocks.values() if PLAIN.name in b and c.name in b
    ]
    return f"{sum(a == b for a, b in both)} of {len(both)}" if both else None


def _why(tuner: Tuner, best: Candidate | None) -> list[str]:
    """Acceptance, cost, and where the time goes, of the best setting."""
    if best is None:
        return []
    samples = [b[best.name] for b in tuner.measured.blocks.values() if best.name in b]
    beside = [b[PLAIN.name] for b in tuner.measured.blocks.values() if best.name in b and PLAIN.name in b]
    mine, plain = times(samples), times(beside)
    if not mine or not plain:
        return []
    rate = acceptance(samples)
    unit = (plain["propose"] + plain["verify"] + plain["rest"]) * plain["tokens_per_pass"]
    rounds = {name: mine[name] * mine["tokens_per_pass"] / unit for name in ("propose", "verify", "rest")}
    whole = sum(rounds.values())
    accepted = f"{rate:.0%} of the judged tokens were accepted; " if rate is not None else ""
    out = [
        f"Acceptance: {accepted}a pass yielded {mine['tokens_per_pass']:.2f} tokens.",
        f"Cost: a round took {whole:.2f} times a plain one: the pass {rounds['verify']:.2f}, proposing "
        f"{rounds['propose']:.2f}, sampling and the rest {rounds['rest']:.2f}.",
        f"Together: {mine['tokens_per_pass']:.2f} tokens / {whole:.2f} = {mine['tokens_per_pass'] / whole:.2f} times "
        "as many tokens per second as plain decoding.",
    ]
    prediction = next((p for p in tuner.predictions if p.candidate == best), None)
    if prediction and prediction.iid:
        out.append(
            f"Predicted before it was confirmed: {prediction.speedup.value:.2f} from the rounds that these texts give; "
            f"{prediction.iid:.2f} by the formula with one acceptance rate, {prediction.position:.2f} with a rate for "
            "each position."
        )
    return out


def _differences(tuner: Tuner, finalists: list[Candidate]) -> list[str]:
    out = []
    for p in tuner.predictions:
        measured = tuner.measured.speedup(p.candidate.name) if p.candidate in finalists else None
        if measured is None:
            continue
        blocks = [b for b in tuner.measured.blocks.values() if p.candidate.name in b and PLAIN.name in b]
        mine, plain = times([b[p.candidate.name] for b in blocks]), times([b[PLAIN.name] for b in blocks])
        found = failed_assumption(p, measured, mine, plain)
        if found:
            out.append(found[1])
    return out


def _notes(tuner: Tuner) -> list[str]:
    """What was kept out, and what the numbers are not."""
    measured, out = tuner.measured, list(tuner.given.notes)
    short = measured.short
    if short:
        out.append(
            f"{len(short)} of the answers had fewer than {MIN_TOKENS} tokens, too few to time anything: left out."
        )
    if measured.skipped:
        out.append(f"{len(measured.skipped)} of the prompts could not be run: left out.")
    if tuner.ended != "settled":
        why = {"stopped": "it was stopped"}.get(tuner.ended, tuner.ended)
        out.append(f"The intervals had not separated when the measuring ended: {why}.")
    if sum(1 for i in range(len(measured.prompts)) if i not in measured.skipped | short) == 1:
        out.append("With one prompt the interval says how steady the runs were, and nothing about other prompts.")
    out.append(
        "Prompt reading is left out of all times, every run began with an empty cache, and no run could look into "
        "another's output: nothing was warmed by a repetition."
    )
    return out


def _categories(tuner: Tuner, finalists: list[Candidate]) -> list[dict[str, Any]]:
    """Per kind of text: what each finalist brought, and what was predicted to be best there."""
    out = []
    for kind, share in tuner.measured.shares.items():
        found = {}
        for c in finalists:
            speedup = tuner.measured.speedup(c.name, category=kind)
            samples = [s for s in tuner.measured.samples(c.name) if tuner.measured.prompts[s.prompt].category == kind]
            if speedup is not None:
                found[c.name] = {"speedup": speedup.to_json(), "acceptance": acceptance(samples), **times(samples)}
        predicted = {p.candidate.name: p.by_category[kind] for p in tuner.predictions if kind in p.by_category}
        best = max(predicted, key=predicted.get, default=None)
        out.append(
            {
                "name": kind or "all",
                "share": share,
                "measured": found,
                "predicted": predicted,
                "predicted_best": None if best is None else {"name": best, "speedup": predicted[best]},
            }
        )
    return out


def _run(s: Any, prompt: Any) -> dict[str, Any]:
    return {
        "block": s.block,
        "prompt": prompt.number,
        "category": prompt.category,
        "candidate": s.candidate,
        "tokens": s.tokens,
        "passes": len(s.passes),
        "proposed": sum(p.proposed for p in s.passes),
        "accepted": sum(p.accepted for p in s.passes),
        "rejected": sum(p.rejected for p in s.passes),
        "seconds": s.seconds(),
        "propose": sum(p.propose for p in s.passes),
        "verify": sum(p.verify for p in s.passes),
        "rest": sum(p.rest for p in s.passes),
        "prefill": s.prefill,
        "prompt_tokens": len(s.prompt_ids),
        "ended": s.reason,
    }
