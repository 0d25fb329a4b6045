"""The planning problem of a window, as arrays for the solver.

The value of a set of benchmarks S on node i is ``f_i(S) = sum of w_ip over patterns p that S hits``, in
seconds of incidents spared, less `Window.time_worth` times the seconds of S. Nodes share resources, each
counted in seconds: lanes (nodes out of service at a time) and the units of each pool.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pytest_anubis.selector.planning.fleet_coverage import Bools, ClassCoverage, Floats, Mix

Ints = npt.NDArray[np.int64]

LANES = "nodes at once"
"""The resource that every benchmark uses: a place among the nodes that may be out of service at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCase:
    """A node that could be validated in the window."""

    node: str
    hardware_class: str
    risk: float  # probability of an incident within the horizon, had it passed no benchmark
    mix: Mix = ()  # kinds of its next incident
    credit: float = 0.0  # share of the horizon that its last validation still covers, 0 to 1
    passed: frozenset[str] = frozenset()  # benchmarks that it passed then
    pins: frozenset[str] = frozenset()  # benchmarks that must run on it


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A time for validation, with the resources that nodes share in it."""

    seconds: float  # length of the window; positive
    at_once: int | None = None  # how many nodes may be out of service at a time; None: all
    pools: Mapping[str, int]  # pool -> number of its units
    # Benchmark -> pool -> number of units that one run holds
    needs: Mapping[str, Mapping[str, int]]
    incident_seconds: float = 86400.0  # node seconds that an incident costs
    # Worth of a node's second in the window, relative to a second that an incident costs
    time_worth: float = 1.0

    @property
    def resources(self) -> tuple[str, ...]:
        """Names of the shared resources, lanes first if they are limited."""
        return (*((LANES,) if self.at_once is not None else ()), *sorted(self.pools))

    def capacity(self) -> Floats:
        """Return the seconds available of each resource, shape (resources,)."""
        counts = [
            self.at_once or 0 if name == LANES else self.pools[name] for name in self.resources
        ]
        return np.array(counts, dtype=np.float64) * self.seconds


@dataclass(frozen=True, slots=True, eq=False)
class NodeGroup:
    """The n nodes of one class, and the b benchmarks that they could run."""

    names: tuple[str, ...]  # the nodes, sorted
    benchmarks: tuple[str, ...]  # the benchmarks that fit into the window and its pools
    hits: Floats  # shape (patterns, b): 1 where a benchmark exposes a pattern
    # Shape (n, patterns): seconds of incidents that exposing a pattern spares; 0 where a pinned
    # benchmark exposes it
    weights: Floats
    seconds: Floats  # shape (b,)
    use: Floats  # shape (b, resources): resource seconds of one run
    pins: Bools  # shape (n, b)
    # Shape (n,): seconds that the pinned benchmarks spare, less the worth of their time
    pinned_worth: Floats
    limit: Floats  # shape (n,): seconds that the pinned benchmarks leave
    before: Floats  # shape (n,): expected seconds of incidents without the window

    def value(self, chosen: Bools) -> Floats:
        """Return the seconds of incidents that choices, shape (n, b), spare beyond the pins, shape (n,)."""
        hit = (chosen.astype(np.float64) @ self.hits.T) > 0
        return np.asarray((self.weights * hit).sum(axis=1))

    def spared(self, runs: Bools, time_worth: float) -> Floats:
        """Return the seconds of incidents that runs, shape (n, b) with pins, spare, shape (n,).

        Pinned benchmarks of a node count only if all of them run.
        """
        done = ~(self.pins & ~runs).any(axis=1)
        of_pins = self.pinned_worth + time_worth * (self.pins @ self.seconds)
        return self.value(runs & ~self.pins) + np.where(done, of_pins, 0.0)

    def losses(self, chosen: Bools) -> Floats:
        """Return how much less choices, shape (n, b), spare without each of their benchmarks, same shape."""
        once = chosen.astype(np.float64) @ self.hits.T == 1
        return np.asarray(((self.weights * once) @ self.hits) * chosen)


def misfits(benchmarks: Sequence[str], seconds: Floats, window: Window) -> dict[str, str]:
    """Return benchmark -> reason, for those that fit into no schedule of the window."""
    found = {}
    for name, length in zip(benchmarks, seconds.tolist(), strict=True):
        lacking = [
            f"needs {count} of {pool}, and there {'is' if window.pools[pool] == 1 else 'are'} "
            f"{window.pools[pool] or 'none'}"
            for pool, count in window.needs.get(name, {}).items()
            if count > window.pools[pool]
        ]
        if length > window.seconds:
            lacking.append("takes longer than the window")
        if lacking:
            found[name] = lacking[0]
    return found


def node_group(cases: Sequence[NodeCase], coverage: ClassCoverage, window: Window) -> NodeGroup:
    """Return the nodes of one class, given as cases, as arrays."""
    ordered = sorted(cases, key=lambda case: case.node)
    excluded = misfits(coverage.benchmarks, coverage.seconds, window)
    kept = [place for place, name in enumerate(coverage.benchmarks) if name not in excluded]
    names = tuple(coverage.benchmarks[place] for place in kept)
    hits = coverage.hits[:, kept].astype(np.float64)
    seconds = coverage.seconds[kept]
    risks = np.array([case.risk for case in ordered]) * window.incident_seconds
    weights = np.empty((len(ordered), len(coverage.hits)))
    before = np.empty(len(ordered))
    known: dict[frozenset[str], Bools] = {}
    for row, case in enumerate(ordered):
        share = coverage.shares[case.mix]
        if case.credit > 0:
            if case.passed not in known:
                known[case.passed] = coverage.exposed(case.passed)
            share = share * (1 - case.credit * known[case.passed])
        weights[row] = share
        before[row] = 1 - float(coverage.shares[case.mix].sum()) + float(share.sum())
    weights *= risks[:, None]
    pins = np.array([[name in case.pins for name in names] for case in ordered], dtype=np.bool_)
    pins = pins.reshape(len(ordered), len(names))
    exposed_by_pins = (pins.astype(np.float64) @ hits.T) > 0
    pinned_seconds = pins @ seconds
    use = np.zeros((len(names), len(window.resources)))
    for column, resource in enumerate(window.resources):
        counts = [
            1 if resource == LANES else window.needs.get(name, {}).get(resource, 0)
            for name in names
        ]
        use[:, column] = seconds * counts
    return NodeGroup(
        names=tuple(case.node for case in ordered),
        benchmarks=names,
        hits=hits,
        weights=weights * ~exposed_by_pins,
        seconds=seconds,
        use=use,
        pins=pins,
        pinned_worth=(weights * exposed_by_pins).sum(axis=1) - window.time_worth * pinned_seconds,
        limit=np.maximum(0.0, window.seconds - pinned_seconds),
        before=before * risks,
    )
