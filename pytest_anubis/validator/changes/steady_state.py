"""Where steady state begins, and the shortest stretch of values that says as much as a long run."""

from __future__ import annotations

import numpy as np

from pytest_anubis.core.metric import Direction
from pytest_anubis.core.sample import FloatArray, Population
from pytest_anubis.validator.similarity.centre import FEWEST as FEWEST_UNITS
from pytest_anubis.validator.similarity.centre import median_centre, repeatability
from pytest_anubis.validator.similarity.distance import losses
from pytest_anubis.validator.similarity.usable_rows import BoolArray

BATCHES = 40
"""A longer series is cut between the means of so many batches: to a fortieth of its length."""
FEWEST_BATCHES = 8
"""Fewest values (or batches) in which a transient is looked for: a third of them may be cut."""
CUT_NOISE = 3.0
"""What is cut must be worse than the rest by more than this many standard errors."""
FEWEST = 32
"""Fewest values of a run that a shorter window is looked for in: of fewer there is little to be saved."""
UNITS = 128
"""Windows are chosen on at most this many units, spread evenly over the fleet: all pairs of them are compared
for each of some forty windows."""
MOSTLY = 0.9
"""Share of the units that must have values enough, and by whose warm-ups the longest one is set."""
SLACK = 0.001
"""Repeatability that a shorter window may lose: a fiftieth of the practical threshold's loss."""
ALIKE = 0.99
"""Least similarity of a shorter window's centre: within it a shift is a fifth of the loss that matters."""
SHORTER = 0.75
"""Share of the run within which a window must end: less saved is not worth another length."""
SPANS = (8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 1024)
"""Candidate lengths, each a third or a half longer than the one before (the last twice as long): the best is
missed by that at most."""


def steady_from(series: FloatArray, better: Direction) -> int:
    """Return how many values at the beginning to cut: the truncation with the least standard error.

    MSER (White 1997, doi:10.1177/003754979706900601): over all cuts up to a third, the variance of what
    remains divided by its length is smallest where the initial transient ends. The cut is only made if
    what it removes is worse than the rest by more than its noise: a steady series is left whole, and a
    better beginning is no warm-up but a node that degrades.

    Args:
        series: Shape (n,), in time order.
        better: Which direction is better.
    """
    size = max(1, len(series) // BATCHES)
    count = len(series) // size
    batches = series[: count * size].reshape(count, size).mean(axis=1)
    if count < FEWEST_BATCHES:
        return 0
    reversed_ = batches[::-1]
    left = np.arange(1, count + 1)
    mean = np.cumsum(reversed_) / left
    spread = np.maximum(np.cumsum(reversed_**2) / left - mean**2, 0)
    error = (spread / left)[::-1]
    cut = int(np.argmin(error[: count // 3]))
    if cut == 0:
        return 0
    rest = batches[cut:]
    head = batches[:cut]
    noise = float(rest.std(ddof=1))
    gap = float(head.mean()) - float(np.median(rest))
    if (gap if better == "lower" else -gap) <= CUT_NOISE * noise / np.sqrt(cut):
        return 0
    return cut * size


def shortest_window(
    population: Population,
    members: BoolArray,
    *,
    slack: float = SLACK,
    alike: float = ALIKE,
) -> tuple[int, int] | None:
    """Find the shortest window of values that repeats, and says the same, as the longest one.

    For candidate windows (warm-up w, length l) the repeatability over the units and the similarity of
    their centre to that of the longest window are computed; the window with the least ``w + l`` whose
    repeatability reaches that of the longest one minus `slack`, and whose similarity reaches `alike`, is
    taken (the paper's section 3.5).

    Args:
        population: Samples in time order.
        members: Shape (n,), the healthy units.
        slack: Repeatability that may be given up.
        alike: Least similarity to the centre of the longest window.

    Returns:
        (warm-up, length), or None when no shorter window is as good or the samples are too short.
    """
    sizes = np.diff(population.offsets)
    rows = np.flatnonzero(members & (sizes >= FEWEST)).tolist()
    if len(rows) < FEWEST_UNITS or len(rows) < MOSTLY * int(members.sum()):
        return None
    rows.sort(key=lambda r: (population.nodes[r], population.devices[r], population.runs[r]))
    rows = [rows[i] for i in np.linspace(0, len(rows) - 1, min(UNITS, len(rows))).astype(int)]
    length = int(sizes[rows].min())
    series = np.stack([population.sample(row)[:length] for row in rows]).astype(np.float64)
    cuts = np.array([steady_from(one, population.metric.better) for one in series])
    start = int(np.quantile(cuts, MOSTLY, method="higher"))
    everyone = np.ones(len(rows), dtype=np.bool_)
    columns = np.sort(series[:, start:], axis=1).T
    target = repeatability(columns, everyone)
    longest = median_centre(columns, everyone)
    if target is None:
        return None
    for end, cut in _candidates(start, length):
        part = np.sort(series[:, cut:end], axis=1).T
        reached = repeatability(part, everyone)
        below, above = losses(median_centre(part, everyone)[None, :], longest)
        if reached is not None and reached >= target - slack and 1 - below[0] - above[0] >= alike:
            return cut, end - cut
    return None


def _candidates(start: int, length: int) -> list[tuple[int, int]]:
    """Return (end, warm-up) of windows that end well before the run does, shortest first."""
    out = set()
    for cut in {0, start // 2, start}:
        for span in SPANS:
            if cut + span <= SHORTER * length:
                out.add((cut + span, cut))
    return sorted(out)
