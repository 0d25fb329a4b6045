"""Which part of a node with eight cards is named when a card, a switch, a socket or a port is slow.

The node is ``tests/data/recorded_8gpu.json`` with two sockets and four PCIe switches added; each switch has
two cards and two network ports. The residuals are simulated: five metrics of one component (as many as
``suites/link`` records of a card) with spreads of 0.2 to 2 %, half of their variance common to the node's
devices, half drawn for each device and metric. A fault lowers all five by a multiple of the whole spread.

Printed for every fault and size: how often the right part is first in the ranking, how often any part is
accused (odds of 1,000, a loss of 1 %), and how often the accused one is right. ``one card's metrics alike``:
half of what is drawn for each device is common to its five metrics. ``shuffled``: the cards' places on the
map are exchanged at random. ``clean``: nodes without a fault, of which any accusation is wrong.

No labelled faults of real switches or sockets are public: these figures show what the method can do with such
noise, and not how often it is right in a rack.

Run: ``python benchmarks/validator/shared_parts.py [--trials 400] [--sizes 2.5 5 10 20]``.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout's packages

from pytest_anubis.core.node_map import Place, places_of
from pytest_anubis.hardware.inventory.inventory_reading import inventory_to_plain
from pytest_anubis.hardware.telemetry.recorded_node import replay
from pytest_anubis.validator.surveying.shared_parts import (
    Levels,
    Reading,
    Suspect,
    accused,
    levels_of,
    ranked,
    suspects,
)
from tests.hardware.mapped_node import mapped
from tests.places import RECORDED

METRICS = 5
LEAST, MOST = 0.002, 0.02
"""Spreads of the metrics, relative."""
OF_NODE = 0.5
"""Share of the variance that is common to the devices of a node, as in ``clear_fleet.py``."""
ALIKE = 0.5
"""Share of the rest that is common to the metrics of a device, in the harder case."""
WANTED, WRONG, LOST = 0.95, 0.01, 0.30
"""Right part first; clean nodes with an accusation; points that shuffling has to cost."""
FAULTS = ("card", "switch", "socket", "port")


class Count(NamedTuple):
    """Shares of the trials."""

    first: float
    accused: float
    right: float


def node_places() -> tuple[dict[str, Place], dict[str, Place]]:
    """Return the places of the node's cards and of its network ports."""
    inventory = mapped(replay(RECORDED).inventory)
    plain = inventory_to_plain(inventory)
    cards = places_of(plain, [f"cuda:{number}" for number in range(len(inventory.accelerators))])
    return cards, places_of(plain, [nic.name for nic in inventory.nics])


def simulated(
    chance: random.Random, devices: Sequence[str], slow: Sequence[str], size: float, alike: float
) -> Levels:
    """Return the levels of devices by five metrics, some slower by a number of spreads."""
    own = 1 - OF_NODE
    common = {device: chance.gauss(0, (own * alike) ** 0.5) for device in devices}
    found = []
    for metric in range(METRICS):
        spread = LEAST * (MOST / LEAST) ** chance.random()
        node = chance.gauss(0, OF_NODE**0.5)
        for device in devices:
            drawn = node + common[device] + chance.gauss(0, (own * (1 - alike)) ** 0.5)
            found.append(
                Reading(
                    component="simulated",
                    metric=(str(metric),),
                    device=device,
                    level=spread * (drawn - size * (device in slow)),
                    spread=spread,
                )
            )
    return levels_of(found)


def tried(
    places: Mapping[str, Place],
    kind: str,
    size: float,
    trials: int,
    *,
    alike: float = 0.0,
    shuffled: bool = False,
) -> Count:
    """Return what is named in so many trials of one fault."""
    chance = random.Random(f"{kind} {size} {alike}")
    devices, every = list(places), suspects(places)
    faults = [one for one in every if one.kind == ("device" if kind in ("card", "port") else kind)]
    first = named = right = 0
    for _ in range(trials):
        fault = chance.choice(faults)
        levels = simulated(chance, devices, fault.devices, size, alike)
        hypotheses = every
        if shuffled:
            mixed = chance.sample(devices, len(devices))
            hypotheses = suspects(
                {new: places[old] for new, old in zip(mixed, devices, strict=True)}
            )
        ranking = ranked(levels, [one for one in hypotheses if one.kind != "all"])
        first += bool(ranking) and same(ranking[0][0], fault)
        found = accused(levels, hypotheses)
        named += bool(found)
        right += bool(found) and same(found[0].suspect, fault)
    return Count(first / trials, named / trials, right / trials)


def same(found: Suspect, fault: Suspect) -> bool:
    """Return whether a hypothesis is the fault: the same part with the same devices."""
    return (found.kind, set(found.devices)) == (fault.kind, set(fault.devices))


def clean(places: Mapping[str, Place], trials: int, alike: float) -> int:
    """Return the number of nodes without a fault on which anything is accused."""
    chance = random.Random(f"clean {alike}")
    every, devices = suspects(places), list(places)
    drawn = (simulated(chance, devices, (), 0.0, alike) for _ in range(trials))
    return sum(bool(accused(levels, every)) for levels in drawn)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables; return 1 if a figure is not what is wanted."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--trials", type=int, default=400, help="of each fault and size")
    parser.add_argument(
        "--sizes", type=float, nargs="+", default=[2.5, 5, 10, 20], help="faults in healthy spreads"
    )
    options = parser.parse_args(arguments)
    cards, ports = node_places()
    missed = []
    print(f"{options.trials} trials each, {METRICS} metrics; no labelled real faults exist\n")
    print("| fault | spreads | noise | right part first | accused | and right |")
    print("|---|---|---|---|---|---|")
    for alike, noise in ((0.0, "independent"), (ALIKE, "one card's metrics alike")):
        for kind in FAULTS:
            for size in options.sizes:
                found = tried(
                    ports if kind == "port" else cards, kind, size, options.trials, alike=alike
                )
                shown = " | ".join(f"{share:.1%}".replace("%", " %") for share in found)
                print(f"| {kind} | {size:g} | {noise} | {shown} |", flush=True)
                if not alike and size >= 2.5 and found.first < WANTED:
                    missed.append(f"{kind} of {size:g} spreads")
    print()
    for alike, noise in ((0.0, "independent"), (ALIKE, "one card's metrics alike")):
        wrong = clean(cards, options.trials, alike)
        line = f"clean nodes, {noise}: {wrong} of {options.trials} with an accusation"
        print(line)
        if wrong > WRONG * options.trials:
            missed.append(line)
    for size in options.sizes:
        kept = tried(cards, "switch", size, options.trials)
        lost = kept.first - tried(cards, "switch", size, options.trials, shuffled=True).first
        print(f"switch of {size:g} spreads, shuffled: {100 * lost:.0f} points less often first")
        if lost < LOST:
            missed.append(f"shuffling costs {100 * lost:.0f} points only")
    print(*(["", "not as wanted:", *missed] if missed else ["", "all as wanted"]), sep="\n")
    return int(bool(missed))


if __name__ == "__main__":
    raise SystemExit(main())
