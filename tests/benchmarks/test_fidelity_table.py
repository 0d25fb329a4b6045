"""The fidelity table: turns, the interval of a median, and whether a ratio is as wanted."""

from __future__ import annotations

import importlib
from typing import Any

import pytest


@pytest.fixture
def table() -> Any:
    return importlib.import_module("benchmarks.suites.fidelity.table")


def test_interval_of_a_median_lies_between_two_of_the_values() -> None:
    pair = importlib.import_module("benchmarks.suites.fidelity.pair")
    assert pair.median_interval(range(30)) == (9, 20)  # 1 - 2 P(fewer than 10 heads of 30) = .957
    assert pair.median_interval([3.0, 1.0, 2.0]) == (1.0, 3.0)


def test_drift_within_a_round_changes_no_ratio(table: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "SETTLE", 0.0)
    done: list[str] = []

    def slower(who: str) -> float:  # each turn by one, whoever has it
        done.append(who)
        return 100.0 - len(done)

    pair = table.Pair("x", "y", lambda: slower("ours"), lambda: slower("theirs"), 0.95, 1.05)
    ours, theirs = table.turns(pair, 4)
    assert ours == theirs
    assert done[2:6] == ["theirs", "ours", "ours", "theirs"]  # after one of each to warm up
    assert done[6:10] == ["ours", "theirs", "theirs", "ours"]


@pytest.mark.parametrize(
    ("ratios", "held"),
    [
        ([1.0, 1.01, 0.99, 1.02, 0.98, 1.0] * 3, ""),
        ([1.2, 1.21, 1.19, 1.22, 1.18, 1.2] * 3, "MISSED"),
        ([1.2, 0.8, 1.3, 0.7, 1.0, 1.4] * 3, "open"),
    ],
)
def test_ratio_is_held_missed_or_open_by_its_interval(
    table: Any, ratios: list[float], held: str, capsys: pytest.CaptureFixture[str]
) -> None:
    values = iter(ratios)
    pair = table.Pair("x", "y", float, float, 0.95, 1.05, both=lambda: (next(values), 1.0))
    assert table.show(pair, len(ratios)) == held
    assert capsys.readouterr().out.rstrip().endswith(f"0.95 to 1.05  {held}".rstrip())
