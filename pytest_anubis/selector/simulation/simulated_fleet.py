"""Simulate a fleet whose nodes get hidden defects, event by event, to try validation policies on it.

Nodes have hidden defects of several kinds. New ones appear with use and become incidents after further use.
An incident ends its job and takes the node out for repair, which often leaves the cause. Before a job, a
policy may validate its nodes: a benchmark of the defect's kind finds it, and the node is repaired fully and
replaced. There are always jobs waiting. `policy_comparison`, `scenarios` and `simulate_command` use it.
"""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import dataclass, field

import numpy as np

from pytest_anubis.selector.selector_error import SelectorError
from pytest_anubis.selector.simulation.hidden_defects import (
    DefectRates,
    Floats,
    Ints,
    Mask,
    UsageLog,
)
from pytest_anubis.selector.simulation.policies import Policy


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Scenario:
    """The properties of a simulated fleet."""

    rates: DefectRates  # the true rates of defects
    benchmark_hours: Floats  # shape (kinds,): hours of each kind's benchmark
    repair_hours: float = 24.0  # hours of repair after an incident or a finding
    sizes: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64)  # numbers of nodes of a job
    size_weights: tuple[float, ...] = (30, 20, 16, 14, 10, 6, 4)  # relative frequency of each size
    job_least: float = 0.5  # hours of the shortest job
    job_mean: float = 24.0  # mean of the exponential time added to it, hours
    kind_known: bool = False  # whether policies see the kind of an incident


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of a policy on one fleet."""

    nodes: int
    horizon: float  # hours simulated
    used: float  # node hours within jobs
    validated: float  # node hours of validation
    incidents: int
    findings: int  # nodes that validation found defective

    @property
    def utilisation(self) -> float:
        """Share of all node hours in jobs."""
        return self.used / (self.nodes * self.horizon)

    @property
    def validation_per_node(self) -> float:
        """Hours of validation per node."""
        return self.validated / self.nodes


def simulate(
    scenario: Scenario, policy: Policy, *, nodes: int, horizon: float, seed: int
) -> Outcome:
    """Run a policy, whose state is reset, on a fleet for so many hours; equal seeds give equal fleets.

    Raises:
        SelectorError: The fleet is smaller than the largest job, or the horizon not positive.
    """
    return _Fleet(scenario, policy, nodes, horizon, seed).run()


def record_usage(
    scenario: Scenario, policy: Policy, *, nodes: int, horizon: float, seed: int
) -> UsageLog:
    """Run a policy, and return what an operator would have seen, to learn rates from."""
    fleet = _Fleet(scenario, policy, nodes, horizon, seed)
    fleet.log = []
    fleet.run()
    return UsageLog(nodes, *(np.concatenate(column) for column in zip(*fleet.log, strict=True)))


@dataclass(slots=True)
class _Job:
    """A job whose nodes are being collected."""

    size: int
    hours: float
    ready: float = 0.0
    parts: list[Ints] = field(default_factory=list)
    held: int = 0


class _Fleet:
    def __init__(
        self, scenario: Scenario, policy: Policy, nodes: int, horizon: float, seed: int
    ) -> None:
        if nodes < max(scenario.sizes) or not horizon > 0:
            raise SelectorError(
                f"a fleet of {nodes} nodes for {horizon:g} h; give at least {max(scenario.sizes)} nodes, "
                "the largest job, and a positive time"
            )
        rates = scenario.rates
        self.scenario = scenario
        self.policy = policy
        self.nodes = nodes
        self.horizon = horizon
        self.rng = np.random.default_rng(seed)
        # The policy's chance is separate from the fleet's, so that all policies meet the same fleet.
        policy.start(
            nodes, len(rates.shares), scenario.benchmark_hours, np.random.default_rng([seed, 1])
        )
        self.edges = np.cumsum(rates.shares)
        self.edges[-1] = 1.0
        weights = np.asarray(scenario.size_weights, dtype=np.float64)
        self.size_edges = np.cumsum(weights / weights.sum())
        self.size_edges[-1] = 1.0
        self.defects = np.zeros((nodes, len(rates.shares)), dtype=np.int64)
        first = np.flatnonzero(self.rng.random(nodes) < rates.initial)
        self.defects[first, self._kinds(len(first))] += 1
        self.free: deque[int] = deque(self.rng.permutation(nodes).tolist())
        self.events: list[tuple[float, int, Ints, tuple[float, int, int, Ints] | None]] = []
        self.count = 0
        self.job: _Job | None = None
        self.log: list[tuple[Ints, Mask, Mask, Floats, Mask, Ints]] | None = None
        """Rows of a `UsageLog`; None: they are not kept."""
        self.passed: Mask = np.zeros(self.defects.shape, dtype=np.bool_)  # since their last use
        self.used = self.validated = 0.0
        self.incidents = self.findings = 0

    def run(self) -> Outcome:
        self._assemble(0.0)
        while self.events and self.events[0][0] < self.horizon:
            now, _, nodes, job = heapq.heappop(self.events)
            if job is None:
                self.free.extend(nodes.tolist())
            else:
                self._finish(now, nodes, *job)
            self._assemble(now)
        for _, _, nodes, job in self.events:
            if job is not None and job[0] < self.horizon:
                self.used += (self.horizon - job[0]) * len(nodes)
        return Outcome(
            nodes=self.nodes,
            horizon=self.horizon,
            used=self.used,
            validated=self.validated,
            incidents=self.incidents,
            findings=self.findings,
        )

    def _kinds(self, count: int) -> Ints:
        return np.searchsorted(self.edges, self.rng.random(count), side="right").clip(
            max=len(self.edges) - 1
        )

    def _push(self, when: float, nodes: Ints, job: tuple[float, int, int, Ints] | None) -> None:
        self.count += 1  # events of equal times are served in the order in which they were pushed
        heapq.heappush(self.events, (when, self.count, nodes, job))

    def _next_job(self) -> _Job:
        scenario = self.scenario
        size = scenario.sizes[int(np.searchsorted(self.size_edges, self.rng.random(), "right"))]
        return _Job(size, scenario.job_least + self.rng.exponential(scenario.job_mean))

    def _assemble(self, now: float) -> None:
        """Validate free nodes and start jobs while there are any."""
        while self.free:
            job = self.job = self.job or self._next_job()
            count = min(len(self.free), job.size - job.held)
            nodes = np.array([self.free.popleft() for _ in range(count)], dtype=np.int64)
            ready, good = self._validate(now, nodes, job)
            job.ready = max(job.ready, ready)
            job.parts.append(good)
            job.held += len(good)
            if job.held == job.size:
                self._begin(job)
                self.job = None

    def _validate(self, now: float, nodes: Ints, job: _Job) -> tuple[float, Ints]:
        """Return when the nodes are ready, and which passed; the others go to repair."""
        mask = self.policy.tests(nodes, job.hours, len(nodes) / job.size)
        if mask is None or not mask.any():
            return now, nodes
        found = mask & (self.defects[nodes] > 0)
        bad: Mask = np.asarray(found.any(axis=1))
        hours = np.zeros(len(nodes)) if self.policy.free else mask @ self.scenario.benchmark_hours
        self.validated += float(hours.sum())
        self.policy.tested(nodes, mask, bad)
        self.passed[nodes[~bad]] |= mask[~bad]
        if bad.any():
            self._note(nodes[bad], mask[bad], found[bad])
            self.findings += int(bad.sum())
            self.defects[nodes[bad]] = 0
            for node, took in zip(nodes[bad], hours[bad], strict=True):
                self._push(now + float(took) + self.scenario.repair_hours, np.array([node]), None)
        return now + float(hours[~bad].max(initial=0.0)), nodes[~bad]

    def _begin(self, job: _Job) -> None:
        """Draw how a job ends: after its hours, or with the first incident on one of its nodes."""
        rates = self.scenario.rates
        nodes = np.concatenate(job.parts)
        worn = self.rng.exponential(1 / max(rates.wear, 1e-300), len(nodes))
        shows = worn + self.rng.exponential(1 / max(rates.manifest, 1e-300), len(nodes))
        fresh = self._kinds(len(nodes))
        old = self.defects[nodes]
        total = old.sum(axis=1)
        kinds = fresh.copy()
        for place in np.flatnonzero(total).tolist():
            when = self.rng.exponential(1 / (max(rates.manifest, 1e-300) * int(total[place])))
            edges = np.cumsum(old[place]) / total[place]
            kind = int(np.searchsorted(edges, self.rng.random(), "right"))
            if when < shows[place]:
                shows[place], kinds[place] = when, kind
        hit = int(shows.argmin())
        hours = min(job.hours, float(shows[hit]))
        if shows[hit] > job.hours:
            hit = -1
        appeared = np.where(worn < hours, fresh, -1)
        outcome = (job.ready, hit, -1 if hit < 0 else int(kinds[hit]), appeared)
        self._push(job.ready + hours, nodes, outcome)

    def _finish(
        self, now: float, nodes: Ints, started: float, hit: int, kind: int, appeared: Ints
    ) -> None:
        rates = self.scenario.rates
        self.used += (now - started) * len(nodes)
        new = appeared >= 0
        if new.any():
            self.defects[nodes[new], appeared[new]] += 1
        seen = kind if self.scenario.kind_known else -1
        self.policy.used(nodes, now - started, hit, seen)
        tested = self.passed[nodes]
        self._note(nodes, tested, np.zeros_like(tested), now - started, hit, seen)
        self.passed[nodes] = False
        if hit < 0:
            self.free.extend(nodes.tolist())
            return
        self.incidents += 1
        if self.rng.random() >= rates.stays:
            self.defects[nodes[hit], kind] -= 1
        self._push(now + self.scenario.repair_hours, nodes[hit : hit + 1], None)
        self.free.extend(np.delete(nodes, hit).tolist())

    def _note(
        self,
        nodes: Ints,
        tested: Mask,
        found: Mask,
        hours: float = 0.0,
        hit: int = -1,
        kind: int = -1,
    ) -> None:
        """Keep what an operator sees of nodes that were used, or that go to repair."""
        if self.log is not None:
            incident = np.arange(len(nodes)) == hit
            kinds = np.where(incident, kind, -1)
            self.log.append((nodes, tested, found, np.full(len(nodes), hours), incident, kinds))
