"""The Validator: is this node normal? Criteria learned from a fleet, verdicts with a stated error rate.

Pure: deterministic, numpy and scipy only; usable without pytest. Names are loaded when first used.

PYTEST_DONT_REWRITE
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_anubis.validator.baselines import learn_baseline
    from pytest_anubis.validator.changes import Change, Segments, segments, with_segments
    from pytest_anubis.validator.columns import (
        JudgedColumns,
        judge_columns,
        judge_population,
        judge_populations,
    )
    from pytest_anubis.validator.distance import SampleError, one_sided, similarity
    from pytest_anubis.validator.flips import Backtest, Flip, backtest
    from pytest_anubis.validator.judging import judge_sample
    from pytest_anubis.validator.learning import LearnedCriterion, LearnError, learn_criterion
    from pytest_anubis.validator.node import judge_node
    from pytest_anubis.validator.past import judge_by_history
    from pytest_anubis.validator.peers import judge_by_peers
    from pytest_anubis.validator.runs_in_time import find_changes
    from pytest_anubis.validator.sequential import closer_look
    from pytest_anubis.validator.shift import settle_shift
    from pytest_anubis.validator.trend import find_trends
    from pytest_anubis.validator.windows import shortest_window

_HOME = {
    "Backtest": "flips",
    "Change": "changes",
    "Flip": "flips",
    "JudgedColumns": "columns",
    "LearnError": "learning",
    "LearnedCriterion": "learning",
    "SampleError": "distance",
    "Segments": "changes",
    "backtest": "flips",
    "closer_look": "sequential",
    "find_changes": "runs_in_time",
    "find_trends": "trend",
    "judge_by_history": "past",
    "judge_by_peers": "peers",
    "judge_columns": "columns",
    "judge_node": "node",
    "judge_population": "columns",
    "judge_populations": "columns",
    "judge_sample": "judging",
    "learn_baseline": "baselines",
    "learn_criterion": "learning",
    "one_sided": "distance",
    "segments": "changes",
    "settle_shift": "shift",
    "shortest_window": "windows",
    "similarity": "distance",
    "with_segments": "changes",
}

__all__ = [
    "Backtest",
    "Change",
    "Flip",
    "JudgedColumns",
    "LearnError",
    "LearnedCriterion",
    "SampleError",
    "Segments",
    "backtest",
    "closer_look",
    "find_changes",
    "find_trends",
    "judge_by_history",
    "judge_by_peers",
    "judge_columns",
    "judge_node",
    "judge_population",
    "judge_populations",
    "judge_sample",
    "learn_baseline",
    "learn_criterion",
    "one_sided",
    "segments",
    "settle_shift",
    "shortest_window",
    "similarity",
    "with_segments",
]


def __getattr__(name: str) -> Any:
    """Load a public name from the module that defines it."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
