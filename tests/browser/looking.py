"""Looking at the page, for the tests."""

from __future__ import annotations


def wait_state(page, view: str, *states: str, timeout: float = 120) -> str:
    """Wait until the view (A, B, "baseline 1") is in one of the states; returns which."""
    choice = ", ".join(f'.sp-view[data-view="{view}"][data-state="{s}"]' for s in states)
    page.wait_for_selector(choice, state="attached", timeout=1000 * timeout)
    return page.locator(f'.sp-view[data-view="{view}"]').get_attribute("data-state")


def tokens_of(page, view: str):
    return page.locator(f'.sp-view[data-view="{view}"] .sp-tokens')


def kept_text(page, view: str) -> str:
    """What a reader sees of the output itself: everything but what was refused."""
    return tokens_of(page, view).evaluate(
        """(node) => {
          const copy = node.cloneNode(true);
          for (const n of copy.querySelectorAll(".sp-rejected, .sp-unjudged, .sp-pending, .sp-refused")) {
            if (!n.closest(".sp-shared:not(.sp-refused)")) n.remove();
          }
          return copy.textContent;
        }"""
    )
