"""A tree of proposals on the page: the output reads as ever, and the card shows the whole tree of the round."""

from __future__ import annotations

from looking import kept_text, tokens_of, wait_state
from replay import done_of, start_of

from engines.events import Draft, Extra, Judged, Proposed, Verdict

SECONDS = {"propose": 0.01, "verify": 0.02, "sample": 0.0, "other": 0.0}


def tree_run(run):
    """text -> <b>no | " yes" -> (" very", " so"), of which " yes so" stands."""
    run.add(start_of(run.settings, run.prompt))
    tokens = [
        Proposed(1, "<b>no", confidence=0.5, parent=-1),
        Proposed(2, " yes", confidence=0.4, parent=-1),
        Proposed(3, " never", confidence=0.3, parent=0),
        Proposed(4, " very", confidence=0.6, parent=1),
        Proposed(5, " so", confidence=0.2, parent=1),
    ]
    judged = [Judged(t + 1, t in (1, 4), 0.5, 1.0, 0.5, node=t) for t in (0, 1, 3, 4)]
    for number in range(1, 7):
        run.add(Draft(number, tokens, 0.01))
        run.add(Verdict(number, 2, judged, Extra(9, ".", "bonus", 0.9), SECONDS))
    run.add(done_of(run.events, "length"))


def test_the_card_shows_the_tree_of_a_round(replay, visit):
    _, address = replay(
        lambda run: tree_run(run) if run.settings.proposer != "none" else run.play(["a"] * 18, 900, "eos")
    )
    page = visit(address)
    page.click("#sp-run")
    wait_state(page, "A", "done")
    assert kept_text(page, "A") == " yes so." * 6
    tokens = tokens_of(page, "A").locator("[data-token]")
    names = tokens.evaluate_all("nodes => nodes.map(n => n.dataset.token)")
    assert len(names) == len(set(names)) == 6 * 6
    tokens.filter(has_text="very").first.scroll_into_view_if_needed()
    page.wait_for_timeout(200)  # scrolling takes a card away
    tokens.filter(has_text="very").first.hover()
    tree = page.locator(".sp-tip:visible .sp-tree")
    assert tree.locator("li").count() == 5
    assert tree.locator("b").count() == 0  # the text of a token is text
    yes = tree.locator("ul > li").filter(has_text="yes").first
    assert yes.locator("ul > li").count() == 2
    assert "sp-told" in yes.locator("ul > li").first.locator("span").first.get_attribute("class")
    states = [
        name.split()[1][3:] for name in tree.locator(".sp-t").evaluate_all("nodes => nodes.map((n) => n.className)")
    ]
    assert sorted(states) == ["accepted", "accepted", "rejected", "rejected", "unjudged"]
    tokens.filter(has_text=".").first.hover()  # the target's own token belongs to the round, too
    assert page.locator(".sp-tip:visible .sp-tree li").count() == 5
