"""Reading a run that a command line names, while it is still going on too."""

from __future__ import annotations

from pathlib import Path

from pytest_anubis.cli.shared.run_lookup import read_run
from pytest_anubis.core.events import RunStarted, TestsPlanned, TestStarted
from pytest_anubis.core.measurement import PlannedTest
from pytest_anubis.store.journal.journal_file import Journal


def test_tests_of_a_running_run_have_not_failed(tmp_path: Path) -> None:
    with Journal.create(tmp_path, "r") as journal:
        journal.write(RunStarted(run="r", node="n"))
        journal.write(TestsPlanned(tests=(PlannedTest(test="a"), PlannedTest(test="b"))))
        journal.write(TestStarted(test="a"))
        texts = {result.test: result.text for result in read_run("r", tmp_path).results}
        assert texts == {"a": "is running now", "b": "has not begun yet: the run goes on"}
    texts = {result.test: result.text for result in read_run("r", tmp_path).results}
    assert texts == {"a": "started and never finished", "b": "never started"}
