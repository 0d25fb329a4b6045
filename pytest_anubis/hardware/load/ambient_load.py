"""What disturbed the machine during whole tests that take their values themselves, at little cost."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence

from pytest_anubis.core.waivers.widened_limits import LIMITS
from pytest_anubis.hardware.inventory.host_inventory import usable_cpus
from pytest_anubis.hardware.load.disturbance import compare, disturbances
from pytest_anubis.hardware.load.host_load import Load, LoadReader

FRESH = 0.25
"""Seconds for which a reading also serves the next test as its beginning. A reading costs about a
millisecond, as much as a trivial test."""

SHORTEST = 0.1
"""Seconds below which nothing can be concluded: the kernel counts CPU time in ticks of 10 ms."""

LONGEST = 1.0
"""Seconds that a reading may lie before a test that is shorter than that, to tell what went on around it."""

SAME = 0.02
"""Seconds within which an answer holds for what is recorded next: two of the kernel's ticks show nothing."""


class Ambient:
    """Readings of the host's load that successive tests share.

    Args:
        root: Process whose tree counts as our own; default this process.
        limits: Thresholds by name, where they are not those of `LIMITS`.
        allowed: Names of commands, as shell patterns, that are part of a quiet machine.
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
        self._readings: list[Load] = []  # those of the last moments, and the latest one
        self._told: tuple[Load, float, tuple[str, ...]] | None = None

    def begin(self) -> Load:
        """Return a reading that is recent enough to be a test's beginning."""
        if not self._readings or time.monotonic() - self._readings[-1].when > FRESH:
            self._read()
        return self._readings[-1]

    def since(self, begin: Load) -> tuple[str, ...]:
        """Return what disturbed the machine since a reading, one phrase each.

        Of a test that has just begun the moment before it is told as well: a value that nobody watched would
        reject like one of a quiet machine. Where no reading is of then, the shortest time is waited for.
        """
        now = time.monotonic()
        if self._told is not None and self._told[0] is begin and now - self._told[1] < SAME:
            return self._told[2]
        first = begin if now - begin.when >= SHORTEST else self._before(now)
        if first is None:
            # A clock that a test has stopped tells nothing.
            time.sleep(min(SHORTEST, max(0.0, SHORTEST - (now - begin.when))))
            first = begin
        self._told = (begin, time.monotonic(), self._between(first, self._read()))
        return self._told[2]

    def _before(self, now: float) -> Load | None:
        """Return the latest reading from which on something can be concluded; None without any."""
        long_ago = (one for one in reversed(self._readings) if now - one.when >= SHORTEST)
        found = next(long_ago, None)
        return found if found is not None and now - found.when <= LONGEST else None

    def _read(self) -> Load:
        read = self._reader.read()
        kept = (one for one in self._readings if read.when - one.when <= LONGEST)
        self._readings = [*kept, read]
        return read

    def _between(self, begin: Load, end: Load) -> tuple[str, ...]:
        cpus = usable_cpus() or os.cpu_count() or 1
        found = compare(
            begin,
            end,
            cpus=cpus,
            quota=self._reader.quota,
            running=end.running,
            allowed=self._allowed,
        )
        return disturbances(found, self._limits)
