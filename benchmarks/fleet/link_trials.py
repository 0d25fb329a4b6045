"""How often the guilty part of a network is named: trials on simulated hosts, each with one fault or none.

    python benchmarks/fleet/link_trials.py [--trials 20] [--hosts 8] [--rate 100] [--seed 1]

Each trial shapes one part of a network of namespaces (`pytest_anubis.benchmarking.hosts.simulated_hosts`),
runs a whole round-robin plan and asks the attribution who is to blame. A fault is drawn by chance: which
node, direction or link, and how much of its rate it loses. Named correctly means: exactly this
part and no other.
Needs root and iproute2.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout's packages

import numpy as np

from pytest_anubis.benchmarking.hosts.pair_group import PairGroup, PairRates
from pytest_anubis.benchmarking.hosts.simulated_hosts import SimulatedHosts, simulated_hosts
from pytest_anubis.benchmarking.shaped_link import NotPossible
from pytest_anubis.fleet.links.attribution import Part, typical_rates
from pytest_anubis.fleet.links.pair_plans import round_robin

LOSSES = (0.2, 0.6)
"""Lost part of the rate of a faulty part, drawn evenly: one of four lanes is 0.25."""

REPEATS = 3
"""Runs of the whole plan in a trial, from which the best rate of each way is taken."""

SECONDS = 0.04
"""Aimed length of one transfer: ten times what a process of eight hosts may wait for one of two cores."""

Fault = Callable[[SimulatedHosts, float, random.Random], Part | None]


def clean(_hosts: SimulatedHosts, _rate: float, _draw: random.Random) -> None:
    """Shape nothing."""


def slow_node(hosts: SimulatedHosts, rate: float, draw: random.Random) -> Part:
    """Let one host send and receive slowly, each by a loss of its own."""
    host = draw.randrange(len(hosts))
    send, receive = (rate * (1 - draw.uniform(*LOSSES)) for _ in range(2))
    hosts.shape(host, send=send, receive=receive)
    return Part("node", (host,))


def slow_sending(hosts: SimulatedHosts, rate: float, draw: random.Random) -> Part:
    """Let one host send slowly."""
    host = draw.randrange(len(hosts))
    hosts.shape(host, send=rate * (1 - draw.uniform(*LOSSES)))
    return Part("send", (host,))


def slow_receiving(hosts: SimulatedHosts, rate: float, draw: random.Random) -> Part:
    """Let one host receive slowly."""
    host = draw.randrange(len(hosts))
    hosts.shape(host, receive=rate * (1 - draw.uniform(*LOSSES)))
    return Part("receive", (host,))


def slow_direction(hosts: SimulatedHosts, rate: float, draw: random.Random) -> Part:
    """Let one host send or receive slowly."""
    return draw.choice((slow_sending, slow_receiving))(hosts, rate, draw)


def slow_link(hosts: SimulatedHosts, rate: float, draw: random.Random) -> Part:
    """Let what two hosts have between them be slow, there and back."""
    a, b = sorted(draw.sample(range(len(hosts)), 2))
    kept = rate * (1 - draw.uniform(*LOSSES))
    hosts.shape_way(a, b, kept)
    hosts.shape_way(b, a, kept)
    return Part("link", (a, b))


def slow_way(hosts: SimulatedHosts, rate: float, draw: random.Random) -> Part:
    """Let the way from one host to one other be slow."""
    a, b = draw.sample(range(len(hosts)), 2)
    hosts.shape_way(a, b, rate * (1 - draw.uniform(*LOSSES)))
    return Part("way", (a, b))


FAULTS: dict[str, Fault] = {
    "nothing": clean,
    "slow node": slow_node,
    "slow direction": slow_direction,
    "slow link": slow_link,
    "slow way": slow_way,
}


def spread(rates: PairRates) -> float:
    """Return the median relative deviation of the ways' typical rates from the middle one."""
    y = np.log(typical_rates(rates.rates))
    return float(np.nanmedian(np.abs(y - np.nanmedian(y))))


def main() -> int:
    """Run the trials and print one row for each kind of fault; 1 if a goal is missed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--trials", type=int, default=20, help="of each kind")
    parser.add_argument("--hosts", type=int, default=8)
    parser.add_argument("--rate", type=float, default=100.0, help="Mbit/s of every port")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kinds", nargs="+", choices=list(FAULTS), default=list(FAULTS))
    parser.add_argument("--verbose", action="store_true", help="say what was named instead")
    given = parser.parse_args()
    rate, draw = given.rate * 1e6 / 8, random.Random(given.seed)
    plan = round_robin(given.hosts)
    counts = dict.fromkeys(given.kinds, 0)
    sure: dict[str, list[float]] = {kind: [] for kind in given.kinds}
    order = [kind for kind in given.kinds for _ in range(given.trials)]
    draw.shuffle(order)
    try:
        hosts = simulated_hosts(given.hosts, rate=rate)
    except NotPossible as why:
        print(f"NOT_TESTED: {why}")
        return 2
    spreads = []
    with hosts, PairGroup(hosts) as group:
        names = group.join()
        size = group.size_for(plan, SECONDS)
        begin = time.perf_counter()
        for number, kind in enumerate(order):
            hosts.reset()
            guilty = FAULTS[kind](hosts, rate, draw)
            rates, found = group.find_guilty(plan, size=size, repeats=REPEATS)
            right = [one.part for one in found] == ([guilty] if guilty else [])
            counts[kind] += right
            sure[kind] += [one.confidence for one in found]
            if kind == "nothing":
                spreads.append(spread(rates))
            if given.verbose and not right:
                said = "; ".join(one.text(names) for one in found) or "nothing"
                truth = guilty.named(names) if guilty else "nothing"
                print(f"trial {number}: {truth} was taken for: {said}", flush=True)
        took = (time.perf_counter() - begin) / len(order)
    print("| fault | trials | named correctly | least confidence |")
    print("|---|---|---|---|")
    for kind, named in counts.items():
        least = f"{min(sure[kind]):.3f}" if sure[kind] else "-"
        print(f"| {kind} | {given.trials} | {named} | {least} |")
    apart = np.median(spreads or [np.nan])
    print(
        f"{given.hosts} hosts, {given.rate:g} Mbit/s, {len(plan)} rounds x 2 directions x {REPEATS}, {size} "
        f"bytes each, {took:.1f} s a trial, ways differ by {apart:.1%} where nothing is wrong"
    )
    goal = given.trials - given.trials // 20
    missed = counts.get("nothing", given.trials) < given.trials or min(counts.values()) < goal
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
