"""The one place where numbers become text: the same rounding in every table, message and page."""

from __future__ import annotations

import math


def value_text(value: float | None, unit: str = "") -> str:
    """Return a measured value with four significant digits, and its unit if one is given.

    A missing value is a dash; NaN and the infinities are written as such.
    """
    if value is None:
        return "-"
    if not math.isfinite(value):
        text = str(value)
    elif value == 0 or 1e-4 <= abs(value) < 1e7:
        digits = 0 if value == 0 else max(0, 3 - math.floor(math.log10(abs(value))))
        text = f"{value:.{digits}f}"
        if "." in text:
            text = text.rstrip("0").rstrip(".")
    else:
        text = f"{value:.3e}"
    return f"{text} {unit}".rstrip()


def similarity_text(value: float | None) -> str:
    """Return a similarity in [0, 1] with four decimals, never rounded up to 1."""
    if value is None:
        return "-"
    if 1 - 5e-5 < value < 1:
        return "0.9999"
    return f"{value:.4f}"


def percent(share: float | None) -> str:
    """Return a share as a percentage with about two significant digits."""
    if share is None:
        return "-"
    hundredth = 100 * share
    if hundredth == 0:
        return "0 %"
    digits = 0 if abs(hundredth) >= 10 else 1 if abs(hundredth) >= 1 else 2
    return f"{hundredth:.{digits}f} %"


def duration_text(seconds: float) -> str:
    """Return a duration for people: ``350 ms``, ``12.3 s``, ``4 min 05 s``, ``2 h 10 min``."""
    if seconds < 1:
        return f"{1000 * seconds:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min"
