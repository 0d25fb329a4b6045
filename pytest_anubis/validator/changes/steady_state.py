"""Find where steady state begins, and the shortest window of values that replaces a long run.

`segments` leaves the values before steady state out of its search. Learning stores the window in the
criterion, and later runs measure only that, except soaks (`session.measuring.short_windows`).
"""

from __future__ import annotations

import numpy as np

from pytest_anubis.core.metric import Direction
from pytest_anubis.core.sample import FloatArray, Population
from pytest_anubis.validator.similarity.centre import MIN_UNITS, median_centre, repeatability
from pytest_anubis.validator.similarity.distance import losses
from pytest_anubis.validator.similarity.usable_rows import BoolArray

BATCHES = 40
"""A longer series is cut between the means of this many batches, to a fortieth of its length."""
MIN_BATCHES = 8
"""Fewest values (or batches) that are searched for a transient, of which a third may be cut."""
CUT_NOISE = 3.0
"""Standard errors by which the values that are cut must be worse than the rest."""
MIN_VALUES = 32
"""Fewest values of a run that is searched for a shorter window; shorter runs save little."""
MAX_UNITS = 128
"""Most units on which windows are compared, spread evenly over the fleet; all pairs of units are compared for
each of about forty windows."""
MIN_UNIT_SHARE = 0.9
"""Share of the units that must have `MIN_VALUES`, and quantile of their warm-ups that is cut from all."""
SLACK = 0.001
"""Repeatability that a shorter window may lose: a fiftieth of the loss at the practical threshold."""
ALIKE = 0.99
"""Smallest similarity of a shorter window's centre: its shift is at most a fifth of the loss that matters."""
SHORTER = 0.75
"""Share of the run within which a window must end, so that it saves enough."""
SPANS = (8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 1024)
"""Candidate lengths, each a third or a half longer than the one before (the last twice as long)."""


def steady_from(series: FloatArray, better: Direction) -> int:
    """Return how many values (n,) at the beginning to cut: the truncation with the least standard error.

    MSER (White 1997, doi:10.1177/003754979706900601): over all cuts up to a third, the variance of the rest
    divided by its length is smallest where the initial transient ends. The cut is made only if the cut values
    are worse than the rest by more than its noise. A steady series stays whole, and a better beginning is no
    warm-up but a node that degrades.
    """
    size = max(1, len(series) // BATCHES)
    count = len(series) // size
    batches = series[: count * size].reshape(count, size).mean(axis=1)
    if count < MIN_BATCHES:
        return 0
    reversed_ = batches[::-1]
    left = np.arange(1, count + 1)
    mean = np.cumsum(reversed_) / left
    spread = np.maximum(np.cumsum(reversed_**2) / left - mean**2, 0)
    error = (spread / left)[::-1]
    cut = int(np.argmin(error[: count // 3]))
    if cut == 0:
        return 0
    head, rest = batches[:cut], batches[cut:]
    noise = float(rest.std(ddof=1))
    gap = float(head.mean()) - float(np.median(rest))
    if (gap if better == "lower" else -gap) <= CUT_NOISE * noise / np.sqrt(cut):
        return 0
    return cut * size


def shortest_window(
    population: Population, members: BoolArray, *, slack: float = SLACK
) -> tuple[int, int] | None:
    """Find the shortest window of values that repeats as well as the longest, and has the same centre.

    A candidate window has a warm-up w and a length l. The result is the window with the least ``w + l`` whose
    repeatability over the healthy units, the members (n,), reaches that of the longest window minus `slack`,
    and whose centre is at least `ALIKE` similar to that of the longest window (the paper's section 3.5). It
    is None if no shorter window is as good or the samples are too short.
    """
    sizes = np.diff(population.offsets)
    rows = np.flatnonzero(members & (sizes >= MIN_VALUES)).tolist()
    if len(rows) < MIN_UNITS or len(rows) < MIN_UNIT_SHARE * int(members.sum()):
        return None
    rows.sort(key=lambda r: (population.nodes[r], population.devices[r], population.runs[r]))
    rows = [rows[i] for i in np.linspace(0, len(rows) - 1, min(MAX_UNITS, len(rows))).astype(int)]
    length = int(sizes[rows].min())
    series = np.stack([population.sample(row)[:length] for row in rows]).astype(np.float64)
    cuts = np.array([steady_from(one, population.metric.better) for one in series])
    start = int(np.quantile(cuts, MIN_UNIT_SHARE, method="higher"))
    everyone = np.ones(len(rows), dtype=np.bool_)
    columns = np.sort(series[:, start:], axis=1).T
    target = repeatability(columns, everyone)
    longest = median_centre(columns, everyone)
    if target is None:
        return None
    windows = {(cut + span, cut) for cut in (0, start // 2, start) for span in SPANS}
    for end, cut in sorted(one for one in windows if one[0] <= SHORTER * length):
        part = np.sort(series[:, cut:end], axis=1).T
        reached = repeatability(part, everyone)
        below, above = losses(median_centre(part, everyone)[None, :], longest)
        if reached is not None and reached >= target - slack and 1 - below[0] - above[0] >= ALIKE:
            return cut, end - cut
    return None
