"""Where tests run when no number of workers is given: in a worker, unless somebody is to watch."""

from __future__ import annotations

import re

import pytest

from pytest_anubis.core.events import RunTimed
from tests.run_journals import record_of

PLAIN = """
import os, pathlib

def test_where():
    pathlib.Path("where").write_text(os.environ.get("PYTEST_XDIST_WORKER", "here"))
"""
COSTLY = """
import os, pytest

@pytest.mark.anubis(component="cpu.compute", metrics=["rate"], cost="10ms")
@pytest.mark.parametrize("number", range(3))
def test_benchmark(anubis_metric, number):
    anubis_metric.record("rate", [1.0, 2.0], unit="GB/s", better="higher")
    if number == 1:
        os._exit(3)
"""


def test_death_costs_one_test(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_it=COSTLY)
    result = pytester.runpytest("--anubis", "--junitxml=out.xml")
    assert result.ret == 20
    record = record_of(pytester)
    ends = {r.test.partition("[")[2]: r.outcome for r in record.results}
    assert ends == {"0]": "skipped", "1]": "crashed", "2]": "skipped"}
    assert [m.test[-2] for m in record.measurements] == ["0", "1", "2"]
    assert 'tests="3"' in (pytester.path / "out.xml").read_text()


def test_a_run_of_nothing_but_deaths_took_its_time(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_it=COSTLY.replace("== 1", ">= 0"))
    result = pytester.runpytest("--anubis", "-v")
    assert result.ret == 20
    walls = [e.wall for e in record_of(pytester).events if isinstance(e, RunTimed)]
    assert len(walls) == 1
    assert 0 < walls[0] < 90


@pytest.mark.parametrize(
    ("arguments", "worker"),
    [
        ([], True),
        (["-n0"], True),
        (["-s", "-n0"], True),
        (["-s", "--anubis-timeout=60"], True),
        (["--anubis-in-process"], False),
        (["--anubis-in-process", "--anubis-timeout=60"], False),
        (["-p", "no:xdist"], False),
        (["-s"], False),
        (["--setup-show"], False),
    ],
)
def test_watched_tests_run_in_process(
    pytester: pytest.Pytester, arguments: list[str], worker: bool
) -> None:
    pytester.makepyfile(test_plain=PLAIN)
    result = pytester.runpytest("--anubis", *arguments)
    where = (pytester.path / "where").read_text()
    assert bool(re.fullmatch(r"gw\d+", where)) is worker, result.outlines
    assert worker or where == "here"


def test_collecting_starts_no_worker(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_plain=PLAIN)
    result = pytester.runpytest("--anubis", "--collect-only")
    result.stdout.fnmatch_lines(["*<Function test_where>*"])
    result.stdout.no_fnmatch_line("*created: *")
    assert not (pytester.path / "where").exists()


def test_replaced_collection_is_reported(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_plain=PLAIN)
    hook = (
        "import pytest\n@pytest.hookimpl(tryfirst=True)\ndef pytest_collection():\n    return 0\n"
    )
    pytester.makeconftest(hook)
    # Without the message its worker would be waited for: 300 s, three times.
    result = pytester.runpytest("--anubis")
    assert result.ret == 4
    result.stderr.fnmatch_lines(["ERROR: no tests were collected: a pytest_collection hook of *"])


@pytest.mark.parametrize("workers", [["-n0"], ["-n1"], ["--tx", "popen"]])
def test_workers_and_this_process_exclude_each_other(
    pytester: pytest.Pytester, workers: list[str]
) -> None:
    pytester.makepyfile(test_plain=PLAIN)
    result = pytester.runpytest("--anubis", "--anubis-in-process", *workers)
    assert result.ret == 4
    (line,) = [line for line in result.errlines if line.strip()]
    assert "exclude each other" in line
    assert not (pytester.path / ".anubis").exists()


@pytest.mark.parametrize("workers", [[], ["-s"]])
def test_debugger_says_nothing_about_the_node(
    pytester: pytest.Pytester, workers: list[str]
) -> None:
    pytester.makepyfile(
        test_it="import pytest\n"
        '@pytest.mark.anubis(component="c", cost="1s")\n'
        "def test_x(anubis_metric):\n    breakpoint()\n"
    )
    pytester.runpytest_subprocess("--anubis", *workers, timeout=90)
    verdict = record_of(pytester).node_verdict
    assert verdict is None or verdict.decision.value == "UNDECIDED"


def test_costs_without_a_worker_are_told(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_it=COSTLY.replace("os._exit(3)", "pass"))
    line = "anubis: 3 of 3 tests declare costs, but deadlines are not enforced*"
    for watched in ("-s", "--anubis-in-process"):
        pytester.runpytest("--anubis", watched).stdout.fnmatch_lines([line])
    in_worker = pytester.runpytest("--anubis")
    in_worker.stdout.no_fnmatch_line("*deadlines are not*")
