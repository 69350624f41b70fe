"""The speculative-decoding engine. Importing the package alone loads neither torch nor transformers."""

__version__ = "0.1.0"
