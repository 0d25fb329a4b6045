"""Fleets whose true rates are known, and how well the intervals of their nodes' risks hold.

Incidents are a Weibull process of a node's own time since the last one; in fleets that are ``unlike`` nodes
differ by factors that no model without facts can know.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from pytest_anubis.core.history import FleetHistory, Incident, NodeRecord
from pytest_anubis.selector.risk.forecast import ModelName, fit_risk, look_ahead
from pytest_anubis.selector.selector_error import SelectorError

NOW, HOUR, DAY = 1.8e9, 3600.0, 86400.0
AHEAD = 7 * DAY
_KINDS = ("nic", "gpu")
UNLIKE = 0.5  # standard deviation of the factors between nodes, of mean 1


@dataclass(frozen=True)
class IntervalFit:
    """How well the intervals of one fleet's nodes held.

    Attributes:
        incidents: How many the history had.
        held: Share of the nodes whose true risk lies within.
        width: Median factor from a node's risk to the end of its interval, of the hazard.
    """

    incidents: int
    held: float
    width: float


def simulated(
    seed: int,
    expected: float,
    *,
    nodes: int = 30,
    days: float = 200,
    shape: float = 1.0,
    unlike: float = 0.0,
) -> tuple[FleetHistory, dict[str, float]]:
    """Return a fleet's history with about so many incidents, and the Weibull scale of each node in hours."""
    rng = np.random.default_rng(seed)
    usual = nodes * days * 24 * 0.75 / expected / math.gamma(1 + 1 / shape)
    records, incidents, scales = [], [], {}
    for number in range(nodes):
        name = f"n{number:02}"
        when = NOW - days * DAY * float(rng.uniform(0.5, 1))
        records.append(NodeRecord(name=name, since=when))
        factor = float(rng.gamma(1 / unlike**2, unlike**2)) if unlike else 1.0
        scales[name] = usual / factor ** (1 / shape)
        while (when := when + scales[name] * float(rng.weibull(shape)) * HOUR) < NOW:
            lasts = float(rng.uniform(0.5, 4)) * HOUR
            incidents.append(Incident(
                node=name, kind=str(rng.choice(_KINDS)), started=when, duration=min(lasts, NOW - when),
            ))  # fmt: skip
            when += lasts
    history = FleetHistory(
        nodes=tuple(records), incidents=tuple(sorted(incidents, key=lambda i: i.started))
    )
    return history, scales


def interval_fit(
    seed: int, model: ModelName, expected: float, *, shape: float = 1.0, unlike: float = 0.0
) -> IntervalFit | None:
    """Fit a model to a simulated fleet; None where it has too few incidents for that."""
    history, scales = simulated(seed, expected, shape=shape, unlike=unlike)
    try:
        risk = fit_risk(history, now=NOW, model=model, horizon=AHEAD, quick=True)
    except SelectorError:
        return None
    found = look_ahead(history, risk, now=NOW, horizon=AHEAD)
    held, widths = [], []
    for node in found.risks:
        if node.low is None or node.high is None:
            raise AssertionError(f"{node.node} has no interval")
        up, scale = found.uptime[node.node], scales[node.node]
        true = -math.expm1((up / scale) ** shape - ((up + AHEAD / HOUR) / scale) ** shape)
        held.append(node.low <= true <= node.high)
        hazard = -math.log1p(-node.probability) or math.nan  # of a node that a model calls safe
        widths.append(-math.log1p(-min(node.high, 1 - 1e-9)) / hazard)
    return IntervalFit(len(history.incidents), float(np.mean(held)), float(np.nanmedian(widths)))
