"""Find out where a memory module's corrected errors are, from hours of the kernel log in fixed memory.

`card_watch` passes it the lines that it reads. A module with errors in one row can be repaired; errors all
over it come from a part that all rows share.
"""

from __future__ import annotations

import math
import re
import struct
from array import array
from collections.abc import Iterable
from hashlib import blake2b

from pytest_anubis.core.node_map import ModuleErrors, Spread
from pytest_anubis.hardware.telemetry.kernel_log import messages

DEPTH = 4
"""Lines of the sketch: a key has a counter in each. An estimate is beyond its stated error with probability
e^-4, 1.8 %."""

WIDTH = 1 << 14
"""Counters in a line of the sketch, at most 2^16. They make 512 KiB in all, and an error of 1,659 where
10 million are counted."""

MAX_MODULES = 256
"""Modules whose errors are counted, twice as many as eight sockets with 16 slots have."""

MIN_ERRORS = 10
"""Fewest errors of a module whose spread is stated: with fewer, no row can have as little as a tenth. With
10, ten equally bad rows look like one bad row in at most 1.6 % of cases, and a row with half of all errors
looks scattered in 1.1 %."""

ONE_ROW = 0.5
"""Least share of a module's errors in its worst row at which this row explains them."""

SCATTERED = 0.1
"""Largest share of a module's errors in its worst row at which no row explains them."""

_LINE = 2000
"""Characters of a line that are read; the drivers write some 600 at most."""

# "EDAC MC0: 78 CE memory read error on CPU_SrcID#0_MC#0_Chan#0_DIMM#1 (channel:0 slot:1 page:0xd6db0b ...
# rank:0 bg:3 ba:2 row:0x6ecc col:0xe8)"
_CORRECTED = re.compile(
    r"EDAC MC\d{1,4}: (?:\d{1,9} )?CE\b.{0,200}? on (?P<module>[!-~][ -~]{0,79}?) \((?P<fields>.*)"
)
# Labels of the kernel's EDAC core for errors of which the module is not known; several are joined by " or ".
_NO_MODULE = re.compile(r"(?:any|unknown) memory|.* or .*")
# Rank, bank group, bank and row as skx_common.c, sb_edac.c, ACPI's address translation and cper.c name them.
# The column is left out, and so is "csrow", a rank.
_FIELD = re.compile(
    r"\b(row|rank|physicalrankid|dimmrankid|subchannel|bg|ba|bank|bankgroup|bank_addr|bank_group|bank_address)"
    r": ?((?:0x)?[0-9a-f]{1,16})\b",
    re.IGNORECASE,
)


class CountMinSketch:
    """Counts of very many keys in fixed memory, which are never too low.

    An estimate exceeds the true count by at most `error`, e / width of all counts, with probability
    1 - e^-DEPTH (Cormode and Muthukrishnan, An improved data stream summary: the count-min sketch, 2005).

    Args:
        width: Counters in a line, a power of two.

    Attributes:
        total: Sum of all counts.
    """

    def __init__(self, width: int = WIDTH) -> None:
        self.total = 0
        self._width = width
        self._counts = array("Q", bytes(8 * width * DEPTH))

    @property
    def error(self) -> int:
        """The stated error of an estimate; counts are whole, and so is it."""
        return math.floor(math.e / self._width * self.total)

    def add(self, key: bytes, count: int = 1) -> int:
        """Count a key `count` times, and return its estimate."""
        self.total += count
        for place in self._places(key):
            self._counts[place] += count
        return self.estimate(key)

    def estimate(self, key: bytes) -> int:
        """Return how often a key was counted, or more."""
        return min(self._counts[place] for place in self._places(key))

    def _places(self, key: bytes) -> list[int]:
        numbers = struct.unpack(f"{DEPTH}H", blake2b(key, digest_size=2 * DEPTH).digest())
        return [line * self._width + one % self._width for line, one in enumerate(numbers)]


class ErrorPlaces:
    """Counts of the corrected errors of each memory module and, in a sketch, of each of its rows."""

    def __init__(self) -> None:
        self._rows = CountMinSketch()
        self._modules: dict[str, tuple[int, int]] = {}  # errors, and the estimate of the worst row

    def read(self, lines: Iterable[str]) -> None:
        """Count the corrected errors of kernel log lines that name module and row.

        A line counts once, whatever number it states: it names the row of one of its errors only.
        """
        for _, line in messages(lines):
            if (place := error_place(line)) is not None:
                self.add(*place)

    def add(self, module: str, row: str, count: int = 1) -> None:
        """Count errors in one row of a module; modules beyond `MAX_MODULES` are left out."""
        if module in self._modules or len(self._modules) < MAX_MODULES:
            errors, worst = self._modules.get(module, (0, 0))
            estimate = self._rows.add(f"{module} {row}".encode(), count)
            self._modules[module] = (errors + count, max(worst, estimate))

    def modules(self) -> tuple[ModuleErrors, ...]:
        """Return the modules of which the spread of the errors is known, in the order of their first one."""
        return tuple(
            ModuleErrors(module=module, errors=errors, spread=spread)
            for module, (errors, worst) in self._modules.items()
            if (spread := self._spread(errors, worst)) is not None
        )

    def _spread(self, errors: int, worst: int) -> Spread | None:
        """Return the spread of a module's errors; None where the sketch's error leaves it open."""
        if errors < MIN_ERRORS:
            return None
        if worst - self._rows.error >= ONE_ROW * errors:
            return "row"
        return "scattered" if worst <= SCATTERED * errors else None


def error_place(line: str) -> tuple[str, str] | None:
    """Return module and row of the corrected error in a kernel log line; None if it does not name both.

    The row is rank, bank and row as the driver writes them, so it can only be compared with other lines.
    """
    found = _CORRECTED.search(line[:_LINE])
    if found is None or _NO_MODULE.fullmatch(found["module"]):
        return None
    fields = {name.lower(): value for name, value in _FIELD.findall(found["fields"])}
    return (found["module"], repr(sorted(fields.items()))) if "row" in fields else None
