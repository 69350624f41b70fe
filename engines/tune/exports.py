"""The recommendation as other engines take it, with the version that each was written for.

What an engine calls a draft's tokens differs by one in places: SGLang's `--speculative-num-draft-tokens` counts the
rows that are verified, the text's last token among them. The number of tokens is a starting point there, no more: the
best one depends on what that engine's passes cost.
"""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from functools import lru_cache
from pathlib import Path
from typing import Any

from .. import catalogue

ENGINES = {
    "llama.cpp": "llama-server",
    "vLLM": "vllm",
    "SGLang": "sglang",
    "transformers": "transformers",
    "LM Studio": "lm-studio",
}
WARNING = (
    "k carries over only as a starting point: it is the best for this project's kernels on this machine, and what a "
    "pass over k + 1 tokens costs is another matter in another engine. Measure there."
)
# Proposers of this project that those engines know, by what they are called there; the others have no counterpart.
LOOKUP = ("ngram", "suffix")


@lru_cache(maxsize=1)
def options() -> dict[str, dict[str, Any]]:
    """The stored list of valid options, by engine."""
    return tomllib.loads(Path(__file__).with_name("engine_options.toml").read_text(encoding="utf-8"))


def exports(report: dict[str, Any]) -> dict[str, dict[str, str]]:
    """By engine: `text` to run or paste, `kind` (shell, python), `version` it was written for, `note`. A report that

    recommends nothing gives settings that leave speculation off.
    """
    verdict = report["verdict"]
    best = verdict["best"] if verdict["on"] else None
    target = report["of"].get("target", "the-target")
    return {name: _export(name, best, target) for name in ENGINES}


def _export(engine: str, best: dict[str, Any] | None, target: str) -> dict[str, str]:
    version = options()[ENGINES[engine]]["version"]
    k, who, draft = (best["k"], best["proposer"], best["draft"]) if best else (0, "none", None)
    maker = {"llama.cpp": _llama, "vLLM": _vllm, "SGLang": _sglang, "transformers": _transformers, "LM Studio": _studio}
    kind, text, said = maker[engine](who, k, hub(target), hub(draft) if draft else None)
    if best is None:
        note = "Speculation stays off: nothing that was tried pays on these prompts."
    else:
        note = " ".join(filter(None, (said, WARNING)))
    return {"kind": kind, "text": text, "version": version, "note": note}


def hub(name: str) -> str:
    """The hub's name of a model of the catalogue; any other name as it is."""
    entry = catalogue.find(name)
    return entry.hub if entry is not None and entry.hub else name


def _no_counterpart(engine: str, who: str) -> str:
    return f"{engine} has no counterpart of {who}; n-gram lookup with the same k is the nearest that needs no training."


def _shell(*words: str) -> str:
    """A command over several lines, an option with its values on each."""
    lines: list[list[str]] = [[]]
    for word in words:
        if word.startswith("-") and lines[-1] and not re.fullmatch(r"-\d+", word):
            lines.append([])
        lines[-1].append(word if word.startswith("<") else shlex.quote(word))
    return " \\\n  ".join(" ".join(line) for line in lines)


def _llama(who: str, k: int, target: str, draft: str | None) -> tuple[str, str, str]:
    base = ["llama-server", "-m", _gguf(target)]
    if who == "none":
        return "shell", _shell(*base), ""
    if who == "draft":
        more = ["-md", _gguf(draft), "--spec-type", "draft-simple", "--spec-draft-n-max", str(k)]
        # The defaults stop a draft at the first unsure token; a fixed k is what was measured.
        more += ["--spec-draft-n-min", "1", "--spec-draft-p-min", "0"]
        return "shell", _shell(*base, *more, "--metrics"), "The models are GGUF files there: put in their names."
    more = ["--spec-type", "ngram-simple", "--spec-ngram-simple-size-n", "3", "--spec-ngram-simple-size-m", str(k)]
    said = "The lookup there matches n-grams of one size; here it took the longest of 1 to 4."
    return "shell", _shell(*base, *more, "--metrics"), said if who in LOOKUP else _no_counterpart("llama.cpp", who)


def _gguf(name: str | None) -> str:
    return f"{(name or 'model').rsplit('/', 1)[-1]}.gguf"


def _vllm(who: str, k: int, target: str, draft: str | None) -> tuple[str, str, str]:
    base = ["vllm", "serve", target]
    if who == "none":
        return "shell", _shell(*base), ""
    said = ""
    if who == "draft":
        config = {"method": "draft_model", "model": draft, "num_speculative_tokens": k}
    elif who == "suffix":
        config = {"method": "suffix", "num_speculative_tokens": k}
        said = "Suffix decoding there needs the package arctic-inference, and looks into earlier requests as well."
    else:
        config = {"method": "ngram", "num_speculative_tokens": k, "prompt_lookup_min": 1, "prompt_lookup_max": 4}
        said = "" if who in LOOKUP else _no_counterpart("vLLM", who)
    if who == "eagle":
        said = (
            "This project's heads are not in vLLM's format, so n-gram lookup stands in; a published EAGLE head of your "
        )
        said += "target would be the counterpart (method eagle or eagle3)."
    return "shell", _shell(*base, "--speculative-config", json.dumps(config)), said


def _sglang(who: str, k: int, target: str, draft: str | None) -> tuple[str, str, str]:
    base = ["python", "-m", "sglang.launch_server", "--model-path", target]
    if who == "none":
        return "shell", _shell(*base), ""
    if who == "draft":
        more = ["--speculative-algorithm", "STANDALONE", "--speculative-draft-model-path", draft or ""]
        more += ["--speculative-num-steps", str(k), "--speculative-eagle-topk", "1"]
        more += ["--speculative-num-draft-tokens", str(k + 1)]
        return "shell", _shell(*base, *more), "The number of draft tokens there is k + 1: it counts the rows verified."
    more = ["--speculative-algorithm", "NGRAM", "--speculative-num-draft-tokens", str(k + 1)]
    more += ["--speculative-ngram-max-bfs-breadth", "1"]
    said = "A breadth of 1 makes the lookup a chain, as here."
    return "shell", _shell(*base, *more), said if who in LOOKUP else _no_counterpart("SGLang", who)


def _studio(who: str, k: int, target: str, draft: str | None) -> tuple[str, str, str]:
    if who == "draft":
        config = {"draftModel": _key(draft), "speculativeDecodingNumDraftTokensExact": k}
        said = "Model keys are those that `lms ls` prints. In the app: the sidebar's Speculative Decoding, Draft Model."
    else:
        config, said = {}, "LM Studio speculates with a draft model only: there is nothing to set for this."
    lines = [
        "import lmstudio as lms",
        "",
        f"model = lms.llm({_key(target)!r})",
        f"print(model.respond('Write a quicksort in Python.', config={json.dumps(config)}))",
    ]
    return "python", "\n".join(lines) + "\n", said


def _key(name: str | None) -> str:
    return (name or "model").rsplit("/", 1)[-1].lower()


def _transformers(who: str, k: int, target: str, draft: str | None) -> tuple[str, str, str]:
    script = Path(__file__).with_name("transformers_export.txt").read_text(encoding="utf-8")
    said = ""
    if who == "draft":
        how = "draft"
    elif who == "none":
        how = "none"
    else:
        how, said = "lookup", "" if who in LOOKUP else _no_counterpart("transformers", who)
    values = {"TARGET": target, "DRAFT": draft, "HOW": how, "K": k}
    for name, value in values.items():
        script = script.replace(f"@{name}@", repr(value))
    return "python", script.replace("@VERSION@", options()["transformers"]["version"]), said


def used_options(engine: str, text: str) -> list[str]:
    """The options that an export uses, to be held against the stored list."""
    if ENGINES[engine] == "transformers":
        return re.findall(r"^ +(?:config|assistant\.generation_config)\.(\w+) =", text, re.M) + re.findall(
            r"(assistant_model|prompt_lookup_num_tokens|max_matching_ngram_size)=", text
        )
    if ENGINES[engine] == "lm-studio":
        return list(json.loads(re.search(r"config=(\{.*\})\)", text)[1]))
    words = shlex.split(text.replace("\\\n", " "))
    return [w for w in words if re.match(r"-[a-z-]", w) and w != "-m"] + (["-m"] if "llama-server" in words else [])
