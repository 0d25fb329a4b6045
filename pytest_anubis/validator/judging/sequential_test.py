"""Looking closer: a bounded sequential test that asks for more rounds only while the call is close."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from pytest_anubis.core.baseline import ERROR_RATE, Criterion
from pytest_anubis.core.sample import FloatArray
from pytest_anubis.validator.similarity.distance import one_sided, trouble

MOST_LOOKS = 16
"""Most looks, the first one included: it is a whole measurement and each of the others a fifth, so four times
the first one's values, whose mean is twice as exact."""
CONFIRMING_LOOKS = 11
"""A loss counts as confirmed after this many looks: what passes within seconds never rejects a node. Ten more
looks with their pauses take a quarter of a minute and more; `benchmarks/validator/machine.py` shows what it
leaves."""
CLEAR, CLEAR_LOOKS = 2.0, 5
"""A loss this many times as large as one that fails is clear, and confirmed after this many looks: a second
measurement's worth of values, as a node that is half as fast need not wait for ten."""
MOST_CORRELATION = 0.95
"""Largest correlation of neighbouring values that is taken as found: 39 such values still count as one."""


def closer_look(
    looks: Sequence[npt.ArrayLike],
    criterion: Criterion,
    *,
    error: float = ERROR_RATE,
    most: int = MOST_LOOKS,
) -> Literal["enough", "more"]:
    """Say whether a measurement should be taken again.

    The loss of all values together is compared with the loss at which the verdict becomes FAIL. Its
    standard error takes the correlation of successive values into account. While the Student-t interval
    at ``error / most`` (Bonferroni over the looks) contains that loss, more is asked for; so a verdict
    that stops early agrees with that of an endless measurement with probability ``1 - error`` at least.
    A loss is confirmed by ``CONFIRMING_LOOKS`` looks before it may reject, a clear one by ``CLEAR_LOOKS``.

    Args:
        looks: The values of each look in time order.
        criterion: What they are compared with.
        error: Chance that an early stop decides otherwise than endless measurement would.
        most: Largest number of looks.

    Returns:
        ``enough``: judge what there is; ``more``: take another look.
    """
    from scipy.special import stdtrit

    if criterion.metric.better == "equal" or len(looks) >= most:
        return "enough"
    parts = [np.asarray(look, dtype=np.float64) for look in looks]
    values = np.concatenate(parts) if parts else np.empty(0)
    if trouble(values) is not None:
        return "enough"
    loss = 1 - one_sided(values, criterion.centre, criterion.metric.better)
    threshold = fail_loss(criterion)
    middle = float(np.mean(criterion.centre))
    if middle <= 0:
        return "enough"
    deviation, degrees = standard_error(parts)
    if degrees < 1:
        return "more" if loss > threshold else "enough"
    half = float(stdtrit(degrees, 1 - error / most)) * deviation / middle
    if loss <= threshold:
        return "more" if loss + half > threshold else "enough"
    clear = max(CLEAR * threshold, 1 - (criterion.unconfirmed or 1.0))
    if len(parts) >= CLEAR_LOOKS and loss - half > clear:
        return "enough"
    return "more" if len(parts) < CONFIRMING_LOOKS or loss - half < threshold else "enough"


def sure_loss(
    looks: Sequence[npt.ArrayLike],
    criterion: Criterion,
    *,
    error: float = ERROR_RATE,
    most: int = MOST_LOOKS,
) -> bool:
    """Say whether a loss is surely beyond the one that fails, so that only its confirmation may be lacking.

    Args and the interval are those of `closer_look`. It decides which looks are spent
    (`session.measuring.conditions.Looks`), never a verdict.
    """
    from scipy.special import stdtrit

    parts = [np.asarray(look, dtype=np.float64) for look in looks]
    values = np.concatenate(parts) if parts else np.empty(0)
    middle = float(np.mean(criterion.centre))
    if criterion.metric.better == "equal" or trouble(values) is not None or middle <= 0:
        return False
    deviation, degrees = standard_error(parts)
    if degrees < 1:
        return False
    half = float(stdtrit(degrees, 1 - error / most)) * deviation / middle
    return 1 - one_sided(values, criterion.centre, criterion.metric.better) - half > fail_loss(
        criterion
    )


def fails(looks: Sequence[npt.ArrayLike], criterion: Criterion) -> bool:
    """Say whether all values together would fail as they are."""
    values = np.concatenate([np.asarray(look, dtype=np.float64) for look in looks])
    if trouble(values) is not None:
        return False
    loss = 1 - one_sided(values, criterion.centre, criterion.metric.better)
    return loss > fail_loss(criterion)


def fail_loss(criterion: Criterion) -> float:
    """Return the one-sided loss beyond which the verdict is FAIL: beyond both thresholds."""
    practical = 1 - criterion.alpha
    return practical if criterion.learned is None else max(practical, 1 - criterion.learned)


def standard_error(parts: Sequence[FloatArray]) -> tuple[float, float]:
    """Return the standard error of the mean of all values, and its degrees of freedom.

    The mean of n values with autocorrelation r between neighbours has the variance of
    ``n (1 - r) / (1 + r)`` independent ones. Deviations are taken from the mean of all looks, so that
    a difference between looks counts as noise of long memory.

    Args:
        parts: The values of each look, in time order.
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
    correlation = min(max(math.fsum(pairs) / (variance * (n - 1)), 0.0), MOST_CORRELATION)
    effective = max(n * (1 - correlation) / (1 + correlation), 2.0)
    return scale * math.sqrt(variance / effective), effective - 1
