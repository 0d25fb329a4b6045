"""Which benchmarks of the baseline never ran on a node, and which of them it must have run to be accepted.

Unless somebody says what is required, all of it is. What did run is judged all the same, and has to be
complete: what is not required is a whole benchmark that ran nowhere, never a device or a metric of one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from difflib import get_close_matches
from typing import NamedTuple

from pytest_anubis.core.baseline import Baseline, Criterion, PlainCheck
from pytest_anubis.core.blocker import Blocker, Hindrance
from pytest_anubis.core.metric import wholes_of
from pytest_anubis.core.verdict import MetricVerdict, Outcome, Reason

ANYTHING = "any"
"""Requires nothing by name: a node is judged on what it ran, of which something must have been judged."""
NAMED = 6
"""Components named in one line: the journal has every benchmark."""
HOW = (
    "or say what is required: --anubis-require NAME ('anubis judge': --require NAME; 'any' for whatever "
    "ran)"
)


class Requirement(NamedTuple):
    """What a node must have run.

    Attributes:
        names: Components (with all that are part of them), benchmarks, metrics, or ``BENCHMARK METRIC``; a
            benchmark with or without its file. Empty: everything.
    """

    names: tuple[str, ...] = ()

    def covers(self, benchmark: str, metric: str = "", component: str = "") -> bool:
        """Return whether something is required."""
        if not self.names:
            return True
        short = {benchmark, benchmark.rpartition("/")[2], benchmark.rpartition("::")[2]}
        told = {metric, *short, *(f"{one} {metric}" for one in short), *wholes_of(component)}
        return not told.isdisjoint(self.names)

    def of_criterion(self, criterion: Criterion) -> bool:
        """Return whether a criterion must be answered."""
        return self.covers(criterion.benchmark, criterion.metric.name, criterion.component)

    def of_check(self, check: PlainCheck) -> bool:
        """Return whether a test without a metric must be passed: one of an unknown component must."""
        unknown = not check.component and set(self.names) != {ANYTHING}
        return unknown or self.covers(check.test, component=check.component)

    def divided(
        self, criteria: Sequence[Criterion], ran: Collection[str]
    ) -> tuple[list[Criterion], list[Criterion]]:
        """Return the criteria that must be answered, and the others.

        Args:
            criteria: What the baseline expects.
            ran: Benchmarks that ran anywhere: all of these must be answered.
        """
        if not self.names:
            return list(criteria), []
        needed: list[Criterion] = []
        spared: list[Criterion] = []
        for criterion in criteria:
            due = criterion.benchmark in ran or self.of_criterion(criterion)
            (needed if due else spared).append(criterion)
        return needed, spared

    def unknown(self, criteria: Iterable[Criterion], baseline: Baseline | None) -> list[Blocker]:
        """Return a blocker for each name that the baseline does not know: a typo would require nothing."""
        found = []
        things = known_things(criteria, baseline)
        for name in dict.fromkeys(self.names):
            one = Requirement((name,))
            if name != ANYTHING and not any(one.covers(*thing) for thing in things):
                why = f"the baseline has no such component, benchmark or metric{names_alike(name, things)}"
                found.append(
                    Blocker(
                        subject=f"required {name}",
                        cause=why,
                        act="require one that it has",
                        benchmark=name,
                    )
                )
        return found


def known_things(
    criteria: Iterable[Criterion], baseline: Baseline | None
) -> list[tuple[str, str, str]]:
    """Return benchmark, metric and component of all that can be required: its criteria, checks and others."""
    checks: Sequence[PlainCheck] = baseline.checks if baseline else ()
    unjudged = baseline.unjudged if baseline else ()
    return [
        *((one.benchmark, one.metric.name, one.component) for one in criteria),
        *((one.test, "", one.component) for one in checks),
        *((one.benchmark, one.metric, one.component) for one in unjudged),
    ]


def names_alike(name: str, things: Iterable[tuple[str, str, str]]) -> str:
    """Return which name was probably meant, and the components that there are, to stand behind a refusal.

    Args:
        name: What nobody knows.
        things: Benchmark, metric and component of all that there is.
    """
    known, components = set(), set()
    for benchmark, metric, component in things:
        known |= {benchmark, benchmark.rpartition("::")[2], metric, component}
        components |= {component} - {""}
    near = get_close_matches(name, sorted(known), 1)
    meant = f" (did you mean {near[0]!r}?)" if near else ""
    more = ", ..." if len(components) > NAMED else ""
    told = f"; its components: {', '.join(sorted(components)[:NAMED])}{more}" if components else ""
    return meant + told


def ran_anywhere(
    verdicts: Iterable[MetricVerdict],
    planned: Collection[tuple[str, str]],
    answered: Iterable[tuple[str, str, str]] = (),
) -> set[str]:
    """Return the benchmarks that ran on any device, or were to and nothing says why they did not.

    Args:
        verdicts: All metric verdicts of the node.
        planned: Benchmark and device of all tests of the run.
        answered: Benchmark, metric and group of what was judged on any device.
    """
    ran = {benchmark for benchmark, _, _ in answered}
    skipped = set()
    for verdict in verdicts:
        if not _did_not_run(verdict):
            ran.add(verdict.benchmark)
        elif not verdict.metric:
            skipped.add((verdict.benchmark, verdict.device))
    ran.update(place[0] for place in planned if place not in skipped)
    return ran


def _did_not_run(verdict: MetricVerdict) -> bool:
    """Return whether a verdict says no more than that a test was skipped, pruned or never there."""
    if verdict.outcome is not Outcome.NOT_TESTED:
        return False
    if verdict.metric:  # as imports mark what another node has
        return verdict.reason is Reason.NOT_REPORTED
    return verdict.reason in (Reason.NOT_RUN, Reason.PRUNED)


def absent_benchmarks(
    verdicts: Iterable[MetricVerdict], criteria: Iterable[Criterion], planned: Collection[str]
) -> tuple[str, ...]:
    """Return the benchmarks of the baseline that never ran on a node, and that nothing explains, sorted.

    Args:
        verdicts: All metric verdicts of the node.
        criteria: What the baseline expects.
        planned: Benchmarks that its runs had a test for: what became of these is said by themselves.
    """
    met = {
        verdict.benchmark
        for verdict in verdicts
        if not (
            verdict.outcome is Outcome.NOT_TESTED
            and verdict.reason is Reason.NOT_REPORTED
            and verdict.metric
        )
    }
    every = {criterion.benchmark for criterion in criteria}
    return tuple(sorted(every.difference(met, planned)))


def absence_step(benchmark: str = "") -> str:
    """Say what to do about benchmarks that never ran and are required, or about the only one."""
    return f"run {benchmark.rpartition('::')[2] or 'them'}, {HOW}"


def absence(
    absent: Collection[str], criteria: Sequence[Criterion], *, collected: bool = False
) -> Blocker:
    """Count the benchmarks of the baseline that did not run, and name their components, in one blocker.

    Args:
        absent: Benchmarks that never ran and are required.
        criteria: What the baseline expects.
        collected: Runs are judged together; else one run, beside which no other one counts.
    """
    every = {criterion.benchmark for criterion in criteria}
    parts = list(
        dict.fromkeys(c.component or c.benchmark for c in criteria if c.benchmark in absent)
    )
    more = ", ..." if len(parts) > NAMED else ""
    where, alone = ("these runs", "") if collected else ("this run", "; earlier runs do not count")
    return Blocker(
        kind=Hindrance.ABSENT,
        cause=f"{len(absent)} of {len(every)} benchmarks did not run in {where}, or left no result "
        f"({', '.join(sorted(parts)[:NAMED])}{more}){alone}",
        act=absence_step(),
    )
