"""Find at little cost what disturbed the machine during tests that give `record` values of their own.

`fixtures` makes it, and `recorder` asks it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from pytest_anubis.core.waiving import LIMITS
from pytest_anubis.hardware.load.disturbance import compare, disturbances
from pytest_anubis.hardware.load.host_load import Load, LoadReader

FRESH = 0.25
"""Seconds for which a reading also serves as the beginning of the next test. A reading takes about a
millisecond, as much as a trivial test."""

MIN_SPAN = 0.1
"""Minimum seconds between two readings that are compared: the kernel counts CPU time in ticks of 10 ms."""

MAX_AGE = 1.0
"""Maximum age in seconds of an earlier reading with which a test shorter than `MIN_SPAN` is compared."""

REUSE = 0.02
"""Seconds for which an answer is reused: two of the kernel's ticks would show nothing new."""


class AmbientLoad:
    """Watch of the host's load whose readings are shared by successive tests.

    Args:
        root: Process whose tree counts as our own; default this process.
        limits: Thresholds by name that replace those of `LIMITS`.
        allowed: Names of commands, as shell patterns, that may run on a quiet machine.
    """

    def __init__(
        self,
        root: int | None = None,
        *,
        limits: Mapping[str, float] = LIMITS,
        allowed: Sequence[str] = (),
    ) -> None:
        self._reader = LoadReader(root=root)
        self._limits = limits
        self._allowed = allowed
        self._readings: list[Load] = []  # of the last `MAX_AGE` seconds
        self._answer: tuple[Load, float, tuple[str, ...]] | None = None  # begin, time, phrases

    def begin(self) -> Load:
        """Return a reading that is recent enough for the beginning of a test."""
        if not self._readings or time.monotonic() - self._readings[-1].when > FRESH:
            self._read()
        return self._readings[-1]

    def since(self, begin: Load) -> tuple[str, ...]:
        """Return what disturbed the machine since a reading, one phrase each.

        A test that has just begun is too short to judge, so the time before it is included, from a reading
        at most `MAX_AGE` old. Without such a reading this method waits until `MIN_SPAN` has passed. An
        unwatched value would otherwise be judged like one of a quiet machine.
        """
        now = time.monotonic()
        if self._answer is not None and self._answer[0] is begin and now - self._answer[1] < REUSE:
            return self._answer[2]
        first = begin if now - begin.when >= MIN_SPAN else self._before(now)
        if first is None:
            # The bounds matter if a test has replaced the clock.
            time.sleep(min(MIN_SPAN, max(0.0, MIN_SPAN - (now - begin.when))))
            first = begin
        self._answer = (begin, time.monotonic(), self._between(first, self._read()))
        return self._answer[2]

    def _before(self, now: float) -> Load | None:
        """Return the latest reading that is between `MIN_SPAN` and `MAX_AGE` old; None without one."""
        old_enough = (one for one in reversed(self._readings) if now - one.when >= MIN_SPAN)
        found = next(old_enough, None)
        return found if found is not None and now - found.when <= MAX_AGE else None

    def _read(self) -> Load:
        read = self._reader.read()
        kept = (one for one in self._readings if read.when - one.when <= MAX_AGE)
        self._readings = [*kept, read]
        return read

    def _between(self, begin: Load, end: Load) -> tuple[str, ...]:
        found = compare(begin, end, quota=self._reader.quota, allowed=self._allowed)
        return disturbances(found, self._limits)
