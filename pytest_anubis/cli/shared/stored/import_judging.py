"""The baselines in force, and by them the verdicts of imports that are filed in a history, run by run."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytest_anubis.cli.shared.arguments import baseline_place
from pytest_anubis.cli.shared.command_error import of_file
from pytest_anubis.store.baselines.baseline_files import BaselineError, load_baselines

if TYPE_CHECKING:
    from pytest_anubis.core.baseline import Baseline
    from pytest_anubis.core.run import RunRecord
    from pytest_anubis.store.collected_runs import RunSet
    from pytest_anubis.store.fleet.pushing import Judge


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
    return (lambda runs: _judged(runs, baselines)) if baselines else None


def _judged(runs: RunSet, baselines: dict[str, Any]) -> Iterator[RunRecord]:
    """Yield every run of an import with its verdicts; each run of a node is judged by itself."""
    from pytest_anubis.cli.shared.collected_judging import NodeRuns, judge_collected, rows_of

    for name in dict.fromkeys(run.run for run in runs.runs):
        rows = [
            (one, [row for row, run in enumerate(one.runs) if run == name])
            for one in runs.populations
        ]
        own = replace(
            runs,
            runs=tuple(run for run in runs.runs if run.run == name),
            populations=tuple(one.only(mine) for one, mine in rows if mine),
        )
        judged = judge_collected(own, baselines)
        yield from map(NodeRuns(own, judged).run_of, rows_of(judged))
