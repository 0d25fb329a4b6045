"""The loss that is printed beside a value and what is expected: the one that a reader gets who divides them.

A verdict is about the distribution of the values, of which the two numbers are the medians only.
"""

from __future__ import annotations

from pytest_anubis.core.verdict import MetricVerdict

_SIDES = ("higher", "lower")
ALL_DEVICES = "all devices"
"""Place of what the values of all of a node's devices show together."""


def place_of(verdict: MetricVerdict) -> str:
    """Return what a verdict is about: a device, or all of them."""
    return ALL_DEVICES if verdict.scope == "node" else verdict.device


def median_similarity(value: float, expected: float, better: str) -> float:
    """Return how alike two medians are, one-sided: 1 where the value is no worse."""
    worse = value < expected if better == "higher" else value > expected
    low, high = sorted((value, expected))
    return low / high if worse and high > 0 else 1.0


def shown_similarity(verdict: MetricVerdict) -> float | None:
    """Return the similarity whose loss is printed beside value and expected.

    Returns:
        That of the two; None where they do not show the loss: a part of the values has it, or they are on
        the good side of the limit, or show less than half of it. Of exact metrics, and where one of the two
        or the direction is missing, that of the verdict, which may be missing as well.
    """
    alike, value, expected = verdict.similarity, verdict.value, verdict.expected
    if alike is None or value is None or expected is None or verdict.better not in _SIDES:
        return alike
    shown = median_similarity(value, expected, verdict.better)
    if verdict.count == 1:  # which is its own distribution
        return shown
    limit = verdict.threshold
    bad = limit is not None and alike < limit
    hidden = bad and (shown >= (limit or 0.0) or 1 - shown < (1 - alike) / 2)
    return None if verdict.part or hidden else shown
