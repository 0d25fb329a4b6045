"""Bounded sequential test: ask for more rounds ("looks") of a measurement only while its verdict is close.

`session.measuring.attempts` asks it after every look. `certainty` uses its standard error, too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from pytest_anubis.core.baseline import ERROR_RATE, Criterion
from pytest_anubis.core.sample import FloatArray, unusable_reason
from pytest_anubis.validator.similarity.distance import one_sided

MAX_LOOKS = 16
"""Maximum looks, with the first, which is a whole measurement. Fifteen further ones of a fifth each give four
times its values, which halves the error."""
CONFIRMING_LOOKS = 11
"""Looks that confirm a loss. With fewer, a loss fails by a baseline of one machine only below
`Criterion.unconfirmed`, and by a fleet's it asks for a retest unless it is clear, because a disturbance may
pass within seconds. Ten further looks with their pauses take a quarter of a minute or more;
`benchmarks/validator/machine.py` measures which errors are left."""
CLEAR_FACTOR, CLEAR_LOOKS = 2.0, 5
"""A loss is clear beyond this many times the loss that fails, if `Criterion.unconfirmed` fails it, too. It
needs only this many looks, four fifths of a measurement after the first."""
MAX_CORRELATION = 0.95
"""Largest correlation of neighbouring values that is taken as found: 39 such values still count as one."""


def closer_look(looks: Sequence[npt.ArrayLike], criterion: Criterion) -> Literal["enough", "more"]:
    """Say whether to measure again (``more``) after some looks, or to judge what there is (``enough``).

    The loss of all values together is compared with the loss at which the verdict becomes FAIL. Its standard
    error takes the correlation of successive values into account. While the Student-t interval at
    `ERROR_RATE` (Bonferroni over `MAX_LOOKS`) contains that loss, more is asked for; so a verdict that stops
    early agrees with that of an endless measurement with probability ``1 - ERROR_RATE`` at least. A loss that
    fails is measured again until ``CONFIRMING_LOOKS`` looks, a clear one until ``CLEAR_LOOKS``.
    """
    if criterion.metric.better == "equal" or len(looks) >= MAX_LOOKS:
        return "enough"
    found = _loss_of(looks, criterion)
    if found is None:
        return "enough"
    loss, half = found
    threshold = fail_loss(criterion)
    if half is None:
        return "more" if loss > threshold else "enough"
    if loss <= threshold:
        return "more" if loss + half > threshold else "enough"
    clear = max(CLEAR_FACTOR * threshold, 1 - (criterion.unconfirmed or 1.0))
    if len(looks) >= CLEAR_LOOKS and loss - half > clear:
        return "enough"
    return "more" if len(looks) < CONFIRMING_LOOKS or loss - half < threshold else "enough"


def sure_loss(looks: Sequence[npt.ArrayLike], criterion: Criterion) -> bool:
    """Return whether a loss surely fails, so that at most the looks that confirm it are missing.

    The interval is that of `closer_look`. It decides which looks are spent
    (`session.measuring.conditions.LookBudget`), never a verdict.
    """
    found = None if criterion.metric.better == "equal" else _loss_of(looks, criterion)
    if found is None or found[1] is None:
        return False
    return found[0] - found[1] > fail_loss(criterion)


def _loss_of(
    looks: Sequence[npt.ArrayLike], criterion: Criterion
) -> tuple[float, float | None] | None:
    """Return the loss of all values and half its Student-t interval; None where values cannot be judged.

    Too few values have no interval: None.
    """
    from scipy.special import stdtrit

    parts = [np.asarray(look, dtype=np.float64) for look in looks]
    values = np.concatenate(parts) if parts else np.empty(0)
    middle = float(np.mean(criterion.centre))
    if unusable_reason(values) is not None or middle <= 0:
        return None
    loss = 1 - one_sided(values, criterion.centre, criterion.metric.better)
    deviation, degrees = standard_error(parts)
    if degrees < 1:
        return loss, None
    return loss, float(stdtrit(degrees, 1 - ERROR_RATE / MAX_LOOKS)) * deviation / middle


def fails(looks: Sequence[npt.ArrayLike], criterion: Criterion) -> bool:
    """Say whether all values together would fail as they are."""
    values = np.concatenate([np.asarray(look, dtype=np.float64) for look in looks])
    if unusable_reason(values) is not None:
        return False
    loss = 1 - one_sided(values, criterion.centre, criterion.metric.better)
    return loss > fail_loss(criterion)


def fail_loss(criterion: Criterion) -> float:
    """Return the one-sided loss beyond both thresholds, practical and learned, where the verdict is FAIL."""
    return 1 - criterion.rejects_below


def standard_error(parts: Sequence[FloatArray]) -> tuple[float, float]:
    """Return the standard error of the mean of all values of all looks, and its degrees of freedom.

    The mean of n values with autocorrelation r between neighbours has the variance of ``n (1 - r) / (1 + r)``
    independent ones. Deviations are taken from the mean of all looks, so that a difference between looks
    counts as noise of long memory.
    """
    values = np.concatenate(parts) if len(parts) > 1 else parts[0]
    n = len(values)
    if n < 2:
        return 0.0, 0.0
    scale = float(np.abs(values).max()) or 1.0  # squares of huge values must not overflow
    centre = (values / scale).mean()
    gaps = [part / scale - centre for part in parts]
    variance = math.fsum(float(gap @ gap) for gap in gaps) / (n - 1)
    if variance == 0:
        return 0.0, n - 1.0
    pairs = [float(gap[1:] @ gap[:-1]) for gap in gaps]
    correlation = min(max(math.fsum(pairs) / (variance * (n - 1)), 0.0), MAX_CORRELATION)
    effective = max(n * (1 - correlation) / (1 + correlation), 2.0)
    return scale * math.sqrt(variance / effective), effective - 1
