"""The page's title and its legend: the states of a token, each drawn as the token view draws it."""

from __future__ import annotations

TITLE = """
<div class="sp-title-block">
  <h1>Speculative decoding playground</h1>
  <p>Something fast proposes k tokens, one pass of the target model checks them all,
  and the text stays the target's.</p>
</div>
"""

_STATES = (
    ("accepted", "accepted", "", "proposed and kept"),
    ("rejected", "rejected", "", "proposed, judged, refused"),
    ("corrected", "corrected", "\u21bb", "the target's own token at the first rejection"),
    ("bonus", "bonus", "\u2726", "the target's own token after a wholly accepted proposal"),
    ("plain", "plain", "", "the target's own token, nothing was proposed"),
    ("unjudged", "unjudged", "", "proposed after the first rejection, so never judged"),
    ("pending", "pending", "", "proposed, not judged yet"),
)


def _entry(state: str, word: str, mark: str, meaning: str) -> str:
    sign = f'<i class="sp-mark" data-mark="{mark}"></i>' if mark else ""
    return f'<li title="{meaning}"><span class="sp-t sp-{state}">{word}{sign}</span></li>'


_ROUND = '<li><span class="sp-round">&nbsp;a round: one proposal and the pass that judges it</span></li>'
LEGEND = f'<ul class="sp-legend" aria-label="What the colours mean">{"".join(_entry(*s) for s in _STATES)}{_ROUND}</ul>'
