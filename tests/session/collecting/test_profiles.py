"""Benchmarks of longer profiles: left out of shorter ones, counted, and in the way of nothing."""

from __future__ import annotations

import pytest

from pytest_anubis.cli.main import main
from pytest_anubis.store.collected_runs import read_runs

SUITE = """
import pytest

@pytest.mark.anubis(component="x", profiles=("standard", "soak"))
@pytest.mark.parametrize("size", [1, 2])
def test_long(anubis_metric, size):
    anubis_metric.record("rate", [1.0], unit="GB/s", better="higher")

@pytest.mark.anubis(component="x")
def test_short(anubis_metric):
    anubis_metric.record("rate", [1.0], unit="GB/s", better="higher")
"""


def test_other_profiles_are_counted_in_one_line(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_it=SUITE)
    short = pytester.runpytest("--anubis", "--anubis-mode=measure", "--anubis-in-process")
    short.assert_outcomes(passed=1, deselected=2)
    short.stdout.fnmatch_lines(
        ["*not part of smoke, does not block: 2 benchmarks of other profiles*"]
    )
    long = pytester.runpytest(
        "--anubis", "--anubis-mode=measure", "--anubis-in-process", "--anubis-profile=standard"
    )
    long.assert_outcomes(passed=3)
    long.stdout.no_fnmatch_line("*not part of*")
    pytester.runpytest().assert_outcomes(passed=1, deselected=2)


def test_the_line_comes_from_a_worker_as_well(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_it=SUITE)
    run = pytester.runpytest("--anubis", "-v")
    run.stdout.fnmatch_lines(
        [
            "*not part of smoke, does not block: 2 benchmarks of other profiles*",
            "*test_it.py::test_long?1?",
        ]
    )
    run.stdout.no_fnmatch_line("*in the way*test_long*")


COSTS = """
import pytest

@pytest.mark.anubis(component="x", cost="2s")
def test_all(anubis_metric):
    anubis_metric.record("rate", [1.0], unit="GB/s", better="higher")

@pytest.mark.anubis(component="x", cost="20s", profiles=("standard", "soak"))
def test_longer(anubis_metric):
    anubis_metric.record("rate", [1.0], unit="GB/s", better="higher")

@pytest.mark.parametrize("n", [pytest.param(1, marks=pytest.mark.anubis(profiles=("standard",)))])
@pytest.mark.anubis(component="x", cost="4s")
def test_part(anubis_metric, n):
    anubis_metric.record("rate", [1.0], unit="GB/s", better="higher")

@pytest.mark.anubis(component="x", cost="90s", profiles=("soak",))
def test_longest(anubis_metric):
    anubis_metric.record("rate", [1.0], unit="GB/s", better="higher")
"""


@pytest.mark.parametrize(
    ("profile", "costs"),
    [
        ("smoke", {"test_all": 2.0}),
        ("standard", {"test_all": 22.0, "test_longer": 20.0, "test_part[1]": 44.0}),
        ("soak", {"test_all": 3600.0, "test_longer": 20.0 * 1800 / 11, "test_longest": 90.0}),
    ],
)
def test_costs_scale_with_the_profile(
    pytester: pytest.Pytester, profile: str, costs: dict[str, float]
) -> None:
    pytester.makepyfile(test_it=COSTS)
    pytester.runpytest_inprocess("--anubis", "--anubis-in-process", f"--anubis-profile={profile}")
    (run,) = read_runs([pytester.path / ".anubis"]).runs
    found = {one.test.partition("::")[2]: one.cost for one in run.planned}
    assert found == pytest.approx(costs)


def test_a_profile_that_does_not_exist_is_refused(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_it=SUITE.replace('"soak"', '"long"'))
    run = pytester.runpytest()
    assert run.ret == 4
    run.stderr.fnmatch_lines(["*mark anubis profiles: 'long' is none of smoke, standard, soak"])


def test_empty_profile_says_why(
    pytester: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    pytester.makepyfile(test_it=SUITE.partition('@pytest.mark.anubis(component="x")')[0])
    run = pytester.runpytest("--anubis")
    run.stdout.fnmatch_lines(
        ["*not part of smoke, does not block: 2 benchmarks of other profiles*"]
    )
    assert run.ret in (5, 20)
    capsys.readouterr()
    assert main(["goals", "test_it.py"]) == 0
    assert "test_long" in capsys.readouterr().out


def test_profiles_may_depend_on_the_kind_of_device(pytester: pytest.Pytester) -> None:
    kinds = '{"cpu": ("standard",), "accelerator": ()}'
    pytester.makepyfile(test_it=SUITE.replace('("standard", "soak")', kinds))
    run = pytester.runpytest("--anubis", "--anubis-mode=measure", "--anubis-in-process")
    run.assert_outcomes(passed=1, deselected=2)
    pytester.makepyfile(test_it=SUITE.replace('("standard", "soak")', '{"cpu": ()}'))
    refused = pytester.runpytest()
    refused.stderr.fnmatch_lines(["*mark anubis profiles: *must name cpu and accelerator*"])
