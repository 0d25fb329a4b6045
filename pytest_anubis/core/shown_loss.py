"""The loss that is printed next to a value and the expected value: it is the quotient of just these two.

A verdict judges the distribution of the values, so its similarity may not fit the two printed medians.
`nominal_text` words the share of a nominal rate, and `place_of` the device of a verdict.
"""

from __future__ import annotations

from pytest_anubis.core.metric import percent_text, value_text
from pytest_anubis.core.nominal_rate import NominalRate
from pytest_anubis.core.verdict import MetricVerdict

_SIDES = ("higher", "lower")
ALL_DEVICES = "all devices"
"""Place of a verdict on the values of all devices of a node."""


def place_of(verdict: MetricVerdict) -> str:
    """Return the device that a verdict is about, or `ALL_DEVICES`."""
    return ALL_DEVICES if verdict.scope == "node" else verdict.device


def median_similarity(value: float, expected: float, better: str) -> float:
    """Return the one-sided similarity of two medians: 1 if the value is no worse."""
    worse = value < expected if better == "higher" else value > expected
    low, high = sorted((value, expected))
    return low / high if worse and high > 0 else 1.0


def shown_similarity(verdict: MetricVerdict) -> float | None:
    """Return the similarity whose loss is printed next to value and expected value.

    Returns:
        That of the two values; None if they do not show the loss: only a part of the values has it, or they
        are on the good side of the limit, or show less than half of it. For exact metrics, and if a value or
        the direction is missing, the verdict's similarity, which may be None.
    """
    alike, value, expected = verdict.similarity, verdict.value, verdict.expected
    if alike is None or value is None or expected is None or verdict.better not in _SIDES:
        return alike
    shown = median_similarity(value, expected, verdict.better)
    if verdict.count == 1:
        return shown
    limit = verdict.threshold
    bad = limit is not None and alike < limit
    hidden = bad and (shown >= (limit or 0.0) or 1 - shown < (1 - alike) / 2)
    return None if verdict.part or hidden else shown


def nominal_text(nominal: NominalRate | None, value: float | None, better: str, unit: str) -> str:
    """Return which share of its nominal rate a value reaches; empty if unknown.

    It is ``reaches 47 % of what PCIe 5.0 x16 carries, 63 GB/s``, or where lower is better ``takes 3.0 times
    as long as PCIe 5.0 x16 needs, 2 ms``.
    """
    attained = nominal.attained(value, better) if nominal else None
    if not nominal or not attained:
        return ""
    best = value_text(nominal.value, unit)
    if better == "lower":
        return f"takes {1 / attained:.1f} times as long as {nominal.of} needs, {best}"
    return f"reaches {percent_text(attained)} of what {nominal.of} carries, {best}"
