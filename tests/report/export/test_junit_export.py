"""Verdicts as properties, alone and in a real JUnit file."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest

from pytest_anubis.core.verdict import MetricVerdict, Outcome, Reason
from pytest_anubis.report.export.junit_export import properties

SLOW = MetricVerdict(
    outcome=Outcome.FAIL,
    reason=Reason.BEYOND,
    text="rate is 6.1 GB/s, expected 6.9 GB/s",
    benchmark="t::b",
    metric="rate",
    unit="GB/s",
    value=6.1,
    similarity=0.884,
    threshold=0.95,
)


def test_a_metric_is_a_group_of_properties() -> None:
    assert dict(properties([SLOW])) == {
        "anubis.rate": "6.1 GB/s",
        "anubis.rate.verdict": "FAIL",
        "anubis.rate.similarity": "0.8840",
        "anubis.rate.threshold": "0.9500",
        "anubis.rate.triage": "reject",
        "anubis.rate.loss": "12 %",
        "anubis.rate.reason": "rate is 6.1 GB/s, expected 6.9 GB/s",
    }


def test_missing_metrics_and_values_have_properties() -> None:
    nothing = MetricVerdict(
        outcome=Outcome.INCONCLUSIVE, reason=Reason.UNSET, text="nothing", benchmark="b", metric=""
    )
    assert dict(properties([nothing])) == {
        "anubis.benchmark": "-",
        "anubis.benchmark.verdict": "INCONCLUSIVE",
        "anubis.benchmark.reason": "nothing",
    }


SUITE = """
import pytest

@pytest.mark.anubis(component="disk", scope="node", goal="g", question="q", action="a")
@pytest.mark.parametrize("number", [0, 1, 2])
def test_rate(anubis_metric, number):
    anubis_metric.record("rate", [100.0 + number] * 20, unit="GB/s", better="higher")
    anubis_metric.record("<&'\\"", [1.0] * 20, unit="count", better="lower")
"""


def suite_of(pytester: pytest.Pytester, *arguments: str, ini: str = "") -> ET.Element:
    """Run the suite, and return what the JUnit file has of it."""
    pytester.makeini(f"[pytest]\n{ini}\n")
    pytester.makepyfile(test_suite=SUITE)
    pytester.runpytest("--anubis", "--junitxml=out.xml", *arguments)
    return next(ET.parse(pytester.path / "out.xml").iter("testsuite"))  # noqa: S314  # our own file


@pytest.mark.parametrize("workers", ["-n0", "-n2"])
def test_every_metric_is_in_the_file(pytester: pytest.Pytester, workers: str) -> None:
    suite = suite_of(pytester, workers)
    *cases, decision = suite.iter("testcase")
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("4", "1", "0")
    assert (decision.get("classname"), decision.get("name")) == ("anubis", "acceptance")
    (failure,) = decision.iter("failure")  # no test failed, but the node is not accepted
    assert (failure.get("message") or "").startswith("UNDECIDED: node ")
    assert len(cases) == 3
    for case in cases:
        found = {p.get("name"): p.get("value") for p in case.iter("property")}
        assert found["anubis.rate"] in ("100 GB/s", "101 GB/s", "102 GB/s")
        assert found["anubis.rate.verdict"] == "INCONCLUSIVE"  # no baseline, so nothing is judged
        assert found["anubis.<&'\""] == "1 count"


@pytest.mark.parametrize(
    "arguments",
    [
        ("nosuch.py",),
        ("--collect-only",),
        ("-k", "nothing"),
        ("--anubis-mode=measure", "-k", "nothing"),
    ],
)
def test_a_run_without_any_decision_is_not_green(
    pytester: pytest.Pytester, arguments: tuple[str, ...]
) -> None:
    suite = suite_of(pytester, "--anubis-in-process", *arguments)
    (case,) = suite.iter("testcase")
    assert (case.get("classname"), case.get("name")) == ("anubis", "acceptance")
    assert (suite.get("tests"), suite.get("failures")) == ("1", "1")
    (failure,) = case.iter("failure")
    assert "nothing was decided" in (failure.get("message") or "")


def test_a_strict_schema_gets_cases_without_properties(pytester: pytest.Pytester) -> None:
    suite = suite_of(pytester, "--anubis-in-process", ini="anubis_junit = plain")
    cases = list(suite.iter("testcase"))
    assert len(cases) == 4
    assert [case for case in cases if case.find("properties") is not None] == []
    shown = {p.get("name") for p in suite.iterfind("properties/property")}  # which every schema has
    assert shown == {"anubis.decision", "anubis.headline"}
