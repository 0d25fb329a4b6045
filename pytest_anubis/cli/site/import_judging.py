"""Load the baselines in force, and make of them the judge of the imports that `anubis push` files."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_anubis.cli.shared.arguments import baseline_place
from pytest_anubis.cli.shared.class_split import run_facts
from pytest_anubis.cli.shared.command_error import of_file
from pytest_anubis.core.verdict import Decision, NodeVerdict, Triage
from pytest_anubis.report.text.shared_causes import with_shared
from pytest_anubis.store.baselines.baseline_files import BaselineError, load_baselines

if TYPE_CHECKING:
    from pytest_anubis.core.baseline import Baseline
    from pytest_anubis.core.run import RunRecord
    from pytest_anubis.report.text.node_row import NodeRow
    from pytest_anubis.store.collected_runs import RunSet
    from pytest_anubis.store.fleet.pushing import Judge, RunKey
    from pytest_anubis.validator.deciding.fleet_judging import JudgedFleet


def baselines_in_force(options: argparse.Namespace) -> dict[str, Baseline]:
    """Return the baselines of `add_baseline` by hardware class; none if the default place does not exist."""
    place = baseline_place(options)
    try:
        return load_baselines(place) if place.exists() else {}
    except (OSError, BaselineError) as error:
        raise of_file(error) from error


def import_judge(options: argparse.Namespace) -> Judge | None:
    """Return the judge of imports, by the baselines of `add_baseline`; None without any."""
    baselines = baselines_in_force(options)
    return _ImportJudge(baselines) if baselines else None


class _ImportJudge:
    """The judge of imports by baselines: of each run by itself, and of the runs of the last days together."""

    def __init__(self, baselines: dict[str, Baseline]) -> None:
        self._baselines = baselines
        self._together: dict[RunKey, NodeVerdict] | None = None

    def __call__(self, runs: RunSet) -> Iterator[RunRecord]:
        """Yield every run of an import with its verdicts; each run of a node is judged by itself.

        A failure that all nodes with a trait share is marked, to be looked into before a node is drained.
        """
        from pytest_anubis.cli.shared.latest_days import only
        from pytest_anubis.cli.shared.node_runs import NodeRuns

        for name in dict.fromkeys(run.run for run in runs.runs):
            own = only(runs, {(run.run, run.node) for run in runs.runs if run.run == name})
            judged, rows = self._judged(own)
            yield from map(NodeRuns(own, judged).run_of, rows)

    def together(self, imports: Sequence[Path]) -> Mapping[RunKey, NodeVerdict]:
        """Return the verdicts on nodes by their runs of the last days, but for rejections of a node's own.

        A verdict is that of the latest run, with its date; a shared cause explains all of a node's runs.
        """
        if self._together is None:
            from pytest_anubis.store.collected_runs import read_runs

            own = read_runs(imports)
            latest: dict[tuple[str, str], RunRecord] = {}
            for run in own.runs:
                unit = run.node, run.hardware_class
                if unit not in latest or run.started > latest[unit].started:
                    latest[unit] = run
            whole = {row.unit: row.verdict for row in self._judged(own)[1]}
            self._together = {
                (run.run, *unit): verdict
                for run in own.runs
                if (verdict := whole.get(unit := (run.node, run.hardware_class))) is not None
                and (
                    verdict.triage is Triage.SHARED
                    or (verdict.decision is not Decision.REJECTED and latest[unit] is run)
                )
            }
        return self._together

    def _judged(self, runs: RunSet) -> tuple[JudgedFleet, Sequence[NodeRow]]:
        """Judge runs; return the verdicts, and the nodes with the causes that they share."""
        from pytest_anubis.cli.shared.collected_judging import judge_collected, rows_of
        from pytest_anubis.cli.site.fleet_source import survey

        judged = judge_collected(runs, self._baselines)
        rows = rows_of(judged)
        traits = {
            run.node: run_facts(run) for run in sorted(runs.runs, key=lambda run: run.started)
        }
        return judged, with_shared(rows, survey(runs, rows, traits)[1])
