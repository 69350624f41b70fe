"""Small tokenizers of every kind, trained on a few lines, in folders as models have them."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path

from engines.text import Tokenizer, load_tokenizer

LINES = [
    "The quick brown fox jumps over the lazy dog and serves the serving tray.",
    "def fibonacci(n):\n    if n < 2:\n        return n\n\n    return fibonacci(n - 1) + fibonacci(n - 2)",
    "안녕하세요, 만나서 반갑습니다. 오늘은 날씨가 좋네요.",
    "नमस्ते दुनिया, आप कैसे हैं? मैं ठीक हूँ।",
    "Speculative decoding proposes tokens and verifies them, serving them sooner than serving one by one.",
]
TEXTS = [
    "The lazy fox serves.",
    "def f(n):\n\n    if n < 2:\n        return n\n",
    "안녕하세요 날씨가",
    "नमस्ते, आप कैसे हैं?",
    "a family: 👩‍👩‍👧‍👦, a flag: 🏳️‍🌈, hands: 👍🏽",
    "  two blanks first,\ttabs\tand   runs",
    "日本語 that no line above has, ½ and ﷽",
    " ",
    "\n",
]
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SPECIALS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]


def loses_first_blank(kind: str, text: str) -> bool:
    """Metaspace puts no blank before a text that begins with one, so that its own decoder takes the text's away."""
    return kind == "json-unigram" and text.startswith((" ", "\u2581"))


def write_json(path: Path, data) -> None:
    path.write_text(json.dumps(data, ensure_ascii=False), "utf-8")


def byte_level(folder: Path, vocab_size: int = 420, template: str | None = TEMPLATE, lines=LINES, bos=True) -> Path:
    """A tokenizer.json like SmolLM2's or Qwen's."""
    from tokenizers import Tokenizer as Library
    from tokenizers import decoders, models, pre_tokenizers, trainers

    library = Library(models.BPE())
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    library.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    library.train_from_iterator(
        lines,
        trainers.BpeTrainer(
            vocab_size=vocab_size, special_tokens=SPECIALS, initial_alphabet=alphabet, show_progress=False
        ),
    )
    library.add_tokens(["<tool_call>"])  # an added token that is not special, as Qwen has
    folder.mkdir(parents=True, exist_ok=True)
    library.save(str(folder / "tokenizer.json"))
    settings = {"eos_token": "<|im_end|>", "add_bos_token": False}
    if bos:
        settings["bos_token"] = "<|im_start|>"
    if template:
        settings["chat_template"] = template
    write_json(folder / "tokenizer_config.json", settings)
    write_json(folder / "generation_config.json", {"eos_token_id": [2, 0]})
    return folder


@lru_cache
def _trained(kind: str, dummy_prefix: bool, symbols: tuple[str, ...], vocab_size: int) -> bytes:
    import io

    import sentencepiece

    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([line for text in LINES for line in text.split("\n") if line.strip()]),
        model_writer=model,
        model_type=kind,
        vocab_size=vocab_size,
        byte_fallback=True,
        character_coverage=0.98,
        add_dummy_prefix=dummy_prefix,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        user_defined_symbols=list(symbols),
        hard_vocab_limit=False,
        minloglevel=2,
        num_threads=1,
    )
    return model.getvalue()


def sentencepiece_folder(
    folder: Path, kind: str = "bpe", *, dummy_prefix: bool = True, symbols: tuple[str, ...] = (), vocab_size: int = 400
) -> Path:
    """A tokenizer.model alone, like Llama 2's (bpe, dummy prefix), Gemma's (bpe, none) or a unigram."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer.model").write_bytes(_trained(kind, dummy_prefix, symbols, vocab_size))
    return folder


def metaspace_unigram(folder: Path) -> Path:
    """A unigram SentencePiece model in tokenizer.json, as fast tokenizers of that kind are shipped."""
    import sentencepiece
    from tokenizers import Tokenizer as Library
    from tokenizers import decoders, models, pre_tokenizers

    sp = sentencepiece.SentencePieceProcessor(model_proto=_trained("unigram", True, (), 400))
    vocab = [(sp.id_to_piece(i), sp.get_score(i)) for i in range(sp.get_piece_size())]
    library = Library(models.Unigram(vocab, unk_id=sp.unk_id(), byte_fallback=True))
    library.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always", split=False)
    library.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace(prepend_scheme="always")])
    library.add_special_tokens(["<s>", "</s>", "<unk>"])
    folder.mkdir(parents=True, exist_ok=True)
    library.save(str(folder / "tokenizer.json"))
    write_json(folder / "tokenizer_config.json", {"bos_token": "<s>", "eos_token": "</s>"})
    return folder


def llama_json(folder: Path) -> Path:
    """A tokenizer.json like Llama 2's: normaliser puts the blank in front, the decoder takes it away again."""
    from tokenizers import Tokenizer as Library
    from tokenizers import decoders, models, normalizers, processors, trainers

    library = Library(models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    library.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    library.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    names = ["<unk>", "<s>", "</s>", *(f"<0x{b:02X}>" for b in range(256))]
    words = [w.replace(" ", "▁") for line in LINES[:2] for w in line.split("\n")]
    library.train_from_iterator(
        words, trainers.BpeTrainer(vocab_size=420, special_tokens=names, show_progress=False, max_token_length=8)
    )
    data = json.loads(library.to_str())
    data["added_tokens"] = data["added_tokens"][:3]  # the bytes are ordinary pieces
    library = Library.from_str(json.dumps(data))
    library.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    folder.mkdir(parents=True, exist_ok=True)
    library.save(str(folder / "tokenizer.json"))
    write_json(folder / "tokenizer_config.json", {"bos_token": {"content": "<s>"}, "eos_token": "</s>"})
    return folder


KINDS = {
    "byte-level": byte_level,
    "sp-bpe": sentencepiece_folder,
    "sp-bpe-gemma": lambda f: sentencepiece_folder(f, dummy_prefix=False, symbols=("\n\n", "▁▁", "<start_of_turn>")),
    "sp-unigram": lambda f: sentencepiece_folder(f, "unigram"),
    "json-unigram": metaspace_unigram,
    "json-llama": llama_json,
}


@lru_cache
def tokenizer(kind: str) -> Tokenizer:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        return load_tokenizer(KINDS[kind](Path(folder) / kind), kind)
