"""Convert the time of one call into a value in a unit of time or rate."""

from __future__ import annotations

_TIME_UNITS = {"s": 1.0, "ms": 1e3, "us": 1e6, "µs": 1e6, "ns": 1e9}
_PREFIXES = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}
_BASES = ("FLOP/s", "OP/s", "op/s", "B/s", "bit/s", "samples/s", "tokens/s", "IOPS", "steps/s")


def in_unit(seconds_per_call: float, unit: str, work: float | None) -> float:
    """Return the time of one call as a value in `unit`.

    Args:
        seconds_per_call: Time of one call in seconds.
        unit: A time (``s``, ``ms``, ``us``, ``ns``), or with `work` a rate such as ``TFLOP/s``,
            ``GB/s``, ``MiB/s``, ``samples/s``, ``op/s``.
        work: Work of one call in the rate's base unit (FLOP, bytes, samples); None for a time.

    Raises:
        ValueError: The unit is not a time, or with `work` not a rate.
    """
    if work is None:
        if unit not in _TIME_UNITS:
            raise ValueError(
                f"unit {unit!r} is not a time; use {', '.join(_TIME_UNITS)}, or give work= for a rate"
            )
        return seconds_per_call * _TIME_UNITS[unit]
    for base in _BASES:
        if unit.endswith(base):
            prefix = unit[: -len(base)]
            scale = _PREFIXES.get(prefix) or _BINARY.get(prefix)
            if scale is not None:
                return work / seconds_per_call / scale
    raise ValueError(
        f"unit {unit!r} is not a rate; use one of {', '.join(_BASES)} with a prefix such as G or T"
    )
