"""The benchmark of shared parts reports what it wants, and fails where the map is of no use."""

from __future__ import annotations

import pytest

from benchmarks.validator import shared_parts


def test_large_faults_are_as_wanted(capsys: pytest.CaptureFixture[str]) -> None:
    assert shared_parts.main(["--trials=20", "--sizes", "20"]) == 0
    out = capsys.readouterr().out
    assert out.count("| 20 | independent | 100.0 % |") == len(shared_parts.FAULTS)
    assert "0 of 20 with an accusation" in out


def test_small_faults_are_not(capsys: pytest.CaptureFixture[str]) -> None:
    assert shared_parts.main(["--trials=20", "--sizes", "0"]) == 1
    assert "not as wanted:" in capsys.readouterr().out
