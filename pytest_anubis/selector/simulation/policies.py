"""Validation policies that `anubis simulate` compares: which benchmarks run on which nodes before a job."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pytest_anubis.selector.simulation.hidden_defects import (
    DefectRates,
    Floats,
    Ints,
    Mask,
    after_incident,
    after_tests,
    after_use,
    at_first,
    manifest_probability,
)


class Policy:
    """A policy that decides before each job, from what an operator can see.

    Attributes:
        free: Its validation takes no time (the ideal).
    """

    free = False

    def start(self, nodes: int, kinds: int, hours: Floats, rng: np.random.Generator) -> None:
        """Begin with a new fleet; `hours`, shape (kinds,), are those of each kind's benchmark."""
        self.kinds = kinds
        self.rng = rng
        self.hours = hours

    def tests(self, nodes: Ints, job_hours: float, part: float) -> Mask | None:
        """Return what to run, shape (n, kinds), on nodes that are to join a job; None is nothing.

        `job_hours` are the hours that the job is to run, and `part` is these nodes' share of all its nodes.
        """
        return None

    def tested(self, nodes: Ints, mask: Mask, bad: Mask) -> None:
        """Learn that nodes were tested: those in `bad`, shape (n,), were repaired, the others passed."""

    def used(self, nodes: Ints, hours: float, hit: int, kind: int) -> None:
        """Learn that nodes were used, and that the one at index `hit` (-1: none) had an incident."""


class Nothing(Policy):
    """No validation."""


class Full(Policy):
    """The full set before each job, on a random share of the nodes; 1 is the full set on every node."""

    def __init__(self, share: float = 1.0) -> None:
        self.share = share

    def tests(self, nodes: Ints, job_hours: float, part: float) -> Mask | None:
        """Return everything for some nodes."""
        chosen = self.rng.random(len(nodes)) < self.share
        return np.repeat(chosen[:, None], self.kinds, axis=1)


class Ideal(Full):
    """The full set before each job, at no cost: no policy can find more."""

    free = True


def _hazard(chance: Floats) -> Floats:
    return np.asarray(-np.log1p(-np.minimum(chance, 1 - 1e-12)))


@dataclass(frozen=True, slots=True, eq=False)
class TestSteps:
    """The tests of nodes, each node's in its own order, best first, and the hazard that they remove."""

    before: float  # hazard of the job without tests, -log of the probability of no incident
    order: Ints  # shape (n, kinds): the kinds in each node's order
    # Shape (n, kinds): hazard that each step removes, once those before it have passed
    gain: Floats
    # Shape (n, kinds): gain per hour of the test, capped by that of earlier steps, so that a node's
    # order is kept
    rate: Floats

    def mask(self, taken: Mask) -> Mask:
        """Return taken steps, shape (n, kinds), by kind instead of by order."""
        found = np.zeros(taken.shape, dtype=np.bool_)
        np.put_along_axis(found, self.order, taken, axis=1)
        return found


class Selector(Policy):
    """Test the nodes and kinds of defects with the largest posterior hazard per hour of the test.

    Tests are taken in falling order of hazard removed per hour until P(incident during the job) <= p0. The
    cost exceeds the optimum for this order by one test at most. It represents `selector.choice`, whose code
    is not used here.

    Args:
        p0: Accepted joint probability per job.
        rates: Rates of the filter.
    """

    def __init__(self, p0: float, rates: DefectRates) -> None:
        self.p0 = p0
        self.rates = rates

    def start(self, nodes: int, kinds: int, hours: Floats, rng: np.random.Generator) -> None:
        """Begin with the prior of new nodes."""
        super().start(nodes, kinds, hours, rng)
        self.posterior = at_first(self.rates, nodes)

    def tests(self, nodes: Ints, job_hours: float, part: float) -> Mask | None:
        """Return the tests that bring the risk to the accepted one, best hazard per hour first."""
        steps = self.steps(nodes, job_hours)
        excess = steps.before + np.log1p(-self.p0) * part
        if excess <= 0:
            return None
        line = np.argsort(-steps.rate.ravel(), kind="stable")
        needed = int(np.searchsorted(np.cumsum(steps.gain.ravel()[line]), excess)) + 1
        taken = np.zeros(steps.gain.size, dtype=np.bool_)
        taken[line[:needed]] = True
        return steps.mask(taken.reshape(steps.gain.shape))

    def steps(self, nodes: Ints, job_hours: float) -> TestSteps:
        """Return what each further test of a node would remove before a job."""
        own = self.posterior[nodes]
        show = manifest_probability(job_hours, self.rates)
        before = _hazard(own.sum(axis=1, keepdims=True) * show)
        order = np.argsort(-own / self.hours, axis=1, kind="stable")
        passed = np.cumsum(np.take_along_axis(own, order, axis=1), axis=1)
        left = (passed[:, -1:] - passed) / np.maximum(1 - passed, 1e-12)
        gain = -np.diff(_hazard(left * show), axis=1, prepend=before)
        # A test of a node never goes before an earlier one in that node's order.
        rate = np.minimum.accumulate(gain / self.hours[order], axis=1)
        return TestSteps(before=float(before.sum()), order=order, gain=gain, rate=rate)

    def tested(self, nodes: Ints, mask: Mask, bad: Mask) -> None:
        """Remove the tested kinds from the posterior, and all kinds of repaired nodes."""
        self.posterior[nodes] = np.where(
            bad[:, None], 0.0, after_tests(self.posterior[nodes], mask)
        )

    def used(self, nodes: Ints, hours: float, hit: int, kind: int) -> None:
        """Update the posterior by the hours and the incident."""
        posterior, _ = after_use(self.posterior[nodes], np.full(len(nodes), hours), self.rates)
        if hit >= 0:
            where = slice(hit, hit + 1)
            posterior[where] = after_incident(posterior[where], self.rates, np.array([kind]))
        self.posterior[nodes] = posterior
