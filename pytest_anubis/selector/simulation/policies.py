"""Policies of validation: which benchmarks run on which nodes before a job."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pytest_anubis.selector.simulation.hidden_defects import (
    Floats,
    Ints,
    Mask,
    Rates,
    after_incident,
    after_tests,
    after_use,
    at_first,
    to_show,
)


class Policy:
    """Decides before each job, and is told what can be seen; never what is hidden.

    Attributes:
        free: Its validation takes no time (the ideal).
    """

    free = False

    def start(self, nodes: int, kinds: int, hours: Floats, rng: np.random.Generator) -> None:
        """Begin with a new fleet; `hours`, shape (kinds,), is what each kind's benchmark takes."""
        self.kinds, self.rng, self.hours = kinds, rng, hours

    def tests(self, nodes: Ints, job_hours: float, part: float) -> Mask | None:
        """Return what to run, shape (n, kinds); None is nothing.

        Args:
            nodes: Nodes that are to join a job, shape (n,).
            job_hours: How long the job wants to run.
            part: These nodes' share of all nodes of the job.
        """
        return None

    def tested(self, nodes: Ints, mask: Mask, bad: Mask) -> None:
        """Learn that nodes were tested; `bad`, shape (n,), were repaired, the others passed."""

    def used(self, nodes: Ints, hours: float, hit: int, kind: int) -> None:
        """Learn that nodes were used; the node at place `hit` (-1: none) had an incident of a kind."""


class Nothing(Policy):
    """Never validate."""


class Full(Policy):
    """The full set before each job, on a random share of the nodes.

    Args:
        share: Share of the nodes; 1 is the full set before each allocation.
    """

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
    """Return -log(1 - chance)."""
    return np.asarray(-np.log1p(-np.minimum(chance, 1 - 1e-12)))


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """What the tests of nodes would remove, each node's in its own order, best first.

    Attributes:
        before: Hazard of the job, -log of the probability of no incident, without any test.
        order: Shape (n, kinds): the kinds in each node's order.
        gain: Shape (n, kinds): hazard that each step removes, once those before it have passed.
        rate: Shape (n, kinds): the same per hour of the test, never rising along a node's order.
    """

    before: float
    order: Ints
    gain: Floats
    rate: Floats

    def mask(self, taken: Mask) -> Mask:
        """Return steps that are taken, shape (n, kinds), by kind instead of by order."""
        found = np.zeros(taken.shape, dtype=np.bool_)
        np.put_along_axis(found, self.order, taken, axis=1)
        return found


class Selector(Policy):
    """Validate where and what the posterior of hidden defects makes worth it.

    Before a job the joint probability that a defect of its nodes shows within it, once they have passed,
    is brought to p0 by tests of single nodes, taken by hazard removed per hour. (On each node in the order
    of that rate; all in all this greedy choice is at most one test dearer than the cheapest in that order.)

    Args:
        p0: Accepted joint probability per job.
        rates: Rates of the filter, learned or told.
    """

    def __init__(self, p0: float, rates: Rates) -> None:
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

    def steps(self, nodes: Ints, job_hours: float) -> Steps:
        """Return what each further test of a node would remove before a job."""
        own = self.posterior[nodes]
        show = to_show(job_hours, self.rates)
        before = _hazard(own.sum(axis=1, keepdims=True) * show)
        order = np.argsort(-own / self.hours, axis=1, kind="stable")
        passed = np.cumsum(np.take_along_axis(own, order, axis=1), axis=1)
        left = (passed[:, -1:] - passed) / np.maximum(1 - passed, 1e-12)
        gain = -np.diff(_hazard(left * show), axis=1, prepend=before)
        # A test of a node never goes before one that stands before it in that node's order.
        rate = np.minimum.accumulate(gain / self.hours[order], axis=1)
        return Steps(before=float(before.sum()), order=order, gain=gain, rate=rate)

    def tested(self, nodes: Ints, mask: Mask, bad: Mask) -> None:
        """Take what passed to be gone, and repaired nodes to be whole."""
        self.posterior[nodes] = np.where(
            bad[:, None], 0.0, after_tests(self.posterior[nodes], mask)
        )

    def used(self, nodes: Ints, hours: float, hit: int, kind: int) -> None:
        """Follow the posterior through the hours."""
        posterior, _ = after_use(self.posterior[nodes], np.full(len(nodes), hours), self.rates)
        if hit >= 0:
            where = slice(hit, hit + 1)
            posterior[where] = after_incident(posterior[where], self.rates, np.array([kind]))
        self.posterior[nodes] = posterior


class Recorder(Policy):
    """Another policy with a notebook of all that can be seen, to learn from.

    Args:
        policy: What decides.
    """

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.free = policy.free
        self.nodes = 0
        self.rows: list[tuple[Ints, Mask, Mask, Floats, Mask, Ints]] = []
        self._tested: npt.NDArray[np.bool_] = np.zeros((0, 0), dtype=np.bool_)

    def start(self, nodes: int, kinds: int, hours: Floats, rng: np.random.Generator) -> None:
        """Begin with an empty notebook."""
        self.policy.start(nodes, kinds, hours, rng)
        self.nodes = nodes
        self.rows = []
        self._tested = np.zeros((nodes, kinds), dtype=np.bool_)

    def tests(self, nodes: Ints, job_hours: float, part: float) -> Mask | None:
        """Ask the policy."""
        return self.policy.tests(nodes, job_hours, part)

    def found(self, nodes: Ints, mask: Mask, found: Mask) -> None:
        """Note what was found on nodes that go to repair."""
        count = len(nodes)
        nothing = np.zeros(count)
        self.rows.append(
            (nodes, mask, found, nothing, nothing.astype(np.bool_), np.full(count, -1))
        )

    def tested(self, nodes: Ints, mask: Mask, bad: Mask) -> None:
        """Keep what passed until the nodes have been used."""
        self.policy.tested(nodes, mask, bad)
        self._tested[nodes[~bad]] |= mask[~bad]

    def used(self, nodes: Ints, hours: float, hit: int, kind: int) -> None:
        """Note a use."""
        self.policy.used(nodes, hours, hit, kind)
        count = len(nodes)
        incident = np.arange(count) == hit
        self.rows.append(
            (
                nodes,
                self._tested[nodes],
                np.zeros_like(self._tested[nodes]),
                np.full(count, hours),
                incident,
                np.where(incident, kind, -1),
            )
        )
        self._tested[nodes] = False
