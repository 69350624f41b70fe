"""What a same-distribution test came to, in sentences: what it found, how far it sees, and what it cannot prove."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

ALARM = 1e-4  # a smaller p-value counts as a difference: many tests will be run, and a false alarm would be believed
DOUBT = 0.01  # between the two: once more, with another seed
FEWEST = 100  # rounds below which nothing is said


def verdict_of(facts: Mapping[str, Any]) -> str:
    """same, unclear or differs; nothing where too little could be compared. `facts` as `same_law` gives them."""
    if facts["rounds"] < FEWEST or not facts["freedom"]:
        return "nothing"
    if facts["p_value"] < ALARM:
        return "differs"
    return "unclear" if facts["p_value"] < DOUBT else "same"


def sentences(facts: Mapping[str, Any]) -> list[str]:
    rounds = facts["rounds"]
    if rounds < FEWEST:
        return [f"Stopped after {rounds} of at least {FEWEST} rounds: too few to compare distributions."]
    if not facts["freedom"]:
        return ["Wherever this prompt was tried the model is all but certain of its next token: choose another prompt."]
    return [*_found(facts), _at_work(facts), _sight(facts), PROOF]


def _found(facts: Mapping[str, Any]) -> list[str]:
    p = facts["p_value"]
    second = facts["contexts"]
    some = "one" if second == 1 else second
    what = f"first tokens, and the second ones after {some} of them," if second else "first tokens"
    degrees = "1 degree" if facts["freedom"] == 1 else f"{facts['freedom']} degrees"
    figures = f"chi-square {facts['statistic']:.1f} with {degrees} of freedom, p = {_p(p)}"
    if facts["verdict"] == "differs":
        return [
            f"A difference was found ({figures}): in {facts['rounds']} rounds the {what} did not come as often as the "
            "model's own distribution says.",
            "Chance alone does this in fewer than 1 of 10 000 tests: something in this verification is not lossless.",
        ]
    out = [
        f"No difference was found in {facts['rounds']} rounds: the {what} came as often as the model's own "
        f"distribution says ({figures})."
    ]
    if facts["verdict"] == "unclear":
        out = [
            f"The counts are further off than usual ({figures}): chance alone does this in about "
            f"{_p(100 * p)} of 100 tests. Run it again with another seed."
        ]
    return out


def _at_work(facts: Mapping[str, Any]) -> str:
    if not facts["proposing"]:
        return (
            "But nothing was proposed in them, so they say nothing about acceptance: choose a prompt that it can copy."
        )
    proposing, stood = facts["proposing"], facts["stood"]
    return f"Speculation was at work: {proposing} rounds had a proposal, and in {stood} of them a part of it stood."


def _sight(facts: Mapping[str, Any]) -> str:
    """Three standard errors of the likeliest token's share."""
    p = facts["likeliest"]
    points = 300 * math.sqrt(p * (1 - p) / facts["rounds"])
    return (
        f"What it can see: had the likeliest token come {max(1, round(points))} percentage points too often or too "
        "rarely, it would most likely have shown."
    )


PROOF = (
    "What it cannot: samples can show a difference, never that there is none. That there is none follows from the "
    "acceptance rule, and this program's tests enumerate every outcome of it with exact fractions."
)


def _p(p: float) -> str:
    return f"{p:.2f}" if p >= 0.01 else f"{p:.4f}" if p >= 0.0001 else f"{p:.0e}"
