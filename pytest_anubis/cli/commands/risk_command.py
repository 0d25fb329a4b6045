"""``anubis risk``: fit the fleet's risk model, and show how likely each node is to have an incident soon."""

from __future__ import annotations

import argparse
import datetime as dt
import time
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_anubis.cli.shared import history_access as histories
from pytest_anubis.cli.shared.arguments import add_json, explain
from pytest_anubis.cli.shared.command_error import CommandError
from pytest_anubis.cli.shared.printing import say, write_file, write_json
from pytest_anubis.cli.shared.progress import Progress
from pytest_anubis.cli.shared.run_sources import listed
from pytest_anubis.core.share_interval import share_interval
from pytest_anubis.passwords import shown_place
from pytest_anubis.report.pages.risk_report import (
    GroupRow,
    ModelStory,
    NodeOutlook,
    between,
    model_cells,
    model_lines,
    risk_lines,
    risk_page,
)
from pytest_anubis.report.text.numbers import count_text, percent
from pytest_anubis.selector.selector_error import SelectorError

if TYPE_CHECKING:
    from pytest_anubis.core.history import FleetHistory
    from pytest_anubis.selector.risk.after_passing import PassedRuns
    from pytest_anubis.selector.risk.forecast import Outlook, RiskModel

MODELS = ("auto", "exponential", "weibull", "cox", "cox-time")
MAX_NODES_SHOWN = 40
"""Nodes shown on the terminal without ``--all``."""

HOURS_AHEAD = (1, 3, 6, 12, 24, 48, 96, 168, 336, 720)
"""Hours ahead for which the page shows how many incidents are expected."""


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    explain(
        parser,
        "Show how likely each node is to have an incident within the horizon, after what the history knows; "
        "fit the risk model and keep it.",
    )
    histories.add_history(parser)
    histories.add_horizon(parser)
    parser.add_argument(
        "--node", action="append", default=[], metavar="NAME[,...]", help="only these nodes"
    )
    parser.add_argument(
        "--model",
        choices=MODELS,
        help="fit this model now (auto: the one that backtests in time on this history prefer); default: "
        "the saved one, else auto",
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="seed of cox-time and of samples (default: 0)"
    )
    parser.add_argument(
        "--save",
        nargs="?",
        const="",
        metavar="FILE",
        help="keep the fitted model; without FILE in the store, where the Selector finds it",
    )
    parser.add_argument("--load", type=Path, metavar="FILE", help="use a model that was kept")
    parser.add_argument("--all", action="store_true", help="show every node")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write a page with plots")
    add_json(parser, "the risks")


def run(options: argparse.Namespace) -> int:
    """Fit or load a model, and show the risks of the fleet."""
    from pytest_anubis.selector.risk.after_passing import after_passing
    from pytest_anubis.store.history.fleet_history import read_fleet
    from pytest_anubis.store.history.node_rows import unknown_node

    if options.load is not None and options.model is not None:
        raise CommandError("--load uses a model that was kept, --model fits one: give one of them")
    fleet = histories.read(options.history, read_fleet)
    options.node = listed(options.node)
    unknown = sorted(set(options.node) - {node.name for node in fleet.nodes})
    if unknown:
        raise CommandError(unknown_node(unknown[0]))
    now = time.time()
    risk = _model(options, fleet, now)
    outlook = _look(options, fleet, risk, now, options.horizon)
    rows = _rows(fleet, outlook, risk, now)
    story = _story(risk)
    passed = after_passing(fleet, risk, now=now, horizon=options.horizon)
    if options.json is not None:
        write_json(options.json, _plain(outlook, rows, now, risk, passed))
    if options.json != "-":
        _show(outlook, rows, story, passed, risk.within, whole=options.all)
    if options.save is not None:
        _save(options, risk)
    if options.html is not None:
        _page(options, fleet, risk, outlook, rows, now, story, passed)
    return 0


def _model(options: argparse.Namespace, fleet: FleetHistory, now: float) -> RiskModel:
    from pytest_anubis.selector.risk.forecast import fit_risk

    if options.load is not None:
        return histories.load_risk_model(options.load)
    fresh = options.model is not None or options.save is not None
    kept = None if fresh else histories.kept_model(options.history)
    if kept is not None:
        return histories.load_risk_model(kept)
    with Progress("fitting") as progress:
        progress.say(count_text(len(fleet.incidents), "incident"))
        try:
            return fit_risk(
                fleet,
                now=now,
                model=options.model or "auto",
                seed=options.seed,
                horizon=options.horizon,
                say=progress.say,
            )
        except SelectorError as error:
            raise CommandError(f"{shown_place(options.history)}: {error}") from error


def _look(
    options: argparse.Namespace, fleet: FleetHistory, risk: RiskModel, now: float, horizon: float
) -> Outlook:
    from pytest_anubis.selector.risk.forecast import look_ahead

    try:
        return look_ahead(fleet, risk, now=now, horizon=horizon, nodes=options.node or None)
    except SelectorError as error:
        raise CommandError(f"{shown_place(options.history)}: {error}") from error


def _rows(fleet: FleetHistory, outlook: Outlook, risk: RiskModel, now: float) -> list[NodeOutlook]:
    """Return the nodes, riskiest first."""
    from pytest_anubis.selector.risk.drivers import risk_drivers

    asked = [each.node for each in outlook.risks]
    drivers = risk_drivers(fleet, risk, now=now, horizon=outlook.horizon, nodes=asked)
    counts = Counter(incident.node for incident in fleet.incidents)
    latest = {incident.node: incident.kind for incident in fleet.incidents}
    states = {node.name: node.state for node in fleet.nodes}
    rows = [
        NodeOutlook(
            node=each.node,
            probability=each.probability,
            uptime=3600 * outlook.uptime[each.node],
            incidents=counts[each.node],
            last=latest.get(each.node, ""),
            state=states.get(each.node, ""),
            low=each.low,
            high=each.high,
            drivers=drivers.get(each.node, ()),
        )
        for each in outlook.risks
    ]
    return sorted(rows, key=lambda row: (-row.probability, row.node))


def _story(risk: RiskModel) -> ModelStory:
    """Return why the model was chosen, for people."""
    found = risk.backtest
    seconds = 3600 * found.horizon
    groups = []
    for group in found.groups:
        low, high = share_interval(round(group.rows * group.observed), group.rows)
        groups.append(
            GroupRow(
                rows=group.rows,
                predicted=group.predicted,
                observed=group.observed,
                low=low,
                high=high,
            )
        )
    models = tuple(
        model_cells(
            each.model,
            each.mean("concordance"),
            each.mean("skill"),
            [score.calibration for score in each.scores],
            "chosen" if each.chosen else "",
        )
        if each.scores
        else [each.model, "-", "-", "-", each.why]
        for each in found.candidates
    )
    return ModelStory(
        reason=found.reason,
        how=f"judged {found.horizon:.4g} h ahead at {found.degrees} earlier moments, each by all that came "
        f"after it ({count_text(found.incidents, 'incident')})",
        models=models,
        horizon=seconds,
        groups=tuple(groups),
        warning=found.warning,
    )


def _passed_words(passed: PassedRuns | None, horizon: float) -> str:
    """Return what happened to nodes after they passed validation; empty if that is unknown yet."""
    if passed is None:
        return ""
    return (
        f"of {count_text(passed.runs, 'accepted run')} followed for {horizon / 3600:g} h, "
        f"{passed.incidents} had an incident: {percent(passed.observed)} "
        f"(95 % within {between(passed.low, passed.high)}); the model says {percent(passed.predicted)} of "
        "these nodes at these times, without knowing that they passed"
    )


def _plain(
    outlook: Outlook,
    rows: list[NodeOutlook],
    now: float,
    risk: RiskModel,
    passed: PassedRuns | None,
) -> dict[str, object]:
    return {
        "schema": 1,
        "at": now,
        "horizon": outlook.horizon,
        "basis": outlook.basis,
        "within": risk.within,
        "notes": list(outlook.notes),
        "warnings": [risk.backtest.warning] if risk.backtest.warning else [],
        "expected_incidents": sum(row.probability for row in rows),
        "backtest": risk.backtest.to_plain(),
        "passed": None if passed is None else asdict(passed),
        "nodes": [asdict(row) for row in rows],
    }


def _show(
    outlook: Outlook,
    rows: list[NodeOutlook],
    story: ModelStory,
    passed: PassedRuns | None,
    within: str,
    *,
    whole: bool,
) -> None:
    most = None if whole else MAX_NODES_SHOWN
    say(*risk_lines(rows, outlook.horizon, outlook.basis, within, most=most))
    words = _passed_words(passed, outlook.horizon)
    say(*([words] if words else []), *model_lines(story))
    say(*(f"note: {note}" for note in outlook.notes))


def _save(options: argparse.Namespace, risk: RiskModel) -> None:
    from pytest_anubis.store.history.risk_model_files import save_model

    path = Path(options.save) if options.save else histories.model_path(options.history)
    if path is None:
        raise CommandError("--save: name a FILE; a database elsewhere has no folder for it")
    save_model(path, risk.to_plain(), created=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"))
    say(f"written: {path}")


def _page(
    options: argparse.Namespace,
    fleet: FleetHistory,
    risk: RiskModel,
    outlook: Outlook,
    rows: list[NodeOutlook],
    now: float,
    story: ModelStory,
    passed: PassedRuns | None,
) -> None:
    hours = sorted({*HOURS_AHEAD, options.horizon / 3600})
    expected = [(ahead, _look(options, fleet, risk, now, ahead * 3600).expected) for ahead in hours]
    text = risk_page(
        rows,
        outlook.horizon,
        outlook.basis,
        expected,
        story,
        notes=outlook.notes,
        passed=_passed_words(passed, outlook.horizon),
        within=risk.within,
    )
    write_file(options.html, text)
