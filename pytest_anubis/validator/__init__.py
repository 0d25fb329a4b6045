"""The Validator: is this node normal? Criteria learned from a fleet, verdicts with a stated error rate.

Pure: deterministic, numpy and scipy only; usable without pytest. Names are loaded when first used.

PYTEST_DONT_REWRITE
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_anubis.validator.baselines import learn_baseline
    from pytest_anubis.validator.columns import (
        JudgedColumns,
        judge_columns,
        judge_population,
        judge_populations,
    )
    from pytest_anubis.validator.distance import one_sided, similarity
    from pytest_anubis.validator.judging import judge_sample
    from pytest_anubis.validator.learning import LearnedCriterion, LearnError, learn_criterion
    from pytest_anubis.validator.node import judge_node
    from pytest_anubis.validator.sequential import closer_look

_HOME = {
    "JudgedColumns": "columns",
    "LearnError": "learning",
    "LearnedCriterion": "learning",
    "closer_look": "sequential",
    "judge_columns": "columns",
    "judge_node": "node",
    "judge_population": "columns",
    "judge_populations": "columns",
    "judge_sample": "judging",
    "learn_baseline": "baselines",
    "learn_criterion": "learning",
    "one_sided": "distance",
    "similarity": "distance",
}

__all__ = [
    "JudgedColumns",
    "LearnError",
    "LearnedCriterion",
    "closer_look",
    "judge_columns",
    "judge_node",
    "judge_population",
    "judge_populations",
    "judge_sample",
    "learn_baseline",
    "learn_criterion",
    "one_sided",
    "similarity",
]


def __getattr__(name: str) -> Any:
    """Load a public name from the module that defines it."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
