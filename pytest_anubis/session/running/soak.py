"""Soak: repeats the benchmark set until the time is over; each cycle is a process and a run of its own.

`plugin` uses it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING

import pytest

from pytest_anubis.core.run import COMPLETED
from pytest_anubis.options import CAMPAIGN
from pytest_anubis.report.pages.soak_page import Cycle, soak_page
from pytest_anubis.report.text.numbers import count_text, duration_text
from pytest_anubis.report.text.safe_text import printable
from pytest_anubis.report.text.since_text import moved_text
from pytest_anubis.session.context import new_run_id
from pytest_anubis.session.running.cycle_reports import CycleFiles
from pytest_anubis.settings import Settings
from pytest_anubis.store.atomic import write_atomically
from pytest_anubis.store.journal.journal_events import JournalError
from pytest_anubis.store.journal.journal_file import journal_path
from pytest_anubis.store.journal.journal_reading import read_journal

if TYPE_CHECKING:
    from pytest_anubis.core.measurement import Measurement
    from pytest_anubis.core.run import RunRecord
    from pytest_anubis.validator.changes.cycle_steps import CycleStep
    from pytest_anubis.validator.changes.trend import Trend

FLAG = "--anubis-duration"

_REPLACED_FLAGS = (FLAG, CAMPAIGN, "--anubis-run-id", "--html", "--junitxml", "--junit-xml")
"""Options that a cycle gets with values of its own."""

_WORST_FIRST = (3, 4, 2, 1, 20, 0)
"""Exit codes, the worst first; any other code is worse than these."""

_LAST = (2, 4, 5)
"""Exit codes that end the campaign: interrupted by hand, wrong usage, nothing to run."""

_INTERRUPTED = 2
TAIL_LINES = 15
"""Last lines shown of a cycle that did not come to its end."""

TAIL_BYTES = 1 << 14
"""Bytes read for these lines."""


class Soak:
    """A campaign of cycles."""

    def __init__(self, config: pytest.Config, settings: Settings) -> None:
        self._config = config
        self._settings = settings
        self._duration = settings.duration or 0.0
        self._base = settings.run_id or f"soak-{new_run_id('node')}"
        self._arguments, self._files = split(config)
        self._node = self._class = ""
        self._cycles: list[Cycle] = []
        self._process: subprocess.Popen[bytes] | None = None
        self._stopping = False

    def run(self) -> int:
        """Run cycles until the time is over, print a line for each cycle and each trend, write the files.

        A crash costs one cycle, since each cycle is a process of its own. An interrupt (Ctrl-C, SIGINT,
        SIGTERM) ends the current cycle, which closes its journal, and then the campaign.

        Returns:
            The worst exit code of all cycles: 1 if one was rejected, 20 if one was undecided, else 0. A trend
            under ``--anubis-fail-on marginal`` is a rejection. 2 if it was interrupted.
        """
        begin = time.monotonic()
        with self._interrupts():
            while not self._cycles or time.monotonic() - begin < self._duration:
                cycle = self._one(len(self._cycles) + 1)
                self._cycles.append(cycle)
                spent = duration_text(time.monotonic() - begin)
                code = f"exit code {cycle.exit_code}"
                _say(f"anubis: cycle {cycle.number}, {spent}, {code}: {cycle.headline}")
                with _careful(self._files.junit):
                    self._files.write_junit(cycle.number)
                self._write([], f"so far {count_text(len(self._cycles), 'cycle')} in {spent}")
                if cycle.exit_code in _LAST or self._stopping:
                    break
            return self._end(time.monotonic() - begin)

    def _one(self, number: int) -> Cycle:
        run_id = f"{self._base}-{number:05d}"
        # Ours come first, since after "--" they would be files. An empty duration overrides one in addopts.
        ours = [f"{FLAG}=", f"{CAMPAIGN}={self._base}", f"--anubis-run-id={run_id}"]
        ours += self._files.of_cycle(number)
        command = [sys.executable, "-m", "pytest", *ours, *self._arguments]
        with tempfile.TemporaryFile() as output:
            sink = None if self._shows_all() else output
            with (
                subprocess.Popen(
                    command,
                    cwd=self._config.invocation_params.dir,
                    process_group=0,  # a terminal's Ctrl-C does not reach it; it gets one signal, from us
                    stdout=sink,
                    stderr=subprocess.STDOUT if sink else None,
                ) as self._process
            ):
                if self._stopping:  # between two cycles
                    self._process.send_signal(signal.SIGINT)
                code = self._process.wait()
            record = _record(self._settings.store, run_id)
            if record is None or code not in COMPLETED:
                _say(*_last_lines(output))  # the only explanation
        if record is None:
            return Cycle(number=number, run=run_id, exit_code=code, headline="no verdict")
        self._node, self._class = record.node, record.hardware_class
        before = self._cycles[-1].exit_code if self._cycles else None
        return Cycle(
            number=number,
            run=run_id,
            started=record.started,
            exit_code=code,
            headline=record.node_verdict.headline if record.node_verdict else "no verdict",
            # Thousands of cycles must fit into memory; the journals have the rest.
            measurements=tuple(
                replace(one, telemetry=(), evidence=()) for one in record.measurements
            ),
            page=self._files.keep(number, code != before),
        )

    def _shows_all(self) -> bool:
        """Return whether the user wants the output of the cycles; otherwise a cycle prints one line."""
        get = self._config.getoption
        shown = get("capture", "no") == "no" or get("usepdb", False)
        return bool(shown or self._config.get_verbosity() > 0)

    def _end(self, spent: float) -> int:
        from pytest_anubis.validator import find_trends
        from pytest_anubis.validator.changes.cycle_steps import find_steps

        codes = [cycle.exit_code for cycle in self._cycles]
        measured = [cycle.measurements for cycle in self._cycles]
        trends: list[Trend | CycleStep] = [*find_trends(measured)]
        known = {trend.key for trend in trends}
        trends += [step for step in find_steps(measured) if step.key not in known]
        texts = [trend.text + sensors_text(trend, measured, self._read) for trend in trends]
        for text in texts:
            _say(f"anubis: trend: MARGINAL {text}")
        counts = ", ".join(f"{codes.count(code)} x exit code {code}" for code in sorted(set(codes)))
        by_hand = ", interrupted" if self._stopping else ""
        headline = f"{count_text(len(codes), 'cycle')} in {duration_text(spent)}{by_hand}: {counts}"
        _say(f"anubis: {headline}")
        self._write(texts, headline)
        if self._stopping:
            return _INTERRUPTED
        return worst_code(codes, decayed=bool(trends) and self._settings.fail_on == "marginal")

    def _read(self, place: int) -> Sequence[Measurement]:
        """Return the measurements of a cycle with their telemetry; none if its journal is gone."""
        record = _record(self._settings.store, self._cycles[place].run)
        return record.measurements if record is not None else ()

    def _write(self, trends: list[str], headline: str) -> None:
        """Write the campaign's page, after every cycle, so that a crash loses nothing."""
        if self._files.html is not None:
            page = soak_page(self._node, self._class, self._cycles, trends, headline)
            with _careful(self._files.html):
                write_atomically(self._files.html, page)

    @contextlib.contextmanager
    def _interrupts(self) -> Iterator[None]:
        """Pass an interrupt to the current cycle, which closes its journal, and stop after it."""

        def interrupt(number: int, frame: object) -> None:
            self._stopping = True
            if self._process is not None:
                self._process.send_signal(signal.SIGINT)

        before = {}
        for number in (signal.SIGINT, signal.SIGTERM):
            with contextlib.suppress(ValueError):  # not in the main thread, which gets all signals
                if signal.getsignal(number) is not signal.SIG_IGN:
                    before[number] = signal.signal(number, interrupt)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def sensors_text(
    trend: Trend | CycleStep,
    measured: Sequence[Sequence[Measurement]],
    read: Callable[[int], Sequence[Measurement]],
) -> str:
    """Return what the sensors showed at a step, to be printed after it; empty for a trend.

    Args:
        trend: What was found over the cycles.
        measured: The measurements of every cycle.
        read: Reads the measurements of a cycle (counted from 0) with telemetry, which is too large to keep.
    """
    from pytest_anubis.validator.changes.cycle_steps import CycleStep, cycles_near, step_onset

    if not isinstance(trend, CycleStep):
        return ""
    near, places = cycles_near(trend, measured)
    onset = step_onset(trend, near, [read(place) for place in places])
    return moved_text(onset) if onset is not None else ""


def worst_code(codes: Sequence[int], *, decayed: bool) -> int:
    """Return a campaign's exit code; `decayed` means that a trend counts as a rejection."""
    worst = min(codes, key=lambda code: _WORST_FIRST.index(code) if code in _WORST_FIRST else -1)
    return 1 if decayed and worst in (0, 20) else worst


@contextlib.contextmanager
def _careful(path: Path | None) -> Iterator[None]:
    """Write a file of the campaign in the block; a full disk there must not end the soak."""
    try:
        yield
    except OSError as error:
        _say(f"anubis: {path}: cannot be written ({error.strerror}); the soak goes on")


def split(config: pytest.Config) -> tuple[list[str], CycleFiles]:
    """Return the command line of a cycle, and the report files that every cycle would overwrite.

    The command line is this process's without the duration, the run's name and these files.
    """
    kept: list[str] = []
    skip = False
    for argument in map(str, config.invocation_params.args):
        if skip:
            skip = False
        elif argument in _REPLACED_FLAGS:
            skip = True
        elif not argument.startswith(tuple(f"{flag}=" for flag in _REPLACED_FLAGS)):
            kept.append(argument)
    folder = Path(config.invocation_params.dir)
    page, junit = (config.getoption(name, None) for name in ("htmlpath", "xmlpath"))
    return kept, CycleFiles(
        html=folder / page if page else None, junit=folder / junit if junit else None
    )


def _record(store: Path, run_id: str) -> RunRecord | None:
    try:
        return read_journal(journal_path(store, run_id))
    except JournalError:
        return None


def _last_lines(output: IO[bytes]) -> list[str]:
    """Return the last lines of a cycle's output; none if it went to the terminal."""
    output.seek(max(0, output.seek(0, os.SEEK_END) - TAIL_BYTES))
    return output.read().decode("utf-8", "replace").splitlines()[-TAIL_LINES:]


def _say(*lines: str) -> None:
    sys.stdout.writelines(printable(text) + "\n" for text in lines)
    sys.stdout.flush()
