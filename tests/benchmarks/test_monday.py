"""An operator's day with 120 nodes: every planted fact is found, and few nodes are left undecided."""

from __future__ import annotations

import importlib
import sys
from dataclasses import replace
from typing import Any

import pytest

NODES = 120

monday: Any = importlib.import_module("benchmarks.fleet.monday")


def placed(node: str) -> str:
    """Return the node of a smaller fleet that stands for one of 500."""
    return f"n{int(node[1:]) * NODES // 500:04d}"


@pytest.mark.usefixtures("quick_processes")
def test_every_planted_fact_is_found_and_empty_cells_leave_few_nodes_undecided(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    faults = [replace(one, node=placed(one.node)) for one in (*monday.FAULTS, monday.PASSING)]
    monkeypatch.setattr(monday, "FAULTS", tuple(faults[:-1]))
    monkeypatch.setattr(monday, "PASSING", faults[-1])
    monkeypatch.setattr(monday, "GONE", (placed(monday.GONE[0]), monday.GONE[1]))
    monkeypatch.setattr(sys, "argv", ["monday", f"--nodes={NODES}", "--no-history"])
    assert monday.main() == 0, capsys.readouterr().out
