"""Explain a node's risk in words: the facts that raise or lower it most."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from pytest_anubis.core.history import FleetHistory
from pytest_anubis.selector.risk.forecast import RiskModel
from pytest_anubis.selector.risk.models.covariates import Floats
from pytest_anubis.selector.risk.survival_rows import (
    COUNTS,
    HOUR,
    counts_words,
    hours_text,
    present_rows,
    value_words,
)

_MIN_SHARE = 0.1
"""Share of a hazard that a fact must account for to be named: models differ by about as much."""
_MAX_CHANCE = 1 - 1e-12
"""Largest chance with a finite hazard, to the precision of a double."""
_MAX_FACTS = 2
"""Facts named for a node."""


def risk_drivers(
    fleet: FleetHistory,
    risk: RiskModel,
    *,
    now: float,
    horizon: float,
    nodes: Collection[str] | None = None,
) -> dict[str, tuple[str, ...]]:
    """Return what drives each node's risk, in words, the strongest first; empty if it is as usual.

    Each fact in turn, and the uptime, is set to the fleet's median; those that change the hazard by a tenth
    are named. The two counts of incidents are one fact, because a model shares their common effect between
    them, possibly with opposite signs: a node with twice the recent incidents would seem to have a lower risk
    because of them. A model without covariates names the fleet's incidents and their time at the end.

    `now` is in seconds since 1970, `horizon` in seconds. `nodes` are those to explain, None all; those that
    the history does not know are left out.
    """
    rows = present_rows(fleet.nodes, fleet.incidents, now=now, kinds=risk.kinds, runs=fleet.runs)
    wanted = [p for p, name in enumerate(rows.nodes) if nodes is None or name in nodes]
    if not wanted:
        return {}
    names = [rows.nodes[place] for place in wanted]
    x, uptime, hours = rows.x[wanted], rows.duration[wanted], horizon / HOUR

    def hazards(facts: Floats, up: Floats) -> Floats:
        # Not chances, which hardly differ for nodes that are nearly sure to fail.
        chance = risk.model.incident_probability(facts, up, hours)
        return -np.log1p(-np.minimum(chance, _MAX_CHANCE))

    own = hazards(x, uptime)
    effects: dict[str, dict[str, float]] = {node: {} for node in names}

    def compare(usual: Floats, words: list[str]) -> None:
        for place in np.flatnonzero(np.abs(own - usual) > _MIN_SHARE * own).tolist():
            fact = f"{words[place]} {'raises' if own[place] > usual[place] else 'lowers'} it"
            # Several columns may lack a value for the same reason, which is named once.
            known = effects[names[place]]
            known[fact] = max(known.get(fact, 0.0), abs(float(own[place] - usual[place])))

    usual_up = float(np.median(rows.duration))
    compare(
        hazards(x, np.full(len(names), usual_up)),
        [f"up {hours_text(float(up))} (usual {hours_text(usual_up)})" for up in uptime],
    )
    columns = rows.names if risk.model.uses_facts else ()
    counts = [columns.index(name) for name in COUNTS if name in columns]
    if counts:
        medians = np.median(rows.x[:, counts], axis=0)
        changed = x.copy()
        changed[:, counts] = medians
        compare(
            hazards(changed, uptime),
            [counts_words(row, medians.tolist()) for row in x[:, counts].tolist()],
        )
    for column, name in enumerate(columns):
        known = np.isfinite(rows.x[:, column])
        if column in counts or not known.any():
            continue
        usual = float(np.median(rows.x[known, column]))
        changed = x.copy()
        changed[:, column] = usual
        words = [value_words(name, float(value), usual) for value in x[:, column]]
        compare(hazards(changed, uptime), words)
    rest = () if risk.model.uses_facts else (risk.evidence,)
    return {
        node: (*sorted(facts, key=lambda words: (-facts[words], words))[:_MAX_FACTS], *rest)
        for node, facts in effects.items()
    }
