"""A pointer chase: the latency of loads of which each needs the one before."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Self

from suites.memory.caches import Caches
from suites.memory.huge_pages import HUGE, room

SOURCE = Path(__file__).with_name("chase.c")
LINE = 64
"""Bytes between two elements of the chain: one cache line."""

LEAST = 16 << 10
"""Bytes of a sweep's smallest footprint: half of the smallest first-level cache that servers have."""

_SEED = 20240224

_PAGES, _READINGS, _READ = 7, 3, 1_000_000
"""Pages that `typical` compares, readings of each, and loads of a reading (five milliseconds)."""


def footprint(level: str, caches: Caches) -> int:
    """Return how many bytes to chase through so that loads come from `level`.

    ``l2``: half a core's second level. ``llc``: three times the second level, at most half of the last
    one: others use it too, and what they push out comes back from memory. ``dram``: four times the last
    level. A line is wanted again when all others have been, so even a cache that pushes lines out at random
    answers two in a hundred loads (the hit rate h of such a cache solves h = exp(-4 (1 - h))), one that
    pushes out the oldest none.
    """
    bytes_of = {
        "l2": caches.level2 // 2,
        "llc": min(3 * caches.level2, caches.last // 2),
        "dram": max(4 * caches.last, 64 << 20),
    }
    return bytes_of[level]


def sweep(most: int) -> dict[str, int]:
    """Return a sweep's footprints by their names: bytes, powers of two from `LEAST` up to `most`."""
    sizes = (LEAST << step for step in range((most // LEAST).bit_length()))
    return {f"{size >> 20}MiB" if size >> 20 else f"{size >> 10}KiB": size for size in sizes}


class Chase:
    """One random cycle through a buffer; a context manager, as the buffer is given back at its end.

    Args:
        library: The compiled ``chase.c``.
        footprint: Bytes of the buffer, rounded down to whole lines; at least two lines.
    """

    def __init__(self, library: ctypes.CDLL, footprint: int) -> None:
        self.lines = footprint // LINE
        self._library = library
        for name in ("chain_walk", "chain_wrong", "chain_expected"):
            getattr(library, name).restype = ctypes.c_uint64
        self._maps: list[mmap.mmap] = []
        self._base, self._order = self._room(footprint), self._room(4 * self.lines)
        library.chain_build(
            self._base, self._order, ctypes.c_uint64(self.lines), ctypes.c_uint64(_SEED)
        )
        self._offset = self._begin = self._steps = 0

    def _room(self, size: int) -> ctypes.c_void_p:
        """Return so many bytes in huge pages: the latency is then the memory's, not that of page tables."""
        found, begin = room(size)
        self._maps.append(found)
        return ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(found)) + begin)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for one in self._maps:
            one.close()

    def run(self, steps: int) -> None:
        """Follow the chain for so many loads, from where the last call stopped."""
        self._begin, self._steps = self._offset, steps
        self._offset = self._library.chain_walk(
            self._base, ctypes.c_uint64(self._offset), ctypes.c_uint64(steps)
        )

    def latency(self, steps: int) -> float:
        """Return the nanoseconds of one load, on average over so many."""
        begin = time.perf_counter_ns()
        self.run(steps)
        return (time.perf_counter_ns() - begin) / steps

    def wrong_links(self) -> int:
        """Return how many lines no longer hold what was written there: 0, unless memory lost a bit."""
        return int(self._library.chain_wrong(self._base, self._order, ctypes.c_uint64(self.lines)))

    def arrived(self) -> bool:
        """Return whether the last `run` ended where its loads lead, with the links that were written."""
        begin, steps = ctypes.c_uint64(self._begin), ctypes.c_uint64(self._steps)
        return bool(self._offset == self._library.chain_expected(self._order, begin, steps))

    def flip(self, line: int, bit: int) -> None:
        """Flip one bit of the address in a line: a memory fault, to see that it is noticed."""
        place = (self._base.value or 0) + line * LINE + bit // 8
        ctypes.c_uint8.from_address(place).value ^= 1 << bit % 8


@contextlib.contextmanager
def typical(library: ctypes.CDLL, footprint: int) -> Iterator[Chase]:
    """Give a chain whose latency is the median of several, where its footprint fits one page.

    Where a page lies in the machine's memory decides which of its lines share a set of the second-level
    cache, so one page in ten is 14 % slower. A larger footprint averages over its pages: it has one chain.

    Args:
        library: The compiled ``chase.c``.
        footprint: Bytes of the buffer.
    """
    with contextlib.ExitStack() as stack:
        chains = [
            stack.enter_context(Chase(library, footprint))
            for _ in range(_PAGES if footprint <= HUGE else 1)
        ]
        fastest = {}
        for chain in chains if len(chains) > 1 else ():
            chain.run(_READ)
            fastest[chain] = min(chain.latency(_READ) for _ in range(_READINGS))
        yield sorted(chains, key=lambda chain: fastest.get(chain, 0.0))[len(chains) // 2]
