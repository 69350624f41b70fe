"""What the screen shows of odd text: rows U1, U2, U3 and U9, and the look of each state. The runs are hand-made."""

from __future__ import annotations

import re

import pytest
from looking import kept_text, tokens_of, wait_state
from replay import byte_tokens, word_tokens

FAMILY = "👩‍👩‍👧‍👦"
ODD = f"Hi {FAMILY} 안녕하세요 각 नमस्ते क्षि 🇩🇪 é end"
CODE = 'def f(x):\n\n    if x:\n\t\treturn  "a  b"\n\n\n    return None  \n'
MARKUP = (
    "<img src=x onerror=\"document.title='broken'\"> <style>body{display:none}</style> "
    "</script><script>alert(1)</script> "
    "**bold** # no heading $x^2$ `code` &amp; <b>x</b> ${1+1} {{value}} [a](javascript:alert(1))\n"
)
# Every state of DESIGN.md's table: a CSS test of its tint, and its mark.
STATES = {
    "accepted": ("rgba(86, 180, 233", None),
    "rejected": ("rgba(213, 94, 0", None),
    "corrected": ("rgba(240, 228, 66", "↻"),
    "bonus": ("rgba(204, 121, 167", "✦"),
}


def show(replay, visit, tokens, rate=400.0, **page):
    def script(run):
        run.play(tokens, rate, "eos")

    engine, address = replay(script)
    page = visit(address, **page)
    page.click("#sp-run")
    return engine, page


def watch_for_replacement(page):
    """From now on, count every moment at which any output holds U+FFFD."""
    page.evaluate(
        """() => {
          window.replacements = 0;
          const look = () => { for (const n of document.querySelectorAll(".sp-tokens"))
            if (n.textContent.includes("\\ufffd")) window.replacements += 1; };
          new MutationObserver(look).observe(document.body, {childList: true, subtree: true, characterData: true});
        }"""
    )


@pytest.mark.parametrize("size", [1, 2, 3])
def test_u1_graphemes_are_never_torn_and_halves_keep_their_verdicts(replay, visit, size):
    tokens = byte_tokens(ODD, size)

    def script(run):
        run.play(tokens, 200, "eos", accepted=(2, 0, 3, 1))

    engine, address = replay(script)
    page = visit(address)
    watch_for_replacement(page)
    page.click("#sp-run")
    wait_state(page, "B", "done")
    for view in ("A", "B"):
        assert kept_text(page, view) == ODD
        whole = tokens_of(page, view).evaluate("(n) => [...n.querySelectorAll('.sp-glyph')].map((g) => g.textContent)")
        assert FAMILY in whole  # 25 bytes, so at least nine tokens, drawn as one sign
        bars = tokens_of(page, view).evaluate(
            """(n, family) => [...n.querySelectorAll('.sp-shared')]
                .filter((s) => s.querySelector('.sp-glyph').textContent === family)
                .map((s) => [...s.querySelectorAll('.sp-bar')].map((b) => b.spToken.state))[0]""",
            FAMILY,
        )
        family_tokens = len(FAMILY.encode()) // size
        assert abs(len(bars) - family_tokens) <= 1  # the first and the last may hold a neighbour, too
        assert {"accepted", "corrected"} <= set(bars) <= {"accepted", "corrected", "bonus"}
    assert page.evaluate("window.replacements") == 0


def test_u1_the_limit_in_mid_character_leaves_no_replacement(replay, visit):
    tokens = byte_tokens("ok " + FAMILY, 2)[:3]  # ends after two of the first sign's bytes

    def script(run):
        run.play(tokens, 200, "length")

    engine, address = replay(script)
    page = visit(address)
    watch_for_replacement(page)
    page.click("#sp-run")
    wait_state(page, "B", "done")
    assert kept_text(page, "A") == "ok "
    assert tokens_of(page, "A").locator(".sp-sliver").count() == 1
    assert page.evaluate("window.replacements") == 0


def test_u2_every_blank_is_kept_and_copies_are_exact(replay, visit):
    tokens = word_tokens(CODE)

    def script(run):
        run.play(tokens, 400, "eos", wrong=" not this")

    engine, address = replay(script)
    page = visit(address, permissions=["clipboard-read", "clipboard-write"])
    page.click("#sp-run")
    wait_state(page, "B", "done")
    view = tokens_of(page, "A")
    assert kept_text(page, "A") == CODE == engine.runs[1].events[-1].text
    assert view.evaluate("(n) => getComputedStyle(n).whiteSpace") == "pre-wrap"

    page.locator('.sp-view[data-view="A"] .sp-copy').click()
    assert page.evaluate("navigator.clipboard.readText()") == CODE

    for show_refused in (True, False):  # selecting all of it copies the output, in both views
        page.locator("#sp-refused").set_checked(show_refused)
        page.evaluate("navigator.clipboard.writeText('')")
        view.evaluate("(n) => { getSelection().selectAllChildren(n); n.focus(); }")
        page.keyboard.press("Control+c")
        assert page.evaluate("navigator.clipboard.readText()") == CODE

    # Four lines down there are two blank lines between `return "a  b"` and `return None`.
    lines = view.evaluate("(n) => n.querySelectorAll('.sp-t:not(.sp-rejected):not(.sp-unjudged) .sp-nl').length")
    assert lines == CODE.count("\n")


def test_u3_markup_is_text(replay, visit):
    engine, page = show(replay, visit, word_tokens(MARKUP))
    wait_state(page, "B", "done")
    for view in ("A", "B"):
        assert kept_text(page, view) == MARKUP
        assert (
            tokens_of(page, view).evaluate(
                "(n) => n.querySelectorAll('img, style, script, b, a, strong, em, h1, code, math').length"
            )
            == 0
        )
    assert page.title() == "Speculative decoding playground"
    assert page.locator("#sp-run").is_visible()
    tokens_of(page, "A").locator(".sp-accepted").first.hover()
    assert page.locator(".sp-tip:visible").inner_text().startswith("<img")


def test_u3_markup_in_messages_and_names_is_text(replay, visit):
    from replay import done_of

    def script(run):
        if run.settings.proposer == "none":
            run.play([f" w{i}" for i in range(20)], 600, "eos")
        else:
            run.add(done_of([], "error", f"No such model: {MARKUP}"))

    engine, address = replay(script)
    page = visit(address)
    page.click("#sp-run")
    for view in "AB":
        wait_state(page, view, "error")
        assert "<img src=x onerror" in page.locator(f'.sp-view[data-view="{view}"] .sp-status').inner_text()
    assert page.title() == "Speculative decoding playground"


def test_u9_a_line_without_a_blank_wraps(replay, visit):
    text = "x" * 2000
    tokens = [text[i : i + 4] for i in range(0, 2000, 4)]
    engine, address = replay(lambda run: run.play(tokens, 150, "eos"))
    page = visit(address, width=390, height=844)
    page.evaluate(
        """() => {
          const node = document.querySelector('.sp-view[data-view="A"] .sp-tokens');
          window.lengths = new Set();
          new MutationObserver(() => window.lengths.add(node.textContent.length))
            .observe(node, {childList: true, subtree: true});
        }"""
    )
    page.click("#sp-run")
    wait_state(page, "B", "done")
    assert page.evaluate("window.lengths.size") > 4  # shown as it comes
    assert kept_text(page, "A") == text
    for selector in (".sp-tokens", "html"):
        for wide, room in page.locator(selector).evaluate_all(
            "(all) => all.map((n) => [n.scrollWidth, n.clientWidth])"
        ):
            assert wide <= room


def test_states_have_their_colours_and_marks(replay, visit):
    engine, page = show(replay, visit, [f" w{i}" for i in range(60)], rate=300)
    wait_state(page, "B", "done")
    for state, (tint, mark) in STATES.items():
        node = tokens_of(page, "A").locator(f".sp-t.sp-{state}").first
        assert node.evaluate("(n) => getComputedStyle(n).backgroundColor").startswith(tint)
        signs = node.locator(".sp-mark").evaluate_all("(all) => all.map((n) => n.dataset.mark)")
        assert signs == ([mark] if mark else [])
        legend = page.locator(f".sp-legend .sp-{state}")
        assert legend.evaluate("(n) => getComputedStyle(n).backgroundColor").startswith(tint)
        assert legend.locator(".sp-mark").evaluate_all("(all) => all.map((n) => n.dataset.mark)") == signs
    style = """(n) => { const s = getComputedStyle(n);
                        return [s.textDecorationLine, s.backgroundImage, s.boxShadow].join('|'); }"""
    view = tokens_of(page, "A")
    assert view.locator(".sp-rejected").first.evaluate(style).startswith("line-through")
    assert "repeating-linear-gradient" in view.locator(".sp-unjudged").first.evaluate(style)
    assert re.search(r"inset", view.locator(".sp-corrected").first.evaluate(style))  # underlined


def test_refused_tokens_can_be_hidden(replay, visit):
    engine, page = show(replay, visit, [f" w{i}" for i in range(30)], rate=300)
    wait_state(page, "B", "done")
    refused = page.locator(".sp-tokens .sp-rejected, .sp-tokens .sp-unjudged")
    assert refused.count() > 10
    assert refused.first.is_visible()
    page.locator("#sp-refused").uncheck()
    assert not any(refused.evaluate_all("(all) => all.map((n) => n.offsetParent !== null)"))
    assert tokens_of(page, "A").inner_text().strip() == re.sub(r"^ ", "", "".join(f" w{i}" for i in range(30)))
    page.locator("#sp-refused").check()
    assert refused.first.is_visible()


def test_a_token_tells_what_is_known_of_it(replay, visit):
    engine, page = show(replay, visit, [f" w{i}" for i in range(30)], rate=300)
    wait_state(page, "B", "done")
    tokens_of(page, "A").locator(".sp-rejected").first.hover()
    told = page.locator(".sp-tip:visible").inner_text()
    judged = next(j for e in engine.runs[1].events if e.type == "verdict" for j in e.judged if not j.accepted)
    for label, value in (
        ("token id", judged.id),
        ("p (target)", "0.100"),
        ("q (draft)", "0.500"),
        ("min(1, p/q)", "0.200"),
        ("u drawn", "0.700"),
        ("rank", "number 6 of the target's choices"),
    ):
        assert re.search(rf"{re.escape(label)}\s+{re.escape(str(value))}", told), told
    assert "proposed, judged, refused" in told


def test_the_end_of_text_token_is_a_sign(replay, visit):
    engine, page = show(replay, visit, [*[f" w{i}" for i in range(20)], ""])
    wait_state(page, "B", "done")
    assert tokens_of(page, "A").locator(".sp-end").count() == 1
    assert kept_text(page, "A") == "".join(f" w{i}" for i in range(20))
