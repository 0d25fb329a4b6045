"""Numbers as text in tables, messages and pages.

`core.metric` formats values, similarities and losses for the Validator's sentences as well, so that a value
has the same digits everywhere.
"""

from __future__ import annotations

import math
from typing import Any

from pytest_anubis.core.metric import loss_size, percent_text
from pytest_anubis.core.metric import similarity_text as similarity_text
from pytest_anubis.core.metric import value_text as value_text
from pytest_anubis.core.shown_loss import shown_similarity
from pytest_anubis.core.verdict import MetricVerdict

_MAX_CERTAINTY = 0.999
"""Highest certainty that is printed: a computed 1 is rounding."""
_BYTES = frozenset({"memory", "memory_free", "total", "limit", "swap", "size"})
_UNITS = {
    "power_limit": "W",
    "power_limit_default": "W",
    "sm_clock_max": "MHz",
    "memory_clock_max": "MHz",
    "mhz_max": "MHz",
    "nvlink_speed": "MB/s",
    "speed": "Gbit/s",
    "wear": "%",
}
"""Units of the readings of an inventory, by their names in `core.inventory`."""


def comparison_text(similarity: float, threshold: float) -> str:
    """Return ``similarity .88 < .95`` with as many digits as it takes to tell the two apart."""
    sign = "<" if similarity < threshold else ">" if similarity > threshold else "="
    for digits in range(2, 10):
        left, right = f"{similarity:.{digits}f}", f"{threshold:.{digits}f}"
        if left != right or sign == "=":
            break
    return f"similarity {left.removeprefix('0')} {sign} {right.removeprefix('0')}"


def percent(share: float | None) -> str:
    """Return a share as a percentage with about two significant digits; never a small loss as 0."""
    return "-" if share is None else percent_text(share)


def certainty_text(probability: float | None) -> str:
    """Return the probability that a loss is beyond the limit: ``81 %``, at most ``>99 %``; or a dash."""
    return "-" if probability is None else share_text(min(probability, _MAX_CERTAINTY))


def share_text(share: float | None) -> str:
    """Return a share in whole percent, never rounded to 0 or 100 %; or a dash."""
    if share is None:
        return "-"
    whole = round(100 * share)
    if whole in (0, 100):
        return "100 %" if share == 1 else ">99 %" if whole else "<1 %"
    return f"{whole} %"


def lost_text(verdict: MetricVerdict) -> str:
    """Return a loss as ``12 %`` or ``30 times``, ``in part`` if the median does not show it, or a dash."""
    if verdict.similarity is None:
        return "-"
    alike = shown_similarity(verdict)
    return "in part" if alike is None else loss_size(alike, verdict.better)


def duration_text(seconds: float) -> str:
    """Return a duration for people: ``350 ms``, ``12.3 s``, ``4 min 05 s``, ``2 h 10 min``."""
    if not math.isfinite(seconds):
        return value_text(seconds, "s")
    if seconds < 0.9995:
        return f"{1000 * seconds:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min"


def count_text(count: int, noun: str) -> str:
    """Return a count with its noun: ``1 metric``, ``2 metrics``, ``2 boxes``, ``2 more criteria``."""
    if count == 1:
        return f"1 {noun}"
    if noun.endswith("criterion"):
        return f"{count} {noun.removesuffix('on')}a"
    return f"{count} {noun}{'es' if noun.endswith(('s', 'x', 'ch', 'sh')) else 's'}"


def bytes_text(count: float) -> str:
    """Return an amount of memory in binary units: ``512 B``, ``80 GiB``, ``1.5 TiB``."""
    size, units = float(count), iter(("B", "KiB", "MiB", "GiB", "TiB"))
    unit = next(units)
    for larger in units:
        if abs(size) < 1024:
            break
        size, unit = size / 1024, larger
    return f"{size:.3g} {unit}" if size < 1000 else f"{size:.0f} {unit}"


def reading_text(name: str, value: Any) -> str:
    """Return a reading of an inventory with its unit: ``700 W``, ``79.6 GiB``, ``yes``; a dash for none.

    The value is plain data of any type, since the file may be damaged.
    """
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if name in _BYTES and isinstance(value, int | float):
        return bytes_text(value)
    text = value_text(value) if isinstance(value, float) else str(value)
    return f"{text} {_UNITS[name]}" if name in _UNITS and isinstance(value, int | float) else text


def moment_text(iso: str) -> str:
    """Return an ISO 8601 moment in UTC as ``2026-11-21 06:14:36 UTC``; other text as it is."""
    day, separator, clock = iso.partition("T")
    utc = clock.endswith(("+00:00", "Z"))
    if not separator or not utc or len(clock) < 8:
        return iso
    return f"{day} {clock[:8]} UTC"
