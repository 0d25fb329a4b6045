"""A test that ended by itself after its deadline hung all the same."""

from __future__ import annotations

import pytest

from pytest_anubis.core.verdict import Decision
from pytest_anubis.distributed.containment import watchdog
from tests.quiet import OPTIONS
from tests.run_journals import record_of

LATE = """
import ctypes, pytest

# A system call that a signal ends: the watchdog's question where the test hangs is one.
def late():
    ctypes.CDLL(None).sleep(600)

@pytest.mark.timeout(1)
def test_passes_late(anubis_metric):
    anubis_metric.record("rate", [1.0], unit="GB/s", better="higher")
    late()

@pytest.mark.timeout(1)
def test_fails_late():
    late()
    assert False

def test_in_time(): pass
"""


def test_who_survives_the_deadline_hung(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_ADDOPTS", OPTIONS)
    monkeypatch.setattr(watchdog, "GRACE", 0.0)
    pytester.makepyfile(test_it=LATE)
    result = pytester.runpytest("--anubis")
    record = record_of(pytester)
    ends = {r.test.partition("::")[2]: r.outcome for r in record.results}
    assert ends == {
        "test_passes_late": "crashed",
        "test_fails_late": "crashed",
        "test_in_time": "passed",
    }
    for one in record.results[:2]:
        # It ends by itself or is killed while it reports, whichever comes first.
        assert one.text.startswith("hung: no end within 1 s (its timeout mark); ")
    assert record.node_verdict is not None
    assert record.node_verdict.decision is Decision.UNDECIDED
    assert result.ret == 20
