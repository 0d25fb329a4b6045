"""Which devices a metric is measured on, on most nodes."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache

from pytest_anubis.core.sample import Population


def usual_devices(population: Population) -> tuple[str, ...]:
    """Return the devices that more than half of the nodes have measured it on, sorted.

    One whose samples took no part in learning, for a disturbance perhaps, is expected all the same.
    """
    absent = (row for row, problem in population.problems.items() if problem.lacks)
    return _usual(tuple(population.nodes), tuple(population.devices), frozenset(absent))


@lru_cache(maxsize=8)  # metrics of one fleet come from the same units
def _usual(
    nodes_of: tuple[str, ...], devices: tuple[str, ...], absent: frozenset[int]
) -> tuple[str, ...]:
    if len(set(devices)) == 1:
        return (devices[0],)
    rows = zip(nodes_of, devices, strict=True)
    pairs = {pair for row, pair in enumerate(rows) if row not in absent}
    nodes = len({node for node, _ in pairs})
    counts = Counter(device for _, device in pairs)
    return tuple(sorted(device for device, count in counts.items() if 2 * count > nodes))
