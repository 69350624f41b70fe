"""The exports before the parsers of the programs that they are for: `bash tests/engine_parsers.sh` installs them.

Opt-in: $LLAMA_SERVER names that program, $VLLM_PYTHON the interpreter of an environment that vLLM is installed in.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess

import pytest

from engines.tune.exports import exports, options

LLAMA, VLLM = os.environ.get("LLAMA_SERVER"), os.environ.get("VLLM_PYTHON")
LOOKUPS = ("ngram", "suffix", "recycle", "eagle", "auto")
CANDIDATES = [
    {"proposer": "draft", "k": 5, "draft": "qwen2.5-coder-0.5b-instruct"},
    *({"proposer": who, "k": k, "draft": None} for who in LOOKUPS for k in (1, 8)),
]
# vLLM's own command line, and what it makes of --speculative-config: its fields, the methods that it knows.
PARSE = """
import json, sys, typing
from vllm.config import SpeculativeConfig
from vllm.entrypoints.openai.cli_args import make_arg_parser
from vllm.utils.argparse_utils import FlexibleArgumentParser
args = make_arg_parser(FlexibleArgumentParser()).parse_args(json.loads(sys.argv[1]))
config = args.speculative_config or {}
fields = SpeculativeConfig.__dataclass_fields__
unknown = sorted(set(config) - set(fields))
def flat(hint):
    inner = typing.get_args(hint)
    return [w for h in inner for w in flat(h)] if inner else [hint]
methods = flat(typing.get_type_hints(SpeculativeConfig)["method"])
if unknown or config and config["method"] not in methods:
    sys.exit(f"unknown: {unknown or config['method']}")
import vllm
print(json.dumps({"version": vllm.__version__, "config": config}))
"""


def command(engine: str, best: dict | None) -> list[str]:
    report = {"verdict": {"on": best is not None, "best": best}, "of": {"target": "qwen2.5-coder-1.5b-instruct"}}
    return shlex.split(exports(report)[engine]["text"].replace("\\\n", " "))


def llama(*words: str) -> subprocess.CompletedProcess:
    """What is before --version has been parsed when it is met: an option that is not known ends the program before."""
    return subprocess.run([LLAMA, *words, "--version"], capture_output=True, text=True, timeout=60)


def vllm(*words: str) -> subprocess.CompletedProcess:
    return subprocess.run([VLLM, "-c", PARSE, json.dumps(words)], capture_output=True, text=True, timeout=280)


@pytest.mark.skipif(not LLAMA, reason="opt-in: bash tests/engine_parsers.sh llama.cpp")
@pytest.mark.parametrize("best", [None, *CANDIDATES], ids=str)
def test_llama_server_takes_every_export(best):
    program, *words = command("llama.cpp", best)
    done = llama(*words)
    assert program == "llama-server" and done.returncode == 0, done.stderr
    number = options()["llama-server"]["version"].rpartition("b")[2]
    assert number in done.stdout + done.stderr


@pytest.mark.skipif(not LLAMA, reason="opt-in: bash tests/engine_parsers.sh llama.cpp")
def test_llama_server_refuses_what_the_stored_list_calls_removed():
    """So the test above can fail."""
    for option in options()["llama-server"]["removed"]:
        assert llama(option, "4").returncode != 0, option
    assert llama("--spec-type", "no-such-type").returncode != 0


@pytest.mark.skipif(not VLLM, reason="opt-in: bash tests/engine_parsers.sh vllm")
@pytest.mark.parametrize("best", [None, *CANDIDATES], ids=str)
def test_vllm_takes_every_export(best):
    program, serve, target, *words = command("vLLM", best)
    done = vllm("--model", target, *words)
    assert (program, serve) == ("vllm", "serve") and done.returncode == 0, done.stderr[-2000:]
    told = json.loads(done.stdout.strip().splitlines()[-1])
    assert bool(told["config"]) == (best is not None)
    if best is not None:
        assert told["config"]["num_speculative_tokens"] == best["k"]


@pytest.mark.skipif(not VLLM, reason="opt-in: bash tests/engine_parsers.sh vllm")
def test_vllm_refuses_what_it_does_not_know():
    assert vllm("--model", "m", "--speculative-config", '{"method": "no-such-method"}').returncode != 0
    assert vllm("--model", "m", "--no-such-option").returncode != 0
