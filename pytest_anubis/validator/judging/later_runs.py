"""Several runs of one node, judged together: name a bad verdict's run, and whether a later run clears it.

A failure holds until a later run judges the same (benchmark, metric, device and group) and passes it, by the
shared rule (`core.standing.standing_of`); a value is missing until a later run has it. `fleet_judging` and
`seen_values` use it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from pytest_anubis.core.sample import Population
from pytest_anubis.core.standing.recorded_run import NEAR, PAST, key_of, model_of
from pytest_anubis.core.standing.standing_of import JudgedRun, Key, standing_of
from pytest_anubis.core.verdict import Decision, MetricVerdict, Outcome, Reason, Waiver
from pytest_anubis.validator.judging.column_judging import (
    JudgedColumns,
    as_answered,
    with_run_named,
)
from pytest_anubis.validator.judging.verdict_table import (
    FAIL,
    INCONCLUSIVE,
    MARGINAL,
    NOT_TESTED,
    PASS,
    REASONS,
)

_MINUTE = len("2026-11-23T21:27")
_NOT_REPORTED = REASONS.index(Reason.NOT_REPORTED)
_LEVELS = (
    ((FAIL,), (PASS, MARGINAL)),
    ((INCONCLUSIVE, NOT_TESTED), (PASS, MARGINAL, FAIL)),
    ((MARGINAL,), (PASS,)),
)
"""Outcomes that a later run can answer, and the outcomes that answer them: any value answers a missing or an
unclear one."""


_Value = tuple[JudgedColumns, int]
"""A value: the verdicts on its metric, and its row there."""


_Unit = tuple[str, str]
"""A run and its node."""


class LaterRuns:
    """Knows the runs of all nodes and their order.

    Args:
        started: (run, node) -> when the run began, ISO 8601 in UTC; empty if unknown.
        ended: (run, node) -> when it ended, likewise; without an entry it overlaps no other run.
        checked: Node -> its runs, with their results that have no value, such as those of a test's own check.
        ahead: (run, node) of runs whose passed tests answer nothing: a clock ahead of the present dated them,
            so their time is unknown, or they never came to a verdict.
        samples_only: (run, node) of runs that an exported file holds, of which nothing but samples is known.
    """

    def __init__(
        self,
        *,
        started: Mapping[_Unit, str],
        ended: Mapping[_Unit, str],
        checked: Mapping[str, Sequence[JudgedRun]],
        ahead: Collection[_Unit] = (),
        samples_only: Collection[_Unit] = (),
    ) -> None:
        self._started, self._ended, self._checked = started, ended, checked
        self._ahead, self.samples_only = ahead, samples_only
        self.runs: dict[str, list[str]] = {}  # node -> its runs
        for run, node in started:
            self.runs.setdefault(node, []).append(run)
        known = {(one.run, node): one for node, several in checked.items() for one in several}
        # No cycle of a soak answers another one of it.
        self._campaigns = {unit: one.campaign for unit, one in known.items() if one.campaign}
        self._profiles = {unit: one.profile for unit, one in known.items()}
        follows = [(node, one) for node, runs in checked.items() for one in runs if one.after]
        self.order = self._in_time(follows)
        followed = {((one.run, node), one.after) for node, one in follows}
        # The end of each run as a place: after the runs that began meanwhile.
        self.ends = {
            (run, node): max(
                self.order[other, node] + 0.5
                for other in (run, *meanwhile)
                if other == run or ((other, node), run) not in followed
            )
            for node, several in self.runs.items()
            for run, meanwhile in self._overlapping(node, several)
        }

    def _in_time(self, follows: Sequence[tuple[str, JudgedRun]]) -> dict[_Unit, int]:
        """Return each run's place in time; those without a time come first, all in one place.

        Whatever the clocks said, a run comes after the one that its store knew.
        """
        moments = sorted({"", *self._started.values()})
        places = {began: place * len(self._started) for place, began in enumerate(moments)}
        order = {unit: places[began] for unit, began in self._started.items()}
        for _ in follows:
            late = [
                (node, one)
                for node, one in follows
                if order.get((one.run, node), 0) <= order.get((one.after, node), -1)
            ]
            order |= {(one.run, node): order[one.after, node] + 1 for node, one in late}
            if not late:
                break
        return order

    def _overlapping(self, node: str, runs: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
        """Yield each of a node's runs with those that began while it went on."""
        in_time = sorted((self._started[run, node], run) for run in runs)
        moments = [began for began, _ in in_time]
        for began, run in in_time:
            first = bisect_right(moments, began)
            behind = bisect_left(moments, self._ended.get((run, node), "")) if began else 0
            yield run, [other for _, other in in_time[first:behind]]

    def in_order(self, node: str, verdicts: Iterable[MetricVerdict]) -> list[MetricVerdict]:
        """Return a node's verdicts in the order in which their runs began."""
        return sorted(verdicts, key=lambda verdict: self.order.get((verdict.run, node), 0))

    def unfollowed(self, node: str, broken: Collection[str]) -> list[str]:
        """Return the broken-off runs of a node after which no run came to its end.

        A cycle of a soak does not follow another one of it.
        """
        whole = [
            run
            for run in self.runs.get(node, ())
            if run not in broken and (run, node) not in self._ahead
        ]

        def follows(run: str, one: str) -> bool:
            soak = self._campaigns.get((one, node), "")
            later = self.order[run, node] > self.order.get((one, node), 0)
            return later and not (soak and self._campaigns.get((run, node)) == soak)

        return [one for one in broken if not any(follows(run, one) for run in whole)]

    def columns(
        self, judged: JudgedColumns, elsewhere: Sequence[JudgedColumns] = ()
    ) -> JudgedColumns:
        """Return verdicts; on nodes with several runs the bad ones name their run, or are answered.

        `elsewhere` are those on the same metric in other hardware classes: a node that got another driver, or
        was measured in a longer profile, may have passed there.
        """
        population, outcome = judged.population, judged.outcome
        missing = (outcome == NOT_TESTED) & (judged.reason == _NOT_REPORTED)
        bad = np.isin(outcome, (FAIL, MARGINAL))
        open_one = missing | (outcome == INCONCLUSIVE)
        several = [
            row
            for row in np.flatnonzero(bad | open_one).tolist()
            if len(self.runs.get(population.nodes[row], ())) > 1
        ]
        if not several:
            return judged
        answered = self._answered(judged, several, elsewhere)
        units = list(zip(population.nodes, population.devices, strict=True))
        lost = Counter(units[row] for row in np.flatnonzero(missing).tolist())
        named = {
            row: self._words(population.runs[row], population.nodes[row])
            for row in several
            if bad[row] or row in answered or lost[units[row]] == 1  # of several one line is enough
        }
        if not answered:
            return replace(judged, run_words=named)
        rows = list(answered)
        return judged.marked(rows, PASS, Reason.ANSWERED, run_words=named, answered=answered)

    def without_sample(
        self, node: str, verdicts: Sequence[MetricVerdict]
    ) -> Sequence[MetricVerdict]:
        """Return a node's verdicts that have no sample: the bad ones name their run, or are answered.

        What did not run or report is answered as well, by a later run in which it passed.
        """
        if len(self.runs.get(node, ())) < 2:
            return verdicts
        checked = self._checked.get(node, ())
        failed: dict[str, set[Key]] = {}
        for one in verdicts:
            if one.outcome is Outcome.FAIL or _unanswered(one):
                failed.setdefault(one.run, set()).add(key_of(one))
        runs = {
            run.run: replace(
                run,
                began=self.order.get((run.run, node), 0),
                ended=self.ends.get((run.run, node), 0.0),
                decision=run.decision or Decision.UNDECIDED,
                failed=(),
                passed=tuple(
                    key
                    for key in run.passed
                    if key not in failed.get(run.run, ()) and (run.run, node) not in self._ahead
                ),
                waived=(),
            )
            for run in checked
        }

        def is_open(run: str, key: Key) -> bool:
            bad = replace(runs[run], decision=Decision.REJECTED, failed=(key,))
            return bool(standing_of((runs | {run: bad}).values(), _no_waiver).failures)

        still_open = {
            (run, key) for run in failed.keys() & runs for key in failed[run] if is_open(run, key)
        }
        known = {run.run for run in checked}
        return [self._settled_one(one, known, still_open) for one in verdicts]

    def _settled_one(
        self, verdict: MetricVerdict, known: Collection[str], is_open: Collection[tuple[str, Key]]
    ) -> MetricVerdict:
        missing = _unanswered(verdict)
        bad = verdict.outcome in (Outcome.FAIL, Outcome.MARGINAL)
        if not verdict.run or not (bad or missing):
            return verdict
        named = with_run_named(verdict, self._words(verdict.run, verdict.node))
        fails = verdict.outcome is not Outcome.MARGINAL and verdict.run in known
        if fails and (verdict.run, key_of(verdict)) not in is_open:
            failed = verdict.outcome is Outcome.FAIL
            return as_answered(named, "a later run passed it", failed)
        return verdict if missing else named  # of several runs that lack it one line is enough

    def _answered(
        self, judged: JudgedColumns, several: Iterable[int], elsewhere: Sequence[JudgedColumns]
    ) -> dict[int, tuple[str, bool]]:
        """Return row -> what answers it, in words, and whether it failed, of the rows that are answered."""
        population, outcome = judged.population, judged.outcome.tolist()
        units = {(population.nodes[row], population.devices[row]) for row in several}
        rows: dict[tuple[str, str], list[_Value]] = {}
        for columns in (judged, *elsewhere):
            of = columns.population
            for row, unit in enumerate(zip(of.nodes, of.devices, strict=True)):
                if unit in units:
                    rows.setdefault(unit, []).append((columns, row))
        found: dict[int, tuple[str, bool]] = {}
        wanted = set(several)
        for mine in rows.values():
            for bad, good in _LEVELS:
                failed = [
                    row
                    for columns, row in mine
                    if columns is judged and row in wanted and outcome[row] in bad
                ]
                passed = [
                    (columns, row)
                    for columns, row in mine
                    if (columns.outcome[row] in good or _is_right(columns, row))
                    and (columns is judged or INCONCLUSIVE not in bad)
                    and self._unit((columns, row)) not in self._ahead
                ]
                settled = [row for row in failed if self._settled((judged, row), passed)]
                if settled:
                    last = max(passed, key=self._place)
                    how = "measured" if NOT_TESTED in bad else "passed"
                    answer = f"{how} {self._words(*self._unit(last))}", FAIL in bad
                    found |= dict.fromkeys(settled, answer)
        return found

    def _settled(self, failed: _Value, passed: Sequence[_Value]) -> bool:
        """Return whether one of the values that passed answers one that failed, whatever others do."""
        own = failed[0].population
        key = (own.benchmark, own.metric.name, "", own.group)
        crosses = any(columns is not failed[0] for columns, _ in passed)

        def run(value: _Value, decision: Decision) -> JudgedRun:
            bad = decision is Decision.REJECTED
            unit = self._unit(value)
            one = JudgedRun(
                run=unit[0],
                began=self._place(value),
                ended=self.ends.get(unit, 0.0),
                decision=decision,
                failed=(key,) if bad else (),
                passed=() if bad else (key,),
                campaign=self._campaigns.get(unit, ""),
            )
            if not crosses:  # within a class all are as strict
                return one
            reference = value[0].reference
            return replace(
                one,
                profile=self._profiles.get(unit, ""),
                model=model_of(value[0].population.hardware_class),
                by_peers=(key,) if reference in NEAR else (),
                by_past=(key,) if reference in PAST else (),
            )

        runs = [run(failed, Decision.REJECTED)]
        runs += [run(value, Decision.ACCEPTED) for value in passed]
        return not standing_of(runs, _no_waiver).failures

    def _unit(self, value: _Value) -> _Unit:
        columns, row = value
        return columns.population.runs[row], columns.population.nodes[row]

    def _place(self, value: _Value) -> int:
        return self.order.get(self._unit(value), 0)

    def _words(self, run: str, node: str) -> str:
        began = self._started.get((run, node), "")
        minute = began[:_MINUTE].replace("T", " ")
        return f"in run {run}" + (f" of {minute}" if began else "")


def _is_right(columns: JudgedColumns, row: int) -> bool:
    """Return whether a value is the only right one, although no criterion judges it."""
    population, right = columns.population, columns.population.metric.right
    if columns.criterion is not None or right is None or row in population.problems:
        return False
    values = population.sample(row)
    return bool(len(values)) and bool((values == right).all())


def with_answered_means(columns: Sequence[JudgedColumns]) -> list[JudgedColumns]:
    """Return a class's columns in which the means of all devices are answered with their bad devices.

    A mean that fails in a run in which a device fails, too, says no more than the device, and a retest
    of that device alone measures no mean again, as `core.standing.recorded_run` says.
    """
    answered: dict[
        tuple[str, ...], bool
    ] = {}  # metric of a run -> all its bad devices are answered
    for judged in columns:
        if not judged.of_all_devices:
            settled = [row for row, (_, failed) in judged.answered.items() if failed]
            settled += [row for row, one in judged.waived.items() if one.reason is Reason.WAIVED]
            for row in settled:
                answered.setdefault(_place_of(judged.population, row), True)
            for row in np.flatnonzero(judged.outcome == FAIL).tolist():
                answered[_place_of(judged.population, row)] = False
    found = []
    for judged in columns:
        bad = np.flatnonzero(judged.outcome == FAIL).tolist() if judged.of_all_devices else []
        rows = [row for row in bad if answered.get(_place_of(judged.population, row))]
        more = dict.fromkeys(rows, ("its bad devices passed later, or are waived", True))
        means = {**judged.answered, **more}
        found.append(judged.marked(rows, PASS, Reason.ANSWERED, answered=means) if rows else judged)
    return found


def _place_of(population: Population, row: int) -> tuple[str, ...]:
    return (*population.series, population.nodes[row], population.runs[row])


def _unanswered(verdict: MetricVerdict) -> bool:
    """Return whether a test came to nothing: it was skipped, crashed, or never reported."""
    left = (Reason.WAIVED, Reason.PRUNED)  # by a person's decision
    open_one = verdict.outcome in (Outcome.NOT_TESTED, Outcome.INCONCLUSIVE)
    return open_one and verdict.reason not in left


def _no_waiver(_: Waiver) -> bool:
    return False
