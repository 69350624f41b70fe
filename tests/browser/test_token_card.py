"""The card of a token: by pointer, by tap and by keyboard; and special tokens, which have a name but no text."""

from __future__ import annotations

import re

from looking import kept_text, tokens_of, wait_state

TEXT = [f" w{i}" for i in range(40)]


def done_page(replay, visit, script=None, **how):
    _, address = replay(script or (lambda run: run.play(TEXT, 800, "eos")))
    page = visit(address, **how)
    page.click("#sp-run")
    wait_state(page, "B", "done")
    return page


def card(page):
    return page.locator(".sp-tip:visible")


def test_a_tap_shows_the_card_and_another_takes_it_away(replay, visit):
    page = done_page(replay, visit, width=390, height=844, has_touch=True, is_mobile=True)
    tokens = tokens_of(page, "A").locator("[data-token]")
    tokens.nth(2).scroll_into_view_if_needed()
    tokens.nth(2).tap()
    page.wait_for_timeout(300)  # long enough for what a lifted finger would do
    assert card(page).count() == 1
    assert "token id" in card(page).inner_text()
    first = card(page).inner_text()
    tokens.nth(3).tap()
    assert card(page).count() == 1 and card(page).inner_text() != first
    tokens.nth(3).tap()
    page.wait_for_timeout(100)
    assert card(page).count() == 0
    tokens.nth(3).tap()
    assert card(page).count() == 1
    page.locator("#sp-panel-A .sp-chip").tap()
    page.wait_for_timeout(100)
    assert card(page).count() == 0


def test_the_pointer_shows_and_leaves_as_before(replay, visit):
    page = done_page(replay, visit)
    token = tokens_of(page, "A").locator("[data-token]").nth(2)
    token.hover()
    assert card(page).count() == 1
    token.click()
    assert card(page).count() == 1
    page.mouse.move(5, 5)
    assert card(page).count() == 0


def test_the_keyboard_goes_from_token_to_token(replay, visit):
    page = done_page(replay, visit)
    page.locator("#sp-refused").focus()
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.matches('.sp-view[data-view=\"A\"] .sp-tokens')"):
            break
    told = []

    def place():
        said = re.search(r"round\s+(\d+), place (\d+)", card(page).inner_text())
        told.append(said and (int(said[1]), int(said[2])))

    place()
    for key in ("ArrowRight", "ArrowRight", "ArrowLeft", "End", "Home"):
        page.keyboard.press(key)
        place()
    assert told[0] == told[5] == (1, 1) and len(set(told[:3])) == 3 and told[3] == told[1]
    assert told[4] == (max(t[0] for t in told), told[4][1]) and told[4][0] > 5
    described = tokens_of(page, "A").get_attribute("aria-describedby")
    assert page.locator(f"#{described}").is_visible()
    page.keyboard.press("Escape")
    assert card(page).count() == 0
    page.keyboard.press("ArrowRight")
    assert card(page).count() == 1
    page.keyboard.press("Shift+Tab")
    assert card(page).count() == 0


def special(run):
    """What is refused in each round begins with the end-of-text token; what follows is half a character."""
    add = run.add

    def changed(event):
        if event.type == "draft":
            for token in event.tokens:
                if token.text.startswith(" wrong0"):
                    token.text, token.piece = "", "<|im_end|>"
                elif token.text.startswith(" wrong1"):
                    token.text, token.piece = "", "\ufffd"
        add(event)

    run.add = changed
    run.play(TEXT, 800, "eos")


def test_a_refused_special_token_shows_its_name(replay, visit):
    page = done_page(replay, visit, special)
    view = tokens_of(page, "A")
    refused = view.locator(".sp-rejected.sp-special")
    assert refused.count() > 3 and set(refused.all_inner_texts()) == {"<|im_end|>"}
    size = "(n) => parseFloat(getComputedStyle(n).fontSize)"
    assert refused.first.evaluate(size) < view.evaluate(size)
    assert kept_text(page, "A") == "".join(TEXT)
    assert "\ufffd" not in view.inner_text() and view.locator(".sp-sliver").count() > 0
    refused.first.hover()
    assert card(page).inner_text().startswith("<|im_end|>")
    copied = view.evaluate(
        """(n) => { getSelection().selectAllChildren(n);
                    const event = new ClipboardEvent("copy", {clipboardData: new DataTransfer(), bubbles: true});
                    n.dispatchEvent(event); return event.clipboardData.getData("text/plain"); }"""
    )
    assert copied == "".join(TEXT)
