"""What happened to nodes that had passed validation, beside what the risk model says of them.

A risk after passing is a promise: of the nodes that were accepted, so many should have had an incident within
the horizon. The history knows how many had.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from pytest_anubis.core.history import FleetHistory, Incident
from pytest_anubis.selector.risk.choosing.model_accuracy import binomial_interval
from pytest_anubis.selector.risk.forecast import RiskModel
from pytest_anubis.selector.risk.node_status import HOUR, status_at

ACCEPTED = "ACCEPTED"
_MOST = 2_000  # latest runs that are looked at: their rate is known to 1 %, and a status takes time


@dataclass(frozen=True, slots=True, kw_only=True)
class Passed:
    """Accepted runs that were followed for the whole horizon.

    Attributes:
        runs: How many; of one node at most one within a horizon.
        incidents: After how many of them the node had an incident within the horizon.
        low: Lower end of the 95 % interval of their share.
        high: Upper end.
        predicted: What the model says of these nodes at these times, without knowing that they passed.
    """

    runs: int
    incidents: int
    low: float
    high: float
    predicted: float

    @property
    def observed(self) -> float:
        """The share of runs with an incident within the horizon."""
        return self.incidents / self.runs


def after_passing(
    fleet: FleetHistory, risk: RiskModel, *, now: float, horizon: float
) -> Passed | None:
    """Return what happened to nodes that passed; None where no accepted run is a horizon old.

    Args:
        fleet: The history.
        risk: A fitted model; it has seen these incidents, so its figure is no forecast.
        now: The present, seconds since 1970.
        horizon: Seconds ahead.
    """
    own: dict[str, list[Incident]] = {node.name: [] for node in fleet.nodes}
    for item in fleet.incidents:
        own[item.node].append(item)
    moments: list[tuple[float, str]] = []
    for node, runs in fleet.runs.items():
        last = -np.inf
        for run in sorted(runs, key=lambda run: run.started):
            over = run.started + (run.seconds or 0.0)
            until = min(now, fleet.gone.get(node, now))
            if run.decision == ACCEPTED and over >= last + horizon and over + horizon <= until:
                moments.append((over, node))
                last = over
    records = {node.name: node for node in fleet.nodes}
    moments = [pair for pair in sorted(moments) if pair[1] in records][-_MOST:]
    if not moments:
        return None
    x, uptime, count = [], [], 0
    for moment, node in moments:
        before = [item for item in own[node] if item.started <= moment]
        count += any(moment < item.started <= moment + horizon for item in own[node])
        rows = status_at(
            [replace(records[node], state="in service")],
            before,
            now=moment,
            kinds=risk.kinds,
            runs=fleet.runs,
        )
        x.append(rows.x)
        uptime.append(rows.duration)
    chance = risk.model.incident_probability(
        np.concatenate(x), np.concatenate(uptime), horizon / HOUR
    )
    low, high = binomial_interval(count, len(moments))
    return Passed(
        runs=len(moments), incidents=count, low=low, high=high, predicted=float(chance.mean())
    )
