"""No lane of accelerators uses a core of another, and every card's work runs on its own NUMA node."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_anubis.distributed.dispatch.lane_cores import kept_apart, lane_core_events, place_lanes
from pytest_anubis.distributed.dispatch.tasks import layout
from pytest_anubis.hardware.numa import Core, cores_of
from pytest_anubis.report.text.shared_lines import lane_texts
from tests.hardware.two_numa_nodes import CPUS, two_numa_nodes

EIGHT = tuple(f"cuda:{number}" for number in range(8))
HOMES: dict[str, int | None] = {name: number // 4 for number, name in enumerate(EIGHT)}


@pytest.fixture
def cores(tmp_path: Path) -> tuple[Core, ...]:
    return cores_of(two_numa_nodes(tmp_path), CPUS)


def test_eight_lanes_share_the_cores_of_their_nodes(cores: tuple[Core, ...]) -> None:
    lanes = layout(EIGHT, 9)
    places = place_lanes(lanes, cores, HOMES)
    assert kept_apart(places)
    assert [place.cpus for place in places[:5]] == [
        (0, 1, 16, 17), (2, 3, 18, 19), (4, 5, 20, 21), (6, 7, 22, 23), (8, 9, 24, 25),
    ]  # fmt: skip
    assert places[8].cpus == CPUS  # the node's: what runs there runs alone
    assert places[8].near["cuda:4"] == (*range(8, 16), *range(24, 32))
    lines = lane_texts(lane_core_events(places, lanes))
    assert lines[0] == "cuda:0: CPUs 0-1,16-17, NUMA node 0"
    assert lines[7] == "cuda:7: CPUs 14-15,30-31, NUMA node 1"
    assert lines[8].startswith("lane node: what runs alone, and the host's tests: CPUs 0-31")
    assert len(lines) == 9


def test_lane_with_cards_of_both_nodes_has_both_cores(cores: tuple[Core, ...]) -> None:
    lanes = layout(EIGHT, 5)
    places = place_lanes(lanes, cores, HOMES)
    assert places[0].near == {"cuda:0": (0, 1, 16, 17), "cuda:4": (8, 9, 24, 25)}
    assert set(places[0].cpus) == {0, 1, 8, 9, 16, 17, 24, 25}
    lines = lane_texts(lane_core_events(places, lanes))
    assert lines[:2] == [
        "lane cuda:0+cuda:4: cuda:0: CPUs 0-1,16-17, NUMA node 0",
        "lane cuda:0+cuda:4: cuda:4: CPUs 8-9,24-25, NUMA node 1",
    ]


def test_one_lane_works_near_the_card_at_hand(cores: tuple[Core, ...]) -> None:
    lanes = layout(EIGHT, 1)
    (place,) = place_lanes(lanes, cores, HOMES)
    assert place.cpus == CPUS
    assert place.near["cuda:0"] == (*range(8), *range(16, 24))
    assert place.near["cuda:7"] == (*range(8, 16), *range(24, 32))


@pytest.mark.parametrize(
    ("homes", "allowed"),
    [
        ({**HOMES, "cuda:3": None}, set(CPUS)),  # firmware that is silent
        (HOMES, set(range(8))),  # a container that may use node 0 only
    ],
)
def test_unknown_numa_nodes_share_all_cores(
    tmp_path: Path, homes: dict[str, int | None], allowed: set[int]
) -> None:
    lanes = layout(EIGHT, 9)
    places = place_lanes(lanes, cores_of(two_numa_nodes(tmp_path), allowed), homes)
    assert kept_apart(places)
    assert len({len(place.cpus) for place in places[:8]}) == 1
    lines = lane_texts(lane_core_events(places, lanes))
    assert lines[4].endswith("NUMA node 1 (not kept to its CPUs)")


def test_fewer_cores_than_lanes_share_all() -> None:
    lanes = layout(EIGHT, 9)
    places = place_lanes(lanes, (Core(cpus=(0,)), Core(cpus=(1,))), HOMES)
    assert not kept_apart(places)
    assert {place.cpus for place in places} == {(0, 1)}
    assert "what is timed on the host runs alone" in lane_texts(lane_core_events(places, lanes))[-1]


@given(
    st.integers(1, 12),
    st.integers(1, 12),
    st.lists(st.tuples(st.integers(0, 3), st.integers(1, 2)), max_size=40),
    st.data(),
)
def test_lanes_never_share_a_core_unless_they_say_so(
    cards: int, workers: int, shape: list[tuple[int, int]], data: st.DataObject
) -> None:
    cores, cpu = [], 0
    for node, threads in shape:
        cores.append(Core(cpus=tuple(range(cpu, cpu + threads)), node=node))
        cpu += threads
    names = [f"cuda:{number}" for number in range(cards)]
    homes = {name: data.draw(st.none() | st.integers(0, 4)) for name in names}
    places = place_lanes(layout(names, workers), cores, homes)
    cards_of = {lane.name: lane.devices for lane in layout(names, workers)}
    busy = [place for place in places if cards_of[place.lane]]
    for number, one in enumerate(busy):
        assert all(set(some) <= set(one.cpus) for some in one.near.values())
        for other in busy[:number]:
            assert not (one.own and other.own and set(one.cpus) & set(other.cpus))
    if kept_apart(places) and cores:
        assert all(place.cpus for place in busy)
