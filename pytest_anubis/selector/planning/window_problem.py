"""The plan of a window as arrays: nodes of one class with what their benchmarks expose, take and need.

The value of a set of benchmarks S on node i is ``f_i(S) = sum of w_ip over patterns p that S hits``, in
seconds of incidents spared, less ``worth`` times the seconds that S takes. What nodes share is a vector of
resources in seconds: lanes (nodes out of service at a time) and the units of each pool.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pytest_anubis.selector.planning.fleet_coverage import Bools, ClassCoverage, Floats, Mix

Ints = npt.NDArray[np.int64]

LANES = "nodes at once"
"""The resource that every benchmark takes: a place among the nodes that may be out of service."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCase:
    """A node that could be validated in the window.

    Attributes:
        node: Its name.
        hardware_class: Its class.
        risk: Probability of an incident within the horizon, as if it had passed nothing.
        mix: Kinds of its next incident.
        credit: Share of the horizon for which what it passed last speaks, 0 to 1.
        passed: Benchmarks that it passed last.
        pins: Benchmarks that have to run on it.
    """

    node: str
    hardware_class: str
    risk: float
    mix: Mix = ()
    credit: float = 0.0
    passed: frozenset[str] = frozenset()
    pins: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """What there is.

    Attributes:
        seconds: Length of the window; positive.
        at_once: How many nodes may be out of service at a time; None: all.
        pools: Scarce things -> how many there are.
        needs: Benchmark -> pool -> how many of it one run takes.
        incident_seconds: Node seconds that an incident costs.
        worth: What a second of a node in the window is worth, beside one that an incident costs.
    """

    seconds: float
    at_once: int | None = None
    pools: Mapping[str, int]
    needs: Mapping[str, Mapping[str, int]]
    incident_seconds: float = 86400.0
    worth: float = 1.0

    @property
    def resources(self) -> tuple[str, ...]:
        """The names of what nodes share, lanes first if they are scarce."""
        return (*((LANES,) if self.at_once is not None else ()), *sorted(self.pools))

    def capacity(self) -> Floats:
        """Return, shape (resources,), the seconds that there are of each."""
        counts = [
            self.at_once or 0 if name == LANES else self.pools[name] for name in self.resources
        ]
        return np.array(counts, dtype=np.float64) * self.seconds


@dataclass(frozen=True, slots=True, eq=False)
class Population:
    """The n nodes of one class, and the b benchmarks that they could run.

    Attributes:
        names: The nodes, sorted.
        benchmarks: The benchmarks that fit into the window and its pools.
        hits: Shape (patterns, b): 1 where a benchmark exposes a pattern.
        weights: Shape (n, patterns): seconds of incidents that exposing a pattern spares, beyond what the
            pinned benchmarks expose.
        seconds: Shape (b,).
        use: Shape (b, resources): seconds of what is shared that a run takes.
        pins: Shape (n, b).
        pinned_worth: Shape (n,): seconds that the pinned benchmarks spare, less the worth of their time.
        limit: Shape (n,): seconds that are left next to the pinned benchmarks.
        before: Shape (n,): seconds of incidents to be expected without the window.
    """

    names: tuple[str, ...]
    benchmarks: tuple[str, ...]
    hits: Floats
    weights: Floats
    seconds: Floats
    use: Floats
    pins: Bools
    pinned_worth: Floats
    limit: Floats
    before: Floats

    def value(self, chosen: Bools) -> Floats:
        """Return, shape (n,), the seconds of incidents that choices, shape (n, b), spare beyond the pins."""
        hit = (chosen.astype(np.float64) @ self.hits.T) > 0
        return np.asarray((self.weights * hit).sum(axis=1))

    def spared(self, runs: Bools, worth: float) -> Floats:
        """Return, shape (n,), the seconds of incidents that runs spare.

        Args:
            runs: Shape (n, b), pinned ones included; those of a node count once it ran all of them.
            worth: Of a second of a node.
        """
        done = ~(self.pins & ~runs).any(axis=1)
        of_pins = self.pinned_worth + worth * (self.pins @ self.seconds)
        return self.value(runs & ~self.pins) + np.where(done, of_pins, 0.0)

    def losses(self, chosen: Bools) -> Floats:
        """Return, shape (n, b), what choices, shape (n, b), spare less without each of their benchmarks."""
        once = chosen.astype(np.float64) @ self.hits.T == 1
        return np.asarray(((self.weights * once) @ self.hits) * chosen)


def misfits(benchmarks: Sequence[str], seconds: Floats, window: Window) -> dict[str, str]:
    """Return the benchmarks that the window has no room for at all, and why."""
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


def population(cases: Sequence[NodeCase], coverage: ClassCoverage, window: Window) -> Population:
    """Return the nodes of one class as arrays."""
    ordered = sorted(cases, key=lambda case: case.node)
    out = misfits(coverage.benchmarks, coverage.seconds, window)
    kept = [place for place, name in enumerate(coverage.benchmarks) if name not in out]
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
    at_pins = (pins.astype(np.float64) @ hits.T) > 0
    taken = pins @ seconds
    use = np.zeros((len(names), len(window.resources)))
    for column, resource in enumerate(window.resources):
        counts = [
            1 if resource == LANES else window.needs.get(name, {}).get(resource, 0)
            for name in names
        ]
        use[:, column] = seconds * counts
    return Population(
        names=tuple(case.node for case in ordered),
        benchmarks=names,
        hits=hits,
        weights=weights * ~at_pins,
        seconds=seconds,
        use=use,
        pins=pins,
        pinned_worth=(weights * at_pins).sum(axis=1) - window.worth * taken,
        limit=np.maximum(0.0, window.seconds - taken),
        before=before * risks,
    )
