"""Other plugins of users: what would spoil a benchmark is refused in one line, the rest works.

The plugins themselves were tried once (docs/neighbours.md); here stands in for each
what of it matters.
"""

from __future__ import annotations

import json
from types import ModuleType, SimpleNamespace
from typing import Any, cast

import pytest

from pytest_anubis.core.verdict import Decision
from pytest_anubis.session.collecting.neighbour_plugins import refusal
from pytest_anubis.store.journal.journal_reading import read_journal
from tests.run_journals import journal_of, record_of

SUITE = """
import time

def test_rate(anubis_metric):
    anubis_metric.record("rate", [1.0] * 3, unit="GB/s", better="higher")

def test_plain():
    pass
"""

REPEATER = """
def pytest_generate_tests(metafunc):
    name = "NAME".format(metafunc.function.__name__)
    metafunc.fixturenames.append(name)
    metafunc.parametrize(name, range(2))
"""


@pytest.mark.parametrize("name", ["__pytest_repeat_step_number", "__flakefinder_{}"])
def test_copies_of_a_benchmark_are_refused_at_start(pytester: pytest.Pytester, name: str) -> None:
    pytester.makeconftest(REPEATER.replace("NAME", name))
    pytester.makepyfile(SUITE)
    pytester.runpytest().assert_outcomes(passed=4)  # without --anubis anything is allowed
    result = pytester.runpytest("--anubis", "--anubis-in-process")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    (line,) = [line for line in result.stderr.lines if "test_rate" in line]
    assert "no baseline knows them" in line
    assert "--anubis-duration" in line


@pytest.mark.parametrize(
    ("plugin", "option", "words", "message"),
    [
        ("repeat", '"--count", type=int, default=1', "--count=2", "pytest-repeat"),
        (
            "flakefinder",
            '"--flake-finder", dest="flake_finder_enable", action="store_true"',
            "--flake-finder",
            "pytest-flakefinder",
        ),
    ],
)
def test_copying_option_is_refused_before_the_run(
    pytester: pytest.Pytester, plugin: str, option: str, words: str, message: str
) -> None:
    added = f"def pytest_addoption(parser):\n    parser.addoption({option})\n"
    pytester.makepyfile(test_it=SUITE, **{plugin: added})
    pytester.syspathinsert()
    plain = ["-p", plugin, "--anubis", "--anubis-in-process"]
    result = pytester.runpytest(*plain, words)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    (line,) = result.stderr.lines[:-1]
    assert message in line
    assert "no baseline knows them" in line
    assert not pytester.path.joinpath(".anubis").exists()  # nothing that judge could find
    assert pytester.runpytest(*plain).ret == Decision.UNDECIDED.exit_code


FREEZER = """
import pytest

@pytest.fixture
def freezer():
    yield

def pytest_configure(config):
    config.addinivalue_line("markers", "freeze_time(when): as of pytest-freezer")
"""
FREEZEGUN = """
import contextlib, functools, time

@contextlib.contextmanager
def frozen():
    kept, kept_date = time.perf_counter, time.time
    time.perf_counter = time.time = lambda: 1.0
    try:
        yield
    finally:
        time.perf_counter, time.time = kept, kept_date

def freeze_time(test):
    @functools.wraps(test)
    def wrapped(*args, **more):
        with frozen():
            return test(*args, **more)
    return wrapped
"""
MEASURES = "anubis_metric.measure('a', lambda: 1, unit='s', better='lower')"
RECORDS = "anubis_metric.record('a', [1.0], unit='s', better='lower')"


def with_freezegun(pytester: pytest.Pytester, text: str) -> tuple[str, ...]:
    """Write the plugin, the library and a test file that has `text`; return what switches the plugin on."""
    pytester.mkpydir("freezegun").joinpath("api.py").write_text(FREEZEGUN)
    head = "import pytest\nfrom freezegun.api import freeze_time, frozen\n"
    pytester.makepyfile(pytest_freezer=FREEZER, test_it=f"{head}\n{text}")
    pytester.syspathinsert()
    return "-p", "pytest_freezer"


@pytest.mark.parametrize("body", [MEASURES, RECORDS])
@pytest.mark.parametrize(
    ("head", "fixtures", "holder"),
    [
        ("", "anubis_metric, freezer", "pytest-freezer (the fixture freezer)"),
        ("@pytest.mark.freeze_time('2020')", "anubis_metric", "pytest-freezer (the mark freeze_time)"),
        ("@freeze_time", "anubis_metric", "freezegun (the decorator freeze_time)"),
        ("class TestIt:\n @freeze_time", "self, anubis_metric", "freezegun (the decorator freeze_time)"),
    ],
)  # fmt: skip
def test_known_frozen_time_is_refused_at_start(
    pytester: pytest.Pytester, head: str, fixtures: str, holder: str, body: str
) -> None:
    text = f"{head}\n{' ' * head.startswith('class')}def test_frozen({fixtures}):\n  {body}\n"
    plugin = with_freezegun(
        pytester, text + "def test_other(anubis_metric):\n    open('ran', 'w')\n"
    )
    result = pytester.runpytest("--anubis", "--anubis-in-process", "--junitxml=j.xml", *plugin)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    (line,) = [line for line in result.stderr.lines if "test_frozen" in line]
    assert f"{holder} holds the clock of this benchmark" in line
    assert not pytester.path.joinpath("ran").exists()
    # In this one line: there is no run that anybody could judge, and nothing is said of one.
    assert "UNDECIDED" not in result.stdout.str()
    assert not list(pytester.path.glob(".anubis/runs/*"))
    # The JUnit file shows no success either.
    assert 'failures="1"' in pytester.path.joinpath("j.xml").read_text()


def test_frozen_time_in_plain_tests_is_allowed(pytester: pytest.Pytester) -> None:
    text = "def test_frozen(freezer):\n    pass\n\n@freeze_time\ndef test_too():\n    pass\n"
    plugin = with_freezegun(pytester, f"{text}\ndef test_rate(anubis_metric):\n    {RECORDS}\n")
    result = pytester.runpytest("--anubis", "--anubis-in-process", "--anubis-mode=measure", *plugin)
    result.assert_outcomes(passed=3)


def test_frozen_time_in_a_body_is_refused(pytester: pytest.Pytester) -> None:
    text = "".join(
        f"def test_{name}(anubis_metric):\n    with frozen():\n        {body}\n"
        for name, body in (("measures", MEASURES), ("records", RECORDS))
    )
    plugin = with_freezegun(pytester, text)
    result = pytester.runpytest("--anubis", "--anubis-in-process", *plugin)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stdout.fnmatch_lines(
        ["FAILED test_it.py::test_measures - the clock is not the machine's*"]
    )
    path = journal_of(pytester)
    record = read_journal(path)
    verdicts = {v.benchmark.rpartition("::")[2]: v.outcome for v in record.verdicts}
    assert verdicts["test_measures"] == "INCONCLUSIVE"
    assert all(json.loads(line)["at"] > 1e9 for line in path.read_text().splitlines())


def timed_item(**option: bool) -> pytest.Item:
    """Return what a test with pytest-benchmark's fixture looks like."""

    def benchmark() -> None: ...

    benchmark.__module__ = "pytest_benchmark.plugin"
    info = SimpleNamespace(name2fixturedefs={"benchmark": [SimpleNamespace(func=benchmark)]})
    config = SimpleNamespace(option=SimpleNamespace(**option))
    item: Any = SimpleNamespace(nodeid="t.py::t", config=config, _fixtureinfo=info)
    return cast(pytest.Item, item)


def test_pytest_benchmark_in_a_worker_is_refused() -> None:
    assert "--anubis-in-process" in refusal(timed_item(), worker=True)
    assert refusal(timed_item(), worker=False) == ""
    assert refusal(timed_item(benchmark_disable=True), worker=True) == ""


NOT_TIMED = """
import warnings

import pytest

@pytest.hookimpl(trylast=True)
def pytest_configure(config):
    if config.getoption("dist", "no") != "no" or hasattr(config, "workerinput"):
        warnings.warn("Benchmarks are automatically disabled because xdist plugin is active.")
"""


@pytest.mark.parametrize("asked", ["option", "file"])
def test_pytest_benchmarks_warning_ends_no_run(
    pytester: pytest.Pytester, in_workers: None, asked: str
) -> None:
    # As versions up to 5.2 warn, in every run with workers.
    pytester.makeconftest(NOT_TIMED)
    pytester.makepyfile(SUITE)
    pytester.makeini(f"[pytest]\nfilterwarnings = {'error' * (asked == 'file')}\n")
    options = ["-W", "error"] if asked == "option" else []
    command = ["--anubis", "--anubis-mode=measure", *options]
    pytester.runpytest(*command).assert_outcomes(passed=2)


FROZEN = """
import time

def test_measure(anubis_metric, monkeypatch):
    monkeypatch.setattr(time, "perf_counter", CLOCK)
    anubis_metric.measure("a", lambda: 1, unit="s", better="lower")

def test_collect(anubis_metric, monkeypatch):
    monkeypatch.setattr(time, "perf_counter", CLOCK)
    anubis_metric.collect("a", lambda: 1, unit="s", better="lower")

def test_record(anubis_metric, monkeypatch):
    monkeypatch.setattr(time, "perf_counter", CLOCK)
    anubis_metric.record("a", 1, unit="s", better="lower")
"""


# The second is C's own and is stopped, as time-machine's does.
@pytest.mark.parametrize("clock", ["lambda: 1.0", "(1.0).__abs__"])
def test_stopped_clock_is_refused(pytester: pytest.Pytester, clock: str) -> None:
    pytester.makepyfile(FROZEN.replace("CLOCK", clock))
    result = pytester.runpytest("--anubis", "--anubis-mode=measure", "--anubis-in-process")
    result.assert_outcomes(failed=2, passed=1)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stdout.fnmatch_lines(
        ["E * MetricUsageError: the clock is not the machine's (freezegun*"]
    )


@pytest.mark.parametrize(("options", "dist"), [((), "load"), (("--anubis-in-process",), "no")])
def test_early_plugins_see_that_workers_run(
    pytester: pytest.Pytester, in_workers: None, options: tuple[str, ...], dist: str
) -> None:
    """As pytest-cov, which then chooses how it measures."""
    said = []

    class Early:
        @pytest.hookimpl(tryfirst=True)
        def pytest_load_initial_conftests(self, early_config: pytest.Config) -> None:
            said.append(early_config.known_args_namespace.dist)

    module = cast(ModuleType, Early())
    pytester.makepyfile(SUITE)
    pytester.inline_run("--anubis", "--version", "--version", *options, plugins=[module])
    assert said == [dist]


RERUNS = """
import pytest

again = []

@pytest.hookimpl(optionalhook=True)
def pytest_handlecrashitem(crashitem, report, sched):
    assert sched.config.option.anubis
    if not again:
        again.append(crashitem)
        sched.mark_test_pending(crashitem)
"""


def test_death_repeated_by_a_plugin_is_no_evidence(
    pytester: pytest.Pytester, in_workers: None
) -> None:
    """As pytest-rerunfailures: merely installed it asks the scheduler for the configuration."""
    pytester.makeconftest(RERUNS)
    pytester.makepyfile(
        "import os\ndef test_dies(anubis_metric):\n    os._exit(9)\ndef test_lives():\n    pass\n"
    )
    result = pytester.runpytest("--anubis")
    assert result.ret == Decision.UNDECIDED.exit_code
    record = record_of(pytester)
    ends = {one.test.rpartition("::")[2]: one.outcome for one in record.results}
    assert ends == {"test_dies": "crashed", "test_lives": "passed"}


@pytest.mark.parametrize("change", ["|= 1", "= 1"])
def test_status_added_by_a_plugin_is_replaced(pytester: pytest.Pytester, change: str) -> None:
    """As syrupy, which adds pytest's 1 to the status."""
    pytester.makeconftest(
        "import pytest\n@pytest.hookimpl(trylast=True)\n"
        f"def pytest_sessionfinish(session):\n    session.exitstatus {change}\n"
    )
    pytester.makepyfile(SUITE)
    assert pytester.runpytest("--anubis", "--anubis-in-process").ret == Decision.UNDECIDED.exit_code
