"""Read a fleet, from a history or journals, and its risk, for `fleet status`, `drain-list` and `plan`."""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_anubis.cli.shared import history_access as histories
from pytest_anubis.cli.shared.command_error import CommandError
from pytest_anubis.cli.shared.run_sources import add_sources, wanted_of
from pytest_anubis.core.history import FleetHistory, NodeRecord
from pytest_anubis.core.validation_figures import ValidationRuns
from pytest_anubis.fleet.launching.host_list import HostListError, read_hosts
from pytest_anubis.passwords import is_mistaken, shown_place
from pytest_anubis.selector.risk.incident_kinds import kind_mixes
from pytest_anubis.selector.selector_error import SelectorError
from pytest_anubis.store.run_filter import RunFilter

if TYPE_CHECKING:
    from pytest_anubis.selector.planning.fleet_coverage import ClassCoverage, Mix
    from pytest_anubis.selector.risk.forecast import Outlook
    from pytest_anubis.store.fleet.last_runs import NodeState
    from pytest_anubis.store.history.database import History

READING = 300.0
"""Seconds for reading a whole fleet out of a history: that of 100,000 nodes takes minutes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetRead:
    """The nodes of a fleet with their last runs, and its history if one was read."""

    place: str  # where it was read from, for people
    nodes: tuple[NodeState, ...]  # what is known last of each wanted node
    listed: tuple[str, ...] = ()  # nodes that a list names
    # The whole history without what differs between classes; None of collected journals
    fleet: FleetHistory | None = None
    # Hardware class -> the history with its durations, experience and defects
    classes: Mapping[str, FleetHistory] = field(default_factory=dict)
    # Its runs for the figures about validation, if these were asked for
    validated: ValidationRuns = field(default_factory=ValidationRuns)
    notes: tuple[str, ...] = ()  # what could not be read, one line each
    # Number of files that cannot be read, or contradict another run of the same id
    damaged: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetRisk:
    """Probabilities of incidents on a fleet."""

    outlook: Outlook  # risks without regard to what nodes passed
    mixes: Mapping[str, Mix]  # node -> its mix of kinds of incidents
    coverage: Mapping[str, ClassCoverage]  # hardware class -> what its benchmarks expose
    left: Mapping[str, float]  # node -> the risk that its last verdict leaves


def add_fleet(parser: argparse.ArgumentParser, *, folders: bool) -> None:
    """Declare where a fleet is read from (a history, or `folders` of journals) and which of its nodes."""
    if folders:
        parser.add_argument(
            "folders",
            nargs="*",
            type=Path,
            metavar="DIR",
            help="folders with collected journals (default: the history, PYTEST_ANUBIS_HISTORY or .anubis)",
        )
    add_sources(parser, with_metrics=False)
    parser.add_argument(
        "--nodes-file",
        metavar="HOSTS",
        help="nodes that the fleet has: a file with one name a line, a table with the column node "
        "(FILE.csv), or names, n[1-3,7] too",
    )


def read_fleet_now(
    options: argparse.Namespace, *, whole: bool, validated: bool = False
) -> FleetRead:
    """Read the fleet that was named; `whole` includes incidents, defects and durations, for its risk.

    `validated` includes what every run spent, for the figures about validation.
    """
    wanted = wanted_of(options)
    listed = tuple(name for name in _listed(options.nodes_file) if wanted.wants_node(name))
    if getattr(options, "folders", None):
        if options.history:
            raise CommandError("--history takes the runs out of a history: name no folders with it")
        # All runs of a node are read: a rejection counts whatever its date and class.
        every = replace(wanted, since=None, hardware_class="")
        found = _of_folders(options.folders, every, listed, wanted if validated else None)
    else:
        found = _of_history(options, wanted, listed, whole=whole, validated=validated)
    nodes = (one for one in found.nodes if wanted.hardware_class in ("", one.node.hardware_class))
    found = replace(found, nodes=tuple(_lately(one, wanted.since) for one in nodes))
    if not found.nodes and not listed:
        raise CommandError(
            f"{found.place}: no node in it, or none that was asked for; run 'pytest --anubis suites/' on "
            "them, register them with 'anubis history nodes import', or check --nodes, --exclude and --class"
        )
    return found


def _lately(one: NodeState, since: float | None) -> NodeState:
    """Return a node without runs from before a time; a rejection is kept, however old it is."""
    if since is None or one.standing.failures:
        return one
    old = one.last is not None and one.last.started < since
    one = replace(one, last=None) if old else one
    return replace(one, open="", open_since=0.0) if one.open_since < since else one


def _of_folders(
    folders: list[Path], wanted: RunFilter, listed: tuple[str, ...], validated: RunFilter | None
) -> FleetRead:
    from pytest_anubis.store.collected_runs import read_runs
    from pytest_anubis.store.fleet.last_runs import NodeState, last_of_runs
    from pytest_anubis.store.fleet.validation_runs import collected_validation_runs

    runs = read_runs(folders, wanted=wanted)
    spent = collected_validation_runs(validated.runs(runs.journals) if validated else ())
    refused = [one.line for one in runs.refused]
    if not runs.journals and (runs.runs or refused):
        place = ", ".join(map(str, folders))
        raise CommandError(
            f"{place}: no journal in it{f' ({refused[0]})' if refused else ''}; imports and exports hold no "
            "verdicts: name journals or a history, or judge these ('anubis judge')"
        )
    imported = runs.unjudged
    nodes = [
        replace(one, unjudged=imported.pop(one.node.name, 0)) for one in last_of_runs(runs.journals)
    ]
    nodes += [
        NodeState(node=NodeRecord(name=name), unjudged=count) for name, count in imported.items()
    ]
    return FleetRead(
        place=", ".join(map(str, folders)),
        nodes=tuple(nodes),
        listed=listed,
        validated=ValidationRuns(runs=spent),
        notes=(*runs.warnings, *refused),
        damaged=sum(one.damaged for one in runs.refused),
    )


def _of_history(
    options: argparse.Namespace,
    wanted: RunFilter,
    listed: tuple[str, ...],
    *,
    whole: bool,
    validated: bool,
) -> FleetRead:
    from pytest_anubis.store.fleet.last_runs import last_of_history
    from pytest_anubis.store.fleet.validation_runs import filed_validation_runs
    from pytest_anubis.store.history.fleet_history import of_class, read_fleet

    named = history_named(options)
    place: Path | str = named if "://" in named else Path(named)
    if not histories.may_be_there(named) and not is_mistaken(named):
        raise CommandError(
            f"{shown_place(named)}: no history is there; name one by --history, or push runs into it "
            f"('anubis push --history {shlex.quote(shown_place(named))}')"
        )
    histories.check_file_is_there(named)

    def read(history: History) -> FleetRead:
        nodes = tuple(
            one
            for one in last_of_history(history, place)
            if wanted.wants_node(one.node.name)
            and wanted.hardware_class in ("", one.node.hardware_class)
        )
        found = FleetRead(place=shown_place(named), nodes=nodes, listed=listed)
        if not whole:
            return found
        fleet = read_fleet(history)
        profile = getattr(options, "profile", "")
        classes = {
            key: of_class(history, fleet, key, profile=profile)
            for key in sorted({one.node.hardware_class for one in nodes})
        }
        runs = filed_validation_runs(history, wanted) if validated else ValidationRuns()
        return replace(found, fleet=fleet, classes=classes, validated=runs)

    return histories.use(named, read, limit=READING)


def risk_of(found: FleetRead, horizon: float, model: Path | None, now: float) -> FleetRisk | None:
    """Return the risks of a fleet; None if no incident was ever recorded."""
    from pytest_anubis.selector.planning.fleet_coverage import (
        LastPass,
        class_coverage,
        mixes_of,
        residual_risks,
    )
    from pytest_anubis.selector.risk.forecast import NoRiskError, fit_risk, look_ahead

    if found.fleet is None:
        return None
    try:
        risk = (
            fit_risk(found.fleet, now=now, horizon=horizon, quick=True)
            if model is None
            else histories.load_risk_model(model)
        )
        outlook = look_ahead(found.fleet, risk, now=now, horizon=horizon)
    except NoRiskError:
        return None
    except SelectorError as error:
        raise CommandError(f"{found.place}: {error}") from error
    risks = {one.node: one.probability for one in outlook.risks}
    mixes = mixes_of(kind_mixes(found.fleet.incidents), list(risks))
    left: dict[str, float] = {}
    coverage = {}
    for key, fleet in found.classes.items():
        own = [one for one in found.nodes if one.node.hardware_class == key]
        own_risks = {one.node.name: risks[one.node.name] for one in own if one.node.name in risks}
        coverage[key] = class_coverage(fleet, [mixes[name] for name in own_risks], key)
        passed = {
            one.node.name: LastPass(age=now - one.last.at, benchmarks=one.last.passed)
            for one in own
            if one.last is not None
        }
        left |= residual_risks(own_risks, mixes, coverage[key], passed, horizon)
    return FleetRisk(outlook=outlook, mixes=mixes, coverage=coverage, left=left)


def history_named(options: argparse.Namespace) -> str:
    """Return the history that is read if no folders are."""
    named: str = options.history or os.environ.get("PYTEST_ANUBIS_HISTORY") or ".anubis"
    return named


def _listed(text: str | None) -> tuple[str, ...]:
    if text is None:
        return ()
    if text.lower().endswith(".csv"):
        from pytest_anubis.store.history.csv_rows import read_rows
        from pytest_anubis.store.history.database import HistoryError

        try:
            rows = read_rows(Path(text), ("node",), ())
            return tuple(
                dict.fromkeys(row["node"].strip() for _, row in rows if row["node"].strip())
            )
        except HistoryError as error:
            raise CommandError(f"--nodes-file {error}") from error
    try:
        return tuple(host.name for host in read_hosts(text))
    except HostListError as error:
        raise CommandError(f"--nodes-file: {error}") from error
