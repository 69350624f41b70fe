"""Ids to text, a token at a time: exact additions, no half characters, no replacement characters."""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Sequence

from .tokenizer import Tokenizer

# "ignore" drops bytes that can never become a character; an unfinished character waits inside the decoder.
_Decoder = codecs.getincrementaldecoder("utf-8")


class TextStream:
    """The text of a continuation, fed one id at a time.

    `at_start` says that nothing came before: only then is the blank dropped that SentencePiece puts in front of a
    text. Special tokens add nothing.
    """

    def __init__(self, tokenizer: Tokenizer, *, at_start: bool = False) -> None:
        self._tokenizer = tokenizer
        self._decoder = _Decoder("ignore")
        self._strip = at_start and tokenizer.dummy_prefix

    @classmethod
    def after(cls, tokenizer: Tokenizer, prompt: Iterable[int]) -> TextStream:
        """A stream of what follows `prompt`; the text begins with it if the prompt is only control tokens."""
        return cls(tokenizer, at_start=all(tokenizer.is_special(i) for i in prompt))

    def push(self, i: int) -> str:
        """The text that token `i` adds; "" when it ends in half a character, which then comes with its other half."""
        data = self._tokenizer.token_bytes(i)
        if self._strip and data:
            self._strip = False
            data = data[1:] if data.startswith(b" ") else data
        return self._decoder.decode(data)

    def peek(self, ids: Sequence[int]) -> list[str]:
        """What each of `ids` would add, one after the other, without taking any of them."""
        state, strip = self._decoder.getstate(), self._strip
        out = [self.push(i) for i in ids]
        self._decoder.setstate(state)
        self._strip = strip
        return out

    def prompt_pieces(self, ids: Sequence[int]) -> list[str]:
        """The text of each token of a prompt; joined they are the whole. Special tokens show as their name.

        Nothing is taken: the stream stands where it stood.
        """
        tokenizer, stream = self._tokenizer, TextStream(self._tokenizer, at_start=True)
        return [tokenizer.piece(i) if tokenizer.is_special(i) else stream.push(i) for i in ids]


def decode(tokenizer: Tokenizer, ids: Sequence[int], *, at_start: bool = True) -> str:
    """All of `ids` at once, special tokens left out."""
    stream = TextStream(tokenizer, at_start=at_start)
    return "".join(stream.push(i) for i in ids)
