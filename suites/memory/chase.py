"""A pointer chase: the latency of loads of which each needs the one before."""

from __future__ import annotations

import ctypes
import mmap
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from suites.memory.caches import Caches

SOURCE = Path(__file__).with_name("chase.c")
LINE = 64
"""Bytes between two elements of the chain: one cache line."""

_HUGE = 2 << 20
_SEED = 20240224


def footprint(level: str, caches: Caches) -> int:
    """Return how many bytes to chase through so that loads come from `level`.

    ``l2``: half a core's second level. ``llc``: three times the second level, at most half of the last
    one: others use it too, and what they push out comes back from memory. ``dram``: eight times the last
    level, so that at most an eighth of the loads can hit it.
    """
    bytes_of = {
        "l2": caches.level2 // 2,
        "llc": min(3 * caches.level2, caches.last // 2),
        "dram": max(8 * caches.last, 64 << 20),
    }
    return bytes_of[level]


class Chase:
    """One random cycle through a buffer; a context manager, as the buffer is given back at its end.

    Args:
        library: The compiled ``chase.c``.
        footprint: Bytes of the buffer, rounded down to whole lines; at least two lines.
    """

    def __init__(self, library: ctypes.CDLL, footprint: int) -> None:
        self.lines = footprint // LINE
        self._library = library
        for name in ("chain_walk", "chain_length"):
            getattr(library, name).restype = ctypes.c_uint64
        # Huge pages where the kernel gives them: the latency is then the memory's and not that of
        # the page tables. They begin at a multiple of their size, hence the room and the rounding.
        self._map = mmap.mmap(-1, footprint + _HUGE)
        if hasattr(mmap, "MADV_HUGEPAGE"):
            self._map.madvise(mmap.MADV_HUGEPAGE)
        start = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        self._skip = -start % _HUGE
        self._base = ctypes.c_void_p(start + self._skip)
        order = (ctypes.c_uint32 * self.lines)()
        library.chain_build(self._base, order, ctypes.c_uint64(self.lines), ctypes.c_uint64(_SEED))
        self._offset = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._map.close()

    def run(self, steps: int) -> None:
        """Follow the chain for so many loads, from where the last call stopped."""
        self._offset = self._library.chain_walk(
            self._base, ctypes.c_uint64(self._offset), ctypes.c_uint64(steps)
        )

    def latency(self, steps: int) -> float:
        """Return the nanoseconds of one load, on average over so many."""
        begin = time.perf_counter_ns()
        self.run(steps)
        return (time.perf_counter_ns() - begin) / steps

    def visited(self) -> int:
        """Return how many lines one round of the chain visits: `lines`, unless memory lost a bit."""
        return int(self._library.chain_length(self._base, ctypes.c_uint64(self.lines)))

    def flip(self, line: int, bit: int) -> None:
        """Flip one bit of the offset in a line: a memory fault, to see that it is noticed."""
        self._map[self._skip + line * LINE + bit // 8] ^= 1 << bit % 8
