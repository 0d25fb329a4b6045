"""All cores at once, each on its own vector and integer units, every block of steps with a known checksum."""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

SOURCE = Path(__file__).with_name("units.c")

STEPS = 20_000
"""Steps of a block: some tenths of a millisecond, so that a load of 5 ms ends in time."""


class Unit(NamedTuple):
    """What a block of one kind of unit does.

    Attributes:
        number: Which it is in ``units.c``.
        operations: Of a step in all lanes: eight vectors of 64 bytes (of `int64` one number at a time).
        checksum: Of a block of `STEPS`, the same on every CPU.
    """

    number: int
    operations: int
    checksum: int


UNITS = {
    "float64": Unit(0, 7 * 64, 5394925783543036576),
    "float32": Unit(1, 7 * 128, 3116992110593602880),
    "int32": Unit(2, 4 * 128, 5618857248023840862),
    "int64": Unit(3, 4 * 8, 2356998737506012839),
    "int16": Unit(4, 2 * 256, 3019351925),
}
"""A step in floating point is three products that each have a sum, and a sum; in whole numbers a shift, an
exclusive or, a product and a sum, of 16 bits a product and a sum. What is fused counts as two, as usual."""

NO_LIMIT = 1 << 62
"""More turns than any load has."""

LEAD = 2_000_000
LEAD_OF_A_THREAD = 100_000
"""Nanoseconds until all threads have begun: these, and these for each of them."""


class CoreLoad(NamedTuple):
    """What one core did.

    Attributes:
        seconds: For how long it was under load.
        wrong: Blocks whose checksum was wrong.
    """

    cpu: int
    operations: float
    seconds: float
    wrong: int

    @property
    def rate(self) -> float:
        """Operations a second under load."""
        return self.operations / self.seconds


def cpus_for(cores: int) -> list[int]:
    """Return so many of the CPUs that this process may use, spread evenly: a quota may allow fewer."""
    allowed = sorted(os.sched_getaffinity(0))
    wanted = min(cores, len(allowed))
    return [allowed[number * len(allowed) // wanted] for number in range(wanted)]


class Cores:
    """Loads CPUs, a thread each, and counts what came out wrong.

    Args:
        library: The compiled ``units.c``.
        units: Keys of `UNITS`; one block of each in turns.
        faults: CPU -> bits that are turned round in a register in the first block of each load: to see that
            it is noticed.
    """

    def __init__(
        self,
        library: ctypes.CDLL,
        cpus: Sequence[int],
        units: Sequence[str] = tuple(UNITS),
        *,
        faults: Mapping[int, int] | None = None,
    ) -> None:
        self._library = library
        self._cpus = list(cpus)
        chosen = [UNITS[name] for name in units]
        self._which = (ctypes.c_uint64 * len(chosen))(*(unit.number for unit in chosen))
        self._expected = (ctypes.c_uint64 * len(chosen))(*(unit.checksum for unit in chosen))
        self.work = float(STEPS * sum(unit.operations for unit in chosen))
        self._faults = dict(faults or {})
        self.wrong = dict.fromkeys(self._cpus, 0)

    def load(self, seconds: float, *, turns: int = NO_LIMIT) -> list[CoreLoad]:
        """Load all cores for so long, or so many turns of all units; return what each did.

        Also adds what was wrong to `wrong`.
        """
        (done,) = self._load(seconds, seconds, 1, 1, turns)
        return done

    def steps(self, hertz: float, periods: int, each: int = 1) -> list[list[CoreLoad]]:
        """Load all cores in the first half of each period and rest in the second, all at the same moments.

        Also after the last one, so that nothing but the frequency is in the load. Returns what the cores did
        in so many periods at a time (`each`).
        """
        return self._load(0.5 / hertz, 1 / hertz, periods, each, NO_LIMIT)

    def notice(self) -> bool:
        """Return whether every core counts one wrong block when one bit is turned round in its registers."""
        before, faults = dict(self.wrong), self._faults
        self._faults = dict.fromkeys(self._cpus, 1)
        try:
            found = self.load(0.0, turns=1)
        finally:
            self.wrong, self._faults = before, faults
        return all(core.wrong == 1 for core in found)

    def _load(
        self, load: float, period: float, periods: int, each: int, turns: int
    ) -> list[list[CoreLoad]]:
        begin = time.monotonic_ns() + LEAD + LEAD_OF_A_THREAD * len(self._cpus)
        numbers = (begin, round(load * 1e9), round(period * 1e9), periods, turns, STEPS, each)
        plan = (ctypes.c_uint64 * len(numbers))(*numbers)
        parts = -(-periods // each)
        results = {cpu: (ctypes.c_uint64 * (3 * parts))() for cpu in self._cpus}
        failures: list[OSError] = []

        def run(cpu: int) -> None:
            try:
                os.sched_setaffinity(0, {cpu})  # of this thread alone
            except OSError as error:
                failures.append(error)
                return
            self._library.units_load(
                plan,
                self._which,
                ctypes.c_uint64(len(self._which)),
                self._expected,
                ctypes.c_uint64(self._faults.get(cpu, 0)),
                results[cpu],
            )

        threads = [threading.Thread(target=run, args=(cpu,)) for cpu in self._cpus]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]
        for cpu, result in results.items():
            self.wrong[cpu] += sum(result[2::3])
        return [
            [
                CoreLoad(cpu, turns * self.work, nanoseconds / 1e9, wrong)
                for cpu, result in results.items()
                for turns, nanoseconds, wrong in [result[3 * part : 3 * part + 3]]
            ]
            for part in range(parts)
        ]
