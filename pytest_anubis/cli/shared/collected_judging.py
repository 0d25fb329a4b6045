"""Read collected runs (also for `learn`, `export`), and judge their nodes for `judge`, `report`, `push`."""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_anubis.cli.shared.command_error import CommandError
from pytest_anubis.cli.shared.latest_days import RunNode, Unit, of_latest_days
from pytest_anubis.cli.shared.printing import say
from pytest_anubis.cli.shared.progress import Progress
from pytest_anubis.codec.moments import iso_of, moment
from pytest_anubis.core.alike_devices import without_repeats
from pytest_anubis.core.asking.next_step import STEP, with_part_act
from pytest_anubis.core.baseline import VIRTUAL
from pytest_anubis.core.blocker import Blocker
from pytest_anubis.core.history import CLOCK_TOLERANCE, COMPLETING_SECONDS
from pytest_anubis.core.metric import first_of
from pytest_anubis.core.run import RunEvidence, RunRecord
from pytest_anubis.core.standing.recorded_run import judged_of, was_killed
from pytest_anubis.core.standing.standing_of import JudgedRun
from pytest_anubis.core.verdict import Decision, MetricVerdict, NodeVerdict, Outcome, Triage, Waiver
from pytest_anubis.core.waiving import holds_on
from pytest_anubis.report.text.learned_text import (
    ACCEPTED_UNLIKE,
    UNLIKE,
    accepted_unlike,
    unlike_node,
    unlike_text,
)
from pytest_anubis.report.text.node_row import NodeRow
from pytest_anubis.report.text.numbers import count_text, duration_text
from pytest_anubis.store.collected_runs import EVERYTHING, RunSet, read_runs
from pytest_anubis.store.history.closed_defects import Places, closed_runs
from pytest_anubis.store.node_standing import answered_runs
from pytest_anubis.store.run_filter import RunFilter
from pytest_anubis.store.waiver_files import read_waivers, today
from pytest_anubis.validator.deciding.fleet_judging import JudgedFleet, NodeDetail, judge_fleet
from pytest_anubis.validator.deciding.requirement import Requirement, known_things, names_alike
from pytest_anubis.validator.deciding.run_decision import evidence_of
from pytest_anubis.validator.judging.column_judging import JudgedColumns
from pytest_anubis.validator.surveying.shared_parts import parts_of_collected
from pytest_anubis.validator.surveying.step_shares import with_collected_shares

if TYPE_CHECKING:
    from pytest_anubis.core.baseline import Baseline, UnlikeNode
    from pytest_anubis.core.gather import SampleStorage

MAX_NODES_LISTED = 3
"""Nodes named in a note."""


def read_collected(
    paths: Sequence[Path],
    wanted: RunFilter = EVERYTHING,
    *,
    learning: bool = False,
    storage: SampleStorage | None = None,
) -> RunSet:
    """Read journals, imports, tables and folders of them; print what was wrong and what is left out.

    With `learning`, runs from which nothing may be learned are refused. `storage` keeps the values that
    exceed the memory; without it all stay there.
    """
    with Progress("reading") as progress:
        runs = read_runs(
            paths, learning=learning, progress=progress.say, wanted=wanted, storage=storage
        )
    say_notes(runs, wanted)
    return runs


def say_notes(runs: RunSet, wanted: RunFilter = EVERYTHING) -> None:
    """Print what was wrong in some runs, what is left out, and which wanted nodes have no run here."""
    if unmatched := wanted.unmatched({one.node for one in runs.runs}):
        say(f"note: --nodes {','.join(unmatched)}: no run of such a node is here")
    for warning in runs.warnings:
        say(f"note: {warning}")
    for refused in runs.refused:
        # Without a run's name, the reason says which file it is.
        what = f"run {refused.run} of {refused.node}: " if refused.run else ""
        say(f"left out: {what}{refused.reason}")
    if early := _from_the_future(runs, time.time()):
        say(f"note: {early}")


def _from_the_future(runs: RunSet, now: float) -> str:
    """Return one line on the runs that begin in the future by this clock; empty if none does."""
    early = _ahead(runs, now)
    if not early:
        return ""
    off, (run, node) = max((off, unit) for unit, off in early.items())
    what = f"{len(early)} runs begin" if len(early) > 1 else "1 run begins"
    return (
        f"{what} in the future, {run} of {node} {off / 3600:.1f} h: clocks differ, so what passed there "
        "clears nothing; set the clocks"
    )


def _ahead(runs: RunSet, now: float) -> dict[RunNode, float]:
    """Return (run, node) -> seconds by which it began in the future, for runs beyond the tolerance."""
    began = {(one.run, one.node): moment(one.started) for one in runs.runs}
    off = {unit: when - now for unit, when in began.items() if when is not None}
    return {unit: seconds for unit, seconds in off.items() if seconds > CLOCK_TOLERANCE}


def judge_collected(
    runs: RunSet, baselines: dict[str, Baseline], places: Places = (), **strictness: Any
) -> JudgedFleet:
    """Judge all nodes of collected runs, as `judge_fleet`, with the other evidence of their journals.

    A failure counts however old it is. A node is accepted only by its latest run and those of the days before
    it that complete it (`of_latest_days`).

    Args:
        runs: What was collected.
        baselines: Hardware class -> its baseline.
        places: Files, folders and histories that the runs are from, which know which defects were closed.
        **strictness: From `strictness_of`; without it the defaults apply.
    """
    for name in strictness.get("required", ()):
        one = Requirement((name,))
        if baselines and all(one.unknown(b.criteria, b) for b in baselines.values()):
            things = [thing for b in baselines.values() for thing in known_things(b.criteria, b)]
            raise CommandError(
                f"--require {name}: no baseline has such a component, benchmark or metric"
                f"{names_alike(name, things)}"
            )
    killed = ((run.run, run.node) for run in runs.journals if was_killed(run))
    ahead = {*_ahead(runs, time.time()), *killed}
    judged = _judged(runs, baselines, ahead, strictness)
    near, aged = of_latest_days(runs, ahead)
    known = _by_unit(judged)
    if any(known[unit][0].decision is Decision.ACCEPTED for unit in aged & known.keys()):
        judged = _aged_out(judged, _judged(near, baselines, ahead, strictness), aged)
    judged = replace(judged, notes=(*judged.notes, *_by_file_dates(runs)))
    judged = _with_step_shares(_with_unlike(judged, _started(runs)), runs)
    judged = _with_shared_parts(judged, runs)
    return with_answers(judged, runs, places)


def _by_file_dates(runs: RunSet) -> list[str]:
    """Return a note on nodes whose runs are ordered by the dates of their files, which a copy changes."""
    several: dict[str, set[str]] = {}
    for run in runs.runs:
        several.setdefault(run.node, set()).add(run.run)
    found = {run.node for run in runs.runs if run.file_dated and len(several[run.node]) > 1}
    if not found:
        return []
    return [
        f"the runs of {count_text(len(found), 'node')} ({first_of(sorted(found), MAX_NODES_LISTED)}) are in "
        "the order of their files' dates, which a copy changes: import with --date WHEN, or with a column "
        "'time'"
    ]


def _judged(
    runs: RunSet,
    baselines: dict[str, Baseline],
    ahead: Collection[RunNode],
    strictness: Mapping[str, Any],
) -> JudgedFleet:
    with Progress("judging") as progress:
        return judge_fleet(
            runs.populations,
            baselines,
            started=_started(runs),
            ended={(run.run, run.node): run.ended or iso_of(run.last) for run in runs.runs},
            ahead=ahead,
            samples_only={(run.run, run.node) for run in runs.runs if run.samples_only},
            evidence=_evidence(runs),
            checked=_judged_journals(runs),
            unread={(run.run, run.node): run.unread for run in runs.runs if run.unread},
            virtual={key for key, known in runs.classes.items() if known.get("memory") == VIRTUAL},
            progress=progress.count,
            **strictness,
        )


_Units = dict[Unit, tuple[NodeVerdict, NodeDetail]]


def _by_unit(judged: JudgedFleet) -> _Units:
    """Return (node, hardware class) -> its verdict and what that rests on, in the order of the fleet."""
    return {
        (verdict.node, detail.hardware_class): (verdict, detail)
        for verdict, detail in zip(judged.nodes, judged.details, strict=True)
    }


def _with_units(judged: JudgedFleet, units: _Units) -> JudgedFleet:
    nodes = tuple(verdict for verdict, _ in units.values())
    return replace(judged, nodes=nodes, details=tuple(detail for _, detail in units.values()))


def _aged_out(judged: JudgedFleet, near: JudgedFleet, aged: Collection[Unit]) -> JudgedFleet:
    """Return the verdicts; a node that only its older runs complete is no longer accepted."""
    units = _by_unit(judged)
    days = f"{COMPLETING_SECONDS / 86400:g}"
    why = f"what is over {days} days older than its latest run completes it no more"
    old = Blocker(cause=why, act="measure it again")
    for unit, (now, detail) in _by_unit(near).items():
        accepted = unit in aged and units[unit][0].decision is Decision.ACCEPTED
        if accepted and now.decision is not Decision.ACCEPTED:
            units[unit] = replace(now, blocking=(*now.blocking, old)), detail
    return _with_units(judged, units)


def _with_step_shares(judged: JudgedFleet, runs: RunSet) -> JudgedFleet:
    """Add to the verdict on each slow time that has parts how much of the loss each part causes."""
    if not any(one.metric.part_of for one in runs.populations):
        return judged
    found = with_collected_shares(_verdicts(judged), runs.populations, judged.baselines)
    units = _by_unit(judged).items()
    details = (replace(detail, verdicts=found[unit]) for unit, (_, detail) in units)
    return replace(judged, details=tuple(details))


def _verdicts(judged: JudgedFleet) -> dict[Unit, tuple[MetricVerdict, ...]]:
    return {unit: detail.verdicts for unit, (_, detail) in _by_unit(judged).items()}


def _with_shared_parts(judged: JudgedFleet, runs: RunSet) -> JudgedFleet:
    """Return verdicts with the parts that slow devices share, by the latest inventory of each node."""
    latest = {
        (run.node, run.hardware_class): run
        for run in sorted(runs.runs, key=lambda run: run.started)
        if run.inventory
    }
    verdicts = _verdicts(judged)
    parts = parts_of_collected(runs.populations, latest, verdicts, judged.baselines, _started(runs))
    nodes = (
        with_part_act(replace(verdict, shared=parts[unit])) if parts.get(unit) else verdict
        for unit, verdict in zip(verdicts, judged.nodes, strict=True)
    )
    return replace(judged, nodes=tuple(nodes))


def _with_unlike(judged: JudgedFleet, began: Mapping[RunNode, str]) -> JudgedFleet:
    """Mark accepted nodes that learning found unlike the healthy ones, and add a note on all of them."""
    units = _by_unit(judged)
    unlike_nodes: dict[str, str] = {}
    for (node, key), (verdict, detail) in units.items():
        if verdict.decision is not Decision.ACCEPTED:
            continue
        one = unlike_node(node, judged.baselines.get(key))
        if one is not None and not _recovered(one, key, judged.columns, began):
            unlike = unlike_text(one)
            unlike_nodes[node] = unlike
            known = f"{UNLIKE}: {unlike}; {ACCEPTED_UNLIKE}"
            noted = replace(verdict, noted=(*verdict.noted, known))
            units[node, key] = noted, replace(detail, unlike=unlike)
    if not unlike_nodes:
        return judged
    judged = replace(judged, notes=(*judged.notes, accepted_unlike(unlike_nodes)))
    return _with_units(judged, units)


def _recovered(
    one: UnlikeNode, key: str, columns: Sequence[JudgedColumns], began: Mapping[RunNode, str]
) -> bool:
    """Return whether a node has lost at most half as much now as when it was learned from."""
    similarities: dict[str, float] = {}  # by the time its run began
    for judged in columns:
        of = judged.population
        pooled = judged.criterion and judged.criterion.scope == "node"
        if (of.hardware_class, of.benchmark, of.metric.name) != (key, one.benchmark, one.metric):
            continue
        for row, (node, device) in enumerate(zip(of.nodes, of.devices, strict=True)):
            if node == one.node and ("" if pooled else device) == one.device:
                when = began.get((of.runs[row], node), "")
                similarities[when] = max(similarities.get(when, 0.0), float(judged.similarity[row]))
    if not similarities:
        return False
    return 1 - similarities[max(similarities)] <= (1 - one.similarity) / 2


def strictness_of(options: argparse.Namespace, baselines: Mapping[str, Baseline]) -> dict[str, Any]:
    """Return the options of `add_require` and `add_strictness` as arguments of `judge_collected`."""
    created = {moment(one.created) or 0.0: key for key, one in baselines.items()}
    latest = max(created, default=0.0)
    behind = latest - time.time()
    if options.waivers is not None and behind > CLOCK_TOLERANCE:
        raise CommandError(
            f"--waivers: the clock of this machine is {duration_text(behind)} behind the baseline of "
            f"{created[latest]}, so it is unknown which waivers have expired: set it (timedatectl); if it is "
            "right, the baseline was learned by a clock that was ahead: learn it anew"
        )
    waivers = None if options.waivers is None else read_waivers(options.waivers, today())
    same = ("fail_on", "require_all", "other_machine", "allow_missing")
    named = {name: getattr(options, name) for name in same}
    return {**named, "required": options.require, "waivers": waivers}


def rows_of(judged: JudgedFleet) -> list[NodeRow]:
    """Return the nodes as the terminal and the page show them, sorted by name."""
    return [
        NodeRow(
            verdict=verdict,
            verdicts=without_repeats(detail.verdicts),
            cards=detail.cards,
            hardware_class=detail.hardware_class,
            unlike=detail.unlike,
            devices=detail.devices,
            missing=len(detail.missing),
        )
        for verdict, detail in zip(judged.nodes, judged.details, strict=True)
    ]


def _judged_journals(runs: RunSet) -> dict[str, list[JudgedRun]]:
    """Return node -> its judged runs, if it has several journals: a later run may answer an earlier one."""
    counts = Counter(run.node for run in runs.journals)
    found: dict[str, list[JudgedRun]] = {}
    for run in runs.journals:
        if counts[run.node] > 1:
            judged = judged_of(run, began=moment(run.started) or 0.0, ended=moment(run.ended))
            judged = replace(judged, after="" if run.replayed else run.after)
            found.setdefault(run.node, []).append(judged)
    return found


def _started(runs: RunSet) -> dict[RunNode, str]:
    """Return when each run began; a run that may be another machine's has no date, so it answers nothing."""
    dates = {(run.run, run.node): run.started for run in runs.runs}
    return dates | {(run.run, run.node): "" for run in runs.journals if run.replayed}


def _evidence(runs: RunSet) -> dict[tuple[str, str], RunEvidence]:
    """Return the evidence in the journals of each node besides samples."""
    found: dict[tuple[str, str], RunEvidence] = {}
    several: dict[tuple[str, str], list[RunRecord]] = {}
    for run in runs.journals:
        key = (run.hardware_class, run.node)
        evidence = evidence_of(run, runs.unmeasured.get((run.run, run.node), ()))
        found[key] = found[key].with_more(evidence) if key in found else evidence
        several.setdefault(key, []).append(run)
    for key, those in several.items():
        if all(run.replayed for run in those):
            why = "it used a recorded inventory, not known to be of the machine that measured"
            blocker = Blocker(run=those[-1].run, cause=why)
            found[key] = replace(found[key], blockers=(*found[key].blockers, blocker))
        if any(run.waivers for run in those):
            today_waivers = _waivers_today(those)
            last = max(those, key=lambda run: run.started)
            found[key] = replace(found[key], waivers=last.waivers, waivers_of=today_waivers)
    measured = {node for population in runs.populations for node in population.nodes}
    for run in runs.runs:
        if run.unread and run.node not in measured:  # otherwise no verdict would name it
            found.setdefault((run.hardware_class, run.node), RunEvidence())
    return found


def _waivers_today(runs: Sequence[RunRecord]) -> dict[str, tuple[Waiver, ...]]:
    """Return run -> the waivers that apply to its failures today, as in a node's standing.

    They are its own, and those with which a later run accepted the node in spite of the same failures.
    """
    holds = holds_on(today())
    found = {
        run.run: tuple(replace(one, expired=not holds(one)) for one in run.waivers) for run in runs
    }
    judged = [judged_of(run, began=moment(run.started) or 0.0) for run in runs]
    for later in judged:
        if later.decision != Decision.ACCEPTED:
            continue
        for key, waiver in later.waived:
            if not waiver.owner or not holds(waiver):
                continue
            exact = replace(waiver, test=key[0], device=key[2], expired=False)
            for run in judged:
                if run.began < later.began and key in run.found:
                    found[run.run] += (exact,)
    return found


def with_answers(judged: JudgedFleet, runs: RunSet, places: Places) -> JudgedFleet:
    """Make a rejected node undecided if the operator closed the defect of each run that rejects it.

    Only another run shows whether the repair worked. The runs are from `places`: files, folders, histories.
    """
    rejected = {one.node for one in judged.nodes if one.decision is Decision.REJECTED}
    paths = [one for one in places if isinstance(one, Path)]
    answered = answered_runs(paths, rejected) | closed_runs(places, rejected) if rejected else set()
    if not answered:
        return judged
    of_node: dict[str, set[str]] = {}
    for run in runs.runs:
        of_node.setdefault(run.node, set()).add(run.run)
    nodes = [
        _answered(verdict, detail, of_node.get(verdict.node, set()), answered)
        for verdict, detail in zip(judged.nodes, judged.details, strict=True)
    ]
    return replace(judged, nodes=tuple(nodes))


def _answered(
    verdict: NodeVerdict, detail: NodeDetail, runs: set[str], answered: set[RunNode]
) -> NodeVerdict:
    if verdict.decision is not Decision.REJECTED:
        return verdict
    bad = [one for one in detail.verdicts if one.outcome is Outcome.FAIL]
    bad = bad or [one for one in detail.verdicts if one.outcome is Outcome.MARGINAL]
    # A node's pooled values repeat what a bad device shows, so they count only if no device is bad.
    bad = [one for one in bad if one.scope == "unit"] or bad
    found = {one.run or (next(iter(runs)) if len(runs) == 1 else "") for one in bad}
    if not found or not found <= {run for run, node in answered if node == verdict.node}:
        return verdict
    why = f"run {', '.join(sorted(found))} rejected it, and its defect was closed since"
    return replace(
        verdict,
        decision=Decision.UNDECIDED,
        headline=f"node {verdict.node} is neither accepted nor rejected: {why}{STEP}measure it again",
        blocking=(Blocker(cause=why, act="measure it again"),),
        triage=Triage.NONE,
    )
