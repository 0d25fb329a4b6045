"""fio's log of completion latencies: a histogram for each window of time, from which percentiles follow.

The percentiles that fio prints are of a whole run; a disk that stalls for a moment shows in windows of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate

from pytest_anubis.benchmarking.tools import UnreadableOutput

BITS = 6
"""Bits of a latency that a bin resolves (FIO_IO_U_PLAT_BITS of fio's stat.h): 64 bins for each octave."""

BINS = 29 << BITS
"""Bins of a histogram, of 29 groups (FIO_IO_U_PLAT_GROUP_NR)."""

COLUMNS = 3
"""Before the bins: milliseconds since the start, direction, bytes of a block."""


def middle_of(number: int) -> float:
    """Return the nanoseconds in the middle of a bin.

    The first two octaves' bins hold one nanosecond each. From there on each octave has 64 of equal width, so
    that a latency is known to 1/128 of itself (``plat_idx_to_val`` of fio's stat.c).
    """
    group = number >> BITS
    if group < 2:
        return float(number)
    width = 1 << (group - 1)
    return width * ((1 << BITS) + number % (1 << BITS) + 0.5)


def read_histograms(text: str) -> list[list[int]]:
    """Return the bins of each window of one of fio's ``clat_hist`` logs, in time order.

    Windows in which no request was finished have no line, or one of zeros, and are left out: the rate says
    that the disk stood still, and the window in which the request ends has its latency.

    Raises:
        UnreadableOutput: A line is none of these, or none has a request.
    """
    found = []
    for line in filter(str.strip, text.splitlines()):
        try:
            numbers = [int(field) for field in line.split(",")]
        except ValueError as error:
            raise UnreadableOutput("fio", line[:200]) from error
        bins = numbers[COLUMNS:]
        if len(bins) != BINS or min(numbers) < 0:
            said = f"{len(bins)} bins of latency, known are {BINS}: {line[:100]}"
            raise UnreadableOutput("fio", said)
        if any(bins):
            found.append(bins)
    if not found:
        raise UnreadableOutput("fio", "a log of latencies in which no request was finished")
    return found


def percentiles(bins: Sequence[int], wanted: Mapping[str, str]) -> dict[str, float]:
    """Return percentiles of one histogram, in microseconds.

    A percentile is the middle of the first bin up to which at least its share of the requests lies.

    Args:
        bins: Requests in each bin; at least one.
        wanted: Percentiles as text, such as ``99.9`` -> what they are called.
    """
    sums = list(accumulate(bins))
    found = {}
    for percent, name in wanted.items():
        least = float(percent) / 100 * sums[-1]
        number = next(at for at, count in enumerate(sums) if count >= least and count)
        found[name] = middle_of(number) / 1e3
    return found
