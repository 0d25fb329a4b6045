"""``anubis judge RUNS --baseline DIR``: collected runs against baselines, without pytest."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_anubis.cli.shared.arguments import add_baseline, baseline_place, explain
from pytest_anubis.cli.shared.command_error import CommandError
from pytest_anubis.cli.shared.printing import say, show
from pytest_anubis.cli.shared.progress import Progress
from pytest_anubis.core.run import RunEvidence
from pytest_anubis.core.verdict import Decision, NodeVerdict, Triage
from pytest_anubis.report.text.numbers import count_text
from pytest_anubis.report.text.text_table import clip
from pytest_anubis.store.baselines.baseline_files import BaselineError, load_baselines
from pytest_anubis.store.waiver_files import WaiverError, read_waivers, today

if TYPE_CHECKING:
    from pytest_anubis.core.baseline import Baseline
    from pytest_anubis.core.verdict import Waiver
    from pytest_anubis.store.collected_runs import RunSet

Tell = Callable[..., None]
SHOWN = 40
"""Nodes shown on the terminal; the JSON file has all."""


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    explain(
        parser,
        "Judge runs that were collected from many nodes, or imported, without pytest: one decision for every "
        "node.",
        "Exit codes: 0 every node is accepted; 1 a node is rejected; 20 none is rejected, but one is not "
        "accepted either or a file could not be read; 2 wrong usage or input.",
    )
    parser.add_argument(
        "runs", nargs="+", type=Path, metavar="RUN", help="folders, journals, imports"
    )
    add_baseline(
        parser,
        more="; without any baseline the devices of a node are compared with each other, and nothing is "
        "accepted",
    )
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write every verdict as JSON; - prints it"
    )
    parser.add_argument(
        "--fail-on",
        choices=("fail", "marginal"),
        default="fail",
        help="mildest verdict that rejects a node (default: fail)",
    )
    parser.add_argument(
        "--waivers",
        type=Path,
        metavar="FILE",
        help="TOML file of the failures that somebody answers for, as of today; default: those that the runs "
        "themselves had (--anubis-waivers)",
    )
    parser.add_argument(
        "--require-all", action="store_true", help="what has no criterion blocks acceptance too"
    )


def run(options: argparse.Namespace) -> int:
    """Judge; the exit code is 1 if a node is rejected, 20 if one is undecided or a file damaged, else 0."""
    from pytest_anubis.cli.shared.judged_json import judged_json, write_judged
    from pytest_anubis.validator.deciding.fleet_judging import judge_fleet

    printed = str(options.json) == "-"  # then what people read stands elsewhere
    tell = partial(say, file=sys.stderr) if printed else say
    waivers = _waivers(options.waivers)
    baselines = _baselines(options, tell)
    runs = _read(options.runs, tell)
    with Progress("judging") as progress:
        judged = judge_fleet(
            runs.populations,
            baselines,
            fail_on=options.fail_on,
            require_all=options.require_all,
            started={(run.run, run.node): run.started for run in runs.runs},
            evidence=_evidence(runs),
            waivers=waivers,
            progress=progress.count,
        )
    if printed:
        for text in judged_json(judged, lambda done, total: None):
            show(text)
    elif options.json is not None:
        with Progress("writing") as progress:
            try:
                write_judged(judged, options.json, progress.count)
            except OSError as error:
                raise CommandError(
                    f"{options.json}: cannot be written ({error.strerror})"
                ) from error
    for finding in judged.findings:
        tell(f"finding: {finding.text}")
    for note in judged.notes:
        tell(f"note: {note}")
    _show(judged.nodes, tell)
    if options.json is not None and not printed:
        tell(f"written: {options.json}")
    damaged = sum(refused.damaged for refused in runs.refused)
    if damaged:
        tell(
            f"not judged: {count_text(damaged, 'file')} that could not be read (see above); "
            "fix or remove them"
        )
    decisions = {verdict.decision for verdict in judged.nodes}
    if Decision.REJECTED in decisions:
        return Decision.REJECTED.exit_code
    if Decision.UNDECIDED in decisions or not decisions or damaged:
        return Decision.UNDECIDED.exit_code
    return 0


def _evidence(runs: RunSet) -> dict[tuple[str, str], RunEvidence]:
    """Return what the journals of each node say besides samples."""
    from pytest_anubis.validator.deciding.run_decision import evidence_of

    found: dict[tuple[str, str], RunEvidence] = {}
    for run in runs.journals:
        key = (run.hardware_class, run.node)
        said = evidence_of(run, runs.unmeasured.get((run.run, run.node), ()))
        found[key] = found[key].with_more(said) if key in found else said
    # An import of the same node stands on its own, whatever became of the node's runs.
    journals = {(run.run, run.node) for run in runs.journals}
    for run in runs.runs:
        key = (run.hardware_class, run.node)
        if (run.run, run.node) not in journals and key in found:
            found[key] = dataclasses.replace(found[key], broken_off="")
    return found


def _waivers(path: Path | None) -> tuple[Waiver, ...] | None:
    if path is None:
        return None
    try:
        return read_waivers(path, today())
    except WaiverError as error:
        raise CommandError(str(error)) from error


def _baselines(options: argparse.Namespace, tell: Tell) -> dict[str, Baseline]:
    asked = options.baseline is not None
    place = baseline_place(options)
    if not asked and not place.exists():
        found = {}
    else:
        try:
            found = load_baselines(place)
        except (OSError, BaselineError) as error:
            raise CommandError(str(error)) from error
    if not found and asked:
        raise CommandError(f"{place}: no baselines; learn one with 'anubis learn'")
    if not found:
        tell(
            "note: no baselines here: the devices of each node are compared with each other, or a node "
            "with its own earlier runs, and nothing can be accepted; learn a baseline with 'anubis learn'"
        )
    return found


def _read(paths: list[Path], tell: Tell) -> RunSet:
    from pytest_anubis.store.collected_runs import RunsError, read_runs

    with Progress("reading") as progress:
        try:
            runs = read_runs(paths, progress=progress.say)
        except RunsError as error:
            raise CommandError(str(error)) from error
    for warning in runs.warnings:
        tell(f"note: {warning}")
    for refused in runs.refused:
        what = (
            f"run {refused.run} of {refused.node}: " if refused.run else ""
        )  # else the reason names it
        tell(f"left out: {what}{refused.reason}")
    return runs


def _show(nodes: tuple[NodeVerdict, ...], tell: Tell) -> None:
    from collections import Counter

    order = (Decision.REJECTED, Decision.UNDECIDED, Decision.ACCEPTED)
    ordered = sorted(nodes, key=lambda verdict: verdict.severity)
    for verdict in ordered[:SHOWN]:
        # Its own words begin with what stands in the columns already.
        said = verdict.headline.removeprefix(f"node {verdict.node} ")
        said = said.removeprefix("accepted: ").removeprefix("rejected: ")
        said = said.removeprefix("is neither accepted nor rejected: ")
        row = f"{verdict.decision.value:9} {verdict.triage.value:11} {verdict.node}: {said}"
        tell(clip(row, 160))
    if len(ordered) > SHOWN:
        tell(f"... and {len(ordered) - SHOWN} more nodes")
    counts = Counter(verdict.decision.value for verdict in nodes)
    again = sum(v.decision is Decision.REJECTED and v.triage is Triage.RETEST for v in nodes)
    parts = [f"{counts[decision.value]} {decision.value}" for decision in order]
    parts[0] += f" ({again} of them to be measured again first)" if again else ""
    tell(f"{count_text(len(nodes), 'node')}: {', '.join(parts)}")
