"""The lessons: what each stop says, what it shows, and one thing to try. Content, and nothing else.

Words in braces are figures of the stop's recorded runs (`lesson_figures.Figures`, by the panel's letter), put in when
the page is built; `holds` is what has to be true of these runs for the sentences around them to be right, and a test
asks it of the files in the repository.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from engines.cost import expected_tokens
from engines.settings import GREEDY_BELOW

from .lesson_figures import Figures

Runs = Mapping[str, Figures]


@dataclass(frozen=True)
class Lesson:
    """One stop. `shows` are its presets (`engines.presets`) with the words on their buttons; `widget` is a figure of

    assets/: costs, formula, residual or catch. In `text`, `A` is the first panel of the first preset; a figure of
    another preset is named by it, as in {prose.A.per_pass}.
    """

    name: str
    title: str
    text: tuple[str, ...]
    attempt: str
    shows: Mapping[str, str]
    holds: Callable[[Mapping[str, Runs]], bool]
    widget: str = ""

    def said(self, figures: Mapping[str, Runs]) -> tuple[str, ...]:
        """The sentences, with the figures of `figures` {preset: {letter: Figures}} put in."""
        first = figures[next(iter(self.shows))]
        others = {name.replace("-", "_"): _Letters(runs) for name, runs in figures.items()}
        return tuple(part.format(**first, **others, **TEXTBOOK) for part in self.text)


class _Letters:
    """So that a text can name {prose.A.per_pass}."""

    def __init__(self, runs: Runs) -> None:
        self.__dict__.update(runs)


TEXTBOOK = {"high": f"{expected_tokens(0.8, 4):.1f}", "low": f"{expected_tokens(0.5, 4):.1f}"}


def _rates(runs: Runs) -> list[float]:
    return [figures.metrics.acceptance_rate or 0.0 for figures in runs.values()]


def _falls(values: list[float], by: float) -> bool:
    return all(a > b + by for a, b in zip(values, values[1:], strict=False))


LESSONS = (
    Lesson(
        "idle",
        "Decoding leaves the processor idle",
        (
            "To write one token, the processor fetches every weight of the model from memory, and does little with "
            "each. A pass takes as long as the fetching takes; the arithmetic units wait.",
            "So several tokens in one pass cost little more than one. Where this was recorded, a pass over five tokens "
            "took {A.five} times as long as a pass over one, not five times.",
            "This run wrote {A.emitted} tokens by plain decoding, and needed {A.rounds} passes, one after the other.",
        ),
        "Choose “n-gram lookup” under “who proposes” and press Run: how many passes does the same text need now?",
        {"idle": ""},
        lambda f: f["idle"]["A"].costs.v(4) < 2 and f["idle"]["A"].emitted == f["idle"]["A"].rounds,
        "costs",
    ),
    Lesson(
        "round",
        "One round: propose, judge, go on",
        (
            "Something fast proposes a few tokens; one pass of the model judges them all. What it agrees with is kept.",
            "At the first disagreement the model's own token takes the place, and the round ends. If there is none, "
            "the same pass gives one more token, as a bonus. So no round gives less than plain decoding does.",
            "These {A.rounds} rounds wrote {A.emitted} tokens: {A.metrics.accepted} accepted, {A.metrics.corrected} "
            "corrections, {A.metrics.bonus} bonus, and {A.metrics.plain} in rounds in which nothing was proposed.",
        ),
        "Step through the run round by round. In how many of its rounds do all four proposed tokens stand?",
        {"round": ""},
        lambda f: (
            f["round"]["A"].whole_rounds > 0
            and f["round"]["A"].metrics.corrected > 0
            and f["round"]["A"].metrics.plain > 0
        ),
    ),
    Lesson(
        "formula",
        "How many tokens a pass brings",
        (
            "If each proposed token stands with chance a, whatever came before it, a pass that judges k of them brings "
            "(1 − a^(k+1)) / (1 − a) tokens on average.",
            "With k = 4 that is {high} tokens at a = 0.8, and {low} at a = 0.5: of a poor proposal the last tokens are "
            "seldom reached.",
            "In this run {A.acceptance} of the judged tokens were accepted. The formula says {A.formula} tokens per "
            "pass; it brought {A.per_pass}.",
        ),
        "Set a to 0.5 and move k from 4 to 16. What do the twelve further tokens bring?",
        {"formula": ""},
        lambda f: abs(float(f["formula"]["A"].formula) - float(f["formula"]["A"].per_pass)) < 0.35,
        "formula",
    ),
    Lesson(
        "long-k",
        "k too large",
        (
            "A proposed token counts only if all before it stood. So each further one is worth less than the one "
            "before it, and costs as much.",
            "With k = {A.k}, {B.k} and {C.k}, the same proposer brought {A.per_pass}, {B.per_pass} and {C.per_pass} "
            "tokens per pass. The speed went from {A.speedup} plain decoding's to {B.speedup} and {C.speedup}.",
            "At k = {C.k}, {C.unjudged} of what was proposed was never even judged.",
        ),
        "Tick “adaptive k” in panel C (More settings), and run it: where does k settle by itself?",
        {"long-k": ""},
        lambda f: (
            f["long-k"]["C"].speed < f["long-k"]["A"].speed
            and f["long-k"]["C"].metrics.tokens_per_pass < 1.25 * f["long-k"]["A"].metrics.tokens_per_pass
            and f["long-k"]["C"].metrics.unjudged > 0.5 * f["long-k"]["C"].metrics.proposed
        ),
    ),
    Lesson(
        "temperature",
        "Temperature up, acceptance down",
        (
            "At temperature 0 the model always takes its likeliest token, which is easy to foresee. The warmer it is, "
            "the oftener it takes another, and the proposal is refused.",
            "At temperature {A.temperature}, {B.temperature} and {C.temperature} the same proposer, on the same "
            "prompt, had {A.acceptance}, {B.acceptance} and {C.acceptance} of its judged tokens accepted.",
        ),
        "Set panel C to temperature 0.3 and run it. Between which of the others does it fall?",
        {"temperature": ""},
        lambda f: _falls(_rates(f["temperature"]), 0.1),
    ),
    Lesson(
        "code-or-prose",
        "Code against prose",
        (
            "Code says its names again and again, and its grammar is strict. Prose does its best to surprise.",
            "The same proposer on the same model brought {code.A.per_pass} tokens per pass on code, and "
            "{prose.A.per_pass} on prose. A speed-up that is told without its text says nothing.",
        ),
        "Show both, then put in a prompt of your own work: which of the two is it like?",
        {"code": "Code", "prose": "Prose"},
        lambda f: f["code"]["A"].metrics.tokens_per_pass > 1.15 * f["prose"]["A"].metrics.tokens_per_pass,
    ),
    Lesson(
        "quoting",
        "Quoting the prompt",
        (
            "The n-gram lookup has no network at all. It looks for the last few tokens earlier in the text, and "
            "proposes what followed them there.",
            "Where the answer quotes its prompt that is nearly always right: {A.acceptance} of the judged tokens were "
            "accepted, and a pass brought {A.per_pass} tokens. A trained head brought {B.per_pass} on the same text.",
        ),
        "Point at a blue token in panel A to see where it was copied from. Then ask for something that is not in the "
        "prompt, and run again.",
        {"quoting": ""},
        lambda f: f["quoting"]["A"].metrics.tokens_per_pass > 2 * f["quoting"]["B"].metrics.tokens_per_pass,
    ),
    Lesson(
        "bad-draft",
        "A bad draft is slower than none",
        (
            "A draft has to be right and cheap. Here the model drafts for itself, with some of its layers left out.",
            "Without {A.skipped} of its layers it is right: {A.acceptance} accepted. But a guess costs {A.guess} of a "
            "pass, and the run is at {A.speedup} of plain decoding's speed.",
            "Without {B.skipped} it is cheap: a guess costs {B.guess}. But only {B.acceptance} are accepted, and the "
            "run is at {B.speedup}.",
        ),
        "Look for layers to skip that pay (More settings). On a model that was not trained for it, you may find none.",
        {"bad-draft": ""},
        lambda f: (
            max(f["bad-draft"][x].speed for x in "AB") < 1
            and _falls(_rates(f["bad-draft"]), 0.4)
            and f["bad-draft"]["A"].guess_cost > 0.7 > f["bad-draft"]["B"].guess_cost
        ),
    ),
    Lesson(
        "same-text",
        "Why the output cannot change",
        (
            "A proposed token x stands with chance min(1, p(x) / q(x)): p is the model's probability, q the draft's. "
            "If it falls, the model draws from what p has beyond q. Together this gives exactly p: the draft decides "
            "the speed, never the text.",
            "Panel A ran at temperature {A.temperature}: its {A.emitted} tokens are, one by one, those of plain "
            "decoding. At temperature {B.temperature}, in panel B, each run draws its own numbers, so the texts "
            "differ; what they are drawn from is the same.",
        ),
        "Take the poor draft and draw 1 000 tokens, a few times. Then let a rejection draw from p itself, and start "
        "again: which tokens come too often?",
        {"same-text": ""},
        lambda f: (
            f["same-text"]["A"].same_text
            and f["same-text"]["A"].run[0].settings["sampling"]["temperature"] < GREEDY_BELOW
            and f["same-text"]["B"].run[-1].ids != f["same-text"]["B"].plain[-1].ids
        ),
        "residual",
    ),
    Lesson(
        "batching",
        "The honest catch",
        (
            "Speculation spends arithmetic that would be idle. A busy server has none: it fills each pass with the "
            "tokens of other people.",
            "In this run {A.wasted} of the rows that the model computed gave no token: they were refused, or never "
            "judged. Alone, they cost little time. In a full batch they take the place of somebody's token.",
        ),
        "Raise the batch until the gain is gone. The tab Batching measures where that is on this machine.",
        {"batching": ""},
        lambda f: f["batching"]["A"].waste > 0.4,
        "catch",
    ),
)
