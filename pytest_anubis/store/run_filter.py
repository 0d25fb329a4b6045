"""Select runs and samples by node, class, time and metric: the options ``--nodes``, ``--since`` and so on."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from pytest_anubis.codec.moments import moment
from pytest_anubis.core.machine_marks import are_of_one_host
from pytest_anubis.core.metric import named_by
from pytest_anubis.core.run import RunRecord

if TYPE_CHECKING:
    from pytest_anubis.core.sample import Population


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFilter:
    """A selection of runs and samples; without arguments, all of them.

    Patterns of nodes are those of a shell: ``n1*``, ``rack[12]-??``. Runs of one node may have its short or
    its full name, in capitals or not, so each selects all. Patterns of metrics take brackets literally
    (`core.metric.named_by`).
    """

    nodes: tuple[str, ...] = ()  # patterns of the names of nodes; none takes all
    exclude: tuple[str, ...] = ()  # patterns of the names of nodes that are left out
    # Patterns of the names of metrics, or of benchmarks; none takes all
    metrics: tuple[str, ...] = ()
    hardware_class: str = ""  # key of the only class; empty takes all
    # Runs that began at or after this moment, seconds since 1970, or whose beginning is unknown; None takes
    # all
    since: float | None = None

    def wants_node(self, name: str) -> bool:
        """Return whether a node is selected, by its own name or by the host's other one."""
        return (not self.nodes or _one_of(name, self.nodes)) and not _one_of(name, self.exclude)

    def unmatched(self, names: Collection[str]) -> tuple[str, ...]:
        """Return the patterns of `nodes` that match none of these names; a mistyped one shows so."""
        known = tuple(names)
        left = (one for one in self.nodes if not _one_of(one, known))
        return tuple(
            one
            for one in left
            if not (WILD.search(one) and any(are_of_one_host(n, one, _matches) for n in known))
        )

    def wants_metric(self, metric: str, benchmark: str) -> bool:
        """Return whether a metric of a benchmark is selected."""
        return not self.metrics or any(
            named_by(one, name) for one in self.metrics for name in (metric, benchmark)
        )

    def wants_run(self, record: RunRecord) -> bool:
        """Return whether a run is selected."""
        return (
            self.wants_node(record.node)
            and self.hardware_class in ("", record.hardware_class)
            and (self.since is None or _began(record) >= self.since)
        )

    def runs(self, runs: Sequence[RunRecord]) -> tuple[RunRecord, ...]:
        """Return the selected runs."""
        return tuple(run for run in runs if self.wants_run(run))

    def populations(
        self, populations: Sequence[Population], runs: Sequence[RunRecord]
    ) -> tuple[Population, ...]:
        """Return the selected samples; `runs` are all runs that they come from."""
        if self == RunFilter():
            return tuple(populations)
        wanted = {(run.run, run.node, run.hardware_class) for run in self.runs(runs)}
        found = []
        for one in populations:
            if not self.wants_metric(one.metric.name, one.benchmark):
                continue
            units = zip(one.runs, one.nodes, strict=True)
            rows = [i for i, unit in enumerate(units) if (*unit, one.hardware_class) in wanted]
            if rows:
                found.append(one if len(rows) == len(one) else one.only(rows))
        return tuple(found)


WILD = re.compile(r"[*?\[]")
"""Characters that make a name a pattern."""


def _began(record: RunRecord) -> float:
    """Return when a run began; later than any moment if that is unknown."""
    began = moment(record.started)
    return inf if began is None else began


class _Patterns(NamedTuple):
    """Patterns of names, sorted so that thousands of plain names are found at once."""

    names: frozenset[str]
    short: frozenset[str]
    hosts: frozenset[str]  # the first words of full names
    wild: tuple[str, ...]


@lru_cache(maxsize=16)
def _sorted_patterns(patterns: tuple[str, ...]) -> _Patterns:
    patterns = tuple(one.casefold() for one in patterns)
    plain = [one for one in patterns if not WILD.search(one)]
    words = [one.partition(".") for one in plain]
    return _Patterns(
        names=frozenset(patterns),
        short=frozenset(host for host, _, domain in words if not domain),
        hosts=frozenset(host for host, _, domain in words if domain),
        wild=tuple(one for one in patterns if WILD.search(one)),
    )


def _one_of(name: str, patterns: tuple[str, ...]) -> bool:
    """Return whether a name, or the host's other one, matches one of the patterns (`are_of_one_host`)."""
    known, name = _sorted_patterns(patterns), name.casefold()
    host, _, domain = name.partition(".")
    if name in known.names:
        return True
    if not host.isdecimal() and host in (known.short if domain else known.hosts):
        return True
    return any(are_of_one_host(name, pattern, _matches) for pattern in known.wild)


def _matches(name: str, pattern: str) -> bool:
    name, pattern = name.casefold(), pattern.casefold()
    return name == pattern or fnmatchcase(name, pattern)
