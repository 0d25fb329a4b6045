"""Moments as text in files: ISO 8601, without a zone UTC."""

from __future__ import annotations

from datetime import UTC, datetime
from math import isfinite


def moment(text: str) -> float | None:
    """Return seconds since 1970 of ISO 8601 text or of a number of seconds; None where it is neither."""
    try:
        number = float(text)
        return number if isfinite(number) else None
    except ValueError:
        pass
    try:
        found = datetime.fromisoformat(text.strip())
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None
