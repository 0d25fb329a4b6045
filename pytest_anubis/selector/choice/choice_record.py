"""A choice as plain data, for the journal, for JSON and for people: the same everywhere."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict
from typing import Any

from pytest_anubis.selector.choice.choice_inputs import Choice, Wish


def choice_record(choice: Choice, wish: Wish, *, pinned: Collection[str] = ()) -> dict[str, Any]:
    """Return a choice as numbers, strings, lists and dicts.

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
        "notes": list(ground.notes),
        "lacking": list(ground.lacking) if blind else [],
        "risk_before": ground.risk,
        "residual_risk": None if unknown else float(plan.residual_risk),
        "full_risk": None if unknown else float(plan.full_risk),
        "pinned": sorted(pinned),
        "unpriced": list(choice.unpriced),
        "chosen": list(plan.chosen),
        "explored": list(plan.explored),
        "pruned": [asdict(item) for item in plan.pruned],
        "method": plan.method,
        "optimal": bool(plan.optimal),
        "reached": bool(plan.reached),
        "cost": float(plan.cost),
        "full_cost": float(plan.full_cost),
        "coverage": float(plan.coverage),
        "defects": plan.defects,
        "bound": None if plan.bound is None else float(plan.bound),
        "greedy_excess": plan.greedy_excess,
    }
