"""Do two models share a vocabulary? By token strings, not only by size."""

from __future__ import annotations

import re

from ..errors import UserError
from .tokenizer import Tokenizer

# Rows that only fill a table up, which every export names as it likes.
_FILLER = re.compile(
    r"\[PAD\d+\]|<\|?(unused|reserved|extra|dummy|pad)[\w-]*\|?>|\[(unused|control)_?\d+\]", re.IGNORECASE
)
# As many tokens may one model have beyond the other's last: a few added ones, not half a vocabulary.
MAX_EXTRA = 1024


def check_shared_vocabulary(
    target: Tokenizer, draft: Tokenizer, target_name: str | None = None, draft_name: str | None = None
) -> None:
    """Raises UserError, with the first token that differs, unless the draft's ids mean the same to the target.

    Tables padded to different sizes are fine: only ids that both have count, and a few added tokens at the end.
    """
    target_name, draft_name = target_name or target.name, draft_name or draft.name
    ours, theirs = target.vocab(), draft.vocab()
    common = min(len(ours), len(theirs))
    if ours[:common] != theirs[:common]:
        for i, (a, b) in enumerate(zip(ours[:common], theirs[:common], strict=True)):
            if a != b and not _same(a, b):
                raise UserError(
                    f"{draft_name} cannot draft for {target_name}: their vocabularies differ, first at token {i} "
                    f"({a!r} in the target, {b!r} in the draft). Choose a draft of the same family."
                )
    longer, has, lacks = (ours, target_name, draft_name) if len(ours) > common else (theirs, draft_name, target_name)
    extra = [(i, p) for i, p in enumerate(longer[common:], common) if p and not _filler(p)]
    if len(extra) > MAX_EXTRA:
        i, piece = extra[0]
        raise UserError(
            f"{draft_name} cannot draft for {target_name}: {has} has {len(extra)} tokens that {lacks} "
            f"lacks, the first is token {i} ({piece!r}). Choose a draft of the same family."
        )


def _filler(piece: str) -> bool:
    return _FILLER.fullmatch(piece) is not None


def _same(a: str, b: str) -> bool:
    """An id that one side leaves out, or only fills a gap with, is no difference."""
    return a == "" or b == "" or _filler(a) or _filler(b)
