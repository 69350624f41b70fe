"""Text to tokens and back: tokenizers, streaming, stop strings, chat templates, shared vocabularies."""

from .stops import StopFinder
from .stream import TextStream
from .tokenizer import Tokenizer, load_tokenizer
from .vocab import check_shared_vocabulary

__all__ = ["StopFinder", "TextStream", "Tokenizer", "check_shared_vocabulary", "load_tokenizer"]
