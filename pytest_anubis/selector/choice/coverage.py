"""Learn what share of defects a set of benchmarks exposes, for one choice and for a fleet's plan.

Coverage of a set B is the share of known defects that at least one benchmark of B exposed. It is not
additive: a defect may show in several benchmarks, so a cheap benchmark can make an expensive one superfluous.
Defects with the same set of benchmarks are one *pattern* with a weight. What the history cannot know yet is
added as pseudo-defects, which are patterns like all others.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from pytest_anubis.core.history import Defect
from pytest_anubis.selector.risk.incident_kinds import relates
from pytest_anubis.selector.selector_error import SelectorError

Pattern = frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One benchmark that could run.

    Raises:
        SelectorError: The id is empty, or the cost is negative or not finite.
    """

    benchmark: str
    # Seconds of wall time on this hardware class; tests in parallel (one device each) count as one
    # duration, not as the sum
    cost_seconds: float
    component: str = ""  # The part of a node that it exercises, dotted, e.g. ``network.loopback``.
    pinned: bool = False  # whether it was named explicitly and is never pruned

    def __post_init__(self) -> None:
        if not self.benchmark:
            raise SelectorError("a candidate has an empty benchmark id; give each benchmark its id")
        if not math.isfinite(self.cost_seconds) or self.cost_seconds < 0:
            raise SelectorError(
                f"benchmark {self.benchmark!r} has the cost {self.cost_seconds!r} s; "
                "give a finite duration of 0 s or more"
            )


def ordered(candidates: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """Return candidates by their ids.

    Raises:
        SelectorError: A benchmark id appears twice.
    """
    found = tuple(sorted(candidates, key=lambda candidate: candidate.benchmark))
    for one, other in pairwise(found):
        if one.benchmark == other.benchmark:
            raise SelectorError(
                f"benchmark {one.benchmark!r} is a candidate twice; name each benchmark once"
            )
    return found


@dataclass(frozen=True, slots=True, eq=False)
class Coverage:
    """Weighted patterns of defects over benchmarks."""

    benchmarks: tuple[str, ...]  # the b benchmark ids, sorted
    rows: npt.NDArray[np.int64]  # pattern of each exposure, ascending
    columns: npt.NDArray[np.int64]  # benchmark of each exposure, by its place in `benchmarks`
    weights: npt.NDArray[np.float64]  # shape (patterns,): weight of each pattern, positive
    unseen: float  # weight of what no candidate exposes
    defects: int  # how many known defects it was learned from; with 0 it is the prior

    @property
    def total(self) -> float:
        """Weight of all defects, exposed or not."""
        return float(self.weights.sum()) + self.unseen

    def patterns(self) -> list[list[int]]:
        """Return the places in `benchmarks` of those that expose each pattern."""
        ends = np.searchsorted(self.rows, np.arange(len(self.weights) + 1)).tolist()
        every = self.columns.tolist()
        return [every[start:end] for start, end in pairwise(ends)]

    def of(self, chosen: Collection[str]) -> float:
        """Return the share of defects that at least one of the chosen benchmarks exposes, 0 to 1.

        Unknown benchmarks expose nothing.
        """
        wanted = set(chosen)
        runs = np.array([name in wanted for name in self.benchmarks], dtype=np.bool_)
        exposed = np.zeros(len(self.weights), dtype=np.bool_)
        exposed[self.rows[runs[self.columns]]] = True
        return float(self.weights[exposed].sum()) / self.total


def exposures(
    patterns: Sequence[Sequence[int]],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return patterns as a row and a column of each exposure; `Coverage.patterns` gives them back."""
    rows = np.repeat(np.arange(len(patterns), dtype=np.int64), [len(one) for one in patterns])
    return rows, np.array([column for one in patterns for column in one], dtype=np.int64)


def learn_coverage(
    defects: Iterable[Defect],
    candidates: Sequence[Candidate],
    *,
    kinds: Mapping[str, float] | None = None,
    experience: Mapping[str, int] | None = None,
    smoothing: float = 1.0,
) -> Coverage:
    """Learn which benchmarks expose which share of defects.

    False alarms do not count. The pseudo-defects are: `smoothing` that nothing exposes (the full set does not
    find everything); `smoothing` spread over the components as their defects are, half of it exposed by every
    benchmark of the component, half by one alone; and for a benchmark that has hardly run, up to the same
    share once more, fading with its runs (``1 / (1 + runs / 10)``).

    Args:
        defects: Known defects, in any order.
        candidates: The benchmarks to choose from.
        kinds: Kind of incident -> probability, to weigh defects by the kinds that this node tends to have
            (see `kind_mixes`); None for the fleet's own mix.
        experience: Benchmark id -> how often it has run. A benchmark without an entry is new, unless a
            defect names it.
        smoothing: Weight of the pseudo-defects; 0 gives the bare shares.

    Raises:
        SelectorError: A weight or probability is impossible.
    """
    if not math.isfinite(smoothing) or smoothing < 0:
        raise SelectorError(f"smoothing is {smoothing!r}; give 0 or more pseudo-defects")
    counted = [defect for defect in defects if defect.state != "false alarm"]
    names = frozenset(candidate.benchmark for candidate in candidates)
    weights: dict[Pattern, float] = defaultdict(float)
    for defect, weight in _by_kind(counted, candidates, kinds, smoothing):
        weights[defect & names] += weight
    shares = _component_shares(counted, candidates, kinds)
    known = {name for defect in counted for name in defect.benchmarks}
    for pattern, weight in _prior(candidates, shares, known, experience or {}):
        weights[pattern] += smoothing * weight
    weights[frozenset()] += smoothing
    return _assembled(names, weights, len(counted))


def _of_kind(defect: Defect, kind: str) -> bool:
    """Return whether a defect is of a kind: named so, or in a component that the kind points to."""
    if kind in (defect.kind, defect.component):
        return True
    # Until the operator names a kind, the component of a defect found by a run serves as its kind.
    return defect.kind in ("", defect.component) and relates(kind, defect.component)


def _by_kind(
    counted: Sequence[Defect],
    candidates: Sequence[Candidate],
    kinds: Mapping[str, float] | None,
    smoothing: float,
) -> list[tuple[Pattern, float]]:
    """Return patterns weighed so that each kind has its share of the total weight.

    A kind without known defects is represented by the benchmarks whose component it points to, each alone.
    A kind that points to none leaves its share to all defects as they are.
    """
    plain = [frozenset(defect.benchmarks) for defect in counted]
    if not kinds:
        return [(pattern, 1.0) for pattern in plain]
    if any(not math.isfinite(p) or p < 0 for p in kinds.values()) or sum(kinds.values()) <= 0:
        raise SelectorError("the probabilities of kinds must be 0 or more and not all 0")
    mass = (float(len(plain)) or smoothing) / sum(kinds.values())
    weighed: list[tuple[Pattern, float]] = []
    unassigned = 0.0
    for kind, probability in sorted(kinds.items()):
        own = [frozenset(defect.benchmarks) for defect in counted if _of_kind(defect, kind)] or [
            frozenset({candidate.benchmark})
            for candidate in candidates
            if relates(kind, candidate.component)
        ]
        if not own:
            unassigned += probability
            continue
        weighed += [(pattern, 1.0 / len(own) * probability * mass) for pattern in own]
    if unassigned and plain:
        weighed += [(pattern, 1.0 / len(plain) * unassigned * mass) for pattern in plain]
    return weighed


def _component_shares(
    counted: Sequence[Defect],
    candidates: Sequence[Candidate],
    kinds: Mapping[str, float] | None,
) -> dict[str, float]:
    """Return component -> expected share of defects, with one pseudo-defect for each component."""
    shares = dict.fromkeys((candidate.component for candidate in candidates), 1.0)
    for defect in counted:
        if defect.component in shares:
            shares[defect.component] += 1.0
    for component in shares:
        shares[component] += sum(p for k, p in (kinds or {}).items() if relates(k, component))
    total = sum(shares.values())
    return {component: share / total for component, share in shares.items()}


def _prior(
    candidates: Sequence[Candidate],
    shares: Mapping[str, float],
    known: Collection[str],
    experience: Mapping[str, int],
) -> list[tuple[Pattern, float]]:
    """Return the pseudo-defects of components and new benchmarks, for a smoothing of 1."""
    members: dict[str, list[str]] = defaultdict(list)
    for candidate in candidates:
        members[candidate.component].append(candidate.benchmark)
    prior: list[tuple[Pattern, float]] = []
    for component, names in members.items():
        share = shares[component]
        prior.append((frozenset(names), share / 2))
        newness = {name: _newness(name, known, experience) for name in names}
        # The new benchmarks of a component weigh at most as much as the component.
        total_newness = max(1.0, math.fsum(newness.values()))
        prior += [
            (frozenset({name}), share * (0.5 / len(names) + newness[name] / total_newness))
            for name in names
        ]
    return prior


def _newness(name: str, known: Collection[str], experience: Mapping[str, int]) -> float:
    """Return how new a benchmark is: 1 if it never ran, near 0 if it ran often."""
    runs = experience.get(name, math.inf if name in known else 0)
    return 0.0 if math.isinf(runs) else 1 / (1 + max(0, runs) / 10)


def _assembled(names: Collection[str], weights: Mapping[Pattern, float], defects: int) -> Coverage:
    """Return patterns as arrays, in an order that depends on the patterns alone."""
    benchmarks = tuple(sorted(names))
    place = {name: i for i, name in enumerate(benchmarks)}
    seen = sorted(
        (tuple(sorted(place[name] for name in pattern)), weight)
        for pattern, weight in weights.items()
        if pattern and weight > 0
    )
    rows, columns = exposures([pattern for pattern, _ in seen])
    return Coverage(
        benchmarks=benchmarks,
        rows=rows,
        columns=columns,
        weights=np.array([weight for _, weight in seen], dtype=np.float64),
        unseen=float(weights.get(frozenset(), 0.0)),
        defects=defects,
    )


def mixed(coverages: Sequence[Coverage], shares: Sequence[float]) -> Coverage:
    """Return one coverage for a choice of several nodes: ``sum(share * coverage.of(B)) / sum(shares)``.

    Shares are 0 or more; if all are 0, the nodes count alike.
    """
    total = sum(shares)
    parts = [share / total if total > 0 else 1 / len(coverages) for share in shares]
    weights: dict[Pattern, float] = defaultdict(float)
    for coverage, part in zip(coverages, parts, strict=True):
        if coverage.total <= 0:
            weights[frozenset()] += part
            continue
        for pattern, weight in zip(coverage.patterns(), coverage.weights.tolist(), strict=True):
            names = frozenset(coverage.benchmarks[place] for place in pattern)
            weights[names] += weight / coverage.total * part
        weights[frozenset()] += coverage.unseen / coverage.total * part
    every = {name for coverage in coverages for name in coverage.benchmarks}
    return _assembled(every, weights, max(coverage.defects for coverage in coverages))
