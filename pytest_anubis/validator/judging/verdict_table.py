"""The verdict table, for one sample and for whole columns: two thresholds make four cells.

| | loss within the practical threshold | beyond it |
|---|---|---|
| within the healthy spread (learned threshold) | PASS | PASS, listed: the metric cannot show such a loss |
| beyond the healthy spread | MARGINAL | FAIL |

A loss beyond the practical threshold is MARGINAL as well if the unit is as likely sick as healthy, wherever
the learned threshold lies. Without a learned threshold the practical one is used for both; both are 1 for an
exact metric. On one machine a loss of few looks has a wider threshold (`criterion_for`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pytest_anubis.core.baseline import Criterion
from pytest_anubis.core.metric import value_text
from pytest_anubis.core.sample import ABSENT, FloatArray, SampleProblem
from pytest_anubis.core.verdict import Outcome, Reason
from pytest_anubis.validator.judging.sequential_test import CONFIRMING_LOOKS
from pytest_anubis.validator.similarity.too_good import lowest_likeness
from pytest_anubis.validator.similarity.usable_rows import BoolArray

OUTCOMES = (
    Outcome.PASS,
    Outcome.MARGINAL,
    Outcome.FAIL,
    Outcome.INCONCLUSIVE,
    Outcome.NOT_TESTED,
)
REASONS = tuple(Reason)
PASS, MARGINAL, FAIL, INCONCLUSIVE, NOT_TESTED = range(5)
Codes = npt.NDArray[np.int8]

_CELLS = (
    (Outcome.PASS, Reason.WITHIN),
    (Outcome.PASS, Reason.UNDETECTABLE),
    (Outcome.MARGINAL, Reason.UNUSUAL),
    (Outcome.FAIL, Reason.BEYOND),
)
"""By `costly + 2 * unusual`: beyond the practical threshold, beyond the learned one."""
_UNUSUAL_CELL, _FAIL_CELL = 2, 3
_OUTCOME_OF = np.array([OUTCOMES.index(outcome) for outcome, _ in _CELLS], dtype=np.int8)
_REASON_OF = np.array([REASONS.index(reason) for _, reason in _CELLS], dtype=np.int8)

_OF_PROBLEM = {
    "failed": (Outcome.FAIL, Reason.TEST_FAILED),
    "missing": (Outcome.NOT_TESTED, Reason.NOT_REPORTED),
    ABSENT: (Outcome.NOT_TESTED, Reason.NOT_REPORTED),
    "disturbed": (Outcome.INCONCLUSIVE, Reason.DISTURBED),
    "invalid": (Outcome.INCONCLUSIVE, Reason.INVALID),
    "unit": (Outcome.INCONCLUSIVE, Reason.WRONG_UNIT),
    "version": (Outcome.INCONCLUSIVE, Reason.OTHER_VERSION),
    "waived": (Outcome.NOT_TESTED, Reason.WAIVED),
}


class Limits(NamedTuple):
    """The similarities below which a verdict changes."""

    practical: float
    learned: FloatArray | float  # shape (n,) or one for all; NaN where there is none
    look: float = (
        0.0  # 0: none; below it a unit that passes as undetectable is as likely sick as healthy
    )
    apart: float = (
        0.0  # 0: none; below it a unit belongs to a slower group on which no operator has decided
    )


class Call(NamedTuple):
    """A cell of the verdict table, with the similarity below which the outcome changes."""

    outcome: Outcome
    reason: Reason
    threshold: float


def decide(similarity: float, criterion: Criterion, too_good: bool = False) -> Call:
    """Apply the verdict table to one sample, with the criterion as it applies to it (`criterion_for`).

    A sample that is `too_good` decides nothing unless it fails.
    """
    outcome, reason = np.zeros(1, dtype=np.int8), np.zeros(1, dtype=np.int8)
    threshold = np.zeros(1)
    fill_verdicts(np.array([similarity]), limits_of(criterion), outcome, reason, threshold)
    if too_good and outcome[0] < FAIL:
        return Call(Outcome.INCONCLUSIVE, Reason.TOO_GOOD, lowest_likeness(criterion))
    return Call(OUTCOMES[outcome[0]], REASONS[reason[0]], float(threshold[0]))


def fill_verdicts(
    similarity: FloatArray, limits: Limits, outcome: Codes, reason: Codes, threshold: FloatArray
) -> None:
    """Apply the verdict table to all units (n,), and fill in outcome, reason and threshold.

    Units whose similarity is NaN keep the outcome and reason that they have.
    """
    known = ~np.isnan(similarity)
    alike, practical = similarity[known], limits.practical
    learned = np.where(np.isnan(limits.learned), practical, limits.learned)
    tight = np.broadcast_to(learned, similarity.shape)[known]
    cell = (alike < practical) + 2 * (alike < tight)
    outcome[known], reason[known] = _OUTCOME_OF[cell], _REASON_OF[cell]
    threshold[known] = np.where(cell == 0, tight, np.minimum(practical, tight))
    suspect = (cell == 1) & (alike < limits.look)
    in_slower_group = (cell < _UNUSUAL_CELL) & (alike < limits.apart) & ~suspect
    for chosen, limit in ((suspect, limits.look), (in_slower_group, limits.apart)):
        rows = np.flatnonzero(known)[chosen]
        outcome[rows], threshold[rows] = MARGINAL, limit
    reason[np.flatnonzero(known)[in_slower_group]] = _REASON_OF[_UNUSUAL_CELL]


def limits_of(criterion: Criterion) -> Limits:
    """Return the limits of a criterion as the table takes them."""
    practical, learned = thresholds_of(criterion)
    return Limits(practical, learned, criterion.look or 0.0, criterion.apart)


def thresholds_of(criterion: Criterion) -> tuple[float, float]:
    """Return the practical and the learned threshold as the table takes them."""
    if criterion.metric.better == "equal":
        return 1.0, 1.0
    learned = criterion.alpha if criterion.learned is None else criterion.learned
    return criterion.alpha, learned


def learned_for(
    similarity: FloatArray | float, criterion: Criterion, confirmed: BoolArray | bool
) -> FloatArray:
    """Return the learned threshold of each sample, which is wider for losses that too few looks confirm."""
    learned = thresholds_of(criterion)[1]
    if (
        criterion.unconfirmed is None
        or criterion.learned is None
        or criterion.metric.better == "equal"
    ):
        return np.asarray(learned)
    return np.where((similarity >= learned) | confirmed, learned, criterion.unconfirmed)


def criterion_for(
    alike: float, criterion: Criterion, looks: int = 1, disturbance: Sequence[str] = ()
) -> Criterion:
    """Return the criterion with the learned threshold that applies to one sample.

    A disturbance ends the looks before the call is clear, so a disturbed sample of several looks counts as
    confirmed: it cannot reject, but it does not pass either.
    """
    if criterion.learned is None or criterion.unconfirmed is None:
        return criterion
    confirmed = looks >= CONFIRMING_LOOKS or (looks > 1 and bool(disturbance))
    return replace(criterion, learned=float(learned_for(alike, criterion, confirmed)))


def problem_verdict(problem: SampleProblem) -> tuple[Outcome, Reason]:
    """Return outcome and reason of a unit without a usable sample; a failed or missing test is never slow."""
    return _OF_PROBLEM.get(problem.kind, (Outcome.INCONCLUSIVE, Reason.INVALID))


def of_group(criterion: Criterion, similarity: float) -> str:
    """Return the words for a loss that a slower, undecided group of units has too; empty for other losses."""
    second = criterion.second
    if second is None or second.decided or not criterion.alpha <= similarity < second.alpha:
        return ""
    typical = value_text(second.typical, criterion.metric.unit)
    return f"what a slower group reaches (typical {typical}), about which no operator has decided"
