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
        self._last: Load | None = None

    def begin(self) -> Load:
        """Return a reading that is recent enough to be a test's beginning."""
        if self._last is None or time.monotonic() - self._last.when > FRESH:
            self._last = self._reader.read()
        return self._last

    def since(self, begin: Load) -> tuple[str, ...]:
        """Return what disturbed the machine since a reading, one phrase each."""
        if time.monotonic() - begin.when < SHORTEST:
            return ()
        self._last = end = self._reader.read()
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
