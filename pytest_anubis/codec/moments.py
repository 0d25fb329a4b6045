"""Convert ISO 8601 text, in UTC unless it names a zone, to seconds since 1970, and seconds to a day."""

from __future__ import annotations

from datetime import UTC, datetime

_YEARS = (-62135596800.0, 253402300800.0)
"""Seconds since 1970 at which the years 1 and 10000 begin, between which Python's dates lie."""


def moment(text: str) -> float | None:
    """Return seconds since 1970, from ISO 8601 text or a number of seconds; None if it is neither."""
    try:
        found = float(text)
    except ValueError:
        try:
            date = datetime.fromisoformat(text.strip())
            found = (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
        except (ValueError, OverflowError):
            return None
    return found if _YEARS[0] <= found < _YEARS[1] else None


def iso_of(seconds: float) -> str:
    """Return a moment as ISO 8601 text in UTC."""
    return datetime.fromtimestamp(seconds, UTC).isoformat()


def day_of(seconds: float) -> str:
    """Return the day of a moment, ISO 8601, in UTC, which is the same for all nodes of a fleet."""
    return datetime.fromtimestamp(seconds, UTC).date().isoformat()
