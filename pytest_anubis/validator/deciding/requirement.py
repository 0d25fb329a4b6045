"""Which benchmarks of the baseline a node must have run, and which of them never ran.

By default the whole baseline is required. If an operator names what is required (`--anubis-require`), other
benchmarks may be missing as a whole; a benchmark that ran on any device still has to be complete.
`ledger` and `node_decision` use it for the decision, `run_choice` to leave out nothing that is required,
`run_context` and `collected_judging` to refuse unknown names.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from difflib import get_close_matches
from typing import NamedTuple

from pytest_anubis.core.baseline import Baseline, Criterion, PlainCheck
from pytest_anubis.core.blocker import Blocker, Hindrance
from pytest_anubis.core.metric import wholes_of
from pytest_anubis.core.verdict import MetricVerdict, Outcome, Reason

WHAT_RAN = "any"
"""Requires nothing by name: a node is judged on what it ran, and something must have been judged."""
MAX_COMPONENTS_NAMED = 6
"""Components named in one line; the journal has every benchmark."""
HOW = (
    "or say what is required: --anubis-require NAME ('anubis judge': --require NAME; 'any' for whatever "
    "ran)"
)


LEARN_ONE = "learn one ('anubis learn -v' says why there is none)"
"""Step for a metric without a criterion."""


class Requirement(NamedTuple):
    """What a node must have run."""

    # Components (with all that are part of them), benchmarks, metrics, or ``BENCHMARK METRIC``; a
    # benchmark with or without its file. Empty: everything.
    names: tuple[str, ...] = ()

    def covers(self, benchmark: str, metric: str = "", component: str = "") -> bool:
        """Return whether something is required."""
        if not self.names:
            return True
        short = {benchmark, benchmark.rpartition("/")[2], benchmark.rpartition("::")[2]}
        names = {metric, *short, *(f"{one} {metric}" for one in short), *wholes_of(component)}
        return not names.isdisjoint(self.names)

    def of_check(self, check: PlainCheck) -> bool:
        """Return whether a test without a metric must be passed; with an unknown component it must."""
        unknown = not check.component and set(self.names) != {WHAT_RAN}
        return unknown or self.covers(check.test, component=check.component)

    def divided(
        self, criteria: Sequence[Criterion], ran: Collection[str]
    ) -> tuple[list[Criterion], list[Criterion]]:
        """Return the criteria that must be answered, also those of benchmarks that ran, and the others."""
        if not self.names:
            return list(criteria), []
        needed: list[Criterion] = []
        spared: list[Criterion] = []
        for criterion in criteria:
            place = (criterion.benchmark, criterion.metric.name, criterion.component)
            due = criterion.benchmark in ran or self.covers(*place)
            (needed if due else spared).append(criterion)
        return needed, spared

    def unknown(self, criteria: Iterable[Criterion], baseline: Baseline | None) -> list[Blocker]:
        """Return a blocker for each name that the baseline does not know: a typo would require nothing."""
        things = known_things(criteria, baseline)
        return [
            Blocker(
                subject=f"required {name}",
                cause="the baseline has no such component, benchmark or metric"
                + names_alike(name, things),
                act="require one that it has",
                benchmark=name,
            )
            for name in dict.fromkeys(self.names)
            if name != WHAT_RAN and not any(Requirement((name,)).covers(*thing) for thing in things)
        ]

    def unlearned(self, baseline: Baseline) -> list[Blocker]:
        """Return a blocker for each name of which the baseline has only metrics without a criterion."""
        learned = learned_things(baseline.criteria, baseline)
        names = (Requirement((name,)) for name in dict.fromkeys(self.names))
        return [
            Blocker(
                subject=f"required {one.names[0]}",
                cause="no criterion was learned for it",
                act=LEARN_ONE,
                benchmark=one.names[0],
            )
            for one in names
            if any(
                one.covers(metric.benchmark, metric.metric, metric.component)
                for metric in baseline.unjudged
            )
            and not any(one.covers(*thing) for thing in learned)
        ]


def learned_things(
    criteria: Iterable[Criterion], baseline: Baseline | None
) -> list[tuple[str, str, str]]:
    """Return benchmark, metric and component of all criteria and checks of a baseline."""
    things = [(one.benchmark, one.metric.name, one.component) for one in criteria]
    checks = baseline.checks if baseline is not None else ()
    return [*things, *((one.test, "", one.component) for one in checks)]


def known_things(
    criteria: Iterable[Criterion], baseline: Baseline | None
) -> list[tuple[str, str, str]]:
    """Return the same of everything in a baseline that can be required, also of what has no criterion."""
    open_ones = baseline.unjudged if baseline is not None else ()
    more = ((one.benchmark, one.metric, one.component) for one in open_ones)
    return [*learned_things(criteria, baseline), *more]


def names_alike(name: str, things: Iterable[tuple[str, str, str]]) -> str:
    """Return a hint to append to a message: the name that was probably meant, and the known components."""
    known, components = set(), set()
    for benchmark, metric, component in things:
        known |= {benchmark, benchmark.rpartition("::")[2], metric, component}
        components |= {component} - {""}
    near = get_close_matches(name, sorted(known), 1)
    meant = f" (did you mean {near[0]!r}?)" if near else ""
    return meant + (f"; its components: {_some(components)}" if components else "")


def _some(components: Iterable[str]) -> str:
    """Return the first components in order, as a list in words."""
    names = sorted(components)
    more = ", ..." if len(names) > MAX_COMPONENTS_NAMED else ""
    return f"{', '.join(names[:MAX_COMPONENTS_NAMED])}{more}"


def ran_anywhere(
    verdicts: Iterable[MetricVerdict],
    planned: Collection[tuple[str, str]],
    answered: Iterable[tuple[str, str, str]] = (),
) -> set[str]:
    """Return the benchmarks that ran on any device, or were planned and neither skipped nor pruned."""
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
    """Return whether a verdict only says that a test was skipped, pruned or missing."""
    if verdict.outcome is not Outcome.NOT_TESTED:
        return False
    if verdict.metric:  # as imports mark what another node has
        return verdict.reason is Reason.NOT_REPORTED
    return verdict.reason in (Reason.NOT_RUN, Reason.PRUNED)


def absent_benchmarks(
    verdicts: Iterable[MetricVerdict], criteria: Iterable[Criterion], planned: Collection[str]
) -> tuple[str, ...]:
    """Return the benchmarks of the baseline that never ran, were not planned and have no verdict, sorted."""
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
    """Say what to do about required benchmarks that never ran, or about the one that is given."""
    return f"run {benchmark.rpartition('::')[2] or 'them'}, {HOW}"


def absence(
    absent: Collection[str], criteria: Sequence[Criterion], *, collected: bool = False
) -> Blocker:
    """Return one blocker that counts the required benchmarks that never ran, and names their components.

    `collected` says whether collected runs are judged together; otherwise one run is judged alone.
    """
    every = {criterion.benchmark for criterion in criteria}
    parts = {c.component or c.benchmark for c in criteria if c.benchmark in absent}
    where, alone = ("these runs", "") if collected else ("this run", "; earlier runs do not count")
    return Blocker(
        kind=Hindrance.ABSENT,
        cause=f"{len(absent)} of {len(every)} benchmarks did not run in {where}, or left no result "
        f"({_some(parts)}){alone}",
        act=absence_step(),
    )
