#!/usr/bin/env bash
# Installs what the tests need (Python packages into a virtual environment, Chromium by the system's package manager where
# it is missing) and runs them: linter, unit tests, the real default model, and the page in a real browser.
# Arguments go to pytest, which then runs only what they name. PYTHON names another interpreter, VENV another folder for
# the environment, CHROMIUM a browser.
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
if [ $# -gt 0 ]; then
  exec "$venv/bin/python" -m pytest "$@"
fi
# Once, and before several processes want it.
"$venv/bin/python" -m engines models --fetch smollm2-135m-instruct
# Two processes of one thread each get through the computing sooner than one of two, and the same holds for most of what
# the browser does. What watches the clock has the machine for itself, at the end.
export PYTEST_ADDOPTS="${PYTEST_ADDOPTS:-} --durations=15"
OMP_NUM_THREADS=1 "$venv/bin/python" -m pytest -n 2 --dist worksteal --ignore tests/browser tests
OMP_NUM_THREADS=1 "$venv/bin/python" -m pytest -n 2 --dist worksteal -m "not clock" tests/browser
exec "$venv/bin/python" -m pytest -m clock tests/browser
