"""Plugins that users have beside this one: what they would spoil is refused in one line, the rest works.

The plugins themselves are tried by benchmarks/sessions/neighbours.py; here stands in for each
what of it matters.
"""

from __future__ import annotations

from types import ModuleType, SimpleNamespace
from typing import Any, cast

import pytest

from pytest_anubis.core.verdict import Decision
from pytest_anubis.session.collecting.neighbour_plugins import refusal
from pytest_anubis.store.journal.journal_reading import read_journal

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
    pytester.runpytest().assert_outcomes(passed=4)  # without --anubis it is nobody's business
    result = pytester.runpytest("--anubis", "--anubis-in-process")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    (line,) = [line for line in result.stderr.lines if "test_rate" in line]
    assert "no baseline knows them" in line
    assert "--anubis-duration" in line


@pytest.mark.parametrize(
    ("plugin", "option", "words", "told"),
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
def test_an_option_that_makes_copies_is_refused_before_there_is_a_run(
    pytester: pytest.Pytester, plugin: str, option: str, words: str, told: str
) -> None:
    added = f"def pytest_addoption(parser):\n    parser.addoption({option})\n"
    pytester.makepyfile(test_it=SUITE, **{plugin: added})
    pytester.syspathinsert()
    plain = ["-p", plugin, "--anubis", "--anubis-in-process"]
    result = pytester.runpytest(*plain, words)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    (line,) = result.stderr.lines[:-1]
    assert told in line
    assert "no baseline knows them" in line
    assert not pytester.path.joinpath(".anubis").exists()  # nothing that judge could find
    assert pytester.runpytest(*plain).ret == Decision.UNDECIDED.exit_code


def timed_item(**option: bool) -> pytest.Item:
    """Return what a test with pytest-benchmark's fixture looks like."""

    def benchmark() -> None: ...

    benchmark.__module__ = "pytest_benchmark.plugin"
    info = SimpleNamespace(name2fixturedefs={"benchmark": [SimpleNamespace(func=benchmark)]})
    config = SimpleNamespace(option=SimpleNamespace(**option))
    item: Any = SimpleNamespace(nodeid="t.py::t", config=config, _fixtureinfo=info)
    return cast(pytest.Item, item)


def test_what_pytest_benchmark_cannot_time_in_a_worker_is_refused() -> None:
    assert "--anubis-in-process" in refusal(timed_item(), worker=True)
    assert refusal(timed_item(), worker=False) == ""
    assert refusal(timed_item(benchmark_disable=True), worker=True) == ""


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


# The second is C's own and stands still, as time-machine's does.
@pytest.mark.parametrize("clock", ["lambda: 1.0", "(1.0).__abs__"])
def test_a_clock_that_stands_still_is_said_and_not_waited_for(
    pytester: pytest.Pytester, clock: str
) -> None:
    pytester.makepyfile(FROZEN.replace("CLOCK", clock))
    result = pytester.runpytest("--anubis", "--anubis-mode=measure", "--anubis-in-process")
    result.assert_outcomes(failed=2, passed=1)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stdout.fnmatch_lines(
        ["E * MetricUsageError: the clock is not the machine's (freezegun*"]
    )


@pytest.mark.parametrize(("options", "told"), [((), "load"), (("--anubis-in-process",), "no")])
def test_whoever_asks_early_is_told_that_tests_run_in_workers(
    pytester: pytest.Pytester, in_workers: None, options: tuple[str, ...], told: str
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
    assert said == [told]


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


def test_a_death_that_another_plugin_repeats_is_no_evidence_against_a_host(
    pytester: pytest.Pytester, in_workers: None
) -> None:
    """As pytest-rerunfailures: merely installed it asks the scheduler for the configuration."""
    pytester.makeconftest(RERUNS)
    pytester.makepyfile(
        "import os\ndef test_dies(anubis_metric):\n    os._exit(9)\ndef test_lives():\n    pass\n"
    )
    result = pytester.runpytest("--anubis")
    assert result.ret == Decision.UNDECIDED.exit_code
    (path,) = pytester.path.glob(".anubis/runs/*/journal.jsonl")
    record = read_journal(path)
    ends = {one.test.rpartition("::")[2]: one.outcome for one in record.results}
    assert ends == {"test_dies": "crashed", "test_lives": "passed"}


def test_a_status_that_a_plugin_adds_to_is_that_of_the_decision(pytester: pytest.Pytester) -> None:
    """As syrupy, which sets pytest's 1 beside whatever stands there."""
    pytester.makeconftest(
        "import pytest\n@pytest.hookimpl(trylast=True)\n"
        "def pytest_sessionfinish(session):\n    session.exitstatus |= 1\n"
    )
    pytester.makepyfile(SUITE)
    assert pytester.runpytest("--anubis", "--anubis-in-process").ret == Decision.UNDECIDED.exit_code
