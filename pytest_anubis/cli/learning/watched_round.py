"""Run one round of ``anubis learn``: pytest in a process of its own, watched through the run's journal.

`rounds` uses it.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
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

POLL_SECONDS = 1.0
"""Seconds between two looks at a round's journal: people read no faster, and looking disturbs the round."""

MAX_OUTPUT_LINES = 400
"""Lines of a failed round's output that are shown: pytest's report of some failures."""

MAX_OUTPUT_BYTES = 1 << 16
"""Bytes that are read of a round's output, at its end: far more than such lines need."""

CHATTER = (
    "bringing up nodes...",
    "anubis: measured, not judged",
    "anubis: run recorded in ",
    "no tests ran in ",
)
"""Beginnings of lines that pytest and its plugins print in every round, also without a failure."""

TESTS_FAILED = (1, 20)
"""Exit codes of a run in which tests failed or did not report; `_partial_round` decides what is kept."""

FAILED = ("failed", "error", "crashed", "not reported")
"""Outcomes of tests from which nothing is learned."""

NO_TESTS = 5
"""Exit code of pytest that collected no test."""

INTERRUPT_GRACE = 2.0
"""Seconds within which a round that got the same interrupt begins to end."""

CLOSING_SECONDS = 30.0
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
    """Run the tests once, only measuring, in a process and a run of their own; some of them may fail.

    Args:
        tests: Files, folders or node ids.
        store: Folder that keeps runs.
        profile: Sizes and durations.
        run_id: Name of the run.
        pytest_args: More of pytest's own arguments, as a shell would split them.
        tell: Called with the progress of the round.
        without: Node ids of tests that are left out. To name the others instead would not do: ids begin at
            pytest's root, and paths on a command line at the current folder.

    Raises:
        CommandError: The round broke off, left a file uncollected, measured nothing in tests that passed, or
            ended with a code other than 0, 1 and 20; its output is on stdout.
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
    # Into a file: a process that a test left running may hold a pipe open for ever.
    with tempfile.TemporaryFile() as output, _interrupted_by_sigterm():
        with subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT) as process:
            journal = FollowedJournal(path)
            try:
                while process.poll() is None:
                    tell(_progress(journal))
                    with suppress(subprocess.TimeoutExpired):
                        process.wait(POLL_SECONDS)
            except BaseException:
                _end(process)
                raise
        kept = _partial_round(path) if process.returncode in TESTS_FAILED else None
        if process.returncode != 0 and kept is None:
            show(_last_output(output.fileno()))
            why = _uncollected(path)
            if process.returncode == NO_TESTS:
                raise CommandError(
                    f"{', '.join(tests)}: no test is in there; runs and tables to learn from are named by "
                    "their files (FILE.csv), or imported first (anubis import)"
                )
            raise CommandError(
                f"a round ended with exit code {process.returncode}{f' ({why})' if why else ''}; nothing is "
                "learned from a run that failed: fix what failed, or leave it out with --pytest-args"
            )
    return kept or read_journal(path)


@contextmanager
def _interrupted_by_sigterm() -> Iterator[None]:
    """Let SIGTERM interrupt as Ctrl-C does; its default action would leave a round running behind."""
    own = threading.current_thread() is threading.main_thread()
    if not own or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def failed_tests(record: RunRecord) -> list[TestResult]:
    """Return the tests of a round that failed, or whose processes died."""
    return [one for one in record.results if one.outcome in FAILED]


def _partial_round(path: Path) -> RunRecord | None:
    """Return a round with failed tests if it did not break off, collected all files and others measured."""
    try:
        record = read_journal(path)
    except JournalError:
        return None
    failed = {one.test for one in failed_tests(record)}
    measured = any(one.test not in failed for one in record.measurements)
    whole = measured and not record.broken_off and not _uncollected(path)
    return record if whole else None


def _uncollected(path: Path) -> str:
    """Return which files of a round could not be collected, and why; empty if all were."""
    try:
        blockers = read_journal(path).blockers
    except JournalError:
        return ""
    files = [one for one in blockers if one.kind is Hindrance.UNCOLLECTED]
    return uncollected_once(files)[0] if files else ""


def _end(process: subprocess.Popen[bytes]) -> None:
    """Let a round close its journal; a terminal interrupts it too, but a signal to this process does not."""
    try:
        process.wait(INTERRUPT_GRACE)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(CLOSING_SECONDS)
        except subprocess.TimeoutExpired:  # a script's background process ignores interrupts
            process.send_signal(signal.SIGTERM)
            process.wait()


def _last_output(descriptor: int) -> str:
    """Return the end of what a round printed into a file, without the lines that every round prints."""
    size = os.fstat(descriptor).st_size
    text = os.pread(descriptor, MAX_OUTPUT_BYTES, max(0, size - MAX_OUTPUT_BYTES))
    lines = text.decode(errors="replace").splitlines()
    kept = [line for line in lines if not line.startswith(CHATTER)][-MAX_OUTPUT_LINES:]
    end = "\n".join(kept).strip("\n")
    return f"{end}\n" if end else ""


def _progress(journal: FollowedJournal) -> RunProgress:
    try:
        return run_progress(journal.look())
    except JournalError:  # the reader at the end of the round says why
        return RunProgress()
