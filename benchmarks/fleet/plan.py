"""The plan of one night for a simulated fleet: seconds, value, bound and what lies between them.

Run: ``python benchmarks/fleet/plan.py [--nodes 10000] [--hours 8] [--at-once 100] [--seed 1]``, or with
``--settings`` for the table of settings in `benchmarks/figures/scale.md`: one line for each. Three
classes with 40 benchmarks each, known defects that show in one to three benchmarks of a component, incidents
that come back as the same kind, nodes whose risks differ by more than tenfold, a test rig that one benchmark
needs, and partners that two of them need. Each plan is checked by what uses nothing of what made it.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout's packages

from pytest_anubis.core.history import Defect, FleetHistory, Incident
from pytest_anubis.selector.planning.fleet_coverage import ClassCoverage, class_coverage, mixes_of
from pytest_anubis.selector.planning.window_plan import WindowPlan, plan_window
from pytest_anubis.selector.planning.window_problem import NodeCase, Window
from pytest_anubis.selector.risk.incident_kinds import kind_mixes
from tests.selector.planning.plan_check import plan_violations

PARTS = {
    "accelerator.compute": ("gpu", 10),
    "accelerator.memory": ("gpu-memory", 8),
    "network.fabric": ("nic", 9),
    "storage.disk": ("disk", 6),
    "memory.bandwidth": ("dimm", 7),
}
"""Component: kind of its incidents, and how many benchmarks speak for it; 40 in all."""
DEFECTS = 400
"""Known defects of a class: some years of a fleet."""
HOUR = 3600.0


def names(part: str) -> list[str]:
    """Return the benchmarks of a component."""
    return [
        f"suites/{part.partition('.')[0]}/test_{part}.py::test_{n}" for n in range(PARTS[part][1])
    ]


NEEDS = {
    names("storage.disk")[0]: {"rig": 1},
    names("network.fabric")[0]: {"partner": 1},
    names("network.fabric")[1]: {"partner": 1},
}


def simulated(
    nodes: int, seed: int, *, classes: int = 3
) -> tuple[list[NodeCase], dict[str, ClassCoverage]]:
    """Return a fleet's nodes with their risks, and what the benchmarks of its classes expose."""
    chance = random.Random(seed)
    incidents = [
        Incident(
            node=f"n{n:05}",
            kind=chance.choice([kind for kind, _ in PARTS.values()]),
            started=float(n),
        )
        for n in range(nodes)
        if chance.random() < 0.4
    ]
    fleets = {f"class {number}": _of_class(f"class {number}", chance) for number in range(classes)}
    everyone = [f"n{n:05}" for n in range(nodes)]
    mixes = mixes_of(kind_mixes(incidents), everyone)
    coverage = {key: class_coverage(fleet, mixes.values()) for key, fleet in fleets.items()}
    cases = []
    for node in everyone:
        key = chance.choice(sorted(fleets))
        known = coverage[key].benchmarks
        lately = chance.random() < 0.3
        cases.append(
            NodeCase(
                node=node,
                hardware_class=key,
                risk=min(
                    0.9, chance.lognormvariate(-3.5, 1.0)
                ),  # 3 % in the middle, 15 % the worst
                mix=mixes[node],
                credit=chance.random() if lately else 0.0,
                passed=frozenset(known[:: chance.choice((1, 2, 3))]) if lately else frozenset(),
                pins=frozenset({chance.choice(known)}) if chance.random() < 0.01 else frozenset(),
            )
        )
    return cases, coverage


def _of_class(key: str, chance: random.Random) -> FleetHistory:
    components = {name: part for part in PARTS for name in names(part)}
    defects = []
    for number in range(DEFECTS):
        part = chance.choice(list(PARTS))
        own = names(part)
        # The first benchmarks of a component find most, as the broad ones do.
        shown = {
            own[min(len(own) - 1, int(chance.expovariate(0.4)))]
            for _ in range(chance.randint(1, 3))
        }
        defects.append(
            Defect(
                number=number,
                node="n",
                found=0.0,
                benchmarks=tuple(sorted(shown)),
                hardware_class=key,
                component=part,
                kind=PARTS[part][0],
                state="confirmed",
            )
        )
    durations = {name: chance.choice((10.0, 20.0, 45.0, 90.0, 180.0, 420.0)) for name in components}
    return FleetHistory(
        defects=tuple(defects),
        durations=durations,
        experience=dict.fromkeys(components, 200),
        components=components,
    )


class Setting(NamedTuple):
    """A night: which fleet, how long, what there is."""

    seed: int = 1
    hours: float = 8.0
    at_once: int = 100
    rigs: int = 4
    partners: int = 8
    worth: float = 1.0


SETTINGS = (
    Setting(),
    Setting(hours=9),
    Setting(seed=2),
    Setting(seed=2, hours=9),
    Setting(seed=3),
    Setting(seed=2, hours=2),
    Setting(seed=2, at_once=50),
    Setting(seed=2, at_once=300),
    Setting(seed=1, worth=0.0),
    Setting(seed=2, worth=0.0),
    Setting(seed=2, rigs=1, partners=2),
    Setting(seed=2, rigs=40, partners=80),
)
"""Other fleets; short and long, few and many places; time that is there anyway; scarcer pools, and plenty."""


def main() -> None:
    """Plan, check and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--hours", type=float, default=8.0)
    parser.add_argument("--at-once", type=int, default=100)
    parser.add_argument("--rigs", type=int, default=4)
    parser.add_argument("--partners", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--free", action="store_true", help="the time of nodes is worth nothing")
    parser.add_argument("--settings", action="store_true", help="a line for each of some settings")
    options = parser.parse_args()
    if options.settings:
        print(
            "seed, hours, places, rigs, partners, worth: seconds, gap, taken, another hour, wrong"
        )
        for one in SETTINGS:
            _, line = planned(one, options.nodes)
            print(*one, line, sep=", ", flush=True)
        return
    own = Setting(
        seed=options.seed,
        hours=options.hours,
        at_once=options.at_once,
        rigs=options.rigs,
        partners=options.partners,
        worth=0.0 if options.free else 1.0,
    )
    plan, line = planned(own, options.nodes)
    print(f"{options.nodes} nodes x 40 benchmarks, {own}")
    print_plan(plan)
    print(line)


def planned(one: Setting, nodes: int) -> tuple[WindowPlan, str]:
    """Return the plan of a setting, and its figures as a line."""
    cases, coverage = simulated(nodes, one.seed)
    window = Window(
        seconds=one.hours * HOUR,
        at_once=one.at_once,
        pools={"rig": one.rigs, "partner": one.partners},
        needs=NEEDS,
        time_worth=one.worth,
    )
    begin, of_cpu = time.perf_counter(), time.process_time()
    plan = plan_window(cases, coverage, window)
    took, busy = time.perf_counter() - begin, time.process_time() - of_cpu
    wrong = plan_violations(plan, cases, coverage, window)
    used = " ".join(f"{100 * share:.1f} %" for share in plan.used.values())
    return plan, (
        f"{took:.1f} s ({busy:.1f} s of CPU), gap {100 * plan.gap:.2f} %, net {plan.value / HOUR:.1f} h, "
        f"taken {used}, another hour {plan.hour / HOUR:+.1f} h, wrong: {len(wrong)} {wrong[:2] or ''}"
    )


def print_plan(plan: WindowPlan) -> None:
    """Print the figures of a plan."""
    busy = sum(bool(node.runs) for node in plan.nodes)
    print(f"nodes validated: {busy} of {len(plan.nodes)}, {plan.spent / HOUR:.0f} node hours")
    print(f"spared: {plan.spared / HOUR:.1f} h of incidents; net {plan.value / HOUR:.2f} h")
    print(f"bound: {plan.bound / HOUR:.2f} h, gap {100 * plan.gap:.2f} %")
    print("used:", ", ".join(f"{name} {100 * share:.1f} %" for name, share in plan.used.items()))


if __name__ == "__main__":
    main()
