"""The answer of `anubis fleet plan`: nodes with benchmarks and times, and notes, as text, lines and JSON."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pytest_anubis.cli.commands.fleet.fleet_reading import FleetRead, FleetRisk
from pytest_anubis.cli.shared.printing import few, say, terminal_width
from pytest_anubis.report.text.numbers import count_text, duration_text, percent
from pytest_anubis.report.text.text_table import table

if TYPE_CHECKING:
    from pytest_anubis.selector.planning.window_plan import PlannedNode, WindowPlan
    from pytest_anubis.selector.planning.window_problem import Window

MAX_NODES_SHOWN = 40
"""Nodes on the terminal without ``--all``."""
MAX_NAMES_LISTED = 5
"""Names in one line: nodes, the riskiest first, or benchmarks."""
MIN_VALUE_SECONDS = 1.0
"""Seconds of a window's value below which an addition is not mentioned."""
PARTNER = "partner"
"""Name of the pool of accepted nodes that are set aside for benchmarks of several nodes."""


def show_plan(
    options: argparse.Namespace,
    plan: WindowPlan,
    window: Window,
    partners: Sequence[str],
    notes: Sequence[str],
) -> None:
    """Print the plan for people."""
    chosen = [one for one in plan.nodes if one.runs]
    rest = [one for one in plan.nodes if not one.runs]
    say(
        f"{len(chosen)} of {count_text(len(plan.nodes), 'node')} run something within "
        f"{duration_text(window.seconds)}: {duration_text(plan.spent)} of nodes spare "
        f"{duration_text(plan.spared)} of incidents to be expected within {duration_text(options.horizon)}",
        f"net {duration_text(plan.value)}: {_how_good(plan)}",
        *_more_words(plan),
    )
    rows = [["node", "from", "to", "risk", "then", "runs"]]
    for one in chosen if options.all else chosen[:MAX_NODES_SHOWN]:
        names = ", ".join(run.benchmark.rpartition("::")[2] for run in one.runs)
        span = [_clock(one.start), _clock(one.end)]
        rows.append([one.node, *span, percent(one.before), percent(one.after), names])
    if chosen:
        say(*table(rows, width=terminal_width(), shrink=5).splitlines())
    if len(rows) <= len(chosen):
        say(f"{count_text(len(chosen) - len(rows) + 1, 'more node')} (--all shows them)")
    if partners:
        say(f"set aside as partners: {', '.join(partners)}")
    if rest:
        worst = sorted(rest, key=lambda one: (-one.before, one.node))[:MAX_NAMES_LISTED]
        left = sum(one.before for one in rest)
        named = ", ".join(f"{one.node} {percent(one.before)}" for one in worst)
        say(
            f"left out: {count_text(len(rest), 'node')} with {left:.3g} incidents to be expected; {named}"
        )
    say(*(f"left out: {name}: {why}" for name, why in plan.left_out.items()))
    if plan.unpinned:
        some = ", ".join(plan.unpinned[:MAX_NAMES_LISTED])
        say(
            f"note: what is pinned found no room on {count_text(len(plan.unpinned), 'node')} ({some})"
        )
    say(
        f"note: chosen by what is spared at {duration_text(options.incident_cost)} an incident, and risks "
        "count what each node passed last; 'anubis select' chooses as pytest --anubis-select does, within "
        "an accepted risk (--by cost is nearest to this plan), and counts nothing that ran before",
        *(f"note: {note}" for note in notes),
    )


def class_notes(found: FleetRead, risk: FleetRisk) -> list[str]:
    """Return what is assumed, or cannot be planned, for each hardware class, one line each."""
    notes = []
    for key, known in sorted(risk.coverage.items()):
        nodes = count_text(sum(one.node.hardware_class == key for one in found.nodes), "node")
        name = f"{key or 'no hardware class'} ({nodes})"
        if not known.benchmarks:
            notes.append(
                f"{name}: nothing is planned there, as no benchmark is known to have run there; "
                "run 'pytest --anubis suites/' on one first"
            )
        elif known.elsewhere:
            some = few(known.elsewhere, MAX_NAMES_LISTED)
            count = count_text(len(known.elsewhere), "benchmark")
            notes.append(f"{name}: without {count} that only other classes have run ({some})")
        if known.benchmarks and known.guessed:
            notes.append(
                f"{name}: no defect is known, so what its benchmarks expose is assumed; 'anubis select' then "
                "leaves none of them out"
            )
        if known.unpriced:
            count = count_text(len(known.unpriced), "benchmark")
            notes.append(f"{name}: {count} of unknown duration, counted like the others")
    return notes


def _how_good(plan: WindowPlan) -> str:
    """Return how near the plan is to the bound that no plan can exceed."""
    gap = percent(plan.gap)
    return "the best plan there is" if gap == percent(0.0) else f"within {gap} of the best possible"


def _more_words(plan: WindowPlan) -> list[str]:
    """Return a line on what more time, nodes or pools would add, and how much of each pool is used."""
    offers = {"another hour": duration_text(plan.hour)} if plan.hour >= MIN_VALUE_SECONDS else {}
    for name, worth in plan.one_more.items():
        if worth >= MIN_VALUE_SECONDS:
            more = f"one more {'node at a time' if name.startswith('nodes') else name}"
            offers[more] = f"about {duration_text(worth)}"
    words = [f"{more} would add {worth}" for more, worth in offers.items()]
    if plan.used:
        shares = ", ".join(f"{name} {percent(share)}" for name, share in plan.used.items())
        words.append(f"taken: {shares}")
    return ["; ".join(words)] if words else []


def _clock(seconds: float) -> str:
    """Return seconds from the window's beginning as ``+1:05``."""
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"+{hours}:{minutes:02}"


def plan_line(one: PlannedNode) -> str:
    """Return a node of the plan as its start in seconds, its name and its benchmarks."""
    return " ".join([f"{one.start:.0f}", one.node, *(run.benchmark for run in one.runs)])


_OF_RUN = ("benchmark", "start", "seconds", "lane")
"""Fields of a run that the JSON has under the same names."""


def plan_document(
    options: argparse.Namespace,
    plan: WindowPlan,
    window: Window,
    partners: Sequence[str],
    now: float,
) -> dict[str, Any]:
    """Return the plan for JSON."""
    return {
        "schema": 1,
        "at": now,
        "horizon": options.horizon,
        "window": window.seconds,
        "at_once": options.at_once,
        "pools": dict(window.pools),
        "partners": list(partners),
        **{name: getattr(plan, name) for name in ("spared", "spent", "value", "bound", "gap")},
        "another_hour": plan.hour,
        "one_more": dict(plan.one_more),
        "used": dict(plan.used),
        "left_out": dict(plan.left_out),
        "unpinned": list(plan.unpinned),
        "nodes": [
            {
                "node": one.node,
                "hardware_class": one.hardware_class,
                "start": one.start if one.runs else None,
                "end": one.end if one.runs else None,
                "risk_before": one.before,
                "risk_after": one.after,
                "spared": one.spared,
                "runs": [
                    {
                        **{name: getattr(run, name) for name in _OF_RUN},
                        "units": {
                            pool: [partners[unit] for unit in units]
                            if pool == PARTNER and partners
                            else list(units)
                            for pool, units in run.units.items()
                        },
                    }
                    for run in one.runs
                ],
            }
            for one in plan.nodes
        ],
    }
