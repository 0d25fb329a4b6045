"""A choice as plain data, for the journal, for JSON and for people: the same everywhere."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from pytest_anubis.selector.choice.choice_inputs import Choice, Wish


def choice_record(choice: Choice, wish: Wish, *, pinned: Collection[str] = ()) -> dict[str, Any]:
    """Return a choice by the names that it has in a journal; ``codec.to_plain`` makes plain data of it.

    Args:
        choice: The choice.
        wish: What was asked.
        pinned: Benchmarks that were named explicitly.
    """
    plan, ground = choice.plan, choice.ground
    unknown = ground.risk is None
    blind = bool(ground.lacking) and plan.method == "everything"
    return {
        "mode": wish.mode,
        "target": None if unknown or wish.target is None else float(wish.target),
        "budget": wish.budget,
        "incident_cost": wish.incident_cost,
        "explore": wish.explore,
        "seed": wish.seed,
        "nodes": {risk.node: None if unknown else float(risk.probability) for risk in ground.risks},
        "horizon": ground.horizon,
        "basis": ground.basis,
        "notes": ground.notes,
        "lacking": ground.lacking if blind else (),
        "risk_before": ground.risk,
        "residual_risk": None if unknown else float(plan.residual_risk),
        "full_risk": None if unknown else float(plan.full_risk),
        "pinned": sorted(pinned),
        "unpriced": choice.unpriced,
        "chosen": plan.chosen,
        "explored": plan.explored,
        "pruned": plan.pruned,
        "method": plan.method,
        "optimal": plan.optimal,
        "reached": plan.reached,
        "cost": float(plan.cost),
        "full_cost": float(plan.full_cost),
        "coverage": float(plan.coverage),
        "defects": plan.defects,
        "bound": None if plan.bound is None else float(plan.bound),
        "greedy_excess": plan.greedy_excess,
    }
