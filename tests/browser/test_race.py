"""The race: all runs on one clock, played, stepped and scrubbed, and always the same text in the end."""

from __future__ import annotations

import pytest
from looking import kept_text, tokens_of, wait_state

WORDS = [f" w{i}" for i in range(60)]
LEAD = '.sp-view[data-view="A"]'


def script(run):
    run.play(WORDS, 2000, "eos", pace=0.02 if run.settings.proposer == "none" else 0.03)


@pytest.fixture
def raced(replay, visit):
    def open_page(**more):
        engine, address = replay(script)
        page = visit(address, **more)
        page.click("#sp-run")
        wait_state(page, "B", "done")
        page.locator(".sp-race").wait_for()
        return page, engine

    return open_page


def seconds(page):
    return float(page.locator(".sp-clock").inner_text().split(" /")[0])


def drawn(page):
    return [tokens_of(page, v).inner_html() for v in "AB"]


# It may be over before anybody looks.
SEE_RACES = """
  globalThis.races = [];
  new MutationObserver(() => races.push(document.body.dataset.race)).observe(
    document, { subtree: true, attributes: true, attributeFilter: ["data-race"] });
"""


def test_a_race_follows_the_run_and_ends_as_it_was(raced):
    page, engine = raced(race=True, init=SEE_RACES)
    page.wait_for_function("races.includes('playing') && races.at(-1) === 'off'")
    assert kept_text(page, "A") == kept_text(page, "B") == "".join(WORDS)
    said = page.locator(".sp-race-result").inner_text()
    for run, name in zip(engine.runs, ("plain decoding", "A", "B"), strict=True):
        took = sum(sum(e.seconds.values()) for e in run.events if e.type == "verdict")
        assert f"{name} {took:.2f} s" in said


def test_reduced_motion_starts_no_race(raced):
    page, _ = raced(race=True, reduced_motion="reduce")
    page.wait_for_timeout(400)
    assert page.evaluate("document.body.dataset.race") in (None, "off")
    assert page.get_by_role("button", name="Play").is_visible()  # still there, when asked for


def test_scrubbing_shows_what_there_was_at_that_second(raced):
    page, engine = raced()
    before = drawn(page)
    full = [kept_text(page, v) for v in "AB"]
    scrub = page.locator(".sp-scrub")
    for part in (0.503, 0.207, 0.811, 0.0):  # between the ends of rounds, all of which are multiples of a hundredth
        t = part * float(scrub.get_attribute("max"))
        scrub.evaluate("(n, t) => { n.value = t; n.dispatchEvent(new Event('input')); }", t)
        for view, run in zip("AB", engine.runs[1:], strict=True):
            verdicts = [e for e in run.events if e.type == "verdict"]
            now, emitted = 0.0, 0
            for v in verdicts:
                now += sum(v.seconds.values())
                if now <= t + 1e-9:
                    emitted += v.accepted + (v.extra is not None)
            assert kept_text(page, view) == "".join(WORDS[:emitted])
            assert full[0].startswith(kept_text(page, view))
    scrub.evaluate("(n) => { n.value = n.max; n.dispatchEvent(new Event('input')); }")
    assert drawn(page) == before


def test_a_step_is_a_proposal_and_then_its_verdict(raced):
    page, engine = raced()
    page.get_by_role("button", name="To the start").click()
    assert kept_text(page, "A") == ""
    on = page.get_by_role("button", name="One step on")
    events = [e for e in engine.runs[1].events if e.type in ("draft", "verdict")]
    view = tokens_of(page, "A")
    for event in events[:8]:
        on.click()
        pending = view.locator(".sp-pending").count()
        assert pending == (len(event.tokens) if event.type == "draft" else 0)
    shown = kept_text(page, "A")
    page.get_by_role("button", name="One step back").click()
    assert view.locator(".sp-pending").count() == len(events[6].tokens)
    on.click()
    assert kept_text(page, "A") == shown
    for _ in range(len(events)):
        on.click()
    assert kept_text(page, "A") == "".join(WORDS)


def test_the_pace_can_be_chosen_and_a_new_run_ends_the_race(raced):
    page, _ = raced()
    page.get_by_label("Speed of the replay").select_option("0.1")
    page.get_by_role("button", name="Play").click()
    page.wait_for_timeout(700)
    page.get_by_role("button", name="Pause").click()
    assert 0.02 < seconds(page) < 0.4
    page.click("#sp-run")
    wait_state(page, "B", "done")
    page.locator("#sp-run:enabled").wait_for()
    assert kept_text(page, "A") == "".join(WORDS)
    assert page.evaluate("document.body.dataset.race") == "off"


def test_the_text_can_be_copied_whole_in_the_midst_of_a_race(raced):
    page, _ = raced()
    page.get_by_role("button", name="To the start").click()
    page.evaluate(
        """() => { window.copied = []; navigator.clipboard.writeText = async (t) => window.copied.push(t); }"""
    )
    page.locator(f"{LEAD} .sp-copy").click()
    assert page.evaluate("window.copied") == ["".join(WORDS)]


def test_a_panel_that_goes_leaves_the_race(raced):
    page, _ = raced()
    page.get_by_role("button", name="To the start").click()
    assert "B " in page.locator(".sp-race-result").inner_text()
    page.get_by_role("button", name="Remove panel B").click()
    assert "B " not in page.locator(".sp-race-result").inner_text()
    assert kept_text(page, "A") == "".join(WORDS)
