"""Proposes nothing: plain decoding, through the same loop and with the same events."""

from __future__ import annotations

from .base import Proposal


class NoProposer:
    name = "none"

    def start(self, ids):
        pass

    def propose(self, ids, k, go_on, chance):
        return Proposal()

    def commit(self, length):
        pass
