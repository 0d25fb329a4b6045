"""Moments as text in files: ISO 8601, without a zone UTC."""

from __future__ import annotations

from datetime import UTC, datetime

_YEAR_10000 = 253402300800.0
"""Seconds since 1970 that no calendar here shows any more."""


def moment(text: str) -> float | None:
    """Return seconds since 1970 of ISO 8601 text or of a number of seconds; None where it is neither."""
    try:
        found = float(text)
    except ValueError:
        try:
            date = datetime.fromisoformat(text.strip())
            found = (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
        except (ValueError, OverflowError):
            return None
    return found if abs(found) < _YEAR_10000 else None


def day_of(seconds: float) -> str:
    """Return the day of a moment, ISO 8601, UTC: what all nodes of a fleet agree on."""
    return datetime.fromtimestamp(seconds, UTC).date().isoformat()
