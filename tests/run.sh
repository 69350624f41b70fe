#!/usr/bin/env bash
# Installs what the tests need (Python packages into a virtual environment, Chromium by the system's package manager where
# it is missing) and runs them: linter, unit tests, the real default model, and the page in a real browser.
# Further arguments go to pytest. PYTHON names another interpreter, VENV another folder for the environment.
set -euo pipefail
cd "$(dirname "$0")/.."
export CI="${CI:-}"

venv="${VENV:-.venv}"
[ -x "$venv/bin/python" ] || "${PYTHON:-python3.11}" -m venv "$venv"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check -r requirements.txt -r tests/requirements.txt

if [ -z "${CHROMIUM:-}" ] && ! command -v chromium chromium-browser google-chrome >/dev/null; then
  if command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; then
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium fonts-noto-core fonts-noto-cjk fonts-noto-color-emoji >/dev/null
  else
    "$venv/bin/python" -m playwright install chromium
  fi
fi

"$venv/bin/ruff" check .
"$venv/bin/ruff" format --check .
exec "$venv/bin/python" -m pytest "$@"
