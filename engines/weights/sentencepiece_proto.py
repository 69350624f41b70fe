"""A `tokenizer.model` for SentencePiece, written by hand: the few fields of its protobuf that matter.

The wire format is that of sentencepiece_model.proto (google/sentencepiece, Apache-2.0): a ModelProto with pieces
(1), trainer_spec (2) and normalizer_spec (3). Reading such a file is left to the sentencepiece package.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

# Kinds of a piece; GGUF uses the same numbers.
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
BPE, UNIGRAM = 2, 1

# Protobuf merges a repeated message into the first, so appending this to a model takes away the blank that
# SentencePiece puts in front of a text: normalizer_spec { add_dummy_prefix: false }.
NO_DUMMY_PREFIX = b"\x1a\x02\x18\x00"


def varint(n: int) -> bytes:
    out = bytearray()
    n &= (1 << 64) - 1  # a negative int32 is sign-extended to ten bytes
    while n > 0x7F:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


def field(number: int, value: int | float | bytes) -> bytes:
    """One field: int as a varint, float in 32 bits, bytes with their length."""
    if isinstance(value, bytes):
        return varint(number << 3 | 2) + varint(len(value)) + value
    if isinstance(value, float):
        return varint(number << 3 | 5) + struct.pack("<f", value)
    return varint(number << 3) + varint(value)


def model_proto(
    pieces: Sequence[tuple[str, float, int]],
    *,
    model_type: int = BPE,
    add_dummy_prefix: bool = True,
    unk_id: int = 0,
    bos_id: int = 1,
    eos_id: int = 2,
    pad_id: int = -1,
) -> bytes:
    """The bytes of a model whose pieces are (text, score, kind) by id."""
    body = b"".join(
        field(1, field(1, text.encode()) + field(2, float(score)) + field(3, kind)) for text, score, kind in pieces
    )
    byte_fallback = any(kind == BYTE for _, _, kind in pieces)
    trainer = field(3, model_type) + field(4, len(pieces)) + field(35, int(byte_fallback))
    for number, i in enumerate((unk_id, bos_id, eos_id, pad_id)):
        trainer += field(40 + number, i)
        if i >= 0:  # SentencePiece finds them by their name, "<s>" and so on unless another is given
            trainer += field(45 + number, pieces[i][0].encode())
    # "identity": the text as it is, no run of blanks thrown away.
    normalizer = field(1, b"identity") + field(3, int(add_dummy_prefix)) + field(4, 0) + field(5, 1)
    return body + field(2, trainer) + field(3, normalizer)
