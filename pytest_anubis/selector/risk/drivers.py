"""What a node's risk comes from, in words: what people look at before they believe a figure."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from pytest_anubis.core.history import FleetHistory
from pytest_anubis.selector.risk.forecast import RiskModel
from pytest_anubis.selector.risk.models.covariates import Floats
from pytest_anubis.selector.risk.node_status import (
    COUNTS,
    HOUR,
    counts_words,
    hours_text,
    status_at,
    value_words,
)

_TELLING = 0.1
"""Share of a hazard that a fact must account for to be told: less is within what models differ by."""
_SURE = 1 - 1e-12
"""Largest chance whose hazard is distinguished from that of a certain incident, to the digits of a double."""
_TOLD = 2
"""Facts told of a node: what people act on."""


def risk_drivers(
    fleet: FleetHistory,
    risk: RiskModel,
    *,
    now: float,
    horizon: float,
    nodes: Collection[str] | None = None,
) -> dict[str, tuple[str, ...]]:
    """Return what each node's risk comes from, in words, the strongest first; nothing where it is as usual.

    One fact after the other, and the time that the node is up, is set to the fleet's median: those that
    change the hazard by a tenth are reported. The two counts of incidents are one fact: a model shares out
    between them what they say together, with opposite signs as it may be, and a node with twice the recent
    incidents would be told that these lower its risk. Where a model knows no facts, all that a risk comes
    from is the fleet's incidents and the time in which they came: that is told last.

    Args:
        fleet: The history.
        risk: A fitted model.
        now: The present, seconds since 1970.
        horizon: Seconds ahead.
        nodes: The nodes that are asked about; None: all. The history may not know them: such have nothing.
    """
    rows = status_at(fleet.nodes, fleet.incidents, now=now, kinds=risk.kinds, runs=fleet.runs)
    asked = [p for p, name in enumerate(rows.nodes) if nodes is None or name in nodes]
    if not asked:
        return {}
    names = [rows.nodes[place] for place in asked]
    x, uptime, hours = rows.x[asked], rows.duration[asked], horizon / HOUR

    def chances(facts: Floats, up: Floats) -> Floats:
        chance = risk.model.incident_probability(facts, up, hours)
        # The hazard: of two nodes that are nearly sure to fail the chances hardly differ.
        return -np.log1p(-np.minimum(chance, _SURE))

    found = chances(x, uptime)
    told: dict[str, dict[str, float]] = {node: {} for node in names}

    def compare(changed: Floats, words: list[str]) -> None:
        for place in np.flatnonzero(np.abs(found - changed) > _TELLING * found).tolist():
            way = "raises" if found[place] > changed[place] else "lowers"
            of, said = told[names[place]], f"{words[place]} {way} it"
            # Several columns have no value for one reason, which is reported once.
            of[said] = max(of.get(said, 0.0), abs(float(found[place] - changed[place])))

    usual = float(np.median(rows.duration))
    compare(
        chances(x, np.full(len(names), usual)),
        [f"up {hours_text(float(up))} (usual {hours_text(usual)})" for up in uptime],
    )
    names_of = rows.names if risk.model.uses_facts else ()
    counts = [names_of.index(name) for name in COUNTS if name in names_of]
    if counts:
        middle = np.median(rows.x[:, counts], axis=0)
        moved = x.copy()
        moved[:, counts] = middle
        compare(
            chances(moved, uptime),
            [counts_words(row, middle.tolist()) for row in x[:, counts].tolist()],
        )
    for column, name in enumerate(names_of):
        if column in counts:
            continue
        known = np.isfinite(rows.x[:, column])
        if not known.any():
            continue
        usual = float(np.median(rows.x[known, column]))
        moved = x.copy()
        moved[:, column] = usual
        said = [value_words(name, float(value), usual) for value in x[:, column]]
        compare(chances(moved, uptime), said)
    rest = () if risk.model.uses_facts else (risk.evidence,)
    return {
        node: (*sorted(facts, key=lambda words: (-facts[words], words))[:_TOLD], *rest)
        for node, facts in told.items()
    }
