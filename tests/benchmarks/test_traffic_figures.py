"""Figures of traffic that cannot be measured are not as wanted."""

from __future__ import annotations

import pytest

from benchmarks.suites import traffic
from pytest_anubis.benchmarking.shaped_link import NotPossible


def test_what_cannot_be_measured_is_missed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(_rounds: int) -> bool:
        raise NotPossible("tiers need root")

    monkeypatch.setitem(traffic.PATTERNS, "tiers", refused)
    assert traffic.main(["--only", "tiers"]) == 1
    assert capsys.readouterr().out == "tiers: tiers need root\ntiers: MISSED\n"
