"""One round: the benchmarks in a process of their own, whose journal says how far they are."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from pytest_anubis.cli.shared.command_error import CommandError
from pytest_anubis.cli.shared.printing import show
from pytest_anubis.core.blocker import Hindrance
from pytest_anubis.core.measurement import TestResult
from pytest_anubis.core.run import RunRecord
from pytest_anubis.report.text.run_progress import RunProgress, run_progress
from pytest_anubis.store.journal.journal_events import JournalError
from pytest_anubis.store.journal.journal_file import journal_path
from pytest_anubis.store.journal.journal_reading import FollowedJournal, read_journal
from pytest_anubis.validator.deciding.decision_headline import uncollected_once

LOOK = 1.0
"""Seconds between two looks at a round's journal: people read no faster, and looking takes from the round."""

KEPT = 400
"""Lines of a round's output that are shown when it fails: pytest's report of some failures."""

BLOCK = 1 << 16
"""Bytes of a round's output that are read at a time, and at its end: far more than such lines are long."""

CHATTER = (
    "bringing up nodes...",
    "anubis: measured, not judged",
    "anubis: run recorded in ",
    "no tests ran in ",
)
"""Beginnings of lines that pytest and its plugins print in every round, which say nothing of a failure."""

SOME_FAILED = (1, 20)
"""Exit codes of a run in which tests failed, or did not report: what the others measured is worth keeping."""

FAILED = ("failed", "error", "crashed", "not reported")
"""How a test ended of which nothing is learned."""

NOTHING = 5
"""Exit code of pytest where it collected no test."""

INTERRUPTED = 2.0
"""Seconds after an interrupt within which a round that had it too begins to end."""

ENDING = 30.0
"""Seconds within which an interrupted round closes its journal: its workers alone may take ten of them."""


def run_round(
    tests: Sequence[str],
    *,
    store: Path,
    profile: str,
    run_id: str,
    pytest_args: str,
    tell: Callable[[RunProgress], None],
    without: Sequence[str] = (),
) -> RunRecord:
    """Measure once, in a process and a run of its own.

    Args:
        tests: Files, folders or node ids.
        store: Folder that keeps runs.
        profile: Sizes and durations.
        run_id: Name of the run.
        pytest_args: More of pytest's own arguments, as a shell would split them.
        tell: Hears how far the round is.
        without: Node ids of tests that are left out. To name the others instead would not do: ids begin at
            pytest's root, and what is on a command line at the folder it is typed in.

    Returns:
        The round, some of whose tests may have failed (`failed_tests`).

    Raises:
        CommandError: The round failed and measured nothing; what it printed is on stdout.
    """
    command = [
        *(sys.executable, "-m", "pytest", "--anubis", "--anubis-mode=measure"),
        *("-q", "--no-header", "-p", "no:cacheprovider"),
        f"--anubis-profile={profile}",
        f"--anubis-store={store}",
        f"--anubis-run-id={run_id}",
        *(f"--deselect={test}" for test in without),
        *shlex.split(pytest_args),
        *tests,
    ]
    path = journal_path(store, run_id)
    # Into a file: what a test has left running may hold a pipe open for ever.
    with tempfile.TemporaryFile() as output:
        with subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT) as process:
            journal = FollowedJournal(path)
            try:
                while process.poll() is None:
                    tell(_moment(journal))
                    time.sleep(LOOK)
            except BaseException:
                _end(process)
                raise
        kept = _kept(path) if process.returncode in SOME_FAILED else None
        if process.returncode != 0 and kept is None:
            show(_said(output.fileno()))
            why = _uncollected(path)
            if process.returncode == NOTHING:
                raise CommandError(
                    f"{', '.join(tests)}: no test is in there; runs and tables to learn from are named by "
                    "their files (FILE.csv), or imported first (anubis import)"
                )
            raise CommandError(
                f"a round ended with exit code {process.returncode}{f' ({why})' if why else ''}; nothing is "
                "learned from a run that failed: fix what failed, or leave it out with --pytest-args"
            )
    return kept or read_journal(path)


def failed_tests(record: RunRecord) -> list[TestResult]:
    """Return the tests of a round that failed, or whose processes died."""
    return [one for one in record.results if one.outcome in FAILED]


def _kept(path: Path) -> RunRecord | None:
    """Return a round in which tests failed, if others measured something and all files were collected."""
    try:
        record = read_journal(path)
    except JournalError:
        return None
    failed = {one.test for one in failed_tests(record)}
    measured = any(one.test not in failed for one in record.measurements)
    whole = measured and not record.broken_off and not _uncollected(path)
    return record if whole else None


def _uncollected(path: Path) -> str:
    """Return which files of a round could not be collected, and why; empty if all could."""
    try:
        blockers = read_journal(path).blockers
    except JournalError:
        return ""
    files = [one for one in blockers if one.kind is Hindrance.UNCOLLECTED]
    return uncollected_once(files)[0] if files else ""


def _end(process: subprocess.Popen[bytes]) -> None:
    """Let a round close its journal: a terminal has interrupted it too, whoever sent us a signal has not."""
    try:
        process.wait(INTERRUPTED)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(ENDING)
        except (
            subprocess.TimeoutExpired
        ):  # what a script starts behind itself (&) ignores interrupts
            process.send_signal(signal.SIGTERM)
            process.wait()


def _said(descriptor: int) -> str:
    """Return the last lines of what a round has printed into a file, but for what every round prints."""
    size = os.fstat(descriptor).st_size
    text = os.pread(descriptor, BLOCK, max(0, size - BLOCK)).decode(errors="replace")
    lines = [line for line in text.splitlines() if not line.startswith(CHATTER)]
    told = "\n".join(lines[-KEPT:]).strip("\n")
    return f"{told}\n" if told else ""


def _moment(journal: FollowedJournal) -> RunProgress:
    try:
        return run_progress(journal.look())
    except JournalError:  # whoever reads it at the end says why
        return RunProgress()
