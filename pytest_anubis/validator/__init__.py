"""The Validator: learns criteria from a fleet, and judges nodes by them at a stated error rate.

Pure: deterministic, numpy and scipy only; usable without pytest. Names are loaded when first used.

PYTEST_DONT_REWRITE
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_anubis.validator.changes.segments import segments as segments
    from pytest_anubis.validator.changes.segments import with_segments as with_segments
    from pytest_anubis.validator.changes.steady_state import shortest_window as shortest_window
    from pytest_anubis.validator.changes.trend import find_trends as find_trends
    from pytest_anubis.validator.deciding.node_decision import judge_node as judge_node
    from pytest_anubis.validator.judging.backtest import backtest as backtest
    from pytest_anubis.validator.judging.change_screening import find_changes as find_changes
    from pytest_anubis.validator.judging.column_judging import JudgedColumns as JudgedColumns
    from pytest_anubis.validator.judging.column_judging import judge_columns as judge_columns
    from pytest_anubis.validator.judging.column_judging import (
        judge_populations as judge_populations,
    )
    from pytest_anubis.validator.judging.history_judging import judge_by_history as judge_by_history
    from pytest_anubis.validator.judging.peer_judging import judge_by_peers as judge_by_peers
    from pytest_anubis.validator.judging.population_shift import settle_shift as settle_shift
    from pytest_anubis.validator.judging.sample_judging import judge_sample as judge_sample
    from pytest_anubis.validator.judging.sequential_test import closer_look as closer_look
    from pytest_anubis.validator.learning.baseline_learning import learn_baseline as learn_baseline
    from pytest_anubis.validator.learning.criterion_learning import (
        learn_criterion as learn_criterion,
    )
    from pytest_anubis.validator.learning.learned_criterion import LearnError as LearnError
    from pytest_anubis.validator.similarity.distance import one_sided as one_sided

_HOME = {
    "JudgedColumns": "judging.column_judging",
    "LearnError": "learning.learned_criterion",
    "backtest": "judging.backtest",
    "closer_look": "judging.sequential_test",
    "find_changes": "judging.change_screening",
    "find_trends": "changes.trend",
    "judge_by_history": "judging.history_judging",
    "judge_by_peers": "judging.peer_judging",
    "judge_columns": "judging.column_judging",
    "judge_node": "deciding.node_decision",
    "judge_populations": "judging.column_judging",
    "judge_sample": "judging.sample_judging",
    "learn_baseline": "learning.baseline_learning",
    "learn_criterion": "learning.criterion_learning",
    "one_sided": "similarity.distance",
    "segments": "changes.segments",
    "settle_shift": "judging.population_shift",
    "shortest_window": "changes.steady_state",
    "with_segments": "changes.segments",
}

__all__ = [*_HOME]


def __getattr__(name: str) -> Any:
    """Load a public name from the module that defines it."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
