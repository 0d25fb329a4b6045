"""What happened to nodes that passed: accepted, followed for the whole horizon, one run in each horizon."""

from __future__ import annotations

import pytest

from pytest_anubis.core.history import FleetHistory, Incident, NodeRecord, RunSummary
from pytest_anubis.core.share_interval import share_interval
from pytest_anubis.selector.risk.after_passing import after_passing
from pytest_anubis.selector.risk.forecast import fit_risk

DAY, NOW = 86400.0, 1.8e9


def run(node: str, days: float, decision: str = "ACCEPTED") -> RunSummary:
    return RunSummary(run=f"{node}{days}", node=node, started=NOW - days * DAY, decision=decision)


def test_accepted_runs_are_held_against_what_came() -> None:
    incidents = [Incident(node=f"n{i}", kind="nic", started=NOW - 50 * DAY) for i in range(5)]
    runs: dict[str, tuple[RunSummary, ...]]
    runs = {f"n{i}": (run(f"n{i}", 51), run(f"n{i}", 50.5), run(f"n{i}", 0.5)) for i in range(20)}
    runs["n0"] = (run("n0", 51, "REJECTED"),)
    fleet = FleetHistory(
        nodes=tuple(NodeRecord(name=f"n{i}", since=NOW - 100 * DAY) for i in range(20)),
        incidents=tuple(incidents),
        runs=runs,
    )
    risk = fit_risk(fleet, now=NOW)
    found = after_passing(fleet, risk, now=NOW, horizon=2 * DAY)
    assert found is not None
    # 19 nodes passed 51 days ago; the run half a day later lies within the horizon, the last is too young.
    assert (found.runs, found.incidents) == (19, 4)
    assert found.low < found.observed < found.high
    assert (found.low, found.high) == share_interval(4, 19)
    assert found.predicted == pytest.approx(2 * 5 / 2000, rel=0.01)  # 5 in 20 x 100 days
    assert after_passing(FleetHistory(nodes=fleet.nodes), risk, now=NOW, horizon=DAY) is None
