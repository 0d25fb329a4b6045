"""Learn what the benchmarks of a hardware class expose, and what passing them leaves of a node's risk.

`anubis fleet plan` plans by both; `fleet status` shows the residual risks. One run uses `choice.coverage`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pytest_anubis.core.history import FleetHistory
from pytest_anubis.selector.choice.choice_inputs import UNKNOWN_COST
from pytest_anubis.selector.choice.coverage import Candidate, learn_coverage
from pytest_anubis.selector.choice.known_benchmarks import known_benchmarks

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

Mix = tuple[tuple[str, float], ...]
"""Kinds of incident with their probabilities, sorted by kind; empty for a node without incidents."""


@dataclass(frozen=True, slots=True, eq=False)
class ClassCoverage:
    """Coverage of one class; a pattern is a set of benchmarks that exposes the same defects."""

    benchmarks: tuple[str, ...]  # the b benchmark ids, sorted
    seconds: Floats  # shape (b,): duration of each on the class
    hits: Bools  # shape (patterns, b): which benchmarks expose which pattern
    # Mix of kinds -> shape (patterns,): share of each pattern in the next defects; the rest to 1 is
    # what no benchmark exposes
    shares: Mapping[Mix, Floats]
    unpriced: tuple[str, ...] = ()  # benchmarks without a measured duration
    # Benchmarks that only other classes have run, which are not offered
    elsewhere: tuple[str, ...] = ()
    guessed: bool = False  # no defect is known, so the shares are assumed

    def exposed(self, names: Collection[str]) -> Bools:
        """Return which patterns benchmarks expose, shape (patterns,); unknown benchmarks expose none."""
        known = self.hits[:, [name in names for name in self.benchmarks]]
        return np.asarray(known.any(axis=1), dtype=np.bool_)


def class_coverage(
    fleet: FleetHistory, mixes: Iterable[Mix], hardware_class: str = ""
) -> ClassCoverage:
    """Learn what the benchmarks of a class expose, for nodes with these mixes of kinds.

    The history has durations, experience and defects of the class. An empty class offers all benchmarks.
    """
    defects = [one for one in fleet.defects if one.state != "false alarm" and one.benchmarks]
    offered = known_benchmarks(fleet, hardware_class)
    names = list(offered.components)
    known = [fleet.durations[name] for name in names if name in fleet.durations]
    usual = float(np.median(known)) if known else UNKNOWN_COST
    candidates = [
        Candidate(
            benchmark=name,
            cost_seconds=fleet.durations.get(name, usual),
            component=offered.components[name],
        )
        for name in names
    ]
    found: dict[Mix, dict[tuple[int, ...], float]] = {}
    for mix in set(mixes):
        coverage = learn_coverage(
            defects, candidates, kinds=dict(mix) or None, experience=fleet.experience
        )
        # The total is 0 only without candidates, and then there is no pattern.
        shares = (coverage.weights / (coverage.total or 1.0)).tolist()
        found[mix] = dict(zip(map(tuple, coverage.patterns()), shares, strict=True))
    patterns = sorted({key for weights in found.values() for key in weights})
    hits = np.zeros((len(patterns), len(names)), dtype=np.bool_)
    for row, key in enumerate(patterns):
        hits[row, list(key)] = True
    return ClassCoverage(
        benchmarks=tuple(names),
        seconds=np.array([one.cost_seconds for one in candidates], dtype=np.float64),
        hits=hits,
        shares={
            mix: np.array([weights.get(key, 0.0) for key in patterns], dtype=np.float64)
            for mix, weights in found.items()
        },
        unpriced=tuple(name for name in names if name not in fleet.durations),
        elsewhere=offered.elsewhere,
        guessed=not defects,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LastPass:
    """The benchmarks that a node passed last, and how many seconds ago."""

    age: float
    benchmarks: frozenset[str]


def credit(passed: LastPass | None, horizon: float) -> float:
    """Return the share of the horizon that the last validation still covers: 1 at once, 0 a horizon later.

    Passing lowers the risk of the horizon that follows the run; defects that appear after it were not
    looked for.
    """
    return 0.0 if passed is None else min(1.0, max(0.0, 1 - passed.age / horizon))


def residual_risks(
    risks: Mapping[str, float],
    mixes: Mapping[str, Mix],
    coverage: ClassCoverage,
    passed: Mapping[str, LastPass],
    horizon: float,
) -> dict[str, float]:
    """Return the risks of nodes of one class, lowered by what each passed last.

    `risks` has node -> probability of an incident within so many seconds, had it passed nothing; a node
    that `mixes` lacks has no mix of kinds.
    """
    covered: dict[tuple[Mix, frozenset[str]], float] = {}
    left = {}
    for node, risk in risks.items():
        own = passed.get(node)
        share = credit(own, horizon)
        if own is None or share == 0:
            left[node] = risk
            continue
        key = (mixes.get(node, ()), own.benchmarks)
        if key not in covered:
            covered[key] = float(coverage.shares[key[0]][coverage.exposed(own.benchmarks)].sum())
        left[node] = risk * (1 - share * covered[key])
    return left


def mixes_of(known: Mapping[str, Mapping[str, float]], nodes: Sequence[str]) -> dict[str, Mix]:
    """Return the mixes of nodes as hashable values; empty for nodes without incidents."""
    return {node: tuple(known.get(node, {}).items()) for node in nodes}
