"""An interrupted run says where it was interrupted, and how to resume it."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from pytest_anubis.core.events import PhaseFailed, RunFinished
from pytest_anubis.store.journal.journal_file import Journal
from tests.cli.command_line import anubis
from tests.quiet import NEVER_ENDING, OPTIONS
from tests.run_journals import journal_of
from tests.session.running.test_exit_guard import asleep, started


def interrupted(project: pytest.Pytester, number: signal.Signals) -> str:
    """Run a long test, send a signal to the run, and return what it printed."""
    process = asleep(project)
    time.sleep(0.2)  # the file is there before the line that makes it has ended
    process.send_signal(number)
    said, _ = process.communicate(timeout=60)
    return str(said)


@pytest.mark.parametrize("workers", [False, True])
def test_interrupted_run_names_test_and_next_step(
    with_baseline: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, workers: bool
) -> None:
    with_baseline.makeconftest(NEVER_ENDING)
    if workers:
        monkeypatch.setenv("PYTEST_ADDOPTS", f"{OPTIONS} -n1")
    said = interrupted(with_baseline, signal.SIGINT)
    assert f"--anubis-resume={journal_of(with_baseline).parent.name}" in said
    assert "exit_guard.py" not in said
    assert workers or "test_sleeps.py:5: KeyboardInterrupt" in said
    assert "closed already" not in said
    assert "make room" not in said


def test_the_report_of_a_killed_run_names_the_way_on(with_baseline: pytest.Pytester) -> None:
    interrupted(with_baseline, signal.SIGKILL)
    path = journal_of(with_baseline)
    report = anubis("report", str(path.parent)).stdout
    assert (
        "it did not come to its end; to go on with this run, give the same command again with "
        in report
    )
    assert f"--anubis-resume={path.parent.name}" in report


def test_a_finished_run_names_no_way_on(with_baseline: pytest.Pytester) -> None:
    result = with_baseline.runpytest("--anubis")
    assert result.ret == 0
    assert "--anubis-resume" not in anubis("report", str(journal_of(with_baseline).parent)).stdout
    result.stdout.no_fnmatch_line("*--anubis-resume*")


def test_events_after_the_end_are_no_disk_damage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    journal = Journal.create(tmp_path, "r")
    journal.write(RunFinished(exit_status=0, ended="2026-01-01T00:00:00+00:00"))
    journal.close()
    for _ in range(2):
        journal.write(PhaseFailed(test="t", text="late"))
    line = f"anubis: {journal.path}: what came after the run's end is not in it\n"
    assert capsys.readouterr().err == line
    assert journal.missing == 2


LATE = """
import pytest
from pytest_anubis.core.events import TestStarted
from pytest_anubis.session.context import emit

def pytest_runtest_call():
    {how}

def pytest_unconfigure(config):
    emit(config, TestStarted(test="late"))
"""


@pytest.mark.parametrize(("how", "reported"), [("raise KeyboardInterrupt", False), ("pass", True)])
def test_late_events_are_reported(with_baseline: pytest.Pytester, how: str, reported: bool) -> None:
    with_baseline.makeconftest(LATE.format(how=how))
    process = started(with_baseline)
    said, _ = process.communicate(timeout=60)
    assert ("came after the run's end" in said) is reported, said
    assert "closed already" not in said
