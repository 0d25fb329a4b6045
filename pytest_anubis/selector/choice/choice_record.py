"""A choice by the field names of a journal, for the journal, the JSON of `anubis select` and reports."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from pytest_anubis.selector.choice.choice_inputs import (
    Choice,
    ChoiceRequest,
    exposed_of,
    open_defects,
)


def choice_record(
    choice: Choice, request: ChoiceRequest, *, pinned: Collection[str] = ()
) -> dict[str, Any]:
    """Return a choice by the field names of a journal; ``codec.to_plain`` makes plain data of it.

    `pinned` are the benchmarks that always run: named explicitly, or exposing an open defect.
    """
    plan = choice.plan
    inputs = choice.inputs
    unknown = inputs.risk is None
    blind = bool(inputs.lacking) and plan.method == "everything"
    names = (*plan.chosen, *(item.benchmark for item in plan.pruned))
    still_open = open_defects(inputs.defects, [risk.node for risk in inputs.risks])
    exposing = inputs.failing.union(*(one.benchmarks for one in still_open))
    if_any = {
        "unreadable": inputs.unreadable,
        "doubt": inputs.doubt,
        "warnings": (inputs.warning,) if inputs.warning else (),
        "false_alarms": inputs.false_alarms if blind and "defects" in inputs.lacking else 0,
        "other_defects": 0 if exposed_of(inputs.defects, names) else len(inputs.defects),
        "open_defects": [
            one.number for one in still_open if not set(one.benchmarks).isdisjoint(plan.chosen)
        ],
    }
    return {
        **{name: value for name, value in if_any.items() if value},
        "mode": request.mode,
        "target": None if unknown or request.target is None else float(request.target),
        "budget": request.budget,
        "incident_cost": request.incident_cost,
        "explore": request.explore,
        "seed": request.seed,
        "nodes": {risk.node: None if unknown else float(risk.probability) for risk in inputs.risks},
        "node_intervals": {
            risk.node: (risk.low, risk.high)
            for risk in inputs.risks
            if not unknown and risk.low is not None and risk.high is not None
        },
        "drivers": {} if unknown else inputs.drivers,
        "within": inputs.within,
        "horizon": inputs.horizon,
        "basis": inputs.basis,
        "notes": inputs.notes,
        "lacking": inputs.lacking if blind else (),
        "risk_before": inputs.risk,
        "risk_interval": inputs.interval,
        "residual_risk": None if unknown else float(plan.residual_risk),
        "residual_interval": choice.interval_after(plan.chosen),
        "full_risk": None if unknown else float(plan.full_risk),
        "pinned": sorted(pinned),
        "exposing": sorted(exposing.intersection(plan.chosen)),
        "unpriced": choice.unpriced,
        "chosen": plan.chosen,
        "explored": plan.explored,
        "pruned": plan.pruned,
        "picked": plan.picked,
        "method": plan.method,
        "optimal": plan.optimal,
        "reached": plan.reached,
        "cost": float(plan.cost),
        "full_cost": float(plan.full_cost),
        "coverage": float(plan.coverage),
        "defects": plan.defects,
        "exposed_defects": exposed_of(inputs.defects, plan.chosen),
        "bound": None if plan.bound is None else float(plan.bound),
        "greedy_excess": plan.greedy_excess,
    }
