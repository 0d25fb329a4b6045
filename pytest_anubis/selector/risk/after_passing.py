"""For `anubis risk`: how many accepted runs were followed by an incident within the horizon.

It compares this share with the probability that the risk model gives these nodes. It is no validation of the
model, which has learned from the same incidents; `choosing` has the backtests.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from pytest_anubis.core.history import FleetHistory, Incident
from pytest_anubis.core.share_interval import share_interval
from pytest_anubis.selector.risk.forecast import RiskModel
from pytest_anubis.selector.risk.survival_rows import HOUR, present_rows

ACCEPTED = "ACCEPTED"
_MAX_RUNS = 2_000  # the latest: they give the rate to 1 %, and each status takes time


@dataclass(frozen=True, slots=True, kw_only=True)
class PassedRuns:
    """Accepted runs that were followed for a whole horizon."""

    runs: int  # how many; of one node at most one within a horizon
    incidents: int  # after how many of them the node had an incident within the horizon
    low: float  # lower end of the 95 % interval of their share
    high: float
    # What the model, which does not know that they passed, predicts for them on average
    predicted: float

    @property
    def observed(self) -> float:
        """The share of runs with an incident within the horizon."""
        return self.incidents / self.runs


def after_passing(
    fleet: FleetHistory, risk: RiskModel, *, now: float, horizon: float
) -> PassedRuns | None:
    """Return what happened after accepted runs within so many seconds; None if none is a horizon old.

    `now` is in seconds since 1970. The model has learned from these incidents, so its figure is no forecast.
    """
    own: dict[str, list[Incident]] = {node.name: [] for node in fleet.nodes}
    for item in fleet.incidents:
        own[item.node].append(item)
    records = {node.name: node for node in fleet.nodes}
    ends: list[tuple[float, str]] = []
    for node, runs in fleet.runs.items():
        last = -np.inf
        watched = min(now, fleet.gone.get(node, now))
        for run in sorted(runs, key=lambda run: run.started):
            end = run.started + (run.seconds or 0.0)
            if run.decision == ACCEPTED and last + horizon <= end <= watched - horizon:
                ends.append((end, node))
                last = end
    ends = [pair for pair in sorted(ends) if pair[1] in records][-_MAX_RUNS:]
    if not ends:
        return None
    x, uptime, count = [], [], 0
    for end, node in ends:
        count += any(end < item.started <= end + horizon for item in own[node])
        rows = present_rows(
            [replace(records[node], state="in service")],
            [item for item in own[node] if item.started <= end],
            now=end,
            kinds=risk.kinds,
            runs=fleet.runs,
        )
        x.append(rows.x)
        uptime.append(rows.duration)
    chance = risk.model.incident_probability(
        np.concatenate(x), np.concatenate(uptime), horizon / HOUR
    )
    low, high = share_interval(count, len(ends))
    return PassedRuns(
        runs=len(ends), incidents=count, low=low, high=high, predicted=float(chance.mean())
    )
