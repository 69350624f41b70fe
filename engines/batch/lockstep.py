"""Batched speculative decoding: the loop of one sequence, run for many in step.

Each row is a `decode` of its own, with its proposer, its verification and its random numbers; there is no second loop
and no second rule of acceptance. A round of all rows: everyone proposes, one pass judges what all have proposed, and
everyone goes on behind what it accepted, so that the rows drift apart as they please. What a row emits therefore does
not depend on its neighbours, except as far as the arithmetic of a pass rounds differently for other numbers of rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ..decode import Job, decode
from ..events import Draft, Event, Start, Verdict
from .rows import Rows


def decode_batch(
    jobs: Sequence[Job],
    rows: Rows,
    again: Callable[[int], Job | None] = lambda row: None,
    stopped: Callable[[], bool] = lambda: False,
) -> Iterator[tuple[int, Event]]:
    """Run `jobs`, the i-th on rows.sessions[i] (which must be its session), and yield (row, event) as they come.

    In each round first the drafts of all rows come, then their verdicts; a pass's time is in the first of these
    verdicts, so of the events' seconds only the sums over rows say something. A row whose job is over takes the job
    that `again(row)` returns, on the same session, or is left out until all are over. `stopped` is asked while
    prompts are read; each job has its own for the rest.
    """
    if len(jobs) != len(rows.sessions) or any(j.session is not s for j, s in zip(jobs, rows.sessions, strict=False)):
        raise ValueError("each job must run on the session of its row")
    runs = {}
    last: dict[int, int] = {}  # of each row's text the last token, which the next pass reads

    def begin(row: int, job: Job) -> None:
        job.session.rollback(0)
        runs[row] = decode(job)

    for row, job in enumerate(jobs):
        begin(row, job)
    while runs:
        feeds: dict[int, list[int]] = {}
        for row in list(runs):
            while row in runs and row not in feeds:
                for event in runs[row]:
                    yield row, event
                    if isinstance(event, Start):
                        last[row] = event.prompt_ids[-1]
                    elif isinstance(event, Draft):
                        feeds[row] = [last[row], *(t.id for t in event.tokens)]
                        break
                else:
                    del runs[row]
                    job = again(row)
                    if job is not None:
                        begin(row, job)
        if not rows.read(stopped):
            return
        rows.announce(feeds)
        for row in feeds:
            event = next(runs[row])
            if isinstance(event, Verdict) and event.extra is not None:
                last[row] = event.extra.id
            yield row, event
