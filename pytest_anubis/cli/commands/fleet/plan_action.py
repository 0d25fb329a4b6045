"""``anubis fleet plan``: what the next maintenance window should validate, as one choice over all nodes.

`selector/planning/window_plan` chooses. Nothing is run; ``--hosts`` lists the nodes for `anubis fleet run`.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_anubis.cli.commands.fleet.fleet_reading import (
    FleetRead,
    FleetRisk,
    add_fleet,
    history_named,
    read_fleet_now,
    risk_of,
)
from pytest_anubis.cli.commands.fleet.plan_text import (
    MAX_NAMES_LISTED,
    PARTNER,
    class_notes,
    plan_document,
    plan_line,
    show_plan,
)
from pytest_anubis.cli.shared import history_access as histories
from pytest_anubis.cli.shared.arguments import add_action, add_json
from pytest_anubis.cli.shared.command_error import CommandError
from pytest_anubis.cli.shared.printing import few, say, write_file, write_json
from pytest_anubis.core.metric import named_by
from pytest_anubis.report.text.numbers import count_text

if TYPE_CHECKING:
    from pytest_anubis.fleet.fleet_status import NodeStatus
    from pytest_anubis.selector.planning.window_problem import NodeCase, Window

HOUR = 3600.0


def add_plan(actions: Any) -> None:
    """Declare ``plan``."""
    parser = add_action(
        actions, "plan", _plan,
        "plan a window of some hours: which nodes run which benchmarks when, so that most cost of "
        "incidents is spared; nothing is started",
        "Exit codes: 0 planned; 2 wrong usage or input, or nothing can be planned for.",
    )  # fmt: skip
    add_fleet(parser, folders=False)
    histories.add_horizon(parser)
    parser.add_argument(
        "--hours", required=True, metavar="H", help="length of the window: 8, or 90m, 8h"
    )
    parser.add_argument(
        "--at-once",
        type=_count,
        metavar="K",
        help="how many nodes may be out of service at a time, partners included (default: all)",
    )
    parser.add_argument(
        "--pool",
        action="append",
        default=[],
        metavar="NAME=N",
        help="something scarce and how many there are of it, e.g. rig=4; can be given again",
    )
    parser.add_argument(
        "--partners",
        type=_count,
        metavar="N",
        help="set N accepted nodes of the least risk aside as partners: the pool 'partner'",
    )
    parser.add_argument(
        "--needs",
        action="append",
        default=[],
        metavar="PATTERN=POOL[:N]",
        help="benchmarks whose runs take N (1) of a pool, e.g. '*test_pairs*=partner'; can be given again",
    )
    parser.add_argument(
        "--pin",
        action="append",
        default=[],
        metavar="PATTERN",
        help="benchmarks that run on every node whatever they spare; those that exposed an open "
        "defect of a node run on it anyway; can be given again",
    )
    parser.add_argument(
        "--incident-cost",
        type=histories.duration,
        default=86400.0,
        metavar="TIME",
        help="node time that one incident costs (default: 24h)",
    )
    parser.add_argument(
        "--time-worth",
        type=_share,
        default=1.0,
        metavar="SHARE",
        help="what an hour of a node in the window is worth, relative to one that an incident costs; 0: "
        "the window is there anyway (default: 1)",
    )
    parser.add_argument("--profile", default="", help="durations of this profile (default: all)")
    parser.add_argument("--all", action="store_true", help="show every node")
    parser.add_argument(
        "--hosts",
        type=Path,
        metavar="FILE",
        help="write the nodes in their order, for 'anubis fleet run'",
    )
    parser.add_argument(
        "--format",
        choices=("text", "lines", "json"),
        default="text",
        help="what is printed: text; lines, one for each node: its start in seconds, its name, its "
        "benchmarks; or json, as --json - (default: text)",
    )
    add_json(parser, "the whole plan")


def _plan(options: argparse.Namespace) -> int:
    from pytest_anubis.fleet.fleet_status import statuses_of, unknown_of
    from pytest_anubis.selector.planning.window_plan import plan_window

    seconds = _hours(options.hours)
    pools = _pools(options)
    now = time.time()
    found = read_fleet_now(options, whole=True)
    model = histories.kept_model(history_named(options))
    risk = risk_of(found, options.horizon, model, now)
    if risk is None:
        raise CommandError(
            f"{found.place}: no incident is known, so it is unknown what a validation spares; "
            "enter them with 'anubis history incident import', or validate everything"
        )
    statuses = statuses_of(found.nodes, now=now, risks=risk.left, accepted_risk=0.0, listed=())
    partners = _partners(options, statuses, risk)
    cases = _cases(options, found, risk, statuses, set(partners), now)
    notes = class_notes(found, risk)
    if not cases:
        why = f"; {notes[0]}" if notes else ""
        raise CommandError(f"{found.place}: no node is in service that could be validated{why}")
    window = _window(options, seconds, pools, len(partners), risk)
    plan = plan_window(cases, risk.coverage, window)
    never = unknown_of(found.listed, {node_last.node.name for node_last in found.nodes})
    if never:
        named = few(never, MAX_NAMES_LISTED)
        say(
            f"note: not planned for, as the history does not know them: "
            f"{count_text(len(never), 'node')} of --nodes-file ({named}); run 'pytest --anubis' on them, "
            "or register them with 'anubis history nodes import'",
            file=sys.stderr,
        )
    if options.hosts is not None:
        names = [one.node for one in plan.nodes if one.runs]
        listed = "".join(f"{name}\n" for name in names)
        write_file(options.hosts, listed, aside=options.format != "text" or options.json == "-")
    to = "-" if options.format == "json" else options.json
    if to is not None:
        plain = plan_document(options, plan, window, partners, now)
        write_json(to, plain, aside=options.format != "text")
    if to == "-":
        return 0
    if options.format == "lines":
        say(*(plan_line(one) for one in plan.nodes if one.runs))
    else:
        show_plan(
            options,
            plan,
            window,
            partners,
            [f"risks: {risk.outlook.basis}", *risk.outlook.notes, *notes],
        )
    return 0


def _window(
    options: argparse.Namespace,
    seconds: float,
    pools: Mapping[str, int],
    partners: int,
    risk: FleetRisk,
) -> Window:
    from pytest_anubis.selector.planning.window_problem import Window

    known = sorted({name for one in risk.coverage.values() for name in one.benchmarks})
    at_once = options.at_once
    if at_once is not None and at_once <= partners:
        raise CommandError(
            f"--at-once {at_once}: the {partners} partners leave no place for others"
        )
    return Window(
        seconds=seconds,
        at_once=None if at_once is None else at_once - partners,
        pools=pools,
        needs=_needs(options.needs, known, pools),
        incident_seconds=options.incident_cost,
        time_worth=options.time_worth,
    )


def _cases(
    options: argparse.Namespace,
    found: FleetRead,
    risk: FleetRisk,
    statuses: Sequence[NodeStatus],
    aside: set[str],
    now: float,
) -> list[NodeCase]:
    """Return the nodes that could be validated: in service, not rejected, and no partners."""
    from pytest_anubis.fleet.fleet_status import Status
    from pytest_anubis.selector.choice.choice_inputs import exposing_open
    from pytest_anubis.selector.planning.fleet_coverage import LastPass, credit
    from pytest_anubis.selector.planning.window_problem import NodeCase

    free = {one.node for one in statuses if one.status is not Status.QUARANTINED} - aside
    risks = {one.node: one.probability for one in risk.outlook.risks}
    defects: dict[str, list[Any]] = {}
    for defect in found.fleet.defects if found.fleet is not None else ():
        if defect.state == "open":
            defects.setdefault(defect.node, []).append(defect)
    cases = []
    for node_last in found.nodes:
        name = node_last.node.name
        key = node_last.node.hardware_class
        if name not in free or name not in risks:
            continue
        last = node_last.last
        passed = None if last is None else LastPass(age=now - last.at, benchmarks=last.passed)
        known = risk.coverage[key].benchmarks
        if not known:
            continue  # `class_notes` says so
        pins = {one for one in known if any(named_by(pattern, one) for pattern in options.pin)}
        pins |= exposing_open(defects.get(name, ()), [name]) & set(known)
        cases.append(
            NodeCase(
                node=name,
                hardware_class=key,
                risk=risks[name],
                mix=risk.mixes[name],
                credit=credit(passed, options.horizon),
                passed=frozenset() if passed is None else passed.benchmarks,
                pins=frozenset(pins),
            )
        )
    return cases


def _partners(
    options: argparse.Namespace, statuses: Sequence[NodeStatus], risk: FleetRisk
) -> tuple[str, ...]:
    """Return the accepted nodes of the least risk that are set aside."""
    from pytest_anubis.fleet.fleet_status import Status

    count = options.partners or 0
    good = sorted(
        (
            one
            for one in statuses
            if one.decision == "ACCEPTED" and one.status in (Status.DUE, Status.FIT)
        ),
        key=lambda one: (risk.left.get(one.node, 1.0), one.node),
    )
    if len(good) < count:
        raise CommandError(
            f"--partners {count}: only {count_text(len(good), 'node')} accepted in service"
        )
    return tuple(sorted(one.node for one in good[:count]))


def _pools(options: argparse.Namespace) -> dict[str, int]:
    pools: dict[str, int] = {}
    for text in options.pool:
        name, sign, count = text.partition("=")
        if not name or not sign or not count.isdecimal() or len(count) > 9:
            raise CommandError(f"--pool {text[:40]!r}: write NAME=N, e.g. rig=4")
        if name in pools or (name == PARTNER and options.partners is not None):
            raise CommandError(f"--pool {name[:40]}: is given twice")
        pools[name] = int(count)
    if options.partners is not None:
        pools[PARTNER] = options.partners
    return pools


def _needs(
    given: Sequence[str], known: Sequence[str], pools: Mapping[str, int]
) -> dict[str, dict[str, int]]:
    """Read what benchmarks need; a pattern that no benchmark matches is a slip."""
    needs: dict[str, dict[str, int]] = {}
    for text in given:
        pattern, _, what = text.rpartition("=")
        pool, _, count = what.partition(":")
        if not pattern or not pool or not (count or "1").isdecimal() or int(count or 1) < 1:
            raise CommandError(f"--needs {text[:60]!r}: write PATTERN=POOL or PATTERN=POOL:N")
        if pool not in pools:
            there = ", ".join(sorted(pools)) or "none"
            raise CommandError(
                f"--needs {text[:60]!r}: there is no pool {pool[:40]!r} (there is: {there}); "
                "--pool NAME=N declares one, --partners N the partners"
            )
        matching = [name for name in known if named_by(pattern, name)]
        if not matching:
            raise CommandError(
                f"--needs {text[:60]!r}: no benchmark of the history matches; 'anubis goals' lists them"
            )
        for name in matching:
            needs.setdefault(name, {})[pool] = int(count or 1)
    return needs


def _hours(text: str) -> float:
    """Read the length of the window; a bare number is hours."""
    try:
        found = float(text) * HOUR
    except ValueError:
        try:
            return histories.duration(text)
        except argparse.ArgumentTypeError as error:
            raise CommandError(f"--hours: {error}") from error
    if not 0 < found <= 1000 * HOUR:  # six weeks: no window of maintenance
        raise CommandError(f"--hours {text[:20]}: give more than 0 and at most 1000")
    return found


def _count(text: str) -> int:
    if not text.isdecimal() or len(text) > 9 or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text[:20]!r} is no whole number of 1 or more")
    return int(text)


def _share(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not 0 <= found <= 1000:  # beyond, nothing would ever pay
        raise argparse.ArgumentTypeError(f"{text[:20]!r} is no share of 0 or more")
    return found
