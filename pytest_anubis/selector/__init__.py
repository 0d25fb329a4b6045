"""The Selector: how likely is an incident, and which benchmarks are worth their time?

Pure: deterministic, numpy and scipy only (the network of Cox-Time loads torch when it is first used);
usable without pytest. Names are loaded when first used.

PYTEST_DONT_REWRITE
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_anubis.selector.choice.benchmark_choice import joint_risk, make_plan
    from pytest_anubis.selector.choice.candidates import Candidate
    from pytest_anubis.selector.choice.choice_plan import Plan, Pruned
    from pytest_anubis.selector.choice.coverage import Coverage, learn_coverage, mixed
    from pytest_anubis.selector.risk.choosing.model_accuracy import (
        antolini,
        brier,
        calibration,
        harrell,
        integrated_brier,
        kaplan_meier,
        skill,
    )
    from pytest_anubis.selector.risk.incident_kinds import kind_mix, relates
    from pytest_anubis.selector.risk.models.cox import CoxPH
    from pytest_anubis.selector.risk.models.cox_time import CoxTime
    from pytest_anubis.selector.risk.models.hazard import (
        ExtrapolationWarning,
        HazardModel,
        load_model,
    )
    from pytest_anubis.selector.risk.models.parametric import Exponential, Weibull
    from pytest_anubis.selector.risk.models.stacked import Stacked
    from pytest_anubis.selector.risk.node_risk import NodeRisk
    from pytest_anubis.selector.risk.node_status import StatusRows, status_at, status_rows
    from pytest_anubis.selector.selector_error import SelectorError

_HOME = {
    "Candidate": "choice.candidates",
    "Coverage": "choice.coverage",
    "CoxPH": "risk.models.cox",
    "CoxTime": "risk.models.cox_time",
    "Exponential": "risk.models.parametric",
    "ExtrapolationWarning": "risk.models.hazard",
    "HazardModel": "risk.models.hazard",
    "NodeRisk": "risk.node_risk",
    "Plan": "choice.choice_plan",
    "Pruned": "choice.choice_plan",
    "SelectorError": "selector_error",
    "Stacked": "risk.models.stacked",
    "StatusRows": "risk.node_status",
    "Weibull": "risk.models.parametric",
    "antolini": "risk.choosing.model_accuracy",
    "brier": "risk.choosing.model_accuracy",
    "calibration": "risk.choosing.model_accuracy",
    "harrell": "risk.choosing.model_accuracy",
    "integrated_brier": "risk.choosing.model_accuracy",
    "joint_risk": "choice.benchmark_choice",
    "kaplan_meier": "risk.choosing.model_accuracy",
    "kind_mix": "risk.incident_kinds",
    "learn_coverage": "choice.coverage",
    "load_model": "risk.models.hazard",
    "make_plan": "choice.benchmark_choice",
    "mixed": "choice.coverage",
    "relates": "risk.incident_kinds",
    "skill": "risk.choosing.model_accuracy",
    "status_at": "risk.node_status",
    "status_rows": "risk.node_status",
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
    "Stacked",
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
