"""Which files are execution traces, by their names; the profiler's timelines are not."""

from __future__ import annotations

SUFFIXES = (".trace.json", ".trace.json.gz")
"""Endings of the names of execution traces."""

PROFILER_SUFFIXES = (".pt.trace.json", ".pt.trace.json.gz")
"""Endings of the profiler's timelines, which hold no arguments and cannot be replayed."""


def is_trace(name: str) -> bool:
    """Return whether a file of this name is an execution trace."""
    return name.endswith(SUFFIXES) and not name.endswith(PROFILER_SUFFIXES)
