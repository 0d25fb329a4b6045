"""Rounds in their own process: their progress, and what is shown of one that fails."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from pytest_anubis.cli.learning import watched_round
from pytest_anubis.cli.learning.watched_round import failed_tests, run_round
from pytest_anubis.cli.shared.command_error import CommandError
from pytest_anubis.core.run import RunRecord
from pytest_anubis.report.text.run_progress import RunProgress
from pytest_anubis.store.journal.journal_reading import read_journal

pytestmark = pytest.mark.usefixtures("quick_processes")


def measured(
    store: Path,
    test: str,
    tell: Callable[[RunProgress], None] = lambda moment: None,
    without: Sequence[str] = (),
    pytest_args: str = "-n0",
) -> RunRecord:
    """Run one round in one process."""
    return run_round(
        [test],
        store=store,
        profile="smoke",
        run_id="r1",
        pytest_args=pytest_args,
        tell=tell,
        without=without,
    )


def test_round_is_watched_and_read(here: Path) -> None:
    suite = here / "test_suite.py"
    suite.write_text(
        "import pathlib, time\n"
        "def test_speed(anubis_metric):\n"
        "    anubis_metric.record('speed', [1.0, 2.0], unit='1', better='higher')\n"
        "    end = time.monotonic() + 30\n"
        f"    while not pathlib.Path({str(here / 'seen')!r}).exists() and time.monotonic() < end:\n"
        "        time.sleep(0.05)\n",
        encoding="utf-8",
    )
    seen: list[RunProgress] = []

    def see(progress: RunProgress) -> None:
        seen.append(progress)
        if progress.doing:
            (here / "seen").touch()

    record = measured(here / "store", "test_suite.py", see)
    assert [one.metric.name for one in record.measurements] == ["speed"]
    assert any(one.doing == "test_speed on node" or one.doing == "test_speed" for one in seen)
    assert max(one.planned for one in seen) == 1


def test_round_that_fails_shows_what_it_printed(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "test_bad.py").write_text("import no_such_module_here\n", encoding="utf-8")
    with pytest.raises(CommandError, match=r"a round ended with exit code \d"):
        measured(here / "store", "test_bad.py")
    assert "no_such_module_here" in capsys.readouterr().out


def test_a_partial_round_keeps_its_measurements(here: Path) -> None:
    (here / "test_suite.py").write_text(
        "def test_speed(anubis_metric):\n"
        "    anubis_metric.record('speed', [1.0, 2.0], unit='1', better='higher')\n"
        "def test_bad(anubis_metric):\n"
        "    assert 1 == 2, 'a wrong sum'\n",
        encoding="utf-8",
    )
    record = measured(here / "store", "test_suite.py")
    assert [one.metric.name for one in record.measurements] == ["speed"]
    assert [one.test for one in failed_tests(record)] == ["test_suite.py::test_bad"]


def test_a_failed_round_hides_the_usual_lines(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "test_bad.py").write_text(
        "import pytest\n\n\n@pytest.mark.anubis(cots='1s')\ndef test_x(anubis_metric):\n    pass\n",
        encoding="utf-8",
    )
    with pytest.raises(CommandError, match="a round ended"):
        measured(here / "store", "test_bad.py")
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("ERROR: ")
    assert "mark anubis has no key 'cots'" in line


def test_a_folder_without_tests_suggests_an_import(here: Path) -> None:
    (here / "tables").mkdir()
    (here / "tables" / "fleet.csv").write_text("node\n")
    with pytest.raises(
        CommandError, match=r"^tables: no test is in there; .* \(FILE.csv\), or imported"
    ):
        measured(here / "store", "tables")


def test_tests_are_left_out_wherever_the_root_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    folder = tmp_path / "sub"
    folder.mkdir()
    body = "anubis_metric.record('speed', [1.0, 2.0], unit='1', better='higher')"
    (folder / "test_suite.py").write_text(
        "".join(f"def test_{name}(anubis_metric):\n    {body}\n" for name in "ab"), encoding="utf-8"
    )
    monkeypatch.chdir(folder)  # ids begin at the folder above
    record = measured(tmp_path / "store", "test_suite.py", without=["sub/test_suite.py::test_b"])
    assert [one.test for one in record.measurements] == ["sub/test_suite.py::test_a"]


def terminated() -> None:
    """Send this process a SIGTERM, which must not end it."""
    assert signal.getsignal(signal.SIGTERM) is signal.default_int_handler
    os.kill(os.getpid(), signal.SIGTERM)


def interrupted() -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("happens", [interrupted, terminated])
def test_an_interrupt_reaches_the_round(
    here: Path, monkeypatch: pytest.MonkeyPatch, happens: Callable[[], None]
) -> None:
    monkeypatch.setattr(watched_round, "INTERRUPT_GRACE", 0.0)
    (here / "test_long.py").write_text(
        "import time\ndef test_x(anubis_metric):\n    time.sleep(60)\n", encoding="utf-8"
    )

    def tell(moment: RunProgress) -> None:
        if moment.doing:
            happens()

    with pytest.raises(KeyboardInterrupt):
        # Without a worker: one that is inside a test is waited for.
        measured(here / "store", "test_long.py", tell, pytest_args="-p no:xdist")
    record = read_journal(here / "store" / "runs" / "r1")
    assert record.ended  # its journal was closed
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_a_round_that_ignores_interrupts_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watched_round, "INTERRUPT_GRACE", 0.0)
    monkeypatch.setattr(watched_round, "CLOSING_SECONDS", 0.1)
    deaf = ["sh", "-c", "trap '' INT; echo ready; exec sleep 5"]
    with subprocess.Popen(deaf, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        watched_round._end(process)
    assert process.returncode == -signal.SIGTERM


def test_a_module_that_many_files_lack_is_one_cause(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "suites").mkdir()
    (here / "suites" / "helper.py").write_text("import nowhere_to_be_found\n")
    for number in range(20):
        path = here / "suites" / f"test_{number:02}.py"
        path.write_text("import helper\ndef test_a(anubis_metric):\n    pass\n")
    with pytest.raises(CommandError) as raised:
        measured(here / "store", "suites")
    assert str(raised.value).startswith(
        "a round ended with exit code 1 (suites/test_00.py and 19 other files cannot be collected: "
        "ModuleNotFoundError: No module named 'nowhere_to_be_found'); nothing is learned"
    )
