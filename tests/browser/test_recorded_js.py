"""What the reader of recorded files lets pass, the browser's own fold can show: no error, and the same text."""

from __future__ import annotations

import contextlib

import pytest
from test_recorded import RUNS, broken

from app.scripts import ASSETS
from engines.errors import UserError
from engines.events import to_json
from engines.fold import fold
from engines.recorded import split

DRIVER = """(runs) => runs.map((lines) => {
  const record = new SpecPlay.Record();
  for (const line of lines) record.take(line);
  return [record.fold.text(), record.fold.metrics().emitted, record.state, Number.isFinite(record.seconds)];
})"""


@pytest.fixture
def page(browser):
    context = browser.new_context()
    page = context.new_page()
    for name in ("fold.js", "timeline.js", "record.js"):
        page.add_script_tag(path=str(ASSETS / name))
    yield page
    context.close()


def test_what_passes_can_be_shown(page):
    runs = [run for lines in RUNS.values() for run in split(lines)]
    for seed in range(1500):
        with contextlib.suppress(UserError):
            runs += split(broken(seed))
    assert len(runs) > 2 * len(RUNS), "some changes are harmless: of these at least the fold must be sure"
    seen = page.evaluate(DRIVER, [[to_json(event) for event in run] for run in runs])
    for run, (text, emitted, state, timed) in zip(runs, seen, strict=True):
        assert (text, emitted) == (run[-1].text, fold(run).metrics().emitted)
        assert state == {"stopped": "stopped", "error": "error"}.get(run[-1].reason, "done") and timed
