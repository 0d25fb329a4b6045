"""Deals CPUs out to lanes: disjoint, equal shares of the cores near their cards. Pure.

Work of one card's tests on the host must not slow down the tests of another card. So every lane of
accelerators gets whole physical cores of its cards' NUMA nodes, as many as every other lane there.
`lane_places` uses it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pytest_anubis.core.measurement import LaneCores
from pytest_anubis.distributed.dispatch.tasks import CPU, Lane
from pytest_anubis.hardware.numa import Core, cpu_text


@dataclass(frozen=True, slots=True, kw_only=True)
class LanePlacement:
    """The CPUs of one lane."""

    lane: str  # the lane's name
    cpus: tuple[int, ...]  # all its CPUs, ascending, for tests without a card
    near: Mapping[str, tuple[int, ...]]  # card -> CPUs for its tests, on its NUMA node
    nodes: Mapping[str, int | None]  # card -> its NUMA node; None if unknown
    local: bool = True  # the cards' CPUs are on their NUMA nodes
    # The lane shares its cores with no other lane of accelerators, and its part of a quota is one
    # CPU at least
    own: bool = True
    # Its share of the control group's CPU time, in CPUs; None without a quota
    quota: float | None = None


def place_lanes(
    lanes: Sequence[Lane],
    cores: Sequence[Core],
    homes: Mapping[str, int | None],
    quota: float | None = None,
) -> tuple[LanePlacement, ...]:
    """Deal the cores out to the lanes, in the order of the lanes.

    - A lane without cards has all cores, because its tests run alone or are certified.
    - A single lane with cards has all cores, and its tests run near their card.
    - Several lanes with cards share the cores of every NUMA node equally; a remainder is not dealt.
    - If a card's NUMA node is unknown or has no usable core, the lanes share all cores equally.
    - With fewer cores than lanes every lane gets all cores, and `LanePlacement.own` is false.
    - Lanes with cards share a quota of CPU time equally. With less than one CPU each, `own` is false. The
      quota limits no CPUs, because another container with a quota might choose the same ones.
    """
    everything = tuple(sorted(cpu for core in cores for cpu in core.cpus))
    cards = {lane.name: [one for one in lane.devices if one != CPU] for lane in lanes}
    count = sum(map(bool, cards.values()))
    several = count > 1
    starved = quota is not None and several and quota < count
    pools: dict[int | None, list[Core]] = {}
    for core in cores:
        pools.setdefault(core.node, []).append(core)
    known = all(homes.get(one) in pools and homes.get(one) is not None for one in homes)
    if not known:
        pools = {None: list(cores)}
    home = {one: homes[one] if known else None for one in homes}

    claims: dict[int | None, list[str]] = {}
    for name, own in cards.items():
        for node in dict.fromkeys(home.get(one) for one in own):
            claims.setdefault(node, []).append(name)
    shares: dict[tuple[str, int | None], tuple[int, ...]] = {}
    scarce: set[str] = set()
    for node, names in claims.items():
        pool = pools[node]
        each = len(pool) // len(names)
        for number, name in enumerate(names):
            some = pool[number * each : (number + 1) * each] if each else pool
            shares[name, node] = tuple(sorted(cpu for core in some for cpu in core.cpus))
        scarce.update(names if not each else ())

    found = []
    for lane in lanes:
        own = cards[lane.name]
        if several and own:
            near = {one: shares[lane.name, home.get(one)] for one in own}
            cpus = tuple(sorted({cpu for some in near.values() for cpu in some}))
        else:  # it may get exclusive tests of any card
            near = {one: _all_of(pools.get(node, cores)) for one, node in home.items()}
            cpus = everything
        nodes = {one: homes.get(one) for one in near}
        found.append(
            LanePlacement(
                lane=lane.name,
                cpus=cpus,
                near=near,
                nodes=nodes,
                local=known,
                own=lane.name not in scarce and not (starved and own),
                quota=quota / count if quota is not None and several and own else quota,
            )
        )
    return tuple(found)


def kept_apart(places: Sequence[LanePlacement]) -> bool:
    """Return whether every lane of accelerators has cores that no other one has."""
    return all(place.own for place in places)


def lane_core_events(
    places: Sequence[LanePlacement], lanes: Sequence[Lane]
) -> tuple[LaneCores, ...]:
    """Return the CPUs of all lanes, for journal, page and terminal."""
    devices = {lane.name: lane.devices for lane in lanes}
    found = []
    for place in places:
        groups: dict[tuple[int | None, tuple[int, ...]], list[str]] = {}
        for card in devices[place.lane]:
            if card in place.near:
                groups.setdefault((place.nodes[card], place.near[card]), []).append(card)
        for (node, cpus), cards in groups.items():
            found.append(
                LaneCores(
                    lane=place.lane,
                    devices=tuple(cards),
                    cpus=cpu_text(cpus),
                    numa_node=node,
                    near=place.local and node is not None,
                    own=place.own,
                )
            )
        if not groups:
            found.append(LaneCores(lane=place.lane, cpus=cpu_text(place.cpus), own=place.own))
    return tuple(found)


def _all_of(cores: Sequence[Core]) -> tuple[int, ...]:
    return tuple(sorted(cpu for core in cores for cpu in core.cpus))
