"""A simulated fleet under policies of validation: time between incidents against hours of validation.

For each scenario: no validation, the full set before every job, a free oracle, and frontiers of the
Selector with rates learned from a simulated past, the Selector told the true rates, a learned one that
weighs hours of validation against those of incidents instead of accepting a risk per job, periodic full
sets, random subsets, and fixed subsets (greedy by coverage, without a risk model). Mean and 95 % interval
over seeds; the same fleets meet every policy. Each seed has a past of its own to learn from: another fleet
of the same kind for 90 days, a quarter of whose nodes had the full set before a job.

Levels differ by chance: a fleet of 400 nodes has a dozen incidents in a month of scenario C. For ratios
between Selectors that mean something take larger fleets and only these two policies (the past stays small).

Usage: python benchmarks/selector/simulation.py [--seeds 20] [--nodes 400] [--hours 720] [--scenarios ABC]
       python benchmarks/selector/simulation.py --policies learned told --nodes 2000
       python benchmarks/selector/simulation.py --assumptions
       python benchmarks/selector/simulation.py --speed
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout's packages

import numpy as np

from benchmarks.selector.policies import CostSelector, FixedSubset, Periodic, RandomSubset
from pytest_anubis.selector.simulation.hidden_defects import Floats, Ints, Rates, learn_rates
from pytest_anubis.selector.simulation.policies import Full, Ideal, Nothing, Policy, Selector
from pytest_anubis.selector.simulation.scenarios import scenario
from pytest_anubis.selector.simulation.simulated_fleet import (
    Outcome,
    Scenario,
    record_usage,
    simulate,
)

P0 = (0.5, 0.3, 0.2, 0.1, 0.05, 0.03, 0.02, 0.01, 0.005, 0.003)
TOLD = (0.8, *P0, 0.002)  # wide enough for every level of the learned one to lie within
COSTS = (3.0, 10.0, 30.0, 60.0, 100.0, 200.0, 500.0, 1000.0)
PERIODS = (1000.0, 300.0, 100.0, 50.0, 24.0)
SHARES = (0.01, 0.03, 0.1, 0.3, 0.6)
COUNTS = (1, 2, 3, 4, 6, 8, 10)
NAMES = {
    "learned": "selector, learned",
    "told": "selector, told",
    "cost": "selector, by cost",
    "periodic": "periodic full set",
    "random": "random subset",
    "greedy": "greedy, no risk",
}


class Frontier:
    """Points (validation hours per node, MTBI) of one policy over its knob, from pooled outcomes."""

    def __init__(self, name: str, points: Sequence[tuple[str, list[Outcome]]]) -> None:
        self.name = name
        self.points = points
        # Shape (points, seeds, 3).
        self.figures = np.array(
            [
                [(run.validation_per_node, run.used, run.incidents) for run in runs]
                for _, runs in points
            ]
        )

    def curve(self, seeds: Ints) -> tuple[Floats, Floats]:
        """Return validation hours and MTBI of each point from some seeds, ascending in hours."""
        hours, used, incidents = np.moveaxis(self.figures[:, seeds].mean(axis=1), 1, 0)
        order = np.argsort(hours, kind="stable")
        return hours[order], (used / np.maximum(incidents, 1 / len(seeds)))[order]

    def beside(self, other: Frontier, seeds: Ints) -> Floats:
        """Return MTBI over the other's at equal hours, at each own point; NaN outside the other's.

        Between points the other's MTBI is drawn as a line of logarithms.
        """
        hours, own = self.curve(seeds)
        marks, theirs = other.curve(seeds)
        there = np.exp(np.interp(np.log(hours), np.log(marks), np.log(theirs)))
        return np.where((hours >= marks[0]) & (hours <= marks[-1]), own / there, np.nan)


def mtbi(runs: Sequence[Outcome]) -> float:
    """Return useful node hours per incident of runs together."""
    return sum(run.used for run in runs) / max(1, sum(run.incidents for run in runs))


def validation(runs: Sequence[Outcome]) -> float:
    """Return mean hours of validation per node."""
    return float(np.mean([run.validation_per_node for run in runs]))


def interval(runs: Sequence[Outcome], base: Sequence[Outcome]) -> tuple[float, float, float]:
    """Return MTBI over that of the base, and its 95 % interval by drawing seeds anew (bootstrap)."""
    rng = np.random.default_rng(0)
    figures = np.array(
        [[r.used, r.incidents, b.used, b.incidents] for r, b in zip(runs, base, strict=True)]
    )
    draws = figures[rng.integers(0, len(figures), (2000, len(figures)))].sum(axis=1)
    ratios = draws[:, 0] / np.maximum(draws[:, 1], 1) / (draws[:, 2] / np.maximum(draws[:, 3], 1))
    low, high = np.quantile(ratios, [0.025, 0.975])
    return mtbi(runs) / mtbi(base), float(low), float(high)


def learned(name: str, kind_known: bool, nodes: int, seed: int) -> Rates:
    """Return rates learned from the past of another fleet, of its own for each seed."""
    world = scenario(name, kind_known=kind_known)
    return learn_rates(
        record_usage(world, Full(0.25), nodes=nodes, horizon=2160, seed=10_000 + seed)
    )


def policies(
    wanted: Sequence[str], rates: Sequence[Rates], truth: Rates
) -> dict[str, list[tuple[str, list[Policy]]]]:
    """Return each wanted frontier's points: what the knob says, and the policy of each seed."""
    seeds = len(rates)
    every: dict[str, list[tuple[str, list[Policy]]]] = {
        "learned": [(f"p0={p0:g}", [Selector(p0, each) for each in rates]) for p0 in P0],
        "told": [(f"p0={p0:g}", [Selector(p0, truth)] * seeds) for p0 in TOLD],
        "cost": [(f"{c:g} h", [CostSelector(c, each) for each in rates]) for c in COSTS],
        "periodic": [(f"{period:g} h", [Periodic(period)] * seeds) for period in PERIODS],
        "random": [(f"{share:g}", [RandomSubset(share)] * seeds) for share in SHARES],
        "greedy": [
            (f"best {count}", [FixedSubset(count, truth.shares)] * seeds) for count in COUNTS
        ],
    }
    return {NAMES[name]: every[name] for name in wanted}


def play(world: Scenario, chosen: Sequence[Policy], options: argparse.Namespace) -> list[Outcome]:
    """Run the policy of each seed, started anew, on the fleet of that seed."""
    return [
        simulate(world, policy, nodes=options.nodes, horizon=options.hours, seed=seed)
        for seed, policy in enumerate(chosen)
    ]


def marks(world: Scenario, options: argparse.Namespace) -> list[list[Outcome]]:
    """Run no validation, the full set before every job, and the ideal."""
    fixed: tuple[Policy, ...] = (Nothing(), Full(), Ideal())
    return [play(world, [policy] * options.seeds, options) for policy in fixed]


def show(name: str, options: argparse.Namespace) -> None:
    """Print a scenario's table and what it shows."""
    world = scenario(name, kind_known=options.kind_known)
    rates = [
        learned(name, options.kind_known, options.past_nodes, seed) for seed in range(options.seeds)
    ]
    print_learned(name, world, rates)
    none, full, ideal = marks(world, options)
    print(
        "policy              knob       val h/node  of full  util   MTBI h   x none [95 %]        x full"
    )
    frontiers = [
        Frontier(kind, [(knob, play(world, chosen, options)) for knob, chosen in points])
        for kind, points in policies(options.policies, rates, world.rates).items()
    ]
    table = [
        Frontier(kind, [("", r)])
        for kind, r in (("none", none), ("full set", full), ("ideal", ideal))
    ]
    for frontier in [*table, *frontiers]:
        for knob, outcomes in frontier.points:
            ratio, low, high = interval(outcomes, none)
            spent = validation(outcomes)
            print(
                f"{frontier.name:19s} {knob:10s} {spent:10.2f} {spent / validation(full):8.1%} "
                f"{np.mean([o.utilisation for o in outcomes]):.3f} {mtbi(outcomes):8.0f} "
                f"{ratio:7.2f} [{low:.2f}, {high:.2f}]{'':4s} {mtbi(outcomes) / mtbi(full):6.2f}"
            )
    compare(frontiers, full, none)


def print_learned(name: str, world: Scenario, rates: Sequence[Rates]) -> None:
    """Print what was learned beside the truth: median of the seeds, lowest and highest."""
    truth = world.rates
    print(
        f"\nScenario {name}, kinds of incidents {'seen' if world.kind_known else 'not seen'}, "
        f"{len(rates)} seeds; learned, median [lowest, highest] (true):"
    )
    words = []
    columns = zip(*(_figures(each) for each in rates), strict=True)
    labels = ("wear h", "manifest h", "stays", "initial")
    for label, values, true in zip(labels, columns, _figures(truth), strict=True):
        low, high = min(values), max(values)
        words.append(f"{label} {np.median(values):.4g} [{low:.4g}, {high:.4g}] ({true:.4g})")
    print("  " + "; ".join(words), flush=True)


def compare(
    frontiers: Sequence[Frontier], full: Sequence[Outcome], none: Sequence[Outcome]
) -> None:
    """Print the learned Selector beside every other policy at equal hours of validation."""
    own = frontiers[0]
    count = len(none)
    draws = np.random.default_rng(0).integers(0, count, (500, count))
    print(
        "  learned beside          ratio of MTBI at equal hours, least [95 %]   mean [95 %]   levels"
    )
    for other in frontiers[1:] if own.name == NAMES["learned"] else ():
        ratios = own.beside(other, np.arange(count))
        inside = np.isfinite(ratios)
        if not inside.any():
            continue
        again = np.array([own.beside(other, seeds)[inside] for seeds in draws])
        least = int(ratios[inside].argmin())
        spread = np.nanquantile(again[:, least], [0.025, 0.975])
        middle = np.nanquantile(np.nanmean(again, axis=1), [0.025, 0.975])
        print(
            f"  {other.name:20s} {ratios[inside][least]:24.2f} [{spread[0]:.2f}, {spread[1]:.2f}] "
            f"{np.mean(ratios[inside]):20.2f} [{middle[0]:.2f}, {middle[1]:.2f}] {inside.sum():4d}"
        )
    for frontier in frontiers:
        cheap = [o for _, o in frontier.points if validation(o) <= 0.08 * validation(full)]
        if cheap:
            best = max(cheap, key=mtbi)
            ratio, low, high = interval(best, none)
            print(
                f"  best with validation cut by at least 92 %: {frontier.name:18s} {ratio:5.1f}x none "
                f"[{low:.1f}, {high:.1f}] at -{1 - validation(best) / validation(full):.1%}"
            )


def _figures(rates: Rates) -> tuple[float, float, float, float]:
    return 1 / rates.wear, 1 / rates.manifest, rates.stays, rates.initial


def assumptions(options: argparse.Namespace) -> None:
    """Print what multiple of no validation can be had where defects come and go otherwise.

    Three Selectors that are told the rates; the best of those that cut validation by at least 92 %.
    """
    print("wear h  manifest h  stays  ideal x none  full x none  Selector x none [95 %]    cut")
    base = scenario("B")
    for wear, manifest, stays in itertools.product(
        (2_500, 5_000, 7_500, 10_000, 20_000), (6, 12), (0.8, 0.9, 0.95)
    ):
        rates = replace(base.rates, wear=1 / wear, manifest=1 / manifest, stays=stays)
        world = replace(base, rates=rates)
        none, full, ideal = marks(world, options)
        tried = [
            play(world, [Selector(p0, rates)] * options.seeds, options)
            for p0 in (0.03, 0.01, 0.005)
        ]
        cheap = [each for each in tried if validation(each) <= 0.08 * validation(full)]
        row = f"{wear:6d} {manifest:11d} {stays:6.2f} {mtbi(ideal) / mtbi(none):13.1f} "
        row += f"{mtbi(full) / mtbi(none):12.1f} "
        if cheap:
            best = max(cheap, key=mtbi)
            ratio, low, high = interval(best, none)
            saved = 1 - validation(best) / validation(full)
            row += f"{ratio:10.1f} [{low:.1f}, {high:.1f}] {saved:12.1%}"
        print(row, flush=True)


def speed() -> None:
    """Print how long large fleets take over a year."""
    world = scenario("B")
    print("nodes   policy    jobs     seconds")
    for nodes in (1_000, 10_000, 20_000):
        for name, policy in (("none", Nothing()), ("selector", Selector(0.03, world.rates))):
            begin = time.perf_counter()
            outcome = simulate(world, policy, nodes=nodes, horizon=8760, seed=0)
            print(f"{nodes:6d}  {name:9s} {outcome.jobs:8d} {time.perf_counter() - begin:8.1f}")


def main() -> None:
    """Print everything."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--nodes", type=int, default=400)
    parser.add_argument("--hours", type=float, default=720)
    parser.add_argument("--scenarios", default="ABC")
    parser.add_argument("--policies", nargs="+", choices=tuple(NAMES), default=list(NAMES))
    parser.add_argument("--past-nodes", type=int, default=400)
    parser.add_argument("--kind-known", action="store_true")
    parser.add_argument("--assumptions", action="store_true")
    parser.add_argument("--speed", action="store_true")
    options = parser.parse_args()
    if options.speed:
        speed()
    elif options.assumptions:
        assumptions(options)
    else:
        for name in options.scenarios:
            show(name, options)


if __name__ == "__main__":
    main()
