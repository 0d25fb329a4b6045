"""A hang that pytest-timeout broke off is judged like one that the watchdog ended."""

from __future__ import annotations

import pytest

from pytest_anubis.core.verdict import Decision, Outcome
from pytest_anubis.distributed.containment import crash_evidence
from tests.run_journals import record_of

HANGS = """
import time, pytest

@pytest.mark.anubis(component="cpu.compute")
{mark}
def test_hang(anubis_metric):
    anubis_metric.record("rate", [1.0, 2.0], unit="GB/s", better="higher")
    time.sleep(60)

{mark}
def test_swallowing():
    try:
        time.sleep(60)
    except BaseException:
        pass

{mark}
@pytest.mark.xfail
def test_expected():
    time.sleep(60)

@pytest.fixture
def slow():
    yield
    time.sleep(60)

{mark}
def test_teardown(slow): pass

def test_good(): pass
"""


@pytest.fixture(autouse=True)
def with_pytest_timeout(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    options = "-p no:hypothesispytest -p no:benchmark -p tests.quiet --anubis-in-process"
    monkeypatch.setenv("PYTEST_ADDOPTS", options)


@pytest.mark.parametrize(
    ("mark", "option", "hung"),
    [
        ("@pytest.mark.timeout(1)", [], ["hang", "swallowing", "expected", "teardown"]),
        ("@pytest.mark.timeout(1, method='signal')", [], ["hang"]),
        ("", ["--timeout=1"], ["hang"]),
        ("", ["-o", "timeout=1"], ["hang"]),
    ],
)
def test_hang_says_nothing_about_the_node(
    pytester: pytest.Pytester, mark: str, option: list[str], hung: list[str]
) -> None:
    pytester.makepyfile(test_it=HANGS.format(mark=mark))
    result = pytester.runpytest("--anubis", *option, "-k", " or ".join([*hung, "good"]))
    record = record_of(pytester)
    ends = {r.test.partition("::test_")[2]: r.outcome for r in record.results}
    assert ends == dict.fromkeys(hung, "crashed") | {"good": "passed"}
    assert {r.text for r in record.results if r.outcome == "crashed"} == {
        "hung: no end within 1 s (pytest-timeout); pytest-timeout broke it off"
    }
    assert {v.outcome for v in record.verdicts if not v.metric} == {Outcome.INCONCLUSIVE}
    assert record.node_verdict is not None
    assert record.node_verdict.decision is Decision.UNDECIDED
    assert result.ret == 20
    assert [m.metric.name for m in record.measurements] == ["rate"]
    result.stdout.fnmatch_lines(
        ["measured before: rate, 2 values, last 2 GB/s", "*where it hung*", "*time.sleep(60)"]
    )


def test_hang_with_evidence_rejects(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        crash_evidence.HardwareEvidence, "against", lambda self, device: ("XID 79",)
    )
    pytester.makepyfile(test_it=HANGS.format(mark="@pytest.mark.timeout(1)"))
    result = pytester.runpytest("--anubis", "-k", "test_hang")
    (verdict,) = [v for v in record_of(pytester).verdicts if v.outcome is Outcome.FAIL]
    assert verdict.component == "cpu.compute"
    assert verdict.evidence == ("XID 79",)
    assert result.ret == 1


def test_failure_worded_like_a_timeout_rejects(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest
        @pytest.mark.timeout(60)
        def test_it(): pytest.fail("Timeout (>0.3s) from pytest-timeout.")
        """
    )
    result = pytester.runpytest("--anubis")
    assert [r.outcome for r in record_of(pytester).results] == ["failed"]
    assert result.ret == 1
