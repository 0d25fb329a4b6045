"""The Selector: how likely is an incident, and which benchmarks are worth their time?

Pure: deterministic, numpy and scipy only (the network of Cox-Time loads torch when it is first used);
usable without pytest. Names are loaded when first used.

PYTEST_DONT_REWRITE
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_anubis.selector.accuracy import (
        antolini,
        brier,
        calibration,
        harrell,
        integrated_brier,
        kaplan_meier,
        skill,
    )
    from pytest_anubis.selector.candidates import Candidate, SelectorError
    from pytest_anubis.selector.coverage import Coverage, learn_coverage, mixed
    from pytest_anubis.selector.cox import CoxPH
    from pytest_anubis.selector.coxtime import CoxTime
    from pytest_anubis.selector.hazard import ExtrapolationWarning, HazardModel, load_model
    from pytest_anubis.selector.kinds import kind_mix, relates
    from pytest_anubis.selector.parametric import Exponential, Weibull
    from pytest_anubis.selector.plan import NodeRisk, Plan, Pruned
    from pytest_anubis.selector.selection import joint_risk, make_plan
    from pytest_anubis.selector.status import StatusRows, status_at, status_rows

_HOME = {
    "Candidate": "candidates",
    "Coverage": "coverage",
    "CoxPH": "cox",
    "CoxTime": "coxtime",
    "Exponential": "parametric",
    "ExtrapolationWarning": "hazard",
    "HazardModel": "hazard",
    "NodeRisk": "plan",
    "Plan": "plan",
    "Pruned": "plan",
    "SelectorError": "candidates",
    "StatusRows": "status",
    "Weibull": "parametric",
    "antolini": "accuracy",
    "brier": "accuracy",
    "calibration": "accuracy",
    "harrell": "accuracy",
    "integrated_brier": "accuracy",
    "joint_risk": "selection",
    "kaplan_meier": "accuracy",
    "kind_mix": "kinds",
    "learn_coverage": "coverage",
    "load_model": "hazard",
    "make_plan": "selection",
    "mixed": "coverage",
    "relates": "kinds",
    "skill": "accuracy",
    "status_at": "status",
    "status_rows": "status",
}

__all__ = [
    "Candidate",
    "Coverage",
    "CoxPH",
    "CoxTime",
    "Exponential",
    "ExtrapolationWarning",
    "HazardModel",
    "NodeRisk",
    "Plan",
    "Pruned",
    "SelectorError",
    "StatusRows",
    "Weibull",
    "antolini",
    "brier",
    "calibration",
    "harrell",
    "integrated_brier",
    "joint_risk",
    "kaplan_meier",
    "kind_mix",
    "learn_coverage",
    "load_model",
    "make_plan",
    "mixed",
    "relates",
    "skill",
    "status_at",
    "status_rows",
]


def __getattr__(name: str) -> Any:
    """Load a public name from the module that defines it."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
