"""Which devices of which nodes have any value, run by run, as it shows in judged columns."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from itertools import compress

from pytest_anubis.core.verdict import Reason
from pytest_anubis.validator.deciding.missing_values import SeenRun
from pytest_anubis.validator.judging.column_judging import JudgedColumns
from pytest_anubis.validator.judging.verdict_table import NOT_TESTED, REASONS

_NOT_REPORTED = REASONS.index(Reason.NOT_REPORTED)


class SeenValues:
    """Knows of which devices there was any value, run by run."""

    def __init__(self) -> None:
        self._devices: defaultdict[tuple[str, str], set[str]] = defaultdict(set)  # by run and node
        self._metrics: Counter[tuple[str, str]] = Counter()
        self._units: tuple[Sequence[str], ...] = ((), (), ())
        self._pairs: set[tuple[str, str]] = set()

    def note(self, judged: JudgedColumns) -> None:
        """Take the units of one metric."""
        population = judged.population
        units: tuple[Sequence[str], ...] = (population.nodes, population.runs, population.devices)
        lost = (judged.outcome == NOT_TESTED) & (judged.reason == _NOT_REPORTED)
        if lost.any():
            units = tuple(tuple(compress(names, (~lost).tolist())) for names in units)
        if units != self._units:
            self._units, self._pairs = units, set(zip(units[1], units[0], strict=True))
            for node, run, device in set(zip(*units, strict=True)):
                self._devices[run, node].add(device)
        self._metrics.update(self._pairs)

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
