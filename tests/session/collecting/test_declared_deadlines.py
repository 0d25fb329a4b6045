"""Where tests run when no number of workers is given: a deadline needs a worker, all else stays here."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from pytest_anubis.core.events import RunTimed
from pytest_anubis.session.collecting.declared_deadlines import declares_deadlines
from pytest_anubis.store.journal.journal_reading import read_journal

PLAIN = """
import os, pathlib

def test_where():
    pathlib.Path("where").write_text(os.environ.get("PYTEST_XDIST_WORKER", "here"))
"""
COSTLY = """
import os, pytest

@pytest.mark.anubis(component="cpu.compute", metrics=["rate"], {cost})
@pytest.mark.parametrize("number", range(3))
def test_benchmark(anubis_metric, number):
    anubis_metric.record("rate", [1.0, 2.0], unit="GB/s", better="higher")
    if number == 1:
        os._exit(3)
"""


@pytest.fixture(autouse=True)
def folder(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("PYTEST_ANUBIS_PROFILE", raising=False)
    monkeypatch.delenv("PYTEST_ANUBIS_STORE", raising=False)
    pytester.makeini("[pytest]\n")
    return pytester.path


@pytest.mark.parametrize("cost", ['cost="10ms"', 'cost = "20ms"'])
def test_a_death_of_a_benchmark_with_a_cost_costs_one_test(
    pytester: pytest.Pytester, cost: str
) -> None:
    pytester.makepyfile(test_it=COSTLY.format(cost=cost))
    result = pytester.runpytest_subprocess("--anubis", "--junitxml=out.xml", timeout=90)
    assert result.ret == 20
    (path,) = pytester.path.glob(".anubis/runs/*/journal.jsonl")
    record = read_journal(path)
    ends = {r.test.partition("[")[2]: r.outcome for r in record.results}
    assert ends == {"0]": "skipped", "1]": "crashed", "2]": "skipped"}
    assert [m.test[-2] for m in record.measurements] == ["0", "1", "2"]
    assert 'tests="3"' in (pytester.path / "out.xml").read_text()


def test_a_run_of_nothing_but_deaths_took_its_time(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_it=COSTLY.format(cost='cost="10ms"').replace("== 1", ">= 0"))
    result = pytester.runpytest_subprocess("--anubis", "-v", timeout=90)
    assert result.ret == 20
    (path,) = pytester.path.glob(".anubis/runs/*/journal.jsonl")
    walls = [e.wall for e in read_journal(path).events if isinstance(e, RunTimed)]
    assert len(walls) == 1
    assert 0 < walls[0] < 90


@pytest.mark.parametrize(
    ("files", "arguments", "worker"),
    [
        ({}, [], False),
        ({"test_costly.py": COSTLY}, [], True),
        ({"sub/test_costly.py": COSTLY}, [], True),
        ({"sub/test_costly.py": COSTLY}, ["sub", "test_plain.py"], True),
        ({"test_timed.py": "import pytest\npytestmark = [pytest.mark.timeout(5)]\n"}, [], True),
        ({"test_costly.py": COSTLY}, ["test_plain.py::test_where"], False),
        ({"test_costly.py": COSTLY}, ["-s"], False),
        ({"test_costly.py": COSTLY}, ["--setup-show"], False),
        ({"test_costly.py": COSTLY}, ["-s", "-n0"], True),
        ({"test_costly.py": COSTLY}, ["--ignore=test_costly.py"], True),  # a file, not looked up
        ({"sub/test_costly.py": COSTLY}, ["--ignore=sub"], False),
        ({"helper.py": COSTLY}, [], False),
        ({"build/test_costly.py": COSTLY, ".hidden/test_costly.py": COSTLY}, [], False),
        ({"env/pyvenv.cfg": "", "env/lib/test_costly.py": COSTLY}, [], False),
        ({"test_other.py": "price = dict(cost=3)\n"}, [], False),
    ],
)
def test_only_deadlines_and_the_user_ask_for_a_worker(
    pytester: pytest.Pytester, files: dict[str, str], arguments: list[str], worker: bool
) -> None:
    for name, text in files.items():
        path = pytester.path / name
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text(text.replace("{cost}", 'cost="10ms"').replace("os._exit(3)", "pass"))
    (pytester.path / "test_plain.py").write_text(PLAIN)
    result = pytester.runpytest_subprocess("--anubis", *arguments, timeout=90)
    where = (pytester.path / "where").read_text()
    assert bool(re.fullmatch(r"gw\d+", where)) is worker, result.outlines
    assert worker or where == os.environ.get("PYTEST_XDIST_WORKER", "here")


def test_links_are_followed_and_circles_left(pytester: pytest.Pytester) -> None:
    outside = pytester.mkdir("build")  # which is not looked into by this name
    (outside / "test_costly.py").write_text(
        COSTLY.format(cost='cost="10ms"').replace("os._exit(3)", "pass")
    )
    (pytester.path / "linked").symlink_to(outside)
    (outside / "circle").symlink_to(pytester.path)
    (pytester.path / "test_plain.py").write_text(PLAIN)
    pytester.runpytest_subprocess("--anubis", "linked", "test_plain.py", timeout=90)
    assert (pytester.path / "where").read_text().startswith("gw")


def test_a_folder_that_cannot_be_read_declares_nothing(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    locked = pytester.mkdir("locked")
    is_file = Path.is_file

    def refuse(path: Path) -> bool:
        if path.parent == locked:
            raise PermissionError(13, "Permission denied")
        return is_file(path)

    monkeypatch.setattr(Path, "is_file", refuse)
    config = pytester.parseconfig(str(locked / "test_x.py"), str(pytester.path))
    assert not declares_deadlines(config)


@pytest.mark.parametrize("workers", [[], ["-s"]])
def test_the_debugger_in_a_test_says_nothing_about_the_node(
    pytester: pytest.Pytester, workers: list[str]
) -> None:
    pytester.makepyfile(
        test_it="import pytest\n"
        '@pytest.mark.anubis(component="c", cost="1s")\n'
        "def test_x(anubis_metric):\n    breakpoint()\n"
    )
    pytester.runpytest_subprocess("--anubis", *workers, timeout=90)
    (path,) = pytester.path.glob(".anubis/runs/*/journal.jsonl")
    verdict = read_journal(path).node_verdict
    assert verdict is None or verdict.decision.value == "UNDECIDED"


def test_costs_without_a_worker_are_told(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_it=COSTLY.format(cost='cost="10ms"').replace("os._exit(3)", "pass"))
    alone = pytester.runpytest_subprocess("--anubis", "-s", timeout=90)
    alone.stdout.fnmatch_lines(
        ["anubis: 3 of 3 tests declare costs, but in this process no deadline*"]
    )
    beside = pytester.runpytest_subprocess("--anubis", timeout=90)
    beside.stdout.no_fnmatch_line("*no deadline*")


def test_the_folders_of_the_configuration_are_looked_at(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\ntestpaths = checks\npython_files = check_*.py\n")
    folder = pytester.mkdir("checks")
    (folder / "check_where.py").write_text(PLAIN)
    (folder / "check_costly.py").write_text(
        COSTLY.format(cost='cost="10ms"').replace("os._exit(3)", "pass")
    )
    pytester.runpytest_subprocess("--anubis", timeout=90)
    assert (pytester.path / "where").read_text().startswith("gw")
