"""Detect rounds in which other programs disturbed every measurement of speed, and say what helps."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Sequence

from pytest_anubis.core.measurement import Measurement
from pytest_anubis.core.run import RunRecord
from pytest_anubis.hardware.load.disturbance import processes_named
from pytest_anubis.report.text.numbers import count_text
from pytest_anubis.report.text.text_table import clip

MAX_CAUSES_LENGTH = 200
"""Characters for the kinds of disturbance and the processes behind them."""
_NUMBER = re.compile(r"[\d.]+")


def _speed_measurements(record: RunRecord) -> list[Measurement]:
    """Return the measurements that load can change; an exact value teaches whatever else runs."""
    return [one for one in record.measurements if one.metric.better != "equal"]


def wholly_disturbed(record: RunRecord) -> bool:
    """Return whether others disturbed every measurement of speed in a round, so that it teaches none."""
    timed = _speed_measurements(record)
    return bool(timed) and all(one.disturbance for one in timed)


def disturbed_line(record: RunRecord) -> str:
    """Return one line about a round that was disturbed wholly, so only its exact values teach; else empty."""
    if not wholly_disturbed(record):
        return ""
    every = count_text(len(_speed_measurements(record)), "measurement")
    return (
        f"others disturbed all of its {every} of speed, so none of them teaches anything: "
        f"{what_helps([record])}"
    )


def disturbed_end(records: Sequence[RunRecord]) -> str:
    """Return why rounds taught no speed and how to go on; empty if one was not disturbed wholly."""
    if not records or not all(map(wholly_disturbed, records)):
        return ""
    rounds = count_text(len(records), "round")
    return f"others disturbed every measurement of speed in all {rounds}: {what_helps(records)}"


def what_helps(
    records: Sequence[RunRecord], metrics: Collection[tuple[str, str]] | None = None
) -> str:
    """Return what disturbed, and what helps: stop it, or allow processes that are always there.

    Args:
        records: The rounds.
        metrics: Benchmark and name of those that count; None for all of speed.

    Returns:
        The text; empty if nothing disturbed any of them.
    """
    phrases = [
        phrase
        for record in records
        for one in (_speed_measurements(record) if metrics is None else record.measurements)
        if metrics is None or (one.benchmark, one.metric.name) in metrics
        for phrase in one.disturbance
    ]
    if not phrases:
        return ""
    kinds: dict[str, str] = {}
    for phrase in phrases:
        kinds.setdefault(_NUMBER.sub("", phrase.partition(":")[0]), phrase)
    seen = clip("; ".join(kinds.values()), MAX_CAUSES_LENGTH)
    names = processes_named(phrases)
    if not names:
        return f"{seen}; stop what disturbs"
    option = shlex.quote(f"--anubis-allow-process={','.join(names)}")
    return (
        f"{seen}; stop {', '.join(names)}, or allow what belongs to a quiet machine with "
        f"--pytest-args={option}"
    )
