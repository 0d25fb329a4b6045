"""Policies that stand beside the Selector in `simulation.py` only: rules of thumb, one price."""

from __future__ import annotations

import numpy as np

from pytest_anubis.selector.simulation.hidden_defects import Floats, Ints, Mask, Rates
from pytest_anubis.selector.simulation.policies import Nothing, Selector


class Periodic(Nothing):
    """The full set on a node whenever it was used for so many hours since the last one.

    Args:
        period: Hours of use.
    """

    def __init__(self, period: float) -> None:
        self.period = period

    def start(self, nodes: int, kinds: int, hours: Floats, rng: np.random.Generator) -> None:
        """Begin, with each node somewhere in its period."""
        super().start(nodes, kinds, hours, rng)
        self.since = rng.random(nodes) * self.period

    def tests(self, nodes: Ints, job_hours: float, part: float) -> Mask | None:
        """Return everything for the nodes that are due."""
        return np.repeat((self.since[nodes] >= self.period)[:, None], self.kinds, axis=1)

    def tested(self, nodes: Ints, mask: Mask, bad: Mask) -> None:
        """Start the period anew."""
        self.since[nodes[mask.all(axis=1)]] = 0.0

    def used(self, nodes: Ints, hours: float, hit: int, kind: int) -> None:
        """Count hours."""
        self.since[nodes] += hours


class RandomSubset(Nothing):
    """Each benchmark on each node by chance before each job.

    Args:
        share: Its probability, which is also the share of the full set's time.
    """

    def __init__(self, share: float) -> None:
        self.share = share

    def tests(self, nodes: Ints, job_hours: float, part: float) -> Mask | None:
        """Return a random mask."""
        return self.rng.random((len(nodes), self.kinds)) < self.share


class FixedSubset(Nothing):
    """The first benchmarks by defects exposed per hour on every node before each job: no risk model.

    Args:
        count: How many.
        shares: Shape (kinds,): share of defects that each exposes.
    """

    def __init__(self, count: int, shares: Floats) -> None:
        self.count = count
        self.shares = shares

    def start(self, nodes: int, kinds: int, hours: Floats, rng: np.random.Generator) -> None:
        """Begin, with the order fixed."""
        super().start(nodes, kinds, hours, rng)
        self.chosen = np.zeros(kinds, dtype=np.bool_)
        self.chosen[np.argsort(-self.shares / hours, kind="stable")[: self.count]] = True

    def tests(self, nodes: Ints, job_hours: float, part: float) -> Mask | None:
        """Return the same for all."""
        return np.repeat(self.chosen[None, :], len(nodes), axis=0)


class CostSelector(Selector):
    """Run each test whose own time is less than that of the incidents that it is expected to spare.

    One price holds for all jobs, where a joint risk per job spends most on the nodes of large ones. Only
    incidents within the coming job count.

    Args:
        incident_hours: Node hours that an incident costs.
        rates: Rates of the filter, learned or told.
    """

    def __init__(self, incident_hours: float, rates: Rates) -> None:
        super().__init__(0.0, rates)
        self.incident_hours = incident_hours

    def tests(self, nodes: Ints, job_hours: float, part: float) -> Mask | None:
        """Return the tests that pay."""
        steps = self.steps(nodes, job_hours)
        taken: Mask = np.asarray(steps.rate * self.incident_hours > 1)
        return steps.mask(taken) if taken.any() else None
