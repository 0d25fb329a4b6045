"""Say from which value of its sample on a metric is worse, and which sensors moved at that moment."""

from __future__ import annotations

from pytest_anubis.core.metric import loss_text
from pytest_anubis.core.onset import PER_SECOND, Onset, SensorMove
from pytest_anubis.core.verdict import MetricVerdict, Reason
from pytest_anubis.report.text.numbers import count_text, value_text
from pytest_anubis.report.text.safe_text import plain_line

SINCE = "since when"
"""Label of the sentence."""


def since_text(verdict: MetricVerdict, name: str = "") -> str:
    """Return since when a metric is worse, in one sentence; empty if that is unknown.

    `name` begins the sentence in place of the metric's name.
    """
    onset = verdict.onset
    if onset is None:
        return ""
    how = loss_text(1 - onset.size, verdict.better, verdict.unit)
    where = f"{name or verdict.metric} {how} from value {onset.number} of {onset.count}"
    where += f" until value {onset.until}" if onset.until else ""
    return plain_line(f"{where}{moved_text(onset)}")


def since_words(verdict: MetricVerdict) -> str:
    """Return since when a metric is worse in few words: ``; since value 22 of 42: SM clock fell``; or empty.

    The value is left out of a verdict on a change, whose text has it.
    """
    onset = verdict.onset
    if onset is None:
        return ""
    when = f"since value {onset.number} of {onset.count}"
    if onset.until:
        when = f"from value {onset.number} to {onset.until} of {onset.count}"
    move, limit = onset.sensor, next(iter(onset.limits), None)
    moved = f"{move.quantity} {_verb(move)}" if move else f"{limit.limit} came on" if limit else ""
    said = moved if verdict.reason is Reason.CHANGE_POINT else f"{when}: {moved}".removesuffix(": ")
    return plain_line(f"; {said}") if said else ""


def moved_text(onset: Onset) -> str:
    """Return what the sensors showed, to be printed after the moment."""
    moved = [_move(onset.sensor)] if onset.sensor is not None else []
    several = len({limit.part for limit in onset.limits}) > 1
    for one in onset.limits:
        known = onset.sensor is not None and onset.sensor.part == one.part and not several
        moved.append(f"{one.limit}{'' if known else f' of {one.part}'} came on")
    if not moved:
        return f"; none of {count_text(onset.compared, 'sensor')} moved then"
    return f", when {' and '.join(moved)}"


def _move(move: SensorMove) -> str:
    name = move.quantity + (f" of {move.part}" if move.part else "")
    moved, before = f"{name} {_verb(move)}", value_text(move.before)
    if move.unit == PER_SECOND:
        return f"{moved}, from {before} to {value_text(move.after)} a second"
    return f"the {moved} from {before} to {value_text(move.after, move.unit)}"


def _verb(move: SensorMove) -> str:
    if move.unit == PER_SECOND:
        return "rose faster" if move.before > 0 else "began to rise"
    return "rose" if move.after > move.before else "fell"
