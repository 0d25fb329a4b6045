"""What is said of rounds in which others disturbed every measurement: by what, and which options allow it."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Sequence

from pytest_anubis.core.measurement import Measurement
from pytest_anubis.core.run import RunRecord
from pytest_anubis.hardware.load.allowing import limits_allowing, option_text, processes_named
from pytest_anubis.report.text.numbers import count_text
from pytest_anubis.report.text.text_table import clip

SEEN = 200
"""Characters for what was seen: some kinds of disturbance with who it was."""


def _of_speed(record: RunRecord) -> list[Measurement]:
    """Return what load can change: an exact value teaches, whatever else runs."""
    return [one for one in record.measurements if one.metric.better != "equal"]


def wholly_disturbed(record: RunRecord) -> bool:
    """Return whether others disturbed every measurement of speed of a round, so that it teaches none."""
    timed = _of_speed(record)
    return bool(timed) and all(one.disturbance for one in timed)


def disturbed_line(record: RunRecord) -> str:
    """Return one line about a round of which nothing can be learned; empty where something can."""
    if not wholly_disturbed(record):
        return ""
    every = count_text(len(_of_speed(record)), "measurement")
    return (
        f"others disturbed all of its {every} of speed, so none of them teaches anything: "
        f"{what_helps([record])}"
    )


def disturbed_end(records: Sequence[RunRecord]) -> str:
    """Return why rounds taught nothing and how to go on; empty where one was not disturbed wholly."""
    if not records or not all(map(wholly_disturbed, records)):
        return ""
    rounds = count_text(len(records), "round")
    return f"others disturbed every measurement of all {rounds}: {what_helps(records)}"


def what_helps(
    records: Sequence[RunRecord], metrics: Collection[tuple[str, str]] | None = None
) -> str:
    """Say what disturbed, and the options that allow exactly that, the user's own limits included.

    Args:
        records: The rounds.
        metrics: Benchmark and name of those that count; None for all of speed.

    Returns:
        Empty where nothing disturbed any of them.
    """
    phrases = [
        phrase
        for record in records
        for one in (_of_speed(record) if metrics is None else record.measurements)
        if metrics is None or (one.benchmark, one.metric.name) in metrics
        for phrase in one.disturbance
    ]
    if not phrases:
        return ""
    kinds: dict[str, tuple[int, str]] = {}
    for phrase in phrases:  # of each kind the worst
        (name, percent), *_ = (*limits_allowing([phrase]).items(), (phrase, 0))
        kinds[name] = max(kinds.get(name, (-1, "")), (percent, phrase))
    seen = clip("; ".join(phrase for _, phrase in kinds.values()), SEEN)
    needed = limits_allowing(phrases)
    if not needed:
        return f"{seen}; stop what disturbs, and learn again"
    own = records[-1].settings.get("quiet_limits")
    limits: dict[str, float] = {n: 100 * s for n, s in own.items()} if isinstance(own, dict) else {}
    limits.update({name: max(limits.get(name, 0), value) for name, value in needed.items()})
    names = processes_named(phrases)
    allowed = shlex.quote(f"--anubis-allow-process={','.join(names)}")
    alone = (
        f" (where they belong to a quiet machine, in place of others=: --pytest-args={allowed})"
        if "others" in needed and names
        else ""
    )
    typed = shlex.quote(option_text(limits))
    return f"{seen}; stop it, or allow exactly this with --pytest-args={typed}{alone}"
