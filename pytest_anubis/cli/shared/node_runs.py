"""Join all that was collected of a node to one run with today's verdicts, for its pages, or to be filed.

`import_judging`, `report_command` and `site_writing` use it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from pytest_anubis.cli.shared.latest_days import Unit
from pytest_anubis.core.measurement import Measurement
from pytest_anubis.core.run import RunRecord
from pytest_anubis.core.verdict import MetricVerdict, Reason
from pytest_anubis.report.text.node_row import NodeRow
from pytest_anubis.store.collected_runs import RunSet
from pytest_anubis.validator.deciding.fleet_judging import JudgedFleet
from pytest_anubis.validator.judging.column_judging import JudgedColumns
from pytest_anubis.validator.judging.verdict_table import PASS, REASONS

_WITHIN = REASONS.index(Reason.WITHIN)
_FAR = 0.5
"""Share of the allowed loss below which a pass is certain."""


class NodeRuns:
    """The runs of each node, indexed once for all nodes of a fleet."""

    def __init__(self, runs: RunSet, judged: JudgedFleet) -> None:
        self._judged = judged
        self._places: dict[Unit, list[tuple[JudgedColumns, int]]] = {}
        for columns in judged.columns:
            key = columns.population.hardware_class
            for place, node in enumerate(columns.population.nodes):
                self._places.setdefault((node, key), []).append((columns, place))
        # Fields that all passes by one criterion share, by its columns.
        self._shared: dict[int, dict[str, Any]] = {}
        self._runs = _by_unit(runs.runs)
        self._journals = _by_unit(runs.journals)

    def run_of(self, row: NodeRow, *, brief: bool = False) -> RunRecord:
        """Return everything that was collected of one node as one run, with the verdicts of today.

        If it is `brief`, passes far from their limit have no sentence and no certainty: a fleet has millions.
        """
        unit = row.verdict.node, row.hardware_class
        measurements: list[Measurement] = []
        verdicts: list[MetricVerdict] = []
        for columns, place in self._places.get(unit, ()):
            population = columns.population
            verdict = self._passed(columns, place) if brief else None
            if verdict is None:
                verdict = columns.of_run(place, self._judged.baselines.get(unit[1]))
            verdicts.append(verdict)
            if verdict.scope == "unit" and len(population.sample(place)):
                one = population.measurement(place)
                measurements.append(dataclasses.replace(one, disturbance=verdict.disturbance))
        judged_ones = {(v.benchmark, v.metric, v.device, v.scope) for v in verdicts}
        verdicts += [
            v for v in row.verdicts if (v.benchmark, v.metric, v.device, v.scope) not in judged_ones
        ]
        same = self._runs[unit]
        journals = self._journals.get(unit, [])
        latest = max([*journals, *same], key=lambda run: run.started)  # of one moment: the journal
        others = f" and {len(same) - 1} more" if len(same) > 1 else ""
        return dataclasses.replace(
            latest,
            run=f"{latest.run}{others}",
            measurements=tuple(measurements),
            verdicts=tuple(verdicts),
            node_verdict=row.verdict,
            baseline=row.verdict.baseline,
            exit_status=None,
        )

    def _passed(self, columns: JudgedColumns, place: int) -> MetricVerdict | None:
        """Return the verdict on a unit that passed far from its limit; None for any other unit."""
        if columns.outcome[place] != PASS or columns.reason[place] != _WITHIN:
            return None
        population = columns.population
        alike = float(columns.similarity[place])
        special = (columns.changes, columns.current, columns.waived, columns.splits)
        near = not 1 - alike < _FAR * (1 - columns.threshold[place])
        if near or not columns.reference.is_baseline or any(place in one for one in special):
            return None
        same = self._shared.get(id(columns))
        if same is None:
            full = columns.verdict(place, self._judged.baselines.get(population.hardware_class))
            own = {"text": "", "certainty": None, "percentile": None}
            same = {f.name: getattr(full, f.name) for f in dataclasses.fields(full)} | own
            self._shared[id(columns)] = same
        return MetricVerdict(
            **same
            | {
                "node": population.nodes[place],
                "device": population.devices[place],
                "run": population.runs[place],
                "count": int(population.offsets[place + 1] - population.offsets[place]),
                "value": float(columns.value[place]),
                "similarity": alike,
            }
        )


def _by_unit(runs: Sequence[RunRecord]) -> dict[Unit, list[RunRecord]]:
    found: dict[Unit, list[RunRecord]] = {}
    for run in runs:
        found.setdefault((run.node, run.hardware_class), []).append(run)
    return found
