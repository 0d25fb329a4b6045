"""``anubis select``: choose the benchmarks that are worth their time on a node now; nothing is run."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pytest_anubis.cli.shared import history_access as histories
from pytest_anubis.cli.shared.arguments import add_json, explain
from pytest_anubis.cli.shared.command_error import CommandError
from pytest_anubis.cli.shared.printing import few, say, write_json
from pytest_anubis.cli.shared.run_sources import listed
from pytest_anubis.codec import to_plain
from pytest_anubis.passwords import shown_place
from pytest_anubis.report.pages.choice_report import choice_lines, explain_lines
from pytest_anubis.report.text.numbers import count_text
from pytest_anubis.selector.choice.known_benchmarks import known_benchmarks
from pytest_anubis.selector.selector_error import SelectorError

if TYPE_CHECKING:
    from pytest_anubis.core.history import NodeRecord
    from pytest_anubis.selector.choice.choice_inputs import Choice, ChoiceRequest

PLAN_DIFFERS = (
    "note: as with pytest --anubis-select, risks come from the history and no benchmark that passed earlier "
    "lowers them; unlike there, none is added by chance. 'anubis fleet plan' counts what a node passed last, "
    "and chooses what spares most cost in a window"
)
"""How this choice differs by design from pytest's, and from a fleet's plan, with the same history."""

ELSEWHERE = "only other classes have run"
"""Why a known benchmark is not offered: it may not apply to this class."""
MAX_NAMES_LISTED = 3
"""Maximum number of benchmarks not offered that are named without --explain."""


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    explain(
        parser,
        "Choose the benchmarks that are worth their time on a node now, without running them.",
    )
    histories.add_history(parser)
    histories.add_horizon(parser)
    parser.add_argument(
        "--node",
        action="append",
        default=[],
        metavar="NAME[,...]",
        help="node to choose for; several share one choice; default: the only one there is",
    )
    parser.add_argument(
        "--by",
        choices=("risk", "budget", "cost", "all"),
        help="cheapest set within the accepted risk, most coverage within the budget, or least "
        "expected total cost (default: budget with --budget, else risk)",
    )
    parser.add_argument(
        "--risk",
        type=histories.probability,
        metavar="P0",
        help="accepted probability of an incident, with several nodes on at least one (default with --by "
        "risk: 0.01)",
    )
    parser.add_argument(
        "--budget",
        type=histories.duration,
        metavar="TIME",
        help="time that there is, e.g. 20m; goes with --by budget",
    )
    parser.add_argument(
        "--incident-cost",
        type=histories.duration,
        default=86400.0,
        metavar="TIME",
        help="node time that one incident costs, for --by cost (default: 24h)",
    )
    parser.add_argument("--profile", default="", help="durations of this profile (default: all)")
    parser.add_argument("--explain", action="store_true", help="a reason for every benchmark")
    parser.add_argument(
        "--ids", action="store_true", help="print nothing but what runs, one test id a line"
    )
    add_json(parser, "the choice")


def run(options: argparse.Namespace) -> int:
    """Choose the benchmarks, and print them."""
    from pytest_anubis.selector.choice.choice_record import choice_record

    if options.by is None:
        options.by = "risk" if options.budget is None else "budget"
    if options.by == "budget" and options.budget is None:
        raise CommandError("--by budget needs --budget, e.g. --budget 20m")
    if options.budget is not None and options.by != "budget":
        raise CommandError(f"--budget is the time for --by budget, not for --by {options.by}")
    choice, request, elsewhere = _choose(options)
    record = to_plain(choice_record(choice, request))
    record["not_offered"] = [{"benchmark": name, "reason": ELSEWHERE} for name in elsewhere]
    if options.json is not None:
        write_json(options.json, record)
    if options.json == "-":
        return 0
    if options.ids:
        say(*choice.plan.chosen)
        return 0
    nodes = ", ".join(risk.node for risk in choice.inputs.risks)
    say(f"{nodes}: {choice.inputs.basis or 'no incidents in the history'}")
    say(*choice_lines(record))
    if elsewhere:
        some = few(elsewhere, len(elsewhere) if options.explain else MAX_NAMES_LISTED)
        say(f"without {count_text(len(elsewhere), 'benchmark')} that {ELSEWHERE} ({some})")
    say(PLAN_DIFFERS)
    say(*(explain_lines(record) if options.explain else choice.plan.chosen))
    return 0


def _choose(options: argparse.Namespace) -> tuple[Choice, ChoiceRequest, tuple[str, ...]]:
    from pytest_anubis.selector.choice.choice_inputs import (
        ChoiceRequest,
        Offer,
        choose,
        gather_inputs,
    )
    from pytest_anubis.store.history.fleet_history import read_fleet

    request = ChoiceRequest(
        mode=options.by,
        p0=options.risk,
        budget=options.budget,
        incident_cost=options.incident_cost,
        explore=0.0,  # a list for people: nothing is left to chance
    )
    nodes = _nodes(
        listed(options.node), histories.read(options.history, lambda history: history.nodes())
    )
    key = nodes[0].hardware_class
    profile = options.profile
    fleet = histories.read(
        options.history, lambda history: read_fleet(history, hardware_class=key, profile=profile)
    )
    path = histories.kept_model(options.history)
    model = None if path is None else histories.load_risk_model(path)
    place = shown_place(options.history)
    known = known_benchmarks(fleet, key)
    if not known.components:
        raise CommandError(
            f"{place}: the history knows no benchmark of this hardware class; run "
            "'pytest --anubis suites/' on such a node first"
        )
    try:
        inputs = gather_inputs(
            fleet,
            [node.name for node in nodes],
            now=time.time(),
            horizon=options.horizon,
            model=model,
        )
        offers = [
            Offer(benchmark=name, component=part, pinned=name in inputs.always)
            for name, part in known.components.items()
        ]
        return choose(inputs, offers, request), request, known.elsewhere
    except SelectorError as error:
        raise CommandError(f"{place}: {error}") from error


def _nodes(names: Sequence[str], known: tuple[NodeRecord, ...]) -> list[NodeRecord]:
    """Return the named nodes, which must be known and of one hardware class."""
    from pytest_anubis.store.history.node_rows import unknown_node

    by_name = {node.name: node for node in known}
    if not names:
        if len(known) != 1:
            raise CommandError(f"--node NAME: the history knows {len(known)} nodes; name one")
        return list(known)
    for name in names:
        if name not in by_name:
            raise CommandError(unknown_node(name))
    nodes = [by_name[name] for name in dict.fromkeys(names)]
    classes = {node.hardware_class for node in nodes}
    if len(classes) > 1:
        raise CommandError(
            f"--node: the nodes are of {len(classes)} hardware classes; choose for one class at a time"
        )
    return nodes
