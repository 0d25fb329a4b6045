"""Say since when a metric is worse, and what the sensors showed at that moment."""

from __future__ import annotations

from pytest_anubis.core.metric import loss_text
from pytest_anubis.core.onset import PER_SECOND, Onset, SensorMove
from pytest_anubis.core.verdict import MetricVerdict
from pytest_anubis.report.text.numbers import count_text, value_text
from pytest_anubis.report.text.safe_text import plain_line

SINCE = "since when"
"""Label of the sentence."""


def since_text(verdict: MetricVerdict) -> str:
    """Return since when a metric is worse, in one sentence; empty if that is unknown."""
    onset = verdict.onset
    if onset is None:
        return ""
    how = loss_text(1 - onset.size, verdict.better, verdict.unit)
    where = f"{verdict.metric} {how} from value {onset.number} of {onset.count}"
    where += f" until value {onset.until}" if onset.until else ""
    return plain_line(f"{where}{moved_text(onset)}")


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
    before = value_text(move.before)
    if move.unit == PER_SECOND:
        how = "rose faster" if move.before > 0 else "began to rise"
        return f"{name} {how}, from {before} to {value_text(move.after)} a second"
    word = "rose" if move.after > move.before else "fell"
    return f"the {name} {word} from {before} to {value_text(move.after, move.unit)}"
