"""Looking closer: a bounded sequential test that asks for more rounds only while the call is close."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from pytest_anubis.core.baseline import Criterion
from pytest_anubis.validator.distance import one_sided, trouble

STAGES = 5
"""Most stages, the first one included."""
CONFIRM = 3
"""A loss is only believed after this many stages: one burst never rejects a node."""


def closer_look(
    stages: Sequence[npt.ArrayLike],
    criterion: Criterion,
    *,
    error: float = 0.01,
    most: int = STAGES,
) -> Literal["enough", "more"]:
    """Say whether a measurement should be taken again.

    The loss of all values together is compared with the loss at which the verdict becomes FAIL. Its
    standard error comes from the means of short batches of successive values, so that correlated noise
    counts as what it is. While the Student-t interval at ``error / most`` (Bonferroni over the looks)
    contains the limit, more is asked for; so a verdict that stops early agrees with that of an endless
    measurement with probability ``1 - error`` at least. A loss is confirmed by ``CONFIRM`` stages before
    it may reject.

    Args:
        stages: The values of each stage in time order.
        criterion: What they are compared with.
        error: Chance that an early stop decides otherwise than endless measurement would.
        most: Largest number of stages.

    Returns:
        ``enough``: judge what there is; ``more``: take another stage.
    """
    from scipy.special import stdtrit

    if criterion.metric.better == "equal" or len(stages) >= most:
        return "enough"
    parts = [np.asarray(stage, dtype=np.float64) for stage in stages]
    values = np.concatenate(parts) if parts else np.empty(0)
    if trouble(values) is not None:
        return "enough"
    loss = 1 - one_sided(values, criterion.centre, criterion.metric.better)
    threshold = fail_loss(criterion)
    middle = float(np.mean(criterion.centre))
    if middle <= 0:
        return "enough"
    batches = np.concatenate([_batches(part) for part in parts if len(part)])
    if len(batches) < 2:
        return "more" if loss > threshold else "enough"
    deviation = float(batches.std(ddof=1)) / math.sqrt(len(batches)) / middle
    half = float(stdtrit(len(batches) - 1, 1 - error / most)) * deviation
    if loss <= threshold:
        return "more" if loss + half > threshold else "enough"
    return "more" if len(parts) < CONFIRM or loss - half < threshold else "enough"


def fail_loss(criterion: Criterion) -> float:
    """Return the one-sided loss beyond which the verdict is FAIL: the larger of the two limits."""
    practical = 1 - criterion.alpha
    return practical if criterion.limit is None else max(practical, 1 - criterion.limit)


def _batches(
    values: np.ndarray[tuple[int], np.dtype[np.float64]],
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return the means of about sqrt(n) batches of successive values."""
    count = max(1, round(math.sqrt(len(values))))
    return np.array([part.mean() for part in np.array_split(values, count)])
