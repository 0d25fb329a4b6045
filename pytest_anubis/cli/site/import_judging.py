"""The baselines in force, and by them the verdicts of imports that are filed in a history, run by run."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_anubis.cli.shared.arguments import baseline_place
from pytest_anubis.cli.shared.class_split import facts_of
from pytest_anubis.cli.shared.command_error import of_file
from pytest_anubis.core.verdict import Decision, NodeVerdict, Triage
from pytest_anubis.report.text.node_row import explained_by
from pytest_anubis.store.baselines.baseline_files import BaselineError, load_baselines

if TYPE_CHECKING:
    from pytest_anubis.core.baseline import Baseline
    from pytest_anubis.core.run import RunRecord
    from pytest_anubis.store.collected_runs import RunSet
    from pytest_anubis.store.fleet.pushing import Judge, Run


def baselines_in_force(options: argparse.Namespace) -> dict[str, Baseline]:
    """Return the baselines of `add_baseline` by hardware class; none where the default place is not there.

    Raises:
        CommandError: They cannot be read, or what was named is not there.
    """
    place = baseline_place(options)
    try:
        return load_baselines(place) if place.exists() else {}
    except (OSError, BaselineError) as error:
        raise of_file(error) from error


def import_judge(options: argparse.Namespace) -> Judge | None:
    """Return what gives imports their verdicts, by the baselines of `add_baseline`; None without any.

    Raises:
        CommandError: The baselines that were named cannot be read.
    """
    baselines = baselines_in_force(options)
    return _ImportJudge(baselines) if baselines else None


class _ImportJudge:
    def __init__(self, baselines: dict[str, Baseline]) -> None:
        self._baselines = baselines
        self._together: dict[Run, NodeVerdict] | None = None

    def __call__(self, runs: RunSet) -> Iterator[RunRecord]:
        """Yield every run of an import with its verdicts; each run of a node is judged by itself.

        What is bad only as on all nodes that share a trait is to be looked into before a node is drained.
        """
        from pytest_anubis.cli.shared.collected_judging import NodeRuns, judge_collected, rows_of
        from pytest_anubis.cli.shared.latest_days import only
        from pytest_anubis.cli.site.fleet_source import survey

        for name in dict.fromkeys(run.run for run in runs.runs):
            own = only(runs, {(run.run, run.node) for run in runs.runs if run.run == name})
            judged = judge_collected(own, self._baselines)
            found = rows_of(judged)
            traits = {run.node: facts_of(run) for run in own.runs}
            alike = explained_by(found, survey(own, found, traits)[1])
            of_node = NodeRuns(own, judged)
            for row in found:
                record = of_node.run_of(row)
                verdict = record.node_verdict
                rejected = verdict is not None and verdict.decision is Decision.REJECTED
                if verdict is not None and rejected and row.unit in alike:
                    verdict = replace(verdict, triage=Triage.INVESTIGATE)
                yield replace(record, node_verdict=verdict)

    def together(self, imports: Sequence[Path]) -> Mapping[Run, NodeVerdict]:
        """Return what its runs of the last days say of each node that they accept, or reject as its group.

        It is that of the latest run, whose date it has.
        """
        if self._together is None:
            from pytest_anubis.cli.shared.collected_judging import judge_collected, rows_of
            from pytest_anubis.cli.site.fleet_source import survey
            from pytest_anubis.store.collected_runs import read_runs

            own = read_runs(imports)
            latest: dict[tuple[str, str], RunRecord] = {}
            for run in own.runs:
                unit = run.node, run.hardware_class
                if unit not in latest or run.started > latest[unit].started:
                    latest[unit] = run
            judged = judge_collected(own, self._baselines)
            rows = rows_of(judged)
            traits = {
                run.node: facts_of(run) for run in sorted(own.runs, key=lambda run: run.started)
            }
            alike = explained_by(rows, survey(own, rows, traits)[1])
            as_group = {
                row.unit: replace(row.verdict, triage=Triage.INVESTIGATE)
                for row in rows
                if row.unit in alike and row.verdict.decision is Decision.REJECTED
            }
            self._together = {
                (latest[unit].run, *unit): verdict
                for unit, verdict in as_group.items()
                if unit in latest
            } | {
                (latest[unit].run, *unit): verdict
                for verdict, detail in zip(judged.nodes, judged.details, strict=True)
                if verdict.decision is Decision.ACCEPTED
                and (unit := (verdict.node, detail.hardware_class)) in latest
            }
        return self._together
