"""Which devices of which nodes have any value, run by run, as it shows in judged columns."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from itertools import compress

from pytest_anubis.core.metric import first_of, metric_name, whole_of
from pytest_anubis.core.sample import ABSENT, Population
from pytest_anubis.core.verdict import MetricVerdict, Outcome, Reason
from pytest_anubis.validator.deciding.missing_values import NAMED, SeenRun
from pytest_anubis.validator.judging.column_judging import JudgedColumns
from pytest_anubis.validator.judging.verdict_table import NOT_TESTED, REASONS

_NOT_REPORTED = REASONS.index(Reason.NOT_REPORTED)


def _is_missing(population: Population, row: int) -> bool:
    problem = population.problems.get(row)
    return problem is not None and problem.lacks


class SeenValues:
    """Knows of which devices there was any value, run by run."""

    def __init__(self) -> None:
        self._devices: defaultdict[tuple[str, str], set[str]] = defaultdict(set)  # by run and node
        self._metrics: Counter[tuple[str, str]] = Counter()
        self._cells: Counter[tuple[str, str]] = Counter()
        self._units: tuple[Sequence[str], ...] = ((), (), ())
        self._pairs: Counter[tuple[str, str]] = Counter()  # values of each run and node
        self._differing: dict[str, dict[str, set[str]]] = {}  # node -> run -> devices
        self._partial: defaultdict[str, list[tuple[str, str, dict[str, set[str]]]]]
        self._partial = defaultdict(list)  # node -> benchmark, metric, and the devices run by run
        # Benchmark and metric -> run and node that have no value of it, as a table says that has others.
        self._absent: dict[tuple[str, str], set[tuple[str, str]]] = {}

    def note(self, judged: JudgedColumns) -> None:
        """Take the units of one metric."""
        population = judged.population
        units: tuple[Sequence[str], ...] = (population.nodes, population.runs, population.devices)
        lost = (judged.outcome == NOT_TESTED) & (judged.reason == _NOT_REPORTED)
        # Another run may have answered what was missing; this one has no value of it all the same.
        lost[[row for row in judged.answered if _is_missing(population, row)]] = True
        if lost.any():
            absent = {
                (population.runs[row], population.nodes[row])
                for row, problem in population.problems.items()
                if problem.kind == ABSENT
            }
            units = tuple(tuple(compress(names, (~lost).tolist())) for names in units)
            absent.difference_update(zip(units[1], units[0], strict=True))
            metric = (population.benchmark, population.metric.name)
            self._absent.setdefault(metric, set()).update(absent)
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

    def by_node(
        self, order: Mapping[tuple[str, str], int], besides: Collection[str]
    ) -> dict[str, list[SeenRun]]:
        """Return what the runs of each node have values of, in order, except of the nodes `besides`."""
        found: dict[str, list[SeenRun]] = {}
        for unit in sorted(self._devices, key=lambda unit: (order.get(unit, 0), unit)):
            if unit[1] not in besides:
                one = SeenRun(unit[0], frozenset(self._devices[unit]), self._metrics[unit])
                found.setdefault(unit[1], []).append(one)
        return found

    def of_others(
        self,
        node: str,
        verdicts: list[MetricVerdict],
        answers: Mapping[tuple[str, str, str], Collection[str]],
    ) -> list[MetricVerdict]:
        """Return verdicts without those that a value is missing in a run that did not measure the metric.

        They are left out where another run of the node has the value, and this one measured others again.

        Args:
            node: Its name.
            verdicts: All that are known of it.
            answers: Which of its devices were judged in any run, by benchmark, metric and group.
        """
        if not self._absent:
            return verdicts
        known: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
        for (benchmark, metric, _), devices in answers.items():
            known[benchmark, metric].update(devices)

        def elsewhere(one: MetricVerdict) -> bool:
            what = (one.benchmark, one.metric)
            if one.reason is not Reason.NOT_REPORTED or one.outcome is not Outcome.NOT_TESTED:
                return False
            run = (one.run, node)
            if run not in self._absent.get(what, ()) or run not in self._devices:
                return False
            return one.device in known[what] or (one.scope == "node" and bool(known[what]))

        return [one for one in verdicts if not elsewhere(one)]

    def partly(
        self,
        node: str,
        verdicts: Sequence[MetricVerdict],
        order: Mapping[tuple[str, str], int],
        allowed: float,
    ) -> tuple[str, ...]:
        """Return what is in the way where a metric's latest run lacks devices that one before it had.

        A run of what had failed, or had no value, is a retest and lacks nothing; one of other devices than
        before is a part of the same measurement. A run that lacks few of its values has empty cells. After
        any other run the state of the devices that it lacks is unknown.

        Args:
            node: Its name.
            verdicts: All that are known of it.
            order: (run, node) -> its place in time.
            allowed: Share of a run's values that may be missing.
        """
        sought = {
            one.device
            for one in verdicts
            if one.outcome is not Outcome.PASS or one.reason is Reason.ANSWERED
        }
        lost: dict[str, list[str]] = {}
        cells: Counter[str] = Counter()
        for benchmark, metric, runs in self._partial.get(node, ()):
            latest = max(runs, key=lambda run: (order.get((run, node), 0), run))
            before = set[str]().union(*(runs[run] for run in runs if run != latest))
            again = runs[latest] & before
            if before > runs[latest] and not again <= sought:
                lost.setdefault(latest, []).append(metric_name(benchmark, metric))
                cells[latest] += len(before - runs[latest])
        return tuple(
            f"{Outcome.NOT_TESTED} run {run} lacks devices that one before it had, of "
            f"{first_of(names, NAMED)}; measure these on all devices again"
            for run, names in sorted(lost.items())
            if cells[run] > allowed * (cells[run] + self._cells[run, node])
        )

    def unread(
        self, node: str, unread: Mapping[tuple[str, str], int], order: Mapping[tuple[str, str], int]
    ) -> tuple[str, ...]:
        """Return what is in the way of a node's acceptance for lines that could not be read, if anything."""

        def read_again(unit: tuple[str, str]) -> bool:
            return any(
                order.get(other, 0) > order.get(unit, 0) and metrics >= self._metrics[unit]
                for other, metrics in self._metrics.items()
                if other[1] == node and other not in unread
            )

        left = {
            unit: lines
            for unit, lines in unread.items()
            if unit[1] == node and not read_again(unit)
        }
        if not left:
            return ()
        lines = sum(left.values())
        return (
            f"{lines} line{'s' if lines > 1 else ''} about it could not be used "
            f"({', '.join(sorted(run for run, _ in left))}), as 'anubis import' says: mend and import them "
            "again, or measure again",
        )
