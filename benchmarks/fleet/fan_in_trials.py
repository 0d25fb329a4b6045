"""Hosts that send to one all at once: how long it takes, and whether the slow port or short queue is named.

Eight simulated hosts on one bridge. Each trial shapes another port: nothing, a slow receiving direction, or a
short queue before a host. Slow directions are looked for by fans, short queues by TCP's retransmissions in
rounds of pairs; what the rates of the same pairs say is printed beneath. Needs root and iproute2.
Run: ``python benchmarks/fleet/fan_in_trials.py [--trials 20] [--hosts 8] [--rate 25e6] [--kept 0.7]
[--queue 60000] [--only times fans queues]``.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout's packages

import numpy as np

from pytest_anubis.benchmarking.hosts.pair_group import PairGroup
from pytest_anubis.benchmarking.hosts.simulated_hosts import SimulatedHosts, simulated_hosts
from pytest_anubis.benchmarking.shaped_link import NotPossible
from pytest_anubis.fleet.links.fan_rates import fan_rates
from pytest_anubis.fleet.links.pair_plans import round_robin
from pytest_anubis.fleet.links.retransmissions import resending_ports

PARTS = ("times", "fans", "queues")

LARGE = 2 << 20
"""Bytes of a block where times are compared: a shaper's bucket of 80 KiB is a few percent of it."""

SMALL = 1 << 20
"""Bytes of a block where hosts are compared with each other: with a fourth of it the shapers' buckets scatter
rates by a tenth."""

SECONDS = 0.1
"""Length of a transfer in a round of pairs."""

CLOSE = 0.15
"""Relative difference of a fan's time from N - 1 single flows that counts as none."""


def main() -> int:
    """Print a row for each case; return 1 if too few trials end well, 2 if nothing can be measured here."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--trials", type=int, default=20, help="of each case")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--hosts", type=int, default=8)
    parser.add_argument("--rate", type=float, default=25e6, help="bytes/s of every port")
    parser.add_argument("--kept", type=float, default=0.7, help="share of it that a slow one has")
    parser.add_argument("--queue", type=int, default=60_000, help="bytes of a short queue")
    options = parser.parse_args()
    try:
        hosts = simulated_hosts(options.hosts, rate=options.rate)
    except NotPossible as why:
        print(f"not measured: {why}")
        return 2
    good = True
    with hosts, PairGroup(hosts) as group:
        group.join()
        if "times" in options.only:
            _times(group, options.hosts)
        print("| case | found by | trials | right host | none | another |")
        print("|---|---|---|---|---|---|", flush=True)
        if "fans" in options.only:
            good &= _slow(hosts, group, options)
        if "queues" in options.only:
            good &= _short(hosts, group, options)
    return 0 if good else 1


def _times(group: PairGroup, count: int) -> None:
    """Print the time of a fan-in relative to that of as many single flows to the same host."""
    fans = group.measure_fans(size=LARGE, repeats=2)
    received = fan_rates(fans.rates, fans.together).receiving.max(axis=0)
    single = np.array(
        [
            max(group.measure(((pair,),), size=LARGE, repeats=2).of(*pair))
            for pair in (((host + 1) % count, host) for host in range(count))
        ]
    )
    ratios = single / received
    close = int((np.abs(ratios - 1) <= CLOSE).sum())
    print(
        f"time of {count - 1} to one over {count - 1} single flows: {ratios.min():.2f} to "
        f"{ratios.max():.2f}, {close} of {count} hosts within {100 * CLOSE:.0f} %\n",
        flush=True,
    )


def _slow(hosts: SimulatedHosts, group: PairGroup, options: argparse.Namespace) -> bool:
    """Print how often a slow receiving direction is named by fans, and who is where none is slow.

    Return whether 19 of 20 are named, and none where none is slow.
    """

    def named() -> set[str]:
        _, found = group.find_guilty_hosts(size=SMALL, repeats=3)
        return {one.part.named(hosts.names) for one in found}

    good = True
    for case, kept in (("nothing", None), (f"receives at {options.kept:g}", options.kept)):
        counts: Counter[str] = Counter()
        for host in _chosen(options):
            hosts.reset()
            if kept is not None:
                hosts.shape(host, receive=kept * options.rate)
            counts[_verdict(named(), f"receiving of {hosts.names[host]}")] += 1
        _row(case, "rates of fans", counts)
        word, share = ("none", 1.0) if kept is None else ("right", 0.95)
        good &= counts[word] >= share * options.trials
    return good


def _short(hosts: SimulatedHosts, group: PairGroup, options: argparse.Namespace) -> bool:
    """Print how often a short queue is named by retransmissions, and by rates alone.

    Return whether retransmissions name 18 of 20.
    """
    plan = round_robin(options.hosts)
    good = True
    for case, queue in (("nothing", None), (f"queue of {options.queue:,} bytes", options.queue)):
        by_segments: Counter[str] = Counter()
        by_rates: Counter[str] = Counter()
        segments = []
        for host in _chosen(options):
            hosts.reset()
            size = group.size_for(plan, SECONDS)
            if queue is not None:
                hosts.shape(host, queue=queue)
            rates, found = group.find_guilty(plan, size=size, repeats=3)
            ports = resending_ports(rates.resent)
            expected = f"receiving of {hosts.names[host]}"
            named = {f"receiving of {hosts.names[port.node]}" for port in ports}
            by_segments[_verdict(named, expected)] += 1
            by_rates[_verdict((one.part.named(hosts.names) for one in found), expected)] += 1
            to_host = np.asarray(rates.resent)[:, :, host]
            segments.append(float(np.nanmedian(to_host)))
        _row(case, "retransmissions of pairs", by_segments)
        _row(case, "rates of the same pairs", by_rates)
        print(
            f"segments sent again per transfer to that host, by trial: {sorted(segments)}",
            file=sys.stderr,
        )
        good &= queue is None or by_segments["right"] >= 0.9 * options.trials
    return good


def _chosen(options: argparse.Namespace) -> Iterable[int]:
    """Return the host that each trial shapes."""
    chance = random.Random(1)
    return [chance.randrange(options.hosts) for _ in range(options.trials)]


def _verdict(named: Iterable[str], expected: str) -> str:
    """Return whether the expected part, none, or any other was named."""
    found = set(named)
    if not found:
        return "none"
    return "right" if found == {expected} else "another"


def _row(case: str, by: str, counts: Counter[str]) -> None:
    cells = (case, by, counts.total(), counts["right"], counts["none"], counts["another"])
    print(f"| {' | '.join(map(str, cells))} |", flush=True)


if __name__ == "__main__":
    sys.exit(main())
