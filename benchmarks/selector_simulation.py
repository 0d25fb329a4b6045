"""A simulated fleet under policies of validation: time between incidents against hours of validation.

For each scenario: no validation, the full set before every job, a free oracle, and frontiers of the
Selector with rates learned from a simulated past, the Selector told the true rates, periodic full sets,
random subsets, and fixed subsets (greedy by coverage, without a risk model). Mean and 95 % interval over
seeds; the same fleets meet every policy. The past is another fleet of the same kind for 90 days, a quarter
of whose nodes had the full set before a job.

Usage: python benchmarks/selector_simulation.py [--seeds 20] [--nodes 400] [--hours 720] [--scenarios ABC]
       python benchmarks/selector_simulation.py --speed
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence

import numpy as np

from pytest_anubis.selector.belief import Floats, Ints, Rates, learn_rates
from pytest_anubis.selector.fleet import Outcome, Scenario, record_past, simulate
from pytest_anubis.selector.policies import (
    FixedSubset,
    Full,
    Ideal,
    Nothing,
    Periodic,
    Policy,
    RandomSubset,
    Selector,
)
from pytest_anubis.selector.scenarios import scenario

P0 = (0.5, 0.3, 0.2, 0.1, 0.05, 0.03, 0.02, 0.01, 0.005, 0.003)
PERIODS = (1000.0, 300.0, 100.0, 50.0, 24.0)
SHARES = (0.01, 0.03, 0.1, 0.3, 0.6)
COUNTS = (1, 2, 3, 4, 6, 8, 10)


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


def learned(name: str, kind_known: bool, nodes: int) -> Rates:
    """Return rates learned from the past of another fleet."""
    past = record_past(
        scenario(name, kind_known=kind_known), Full(0.25), nodes=nodes, horizon=2160, seed=10_000
    )
    return learn_rates(past)


def sweep(
    name: str, runs: Callable[[Policy], list[Outcome]], rates: Rates, truth: Rates
) -> list[Frontier]:
    """Return the frontier of each policy in a scenario."""
    makers: dict[str, list[tuple[str, Policy]]] = {
        "selector, learned": [(f"p0={p0:g}", Selector(p0, rates)) for p0 in P0],
        "selector, told": [(f"p0={p0:g}", Selector(p0, truth)) for p0 in P0],
        "periodic full set": [(f"{period:g} h", Periodic(period)) for period in PERIODS],
        "random subset": [(f"{share:g}", RandomSubset(share)) for share in SHARES],
        "greedy, no risk": [
            (f"best {count}", FixedSubset(count, truth.shares)) for count in COUNTS
        ],
    }
    return [
        Frontier(kind, [(knob, runs(policy)) for knob, policy in policies])
        for kind, policies in makers.items()
    ]


def show(name: str, world: Scenario, rates: Rates, nodes: int, hours: float, seeds: int) -> None:
    """Print a scenario's table and what it shows."""

    def runs(policy: Policy) -> list[Outcome]:
        return [simulate(world, policy, nodes=nodes, horizon=hours, seed=s) for s in range(seeds)]

    truth = world.rates
    none, full, ideal = runs(Nothing()), runs(Full()), runs(Ideal())
    print(
        f"\nScenario {name}, kinds of incidents {'seen' if world.kind_known else 'not seen'}; learned "
        f"(true): wear {1 / rates.wear:.0f} ({1 / truth.wear:.0f}) h, manifest {1 / rates.manifest:.1f} "
        f"({1 / truth.manifest:.1f}) h, stays {rates.stays:.2f} ({truth.stays:.2f}), initial "
        f"{rates.initial:.3f} ({truth.initial:.3f})"
    )
    print(
        "policy              knob       val h/node  of full  util   MTBI h   x none [95 %]        x full"
    )
    frontiers = sweep(name, runs, rates, truth)
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
    for other in frontiers[1:]:
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
    cheap = [o for _, o in own.points if validation(o) <= 0.08 * validation(full)]
    if cheap:
        best = max(cheap, key=mtbi)
        ratio, low, high = interval(best, none)
        print(
            f"  best with validation cut by at least 92 %: {ratio:.1f}x none [{low:.1f}, {high:.1f}] at "
            f"-{1 - validation(best) / validation(full):.1%}"
        )


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
    parser.add_argument("--kind-known", action="store_true")
    parser.add_argument("--speed", action="store_true")
    options = parser.parse_args()
    if options.speed:
        speed()
        return
    for name in options.scenarios:
        world = scenario(name, kind_known=options.kind_known)
        rates = learned(name, options.kind_known, options.nodes)
        show(name, world, rates, options.nodes, options.hours, options.seeds)


if __name__ == "__main__":
    main()
