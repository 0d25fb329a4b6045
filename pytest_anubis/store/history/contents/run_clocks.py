"""Measure and store by how much the clock of a run's machine was ahead of the history's.

A run keeps the times of its machine. Runs are ordered by `tables.began`, the time of the history's own clock.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import sqlalchemy as sa

from pytest_anubis.codec import without_surrogates
from pytest_anubis.core.history import CLOCK_TOLERANCE
from pytest_anubis.core.run import RunRecord
from pytest_anubis.store.history import tables as schema
from pytest_anubis.store.history.database import History, HistoryError, moment_of

AT_LEAST = "at least"
"""How exactly an offset is known: a clock was ahead by this or more, as its run was filed only later."""

UNDATED = "behind its baseline"
"""In its place: a clock was behind the date of its baseline, so the time of its run is unknown."""


@dataclass(frozen=True, slots=True)
class ClockOffset:
    """Seconds by which a run's clock was ahead of the history's, and how exactly that is known."""

    ahead: float = 0.0
    known: str = "exactly"


def run_clock(history: History, record: RunRecord, *, just_ended: bool) -> ClockOffset:
    """Return how far a run's clock was off; 0 if the difference is too small to matter.

    A run that has just ended here shows a difference in both directions. Any other shows only a clock that is
    ahead, by at least what lies in the future.
    """
    try:
        last = moment_of(record.ended or record.started)
    except HistoryError:
        return ClockOffset()
    if record.behind:
        return ClockOffset(known=UNDATED)
    off = last - (time.time() - history.ahead)
    behind = just_ended and abs(history.ahead) > CLOCK_TOLERANCE and off < -CLOCK_TOLERANCE
    if off > CLOCK_TOLERANCE or behind:
        return ClockOffset(off, "exactly" if just_ended else AT_LEAST)
    return ClockOffset()


def keep_order(connection: sa.Connection, run: int, record: RunRecord, clock: ClockOffset) -> None:
    """Store what orders a new run: the offset of its clock, if there is one, and the run before it."""
    if clock.ahead or clock.known == UNDATED:
        row = {"run_id": run, "ahead": clock.ahead, "known": clock.known}
        connection.execute(schema.run_clocks.insert().inline().values(row))
    if record.after:
        row = {"run_id": run, "after": without_surrogates(record.after)}
        connection.execute(schema.run_orders.insert().inline().values(row))


def clock_line(record: RunRecord, clock: ClockOffset) -> str:
    """Return one line if a run's clock was off; empty if it was not."""
    if clock.known == UNDATED:
        return (
            f"the clock of {record.node} was {record.behind / 3600:.1f} h behind its baseline in run "
            f"{record.run}: what it found stays open until a run after it passes; set that machine's clock"
        )
    if not clock.ahead:
        return ""
    least = f"{AT_LEAST} " if clock.known == AT_LEAST else ""
    off = f"{least}{abs(clock.ahead) / 3600:.1f} h {'ahead of' if clock.ahead > 0 else 'behind'}"
    return (
        f"the clock of {record.node} was {off} the history's in run {record.run}: the run is kept as it is, "
        "and put in order by the history's clock; set the clock of that machine"
    )
