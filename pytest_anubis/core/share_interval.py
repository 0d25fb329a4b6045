"""The 95 % confidence interval of a share, such as that of false alarms, from the cases that were counted."""

from __future__ import annotations

CHANCE = 0.05
"""Chance that the true share is outside the interval."""


def share_interval(count: float, of: float) -> tuple[float, float]:
    """Return the 95 % confidence interval of a share (Clopper and Pearson 1934, doi:10.2307/2331986).

    `count` are the cases that count, or the sum of their weights, `of` all cases; for none it is 0 to 1.
    """
    from scipy.special import betaincinv

    if of <= 0:
        return 0.0, 1.0
    count = min(count, of)
    low = float(betaincinv(count, of - count + 1, CHANCE / 2)) if count > 0 else 0.0
    high = float(betaincinv(count + 1, of - count, 1 - CHANCE / 2)) if count < of else 1.0
    return low, high
