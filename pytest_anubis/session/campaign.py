"""Soaking: the benchmark set again and again until the time is over, each cycle a run of its own."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_anubis.settings import Settings

if TYPE_CHECKING:
    from pytest_anubis.core.run import RunRecord

FLAG = "--anubis-duration"
LEAST_CYCLES = 6
"""Fewest cycles in which a trend is looked for."""

TREND = 0.02
"""Loss of similarity over the campaign that counts as a trend: last third against first third."""

_WORST = (3, 4, 2, 1, 20, 0)


def soak(config: pytest.Config, settings: Settings, duration: float) -> int:
    """Run cycles until the time is over and say how each ended and what moved.

    A cycle is a process and a run of its own, so a crash costs one cycle, and its journal is closed.

    Args:
        config: The configuration, of which the command line is passed on.
        settings: The resolved settings.
        duration: Seconds; the cycle in progress at the end is finished.

    Returns:
        The worst exit code of all cycles: 1 if one was rejected, 20 if one was undecided, else 0.
    """
    from pytest_anubis.session.start import new_run_id

    base = settings.run_id or f"soak-{new_run_id('node')}"
    arguments = _inner(config.invocation_params.args)
    begin, number = time.monotonic(), 0
    codes: list[int] = []
    records: list[RunRecord] = []
    while not codes or time.monotonic() - begin < duration:
        number += 1
        run_id = f"{base}-{number:05d}"
        command = [sys.executable, "-m", "pytest", *arguments, f"--anubis-run-id={run_id}"]
        code = subprocess.run(command, cwd=config.invocation_params.dir, check=False).returncode
        codes.append(code)
        spent = time.monotonic() - begin
        record = _record(settings.store, run_id)
        records += [record] if record else []
        headline = record.node_verdict.headline if record and record.node_verdict else "no verdict"
        _say(f"anubis: cycle {number}, {spent / 3600:.2f} h, exit code {code}: {headline}")
        if code in (
            2,
            4,
            5,
        ):  # interrupted by hand, wrong usage, nothing to run: going on is no use
            break
    for line in trend(records):
        _say(f"anubis: trend: {line}")
    worst = min(codes, key=lambda code: _WORST.index(code) if code in _WORST else -1)
    counts = ", ".join(f"{codes.count(code)} x exit code {code}" for code in sorted(set(codes)))
    _say(f"anubis: {len(codes)} cycles in {(time.monotonic() - begin) / 3600:.2f} h: {counts}")
    return worst


def trend(records: list[RunRecord]) -> list[str]:
    """Return one line for every metric whose similarity fell over the campaign.

    Args:
        records: The cycles, in time order.
    """
    series: dict[tuple[str, str, str], list[float]] = {}
    for record in records:
        for verdict in record.verdicts:
            if verdict.similarity is not None:
                key = (verdict.benchmark, verdict.metric, verdict.device)
                series.setdefault(key, []).append(verdict.similarity)
    lines = []
    for (benchmark, metric, device), values in series.items():
        if len(values) < LEAST_CYCLES:
            continue
        third = len(values) // 3
        first, last = statistics.median(values[:third]), statistics.median(values[-third:])
        if first - last > TREND:
            lines.append(
                f"{benchmark} {metric} {device}: similarity fell from {first:.3f} to {last:.3f} "
                f"over {len(values)} cycles"
            )
    return lines


def _inner(arguments: tuple[str | object, ...] | list[str]) -> list[str]:
    """Return the command line of one cycle: ours without the duration and the run's name."""
    kept: list[str] = []
    skip = False
    for argument in map(str, arguments):
        if skip:
            skip = False
            continue
        if argument in (FLAG, "--anubis-run-id"):
            skip = True
        elif not argument.startswith((f"{FLAG}=", "--anubis-run-id=")):
            kept.append(argument)
    return kept


def _record(store: Path, run_id: str) -> RunRecord | None:
    from pytest_anubis.store.events import JournalError
    from pytest_anubis.store.journal import journal_path, read_journal

    try:
        return read_journal(journal_path(store, run_id))
    except JournalError:
        return None


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
