"""The verdict table, for one sample and for whole columns: two thresholds make four cells.

| | loss within the practical threshold | beyond it |
|---|---|---|
| within the healthy spread (learned threshold) | PASS | PASS, listed: the metric cannot show such a loss |
| beyond the healthy spread | MARGINAL | FAIL |

What is beyond the practical threshold and as likely sick as healthy is MARGINAL as well, wherever the learned
threshold lies.
Without a learned threshold the practical one stands for both; of an exact metric both are 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pytest_anubis.core.baseline import Criterion
from pytest_anubis.core.metric import value_text
from pytest_anubis.core.sample import ABSENT, FloatArray, Problem
from pytest_anubis.core.verdict import Outcome, Reason
from pytest_anubis.validator.judging.sequential_test import CONFIRMING_LOOKS
from pytest_anubis.validator.similarity.too_good import lowest_likeness

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


class Call(NamedTuple):
    """A cell of the verdict table and the similarity below which the outcome changes."""

    outcome: Outcome
    reason: Reason
    threshold: float


def decide(similarity: float, criterion: Criterion, gain: float = 1.0) -> Call:
    """Apply the verdict table to one sample.

    Args:
        similarity: One-sided, where the sample is worse.
        criterion: What is normal.
        gain: The same where it is better: what does not fail and is too good decides nothing.
    """
    practical, learned = thresholds_of(criterion)
    cell = (similarity < practical) + 2 * (similarity < learned)
    if cell < _FAIL_CELL and gain < lowest_likeness(criterion):
        return Call(Outcome.INCONCLUSIVE, Reason.TOO_GOOD, lowest_likeness(criterion))
    if cell == 1 and criterion.look is not None and similarity < criterion.look:
        return Call(Outcome.MARGINAL, Reason.UNDETECTABLE, criterion.look)
    if cell < _UNUSUAL_CELL and similarity < criterion.apart:
        return Call(*_CELLS[_UNUSUAL_CELL], criterion.apart)
    return Call(*_CELLS[cell], learned if cell == 0 else min(practical, learned))


def fill_verdicts(
    similarity: FloatArray,
    practical: float,
    learned: FloatArray | float,
    outcome: Codes,
    reason: Codes,
    threshold: FloatArray,
    look: float | None = None,
    apart: float = 0.0,
) -> None:
    """Apply the verdict table to all units at once.

    Args:
        similarity: Shape (n,), one-sided; NaN leaves a unit as it is.
        practical: Practical threshold.
        learned: Shape (n,) or a number, the learned threshold; NaN where there is none.
        outcome: Shape (n,), filled in with indices into ``OUTCOMES``.
        reason: Shape (n,), filled in with indices into ``REASONS``.
        threshold: Shape (n,), filled in.
        look: Similarity below which a unit is to be looked at; None where nothing tells.
        apart: Similarity below which a unit belongs to a slower group that nobody has decided about.
    """
    known = ~np.isnan(similarity)
    alike = similarity[known]
    tight = np.broadcast_to(np.where(np.isnan(learned), practical, learned), similarity.shape)[
        known
    ]
    cell = (alike < practical) + 2 * (alike < tight)
    outcome[known], reason[known] = _OUTCOME_OF[cell], _REASON_OF[cell]
    threshold[known] = np.where(cell == 0, tight, np.minimum(practical, tight))
    if look is not None:
        suspect = known.copy()
        suspect[known] = (cell == 1) & (alike < look)
        outcome[suspect], threshold[suspect] = MARGINAL, look
    of_group = known.copy()
    of_group[known] = (cell < _UNUSUAL_CELL) & (alike < apart)
    outcome[of_group], threshold[of_group] = MARGINAL, apart
    reason[of_group] = _REASON_OF[_UNUSUAL_CELL]


def thresholds_of(criterion: Criterion) -> tuple[float, float]:
    """Return the practical and the learned threshold as the table takes them."""
    if criterion.metric.better == "equal":
        return 1.0, 1.0
    learned = criterion.alpha if criterion.learned is None else criterion.learned
    return criterion.alpha, learned


def criterion_for(
    alike: float, criterion: Criterion, looks: int = 1, disturbance: Sequence[str] = ()
) -> Criterion:
    """Return the criterion as it holds for one sample: too few looks confirm no loss.

    Args:
        alike: One-sided similarity of the sample.
        criterion: What it is compared with.
        looks: How many looks the values come from.
        disturbance: What disturbed the machine, and so ended the looks before the call was clear: what more
            of them might reject does not pass, though such a sample rejects nothing.
    """
    unconfirmed, learned = criterion.unconfirmed, criterion.learned
    if unconfirmed is None or learned is None or alike >= learned:
        return criterion
    if looks >= CONFIRMING_LOOKS or (looks > 1 and disturbance):
        return criterion
    return replace(criterion, learned=unconfirmed)


def learned_for(
    similarity: FloatArray, criterion: Criterion, looks: Mapping[int, int]
) -> FloatArray | float:
    """Return the learned threshold as it holds for each unit: `criterion_for`, in columns.

    Args:
        similarity: Shape (n,), one-sided.
        criterion: What the units are compared with.
        looks: Row -> how many looks its values come from, of the rows with more than one.

    Returns:
        Shape (n,), or one number for all.
    """
    learned, exact = thresholds_of(criterion)[1], criterion.metric.better == "equal"
    if exact or criterion.unconfirmed is None or criterion.learned is None:
        return learned
    confirmed = similarity >= learned
    confirmed[[row for row, count in looks.items() if count >= CONFIRMING_LOOKS]] = True
    return np.where(confirmed, learned, criterion.unconfirmed)


def problem_verdict(problem: Problem) -> tuple[Outcome, Reason]:
    """Return what a unit without a usable sample gets: a failed or missing test is never "slow"."""
    return _OF_PROBLEM.get(problem.kind, (Outcome.INCONCLUSIVE, Reason.INVALID))


def of_group(criterion: Criterion, similarity: float) -> str:
    """Say that a loss lies where a slower group does that nobody has decided about; empty where it does not.

    Args:
        criterion: What decides; the practical threshold of one with such a group is the group's own.
        similarity: Of the sample, to the faster group.
    """
    second = criterion.second
    if second is None or second.decided or not criterion.alpha <= similarity < second.alpha:
        return ""
    typical = value_text(second.typical, criterion.metric.unit)
    return f"what a slower group reaches (typical {typical}), about which nobody has decided"
