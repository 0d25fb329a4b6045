"""``anubis simulate``: compare policies of validation on a simulated fleet, before a real one has one."""

from __future__ import annotations

import argparse
import csv
import io
import math
import os
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_anubis.cli.shared import history_access as histories
from pytest_anubis.cli.shared.arguments import add_json, explain
from pytest_anubis.cli.shared.command_error import CommandError, of_file
from pytest_anubis.cli.shared.printing import say, terminal_width, write_file, write_json
from pytest_anubis.cli.shared.progress import Progress
from pytest_anubis.codec import CodecError, read_bytes
from pytest_anubis.report.pages.simulation_report import (
    simulation_answer,
    simulation_lines,
    simulation_page,
)
from pytest_anubis.report.text.numbers import count_text, percent

if TYPE_CHECKING:
    from pytest_anubis.selector.simulation.hidden_defects import DefectRates
    from pytest_anubis.selector.simulation.policies import Policy
    from pytest_anubis.selector.simulation.policy_comparison import Figures
    from pytest_anubis.selector.simulation.scenarios import OwnFleet
    from pytest_anubis.selector.simulation.simulated_fleet import Outcome, Scenario

SWEEP = "0.3,0.1,0.05,0.02,0.01,0.005"
PAST_HOURS = 90 * 24.0
OWN_OPTIONS = ("history", "costs", "wear", "manifest", "stays", "defective")
"""Options that describe the user's own fleet."""
PAST_SHARE = 0.25
"""Share of nodes that had the full set before a job in the simulated past from which rates are learned."""

MAX_COSTS_BYTES = 1 << 20
"""Size of a table of costs: ten thousand benchmarks with long names."""

PAPER = (
    "the paper states up to 22.61 x MTBI against no validation, and 92.07 % less validation time than "
    "the full set; its fleet and its accepted risk are not public"
)

Key = tuple[str, str]
"""Policy and setting."""


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    explain(
        parser,
        "Compare policies of validation (none, the full set, the Selector, an ideal one) on a simulated "
        "fleet, before one is tried on a real one.",
    )
    parser.add_argument(
        "--scenario",
        choices=("A", "B", "C"),
        default="B",
        help="A: fast wear, half of the repairs help; B: slow wear, defects persist; C: slower "
        "still (default: B)",
    )
    own = parser.add_argument_group("a fleet of your own, in place of the scenario's figures")
    own.add_argument(
        "--history",
        default="",
        metavar="DIR|URL",
        help="durations, defects and the rate of incidents of this history",
    )
    own.add_argument(
        "--costs",
        type=Path,
        metavar="FILE.csv",
        help="columns benchmark, time (e.g. 90s, 5m), share (of defects that it finds, in any unit)",
    )
    for name, text in (
        ("wear", "time in use until a node gets a hidden defect, e.g. 2000h"),
        ("manifest", "time in use until a hidden defect becomes an incident, e.g. 12h"),
    ):
        own.add_argument(f"--{name}", type=histories.duration, metavar="TIME", help=text)
    for name, text in (
        ("stays", "share of repairs after an incident that leave the cause"),
        ("defective", "share of nodes with a hidden defect at first"),
    ):
        own.add_argument(f"--{name}", type=histories.probability, metavar="SHARE", help=text)
    parser.add_argument("--nodes", type=int, default=400, help="size of the fleet (default: 400)")
    parser.add_argument(
        "--time",
        type=histories.duration,
        default=90 * 86400.0,
        metavar="TIME",
        help="simulated time, e.g. 365d (default: 90d)",
    )
    parser.add_argument("--seeds", type=int, default=5, help="fleets simulated (default: 5)")
    parser.add_argument(
        "--risk",
        type=_sweep,
        default=_sweep(SWEEP),
        metavar="P0,...",
        help=f"accepted risks of a job for the Selector (default: {SWEEP})",
    )
    parser.add_argument(
        "--told",
        action="store_true",
        help="add a Selector that knows the true rates in place of learning them",
    )
    parser.add_argument(
        "--kinds-seen", action="store_true", help="the kind of an incident is known"
    )
    parser.add_argument(
        "--jobs", type=int, default=0, help="processes (default: one for each core)"
    )
    parser.add_argument("--html", type=Path, metavar="FILE", help="write a page with the plot")
    add_json(parser, "the figures")


def run(options: argparse.Namespace) -> int:
    """Simulate and show."""
    from pytest_anubis.selector.simulation.scenarios import scenario, with_own

    _check(options)
    world = scenario(options.scenario, kind_known=options.kinds_seen)
    own = _own(options)
    world = with_own(world, own)
    rates = _learned(world, options.nodes)
    outcomes = _all_runs(world, _policies(options, world, rates), options)
    found = _figures(outcomes)
    if options.json is not None:
        write_json(options.json, _plain(options, rates, world, found) | {"history_mtbi": own.mtbi})
    fitted = _fitted(options, own, found)
    if options.json != "-":
        say(*_lines(options, world, rates, found, fitted))
    if options.html is not None:
        rows = [asdict(one) for one in found]
        title = " ".join([_title(options), *fitted])
        remark = "; ".join(filter(None, (_interval_words(options.seeds), PAPER)))
        write_file(options.html, simulation_page(title, rows, remark))
    return 0


def _check(options: argparse.Namespace) -> None:
    for name, least in (("nodes", 64), ("seeds", 1)):
        if getattr(options, name) < least:
            raise CommandError(f"--{name} {getattr(options, name)}: at least {least}")
    if options.jobs < 0:
        raise CommandError(f"--jobs {options.jobs}: 0 or more")


def _own(options: argparse.Namespace) -> OwnFleet:
    """Return what the options say of the user's own fleet; single options outrank a history."""
    from pytest_anubis.selector.simulation.scenarios import OwnFleet, own_of

    costs = _costs(options.costs) if options.costs is not None else None
    own = OwnFleet() if costs is None else OwnFleet(tests=costs)
    if options.history:
        from pytest_anubis.store.history.fleet_history import read_fleet

        own = own_of(histories.read(options.history, read_fleet), time.time(), costs)
    given = {
        "wear": options.wear and options.wear / 3600,
        "manifest": options.manifest and options.manifest / 3600,
        "stays": options.stays,
        "initial": options.defective,
    }
    return replace(own, **{name: value for name, value in given.items() if value is not None})


def _costs(path: Path) -> dict[str, tuple[float, float]]:
    """Read the share of defects that benchmarks find, and the hours that they take, by name."""
    try:
        text = read_bytes(path, largest=MAX_COSTS_BYTES).decode("utf-8-sig")
        rows = csv.DictReader(io.StringIO(text, newline=""))
        rows.fieldnames = [str(name).strip() for name in rows.fieldnames or ()]
        if {"benchmark", "time", "share"} - set(rows.fieldnames):
            raise CommandError(f"{path}: needs the columns benchmark, time, share")
        found = {}
        for row in rows:
            name, share, took = (row[column] for column in ("benchmark", "share", "time"))
            try:
                if name is None or share is None or took is None:
                    raise ValueError("needs benchmark, time and share")
                found[name.strip()] = (float(share), histories.duration(took.strip()) / 3600)
            except (ValueError, argparse.ArgumentTypeError) as error:
                raise CommandError(f"{path} line {rows.line_num}: {error}") from None
    except OSError as error:
        raise of_file(error) from error
    except (UnicodeError, CodecError, csv.Error) as error:
        raise CommandError(f"{path}: cannot be read ({error})") from error
    if not found:
        raise CommandError(f"{path}: names no benchmark")
    return found


def _sweep(text: str) -> tuple[float, ...]:
    try:
        found = tuple(float(part) for part in text.split(","))
    except ValueError:
        found = (math.nan,)
    if not all(0 < p0 < 1 for p0 in found):
        raise argparse.ArgumentTypeError(f"{text!r}: give risks between 0 and 1, e.g. {SWEEP}")
    return tuple(sorted(set(found), reverse=True))


def _learned(world: Scenario, nodes: int) -> DefectRates:
    """Return rates learned from the simulated past of another fleet, as an operator could know them."""
    from pytest_anubis.selector.simulation.hidden_defects import learn_rates
    from pytest_anubis.selector.simulation.policies import Full
    from pytest_anubis.selector.simulation.simulated_fleet import record_usage

    with Progress("simulating a past to learn from") as progress:
        size = min(nodes, 400)  # more nodes teach little more
        past = record_usage(world, Full(PAST_SHARE), nodes=size, horizon=PAST_HOURS, seed=10_000)
        progress.say(f"{len(past.node)} uses of {size} nodes")
        return learn_rates(past)


def _policies(
    options: argparse.Namespace, world: Scenario, rates: DefectRates
) -> dict[Key, Policy]:
    from pytest_anubis.selector.simulation.policies import Full, Ideal, Nothing, Selector

    found: dict[Key, Policy] = {
        ("none", ""): Nothing(),
        ("full set", ""): Full(),
        ("ideal", ""): Ideal(),
    }
    for p0 in options.risk:
        found["selector", f"p0={p0:g}"] = Selector(p0, rates)
    if options.told:
        for p0 in options.risk:
            found["selector, told", f"p0={p0:g}"] = Selector(p0, world.rates)
    return found


def _all_runs(
    world: Scenario, policies: dict[Key, Policy], options: argparse.Namespace
) -> dict[Key, list[Outcome]]:
    """Return every policy's outcomes, one for each seed; all policies meet the same fleets."""
    tasks = [(key, seed) for seed in range(options.seeds) for key in policies]
    found: dict[tuple[Key, int], Outcome] = {}
    with Progress("simulating") as progress:
        for done, (task, outcome) in enumerate(_outcomes(world, policies, tasks, options)):
            found[task] = outcome
            progress.count(done + 1, len(tasks))
    return {key: [found[key, seed] for seed in range(options.seeds)] for key in policies}


def _outcomes(
    world: Scenario,
    policies: dict[Key, Policy],
    tasks: list[tuple[Key, int]],
    options: argparse.Namespace,
) -> Iterator[tuple[tuple[Key, int], Outcome]]:
    from pytest_anubis.selector.simulation.simulated_fleet import simulate

    one = partial(simulate, world, nodes=options.nodes, horizon=options.time / 3600)
    jobs = min(options.jobs or os.cpu_count() or 1, len(tasks))
    if jobs == 1:
        for key, seed in tasks:
            yield (key, seed), one(policies[key], seed=seed)
        return
    with ProcessPoolExecutor(max_workers=jobs) as pool:
        waiting = {pool.submit(one, policies[key], seed=seed): (key, seed) for key, seed in tasks}
        try:
            for future in as_completed(waiting):
                yield waiting[future], future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _figures(outcomes: dict[Key, list[Outcome]]) -> list[Figures]:
    from pytest_anubis.selector.simulation.policy_comparison import figures

    none = outcomes["none", ""]
    full = outcomes["full set", ""]
    return [figures(policy, knob, runs, none, full) for (policy, knob), runs in outcomes.items()]


def _given(options: argparse.Namespace) -> list[str]:
    return [name for name in OWN_OPTIONS if getattr(options, name) not in (None, "")]


def _title(options: argparse.Namespace) -> str:
    seen = "seen" if options.kinds_seen else "not seen"
    own = [f"--{name}" for name in _given(options)]
    with_own = f" with your own {', '.join(own)}" if own else ""
    return (
        f"scenario {options.scenario}{with_own}, {options.nodes} nodes for {options.time / 86400:g} days, "
        f"{count_text(options.seeds, 'seed')}, kinds of incidents {seen}"
    )


def _fitted(options: argparse.Namespace, own: OwnFleet, found: list[Figures]) -> list[str]:
    """Return what the history and the scenario contributed, and how often incidents came in both."""
    if not options.history:
        return []
    given = set(_given(options))
    ours = [] if "costs" in given else ["durations and what they find"]
    ours += [] if own.mtbi is None else ["how often incidents come"]
    names = {"manifest": "how fast a defect shows", "stays": "how many repairs leave it"}
    theirs = [words for name, words in names.items() if name not in given]
    if own.mtbi is None:
        theirs += ["how often defects come"] if "wear" not in given else []
    lines = [
        f"from the history: {', '.join(ours) or 'nothing'}; from the scenario: "
        f"{', '.join([*theirs, 'jobs, repair times'])}"
    ]
    if own.mtbi is not None:
        none = next(one for one in found if one.policy == "none")
        lines.append(
            f"your history: an incident in {own.mtbi:,.0f} h in service; here without validation: in "
            f"{none.mtbi:,.0f} h of use ({count_text(options.seeds, 'seed')})"
        )
        if {"wear", "defective"} & given:
            lines.append("--wear and --defective go before the history's rate: the two may differ")
    return lines


def _lines(
    options: argparse.Namespace,
    world: Scenario,
    rates: DefectRates,
    found: list[Figures],
    fitted: list[str],
) -> list[str]:
    true = world.rates
    rows = [asdict(one) for one in found]
    return [
        simulation_answer(rows),
        _title(options),
        *fitted,
        f"learned from another fleet's 90 days (true in brackets): a defect in {1 / rates.wear:.0f} "
        f"({1 / true.wear:.0f}) h of use, shows after {1 / rates.manifest:.1f} "
        f"({1 / true.manifest:.1f}) h, stays after {percent(rates.stays)} ({percent(true.stays)}) of repairs",
        *simulation_lines(rows, terminal_width()),
        *filter(None, [_interval_words(options.seeds)]),
        PAPER,
    ]


def _interval_words(seeds: int) -> str:
    """Return how far intervals over so many seeds are off; empty if they hold what they state."""
    from pytest_anubis.selector.simulation.policy_comparison import ENOUGH_SEEDS, MIN_SEEDS

    if seeds < MIN_SEEDS:
        return (
            f"{count_text(seeds, 'seed')}: too few for an interval, and other seeds may give quite other "
            f"figures; --seeds {ENOUGH_SEEDS} gives intervals"
        )
    if seeds >= ENOUGH_SEEDS:
        return ""
    held = "three in four" if seeds == MIN_SEEDS else "four in five"
    return (
        f"intervals over {seeds} seeds are too narrow: about {held} of those that state 95 % hold the truth; "
        f"--seeds {ENOUGH_SEEDS} gives better ones"
    )


def _plain(
    options: argparse.Namespace, rates: DefectRates, world: Scenario, found: list[Figures]
) -> dict[str, Any]:
    def shown(what: DefectRates) -> dict[str, float]:
        return {name: getattr(what, name) for name in ("wear", "manifest", "stays", "initial")}

    return {
        "schema": 1,
        "scenario": options.scenario,
        "nodes": options.nodes,
        "hours": options.time / 3600,
        "seeds": options.seeds,
        "kinds_seen": options.kinds_seen,
        "learned": shown(rates),
        "true": shown(world.rates),
        "policies": [asdict(one) for one in found],
    }
