"""Do the 95 % intervals of risks hold what they say where few incidents are known, or a model was named?

Fleets whose true rates are known are simulated: all nodes alike, incidents as a Weibull process of their own
time since the last one. Each model says how likely each node is to have an incident within a week, and
within what; printed is in how many cases the true figure lies there. ``alike`` are fleets of which the model
is right; in ``unlike`` ones nodes differ by factors that no model without facts can know (gamma, standard
deviation a half), which intervals that take the model for right cannot cover: so much is it worth that they
say so. Run: ``python benchmarks/selector/intervals.py --fleets 200``.
"""

from __future__ import annotations

import argparse
import math
import sys
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout's packages

import numpy as np

from pytest_anubis.core.history import FleetHistory, Incident, NodeRecord
from pytest_anubis.selector.risk.forecast import ModelName, fit_risk, look_ahead
from pytest_anubis.selector.selector_error import SelectorError

NOW, HOUR, DAY = 1.8e9, 3600.0, 86400.0
AHEAD = 7 * DAY
_KINDS = ("nic", "gpu")
UNLIKE = 0.5  # standard deviation of the factors between nodes, of mean 1


@dataclass(frozen=True)
class Told:
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


def told(
    seed: int, model: ModelName, expected: float, *, shape: float = 1.0, unlike: float = 0.0
) -> Told | None:
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
    return Told(len(history.incidents), float(np.mean(held)), float(np.nanmedian(widths)))


ROWS: tuple[tuple[ModelName, float, float, float], ...] = (
    ("auto", 2, 1.0, 0.0),
    ("auto", 5, 1.0, 0.0),
    ("auto", 15, 1.0, 0.0),
    ("auto", 30, 0.7, 0.0),
    ("auto", 60, 1.5, 0.0),
    ("auto", 60, 1.0, UNLIKE),
    ("exponential", 30, 1.0, 0.0),
    ("weibull", 30, 1.0, 0.0),
    ("weibull", 90, 0.7, 0.0),
    ("cox", 30, 1.0, 0.0),
    ("cox", 90, 1.0, 0.0),
    ("cox", 90, 1.0, UNLIKE),
)
"""Model, incidents to be expected, shape of the process, how unlike the nodes are."""


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument(
        "--fleets", type=int, default=200, help="fleets simulated for each row (default: 200)"
    )
    options = parser.parse_args()
    print(
        "| model | incidents | shape | nodes | true risk within 95 % | upper end, times the risk |"
    )
    print("|---|---|---|---|---|---|")
    for model, expected, shape, unlike in ROWS:
        every = [
            told(n, model, expected, shape=shape, unlike=unlike) for n in range(options.fleets)
        ]
        some = [one for one in every if one is not None]
        held = np.array([one.held for one in some])
        error = held.std(ddof=1) / len(held) ** 0.5 if len(held) > 1 else float("nan")
        count = float(np.mean([one.incidents for one in some]))
        width = float(np.median([one.width for one in some]))
        kind = "unlike" if unlike else "alike"
        print(
            f"| {model} | {count:.0f} | {shape:g} | {kind} | {100 * held.mean():.0f} % (± {100 * error:.0f}) "
            f"| {width:.1f} |",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
