"""The token view's drawing, apart from the page: whatever comes in whatever order, it shows what the fold holds."""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from replay import byte_tokens

from app.scripts import ASSETS
from engines.events import Done, Draft, Extra, Judged, Proposed, Start, Verdict, to_json
from engines.settings import RunSettings

# Odd on purpose: families joined by ZWJ, a flag, a keycap, Korean in single letters, Devanagari, stacked accents,
# a letter that needs two UTF-16 units, and text that would be markup.
TEXT = "ab 👩‍👩‍👧‍👦 🇩🇪🇫🇷 1️⃣ 한국 하 नमस्ते é̂x 𝒳\n\n\t<b>&amp;\r\nend 👩‍💻"

DRIVER = """({lines, batches}) => {
  const kept = (node) => {
    const copy = node.cloneNode(true);
    for (const n of copy.querySelectorAll(".sp-rejected, .sp-unjudged, .sp-pending, .sp-refused")) {
      if (!n.closest(".sp-shared:not(.sp-refused)")) n.remove();
    }
    return copy.textContent;
  };
  const keptPieces = (node) => [...node.querySelectorAll(".sp-line > *")].filter((n) =>
      !n.matches(".sp-rejected, .sp-unjudged, .sp-refused")).map((n) => n.textContent);
  const fold = new SpecPlay.Fold();
  const grown = document.createElement("div");
  const view = new SpecPlay.TokenText(grown);
  const out = [];
  let at = 0;
  for (const size of batches) {
    let changed = Infinity;
    for (const line of lines.slice(at, at + size)) changed = Math.min(changed, fold.add(JSON.parse(line)));
    at += size;
    view.update(fold, changed);
    const whole = document.createElement("div");
    new SpecPlay.TokenText(whole).update(fold, 0);
    const chain = fold.tokens().filter((t) => !t.held && t.state !== "rejected" && t.state !== "unjudged");
    const emitted = chain.filter((t) => t.state !== "pending").map((t) => t.text).join("");
    const segmenter = new Intl.Segmenter(undefined, {granularity: "grapheme"});
    const graphemes = [...segmenter.segment(chain.map((t) => t.text).join(""))]
      .map((s) => s.segment).filter((s) => s !== "\\r\\n");
    const pieces = keptPieces(grown);
    const drawn = new Set([...grown.querySelectorAll("[data-token]")].map((n) => n.spToken));
    out.push({
      same: grown.innerHTML === whole.innerHTML,
      text: kept(grown) === emitted || fold.rounds.some((r) => r.tokens.some((t) => t.state === "pending")),
      torn: graphemes.filter((g) => g.length > 1 && !pieces.some((p) => p.includes(g))),
      missing: fold.tokens().filter((t) => !t.held && !drawn.has(t)).map((t) => t.text),
      bad: kept(grown).includes("\\ufffd"),
      stray: grown.querySelectorAll("b, img, script").length,
    });
  }
  return out;
}"""


@pytest.fixture(scope="module")
def page(browser):
    context = browser.new_context()
    page = context.new_page()
    for name in ("fold.js", "tokens.js"):
        page.add_script_tag(path=str(ASSETS / name))
    yield page
    context.close()


def run_over(text: str, seed: int) -> list:
    """A run that emits `text` in byte tokens of random sizes, with refused tokens that are odd as well."""
    rng = random.Random(seed)
    right = [t for word in text.split("|") for t in byte_tokens(word, rng.choice([1, 2, 3, 5]))]
    made = RunSettings(proposer="ngram", k=4)
    events: list = [Start(made.to_json(), "t", "ngram", "e", "cpu", "fp32", {}, [1], "p", ["p"])]
    seconds = dict.fromkeys(("propose", "verify", "sample", "other"), 0.1)
    at = number = 0
    while at < len(right):
        number += 1
        n = rng.choice([0, 1, 4])
        accepted = min(rng.randint(0, n), len(right) - at - 1)
        wrong = [rng.choice(["", "", "é", "👨", "\u200d", " no", "\n"]) for _ in range(n - accepted)]
        proposed = [Proposed(0, t) for t in [*right[at : at + accepted], *wrong]]
        judged = [Judged(0, i < accepted, 0.5, 0.5, 1.0) for i in range(min(n, accepted + 1))]
        kind = "plain" if n == 0 else "bonus" if accepted == n else "corrected"
        events.append(Draft(number, proposed, 0.1))
        extra = Extra(0, right[at + accepted], kind, 0.5)
        at += accepted + 1
        events.append(Verdict(number, accepted, judged, extra, seconds, held=rng.choice([0, 0, 0, min(2, at)])))
    keep = rng.choice([at, at, rng.randint(0, at)])
    events.append(Done("eos", "", [], keep, {}, seconds, None if keep == at else ""))
    return events


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10**9))
def test_grown_and_whole_drawing_agree_and_nothing_is_torn(page, seed):
    rng = random.Random(seed)
    words = TEXT.split(" ")
    rng.shuffle(words)
    lines = [to_json(e) for e in run_over(" ".join(words), seed)]
    batches = []
    while sum(batches) < len(lines):
        batches.append(rng.choice([1, 1, 2, 5, 30]))
    for step in page.evaluate(DRIVER, {"lines": lines, "batches": batches}):
        assert step == {"same": True, "text": True, "torn": [], "missing": [], "bad": False, "stray": 0}
