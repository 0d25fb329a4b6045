"""Collect from judged columns which devices of each node have a value, run by run.

`fleet_judging` finds by it devices that are gone, and blocks nodes whose latest run lacks devices, whose
imports have unread lines, or of which only an exported file of samples is known.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from itertools import compress

import numpy as np

from pytest_anubis.core.blocker import Blocker, Hindrance
from pytest_anubis.core.metric import first_of, metric_name, whole_of
from pytest_anubis.core.sample import ABSENT, Population
from pytest_anubis.core.verdict import MetricVerdict, Outcome, Reason
from pytest_anubis.validator.deciding.missing_values import MAX_CELLS_NAMED, SeenRun
from pytest_anubis.validator.judging.column_judging import JudgedColumns
from pytest_anubis.validator.judging.later_runs import LaterRuns
from pytest_anubis.validator.judging.verdict_table import NOT_TESTED, PASS, REASONS

_NOT_REPORTED = REASONS.index(Reason.NOT_REPORTED)
_ANSWERED = REASONS.index(Reason.ANSWERED)
_SAMPLES_ONLY = Blocker(
    kind=Hindrance.SAMPLES_ONLY,
    subject="an exported file has samples only",
    cause="no test without values, no inventory, no report of the hardware, no lost lines",
    act="judge the journals or imports that it was made from",
)


class SeenValues:
    """The devices that have any value, run by run, and those that had been bad before a run.

    Args:
        later: The runs of all nodes and their order.
    """

    def __init__(self, later: LaterRuns) -> None:
        self._later, self._runs, self._order = later, later.runs, later.order
        # Node -> run -> cell that is bad in any run -> whether it is bad in this one.
        self._bad: dict[str, dict[str, dict[tuple[str, ...], bool]]] = {}
        self._devices: defaultdict[tuple[str, str], set[str]] = defaultdict(set)  # by run and node
        self._metrics: Counter[tuple[str, str]] = Counter()
        self._cells: Counter[tuple[str, str]] = Counter()
        self._units: tuple[Sequence[str], ...] = ((), (), ())
        self._pairs: Counter[tuple[str, str]] = Counter()  # values of each run and node
        self._differing: dict[str, dict[str, set[str]]] = {}  # node -> run -> devices
        self._partial: defaultdict[str, list[tuple[str, str, dict[str, set[str]]]]]
        self._partial = defaultdict(list)  # node -> benchmark, metric, and the devices run by run
        # Benchmark and metric -> run and node -> devices that a table lacks, and has for most nodes.
        self._absent: dict[tuple[str, str], dict[tuple[str, str], set[str]]] = {}
        # Node -> benchmark and metric -> devices that have a value in any run.
        self._known: defaultdict[str, defaultdict[tuple[str, str], set[str]]]
        self._known = defaultdict(lambda: defaultdict(set))

    def note(self, judged: JudgedColumns) -> None:
        """Add the units of one metric."""
        population = judged.population
        units: tuple[Sequence[str], ...] = (population.nodes, population.runs, population.devices)
        bad = (judged.outcome != PASS) | (judged.reason == _ANSWERED)
        self._note_bad(population, np.flatnonzero(bad).tolist())
        lost = (judged.outcome == NOT_TESTED) & (judged.reason == _NOT_REPORTED)
        # Another run may have answered a missing value; this run still has none.
        lacking = {row for row, problem in population.problems.items() if problem.lacks}
        lost[[row for row in judged.answered if row in lacking]] = True
        if lost.any():
            units = tuple(tuple(compress(names, (~lost).tolist())) for names in units)
            metric = (population.benchmark, population.metric.name)
            for row, problem in population.problems.items():
                if problem.kind == ABSENT:
                    here = self._absent.setdefault(metric, {})
                    unit = (population.runs[row], population.nodes[row])
                    here.setdefault(unit, set()).add(population.devices[row])
        if units != self._units:
            self._units, self._pairs = units, Counter(zip(units[1], units[0], strict=True))
            found: dict[str, dict[str, set[str]]] = {}
            for node, run, device in set(zip(*units, strict=True)):
                self._devices[run, node].add(device)
                found.setdefault(node, {}).setdefault(run, set()).add(device)
            self._differing = {
                node: runs
                for node, runs in found.items()
                if len(runs) > 1 and len(set(map(frozenset, runs.values()))) > 1
            }
        self._metrics.update(self._pairs.keys())
        self._cells.update(self._pairs)
        if population.benchmark == whole_of(population.component):  # the means of others
            return
        for node, runs in self._differing.items():
            self._partial[node].append((population.benchmark, population.metric.name, runs))

    def _note_bad(self, population: Population, rows: Sequence[int]) -> None:
        """Add the cells that are bad in any run of a node with several runs, with their state in each run."""
        bad = {row for row in rows if len(self._runs.get(population.nodes[row], ())) > 1}
        cells = {(population.nodes[row], population.devices[row]) for row in bad}
        units = zip(population.nodes, population.runs, population.devices, strict=True)
        for row, (node, run, device) in enumerate(units if cells else ()):
            if (node, device) in cells:
                cell = (device, population.benchmark, population.metric.name, population.group)
                self._bad.setdefault(node, {}).setdefault(run, {})[cell] = row in bad

    def _suspects(self, node: str) -> dict[str, set[str]]:
        """Return run -> the devices that were bad or had no value when it began.

        A run of such devices alone is a retest. A device that passed one retest remains a suspect for the
        next retest, until a run that is no retest.
        """
        bad_cells = self._bad.get(node, {})
        latest: dict[tuple[str, ...], bool] = {}
        suspects, found = set[str](), dict[str, set[str]]()
        runs = [run for run in self._runs.get(node, ()) if (run, node) in self._devices]
        for run in sorted(runs, key=lambda run: (self._order.get((run, node), 0), run)):
            found[run] = suspects
            latest |= bad_cells.get(run, {})
            if not self._devices[run, node] <= suspects:
                suspects = {cell[0] for cell, bad in latest.items() if bad}
        return found

    def by_node(
        self, excluded: Collection[str], unread: Collection[tuple[str, str]]
    ) -> dict[str, list[SeenRun]]:
        """Return which values the runs of each node have, in order, without the excluded nodes.

        A run with unread lines cannot show that a device is gone, as its values may be in these lines.
        """
        found: dict[str, list[SeenRun]] = {}
        suspects: dict[str, dict[str, set[str]]] = {}
        usual = self._usual()
        for unit in sorted(self._devices, key=lambda unit: (self._order.get(unit, 0), unit)):
            run, node = unit
            if node in excluded:
                continue
            devices, metrics = frozenset(self._devices[unit]), self._metrics[unit]
            metrics = 0 if unit in unread else metrics
            if node in self._bad:
                again = suspects.setdefault(node, self._suspects(node))
                metrics = 0 if devices <= again[run] else metrics
            one = SeenRun(run, devices, metrics, self._cells[unit], usual.get(run))
            found.setdefault(node, []).append(one)
        return found

    def _usual(self) -> dict[str, frozenset[str]]:
        """Return run -> the devices of more than half of its nodes, for runs of at least three nodes."""
        nodes = Counter(run for run, _ in self._devices)
        counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for (run, _), devices in self._devices.items():
            if nodes[run] > 2:
                counts[run].update(devices)
        return {
            run: frozenset(device for device, count in found.items() if 2 * count > nodes[run])
            for run, found in counts.items()
        }

    def of_others(
        self,
        node: str,
        verdicts: list[MetricVerdict],
        answers: Mapping[tuple[str, str, str], Collection[str]],
    ) -> list[MetricVerdict]:
        """Return a node's verdicts without those on missing values that another run of the node has.

        The table measured other values again; `partly` names what it should have measured as well. `answers`
        are the devices that were judged in any run.
        """
        if not self._absent:
            return verdicts

        known = self._known[node]
        for (benchmark, metric, _), devices in answers.items():
            known[benchmark, metric].update(devices)

        def elsewhere(one: MetricVerdict) -> bool:
            if one.reason is not Reason.NOT_REPORTED or one.outcome is not Outcome.NOT_TESTED:
                return False
            what = (one.benchmark, one.metric)
            return self._elsewhere(what, (one.run, node), one.device, one.scope)

        return [one for one in verdicts if not elsewhere(one)]

    def answered(self, judged: JudgedColumns) -> JudgedColumns:
        """Return the columns in which the missing values that `of_others` left out are answered.

        A device without any value in its run may be gone.
        """
        population = judged.population
        what = (population.benchmark, population.metric.name)
        if what not in self._absent:
            return judged
        scope = judged.criterion.scope if judged.criterion is not None else "unit"
        lost = (judged.outcome == NOT_TESTED) & (judged.reason == _NOT_REPORTED)
        rows = []
        for row in np.flatnonzero(lost).tolist():
            unit, device = (population.runs[row], population.nodes[row]), population.devices[row]
            there = scope == "node" or device in self._devices.get(unit, ())
            if there and self._elsewhere(what, unit, device, scope):
                rows.append(row)
        found = {**judged.answered, **dict.fromkeys(rows, ("another run has it", False))}
        return judged.marked(rows, PASS, Reason.ANSWERED, answered=found) if rows else judged

    def _elsewhere(
        self, what: tuple[str, str], unit: tuple[str, str], device: str, scope: str
    ) -> bool:
        """Return whether another run of a node has a value that this run's table has for most nodes only."""
        absent = self._absent.get(what, {}).get(unit, set())
        if not absent or unit not in self._devices:  # it measured nothing
            return False
        known = self._known[unit[1]][what]
        return (scope == "node" and bool(known)) or device in known & absent

    def partly(self, node: str, allowed: float) -> tuple[Blocker, ...]:
        """Return a blocker for each run that lacks devices which an earlier run of the same metric had.

        A retest of suspects lacks nothing. A run of other devices than before is a part of the same
        measurement. A run that lacks no more than the allowed share of its values has empty cells. After any
        other run the state of the missing devices is unknown.
        """
        partial = self._partial.get(node, ())
        suspects = self._suspects(node) if partial else {}
        lost: dict[str, list[str]] = {}
        cells: Counter[str] = Counter()
        for benchmark, metric, runs in partial:
            latest = max(runs, key=lambda run: (self._order.get((run, node), 0), run))
            before = set[str]().union(*(runs[run] for run in runs if run != latest))
            again = runs[latest] & before
            if before > runs[latest] and not again <= suspects[latest]:
                lost.setdefault(latest, []).append(metric_name(benchmark, metric))
                cells[latest] += len(before - runs[latest])
        return tuple(
            Blocker(
                word=Outcome.NOT_TESTED.value,
                subject=f"run {run} lacks devices that one before it had",
                cause=first_of(names, MAX_CELLS_NAMED),
                act="measure these on all devices again",
            )
            for run, names in sorted(lost.items())
            if cells[run] > allowed * (cells[run] + self._cells[run, node])
        )

    def unread(self, node: str, unread: Mapping[tuple[str, str], int]) -> tuple[Blocker, ...]:
        """Return the blocker for a node's unread lines, unless a later run measured as many metrics."""
        left = {unit: unread[unit] for unit in self._not_measured_again(node, unread)}
        if not left:
            return ()
        lines = sum(left.values())
        are = "lines about it are empty or" if lines > 1 else "line about it is empty or"
        runs = ", ".join(sorted(run for run, _ in left))
        why = f"{lines} {are} could not be used ({runs}), as 'anubis import' says"
        act = "mend and import them again, or measure the whole node again"
        return (Blocker(cause=why, act=act),)

    def samples_only(self, node: str) -> tuple[Blocker, ...]:
        """Return the blocker for a node of an exported file, unless a later run measured as much."""
        left = self._not_measured_again(node, self._later.samples_only)
        return (_SAMPLES_ONLY,) if left else ()

    def _not_measured_again(
        self, node: str, units: Collection[tuple[str, str]]
    ) -> list[tuple[str, str]]:
        """Return the runs of a node after which no other run measured as many metrics."""

        def measured_again(unit: tuple[str, str]) -> bool:
            return any(
                self._order.get(other, 0) > self._order.get(unit, 0)
                and metrics >= self._metrics[unit]
                for other, metrics in self._metrics.items()
                if other[1] == node and other not in units
            )

        return [unit for unit in units if unit[1] == node and not measured_again(unit)]
