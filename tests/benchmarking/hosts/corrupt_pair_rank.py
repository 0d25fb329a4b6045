"""A host of a pair that changes a byte of what it sends when it sends `SPOILED` bytes."""

from __future__ import annotations

import sys
from copy import copy

from pytest_anubis.benchmarking.hosts import pair_rank

SPOILED = 4096


class CorruptRank(pair_rank.PairRank):
    """Host 1 sends a wrong byte."""

    def _send(self, receiver: int, size: int) -> float:
        if size != SPOILED or self._number != 1:
            return super()._send(receiver, size)
        other = copy(self)  # with which this one compares nothing
        other._pattern = self._pattern.clone()
        other._pattern[self._number + 7] += 1
        return super(CorruptRank, other)._send(receiver, size)


if __name__ == "__main__":
    pair_rank.PairRank = CorruptRank  # type: ignore[misc]
    pair_rank.main(sys.argv[1:])
