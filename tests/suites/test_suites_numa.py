"""Latency by pairs of NUMA nodes: who has which CPUs, where memory is taken from, which pair is slow."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from pytest_anubis.benchmarking.verification import flip_bit
from suites.memory import chase, native, numa, stream, test_bandwidth, test_latency
from suites.memory.caches import Caches
from tests.suites.test_suites_on_a_card import Taken

needs_compiler = pytest.mark.skipif(native.find_compiler() is None, reason="no C compiler found")


def test_nodes_with_memory_and_their_cpus(tmp_path: Path) -> None:
    (tmp_path / "has_memory").write_text("0-1\n")
    for node, cpus in ((0, "0-3,8-11"), (1, "4-7"), (2, "12")):  # the third has no memory
        (tmp_path / f"node{node}").mkdir()
        (tmp_path / f"node{node}/cpulist").write_text(f"{cpus}\n")
    assert numa.read_nodes(tmp_path) == {0: {0, 1, 2, 3, 8, 9, 10, 11}, 1: {4, 5, 6, 7}}
    assert numa.read_nodes(tmp_path / "nowhere") == {}


def test_place_is_left_again_and_refusals_are_named() -> None:
    home = os.sched_getaffinity(0)
    one = min(home)
    with suppress(numa.NotPossible), numa.place({one, 9000}, 0):  # containers may refuse
        assert os.sched_getaffinity(0) == {one}
    with pytest.raises(numa.NotPossible, match="none of the CPUs"), numa.place({9000}, 0):
        pass
    with pytest.raises(numa.NotPossible), numa.place({one}, 1023):  # no such node
        pass
    assert os.sched_getaffinity(0) == home


@pytest.fixture
def two_nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Two nodes with memory, as Linux tells them; returns in whose memory chains are made."""
    home = sorted(os.sched_getaffinity(0))
    cpus = {0: home[:1], 1: home[1:] or home}
    (tmp_path / "has_memory").write_text("0-1\n")
    for node, some in cpus.items():
        (tmp_path / f"node{node}").mkdir()
        (tmp_path / f"node{node}/cpulist").write_text(",".join(map(str, some)) + "\n")
    places: list[int] = []

    @contextmanager
    def place(_: set[int], node: int) -> Iterator[None]:
        places.append(node)
        yield

    read = numa.read_nodes
    monkeypatch.setattr(numa, "read_nodes", lambda: read(tmp_path))
    monkeypatch.setattr(numa, "place", place)  # this machine may have one node
    monkeypatch.setattr(chase, "footprint", lambda *_: 64 * 64)
    monkeypatch.setitem(test_latency.STEPS, "dram", 100)
    return places


class Values(Taken):
    """Keeps the values too, in rounds as many as are asked for."""

    def collect(self, name: str, fn: Any, **asked: Any) -> tuple[float, ...]:
        self.asked[name] = asked
        self.values[name] = [fn() for _ in range(asked["rounds"])]
        return tuple(self.values[name])


PAIRS = ["latency_0_to_0", "latency_0_to_1", "latency_1_to_0", "latency_1_to_1"]


@needs_compiler
def test_the_slow_pair_of_processor_and_memory_is_named(
    two_nodes: list[int], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    walkers: list[set[int]] = []
    walked: list[chase.Chase] = []

    @contextmanager
    def on_cpus(cpus: set[int]) -> Iterator[None]:
        walkers.append(cpus)
        yield

    def latency(chain: chase.Chase, _: int) -> float:
        if chain not in walked:
            walked.append(chain)
        start = 0 if walkers[-1] == numa.read_nodes()[0] else 1
        return {(0, 0): 90.0, (0, 1): 140.0, (1, 0): 230.0, (1, 1): 91.0}[
            start, walked.index(chain)
        ]

    monkeypatch.setattr(numa, "on_cpus", on_cpus)
    monkeypatch.setattr(chase.Chase, "latency", latency)
    monkeypatch.setattr(numa, "read_nodes", lambda: {0: {0}, 1: {1}})
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    taken, said = Values(), dict[str, Any]()
    test_latency.test_numa_latency(taken, said.__setitem__)
    assert two_nodes == [0, 1], "one chain in each memory"
    assert {name: set(values) for name, values in taken.values.items()} == {
        "latency_0_to_0": {90.0}, "latency_0_to_1": {140.0}, "latency_1_to_0": {230.0},
        "latency_1_to_1": {91.0},
    }  # fmt: skip
    assert {len(values) for values in taken.values.values()} == {test_latency.ROUNDS}
    assert said["slowest_pairs"] == [
        "slowest local pair: from node 1 to the memory of node 1 91.0 ns, median of all 2 90.5 ns",
        "slowest remote pair: from node 1 to the memory of node 0 230.0 ns, median of all 2 185.0 ns",
    ]
    assert said["slowest_pairs"] == capsys.readouterr().out.splitlines()


@needs_compiler
@pytest.mark.usefixtures("two_nodes")
def test_every_pair_is_walked_and_a_wrong_line_names_its_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    taken = Values()
    test_latency.test_numa_latency(taken, lambda *_: None)
    assert sorted(taken.asked) == PAIRS

    def lost(chain: chase.Chase) -> int:
        return 2

    monkeypatch.setattr(chase.Chase, "wrong_links", lost)
    with pytest.raises(
        AssertionError, match="2 of 64 lines of the chain in the memory of node 0 do not"
    ):
        test_latency.test_numa_latency(Taken(), lambda *_: None)


@needs_compiler
def test_memory_that_no_processor_is_beside_is_walked_from_each(
    two_nodes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    home = os.sched_getaffinity(0)
    monkeypatch.setattr(numa, "read_nodes", lambda: {0: home, 1: {9000}, 3: set()})
    taken = Values()
    test_latency.test_numa_latency(taken, lambda *_: None)
    assert two_nodes == [0, 1, 3]
    assert sorted(taken.asked) == ["latency_0_to_0", "latency_0_to_1", "latency_0_to_3"]


@needs_compiler
def test_latency_of_every_footprint_is_told_and_a_wrong_line_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    caches = Caches(level2=1 << 20, last=1 << 20, last_total=1 << 20)
    monkeypatch.setattr(test_latency, "read_caches", lambda: caches)
    monkeypatch.setattr(test_latency, "SWEPT", 128 << 10)
    monkeypatch.setattr(chase, "footprint", lambda *_: 256 << 10)
    monkeypatch.setattr(test_latency, "STEPS", {"l2": 100, "llc": 100, "dram": 100})
    taken = Taken()
    test_latency.test_latency_by_footprint(taken)
    names = ["latency_16KiB", "latency_32KiB", "latency_64KiB", "latency_128KiB", "latency_256KiB"]
    assert sorted(taken.asked) == sorted(names)
    assert set(chase.sweep(1 << 20)) == {
        *(name.removeprefix("latency_") for name in names),
        "512KiB",
        "1MiB",
    }
    assert {asked["unit"] for asked in taken.asked.values()} == {"ns"}
    astray = chase.Chase.arrived
    monkeypatch.setattr(chase.Chase, "arrived", lambda c: c.lines != 1024 and astray(c))
    with pytest.raises(AssertionError, match="the last loads through 64KiB led astray"):
        test_latency.test_latency_by_footprint(Taken())


def test_one_node_has_no_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numa, "read_nodes", lambda: {0: {0}})
    with pytest.raises(pytest.skip.Exception, match="not applicable: one NUMA node"):
        test_latency.test_numa_latency(Taken(), lambda *_: None)


@pytest.mark.usefixtures("two_nodes")
def test_every_pair_is_streamed_and_a_wrong_element_names_its_memory(
    two_nodes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "elements_for", lambda *_, **__: 1 << 12)
    taken = Values()
    test_bandwidth.test_numa_bandwidth(taken)
    assert two_nodes == [0, 1], "arrays in each memory"
    assert sorted(taken.asked) == [name.replace("latency", "bandwidth") for name in PAIRS]
    assert all(value > 0 for values in taken.values.values() for value in values)
    monkeypatch.setattr(stream.NodeStreams, "wrong_elements", lambda _: 2)
    with pytest.raises(AssertionError, match=r"by the node of their memory: \{0: 2, 1: 2\}"):
        test_bandwidth.test_numa_bandwidth(Values())


def test_memory_without_processors_is_an_end_and_one_node_does_not_apply(
    two_nodes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "elements_for", lambda *_, **__: 1 << 12)
    home = os.sched_getaffinity(0)
    monkeypatch.setattr(numa, "read_nodes", lambda: {0: home, 2: set()})
    taken = Values()
    test_bandwidth.test_numa_bandwidth(taken)
    assert sorted(taken.asked) == ["bandwidth_0_to_0", "bandwidth_0_to_2"]
    assert two_nodes == [0, 2]
    monkeypatch.setattr(numa, "read_nodes", lambda: {0: home})
    with pytest.raises(pytest.skip.Exception, match="one NUMA node"):
        test_bandwidth.test_numa_bandwidth(Values())


def test_free_memory_of_a_node_counts_cached_files(tmp_path: Path) -> None:
    (tmp_path / "node1").mkdir()
    named = {"MemTotal": 64, "MemFree": 8, "Active(file)": 3, "Inactive(file)": 5, "FilePages": 40}
    lines = [f"Node 1 {name}:  {kib} kB\n" for name, kib in named.items()]
    (tmp_path / "node1/meminfo").write_text("".join([*lines, "Node 1 HugePages_Total: 2\n"]))
    assert numa.available(1, tmp_path) == 16 << 10
    assert numa.available(2, tmp_path) == sys.maxsize


@pytest.mark.usefixtures("two_nodes")
def test_arrays_take_half_of_the_least_nodes_free_memory_or_do_not_apply(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stream, "elements_for", lambda *_, **__: 1 << 16)
    cache = 64 << 10
    monkeypatch.setattr("suites.memory.caches.read_caches", lambda: Caches(cache, cache, cache))
    monkeypatch.setattr(test_bandwidth, "PAIR_CORES", 1)
    made: list[int] = []
    make = stream.NodeStreams.__init__

    def counted(self: Any, operation: str, elements: int, count: int) -> None:
        made.append(3 * 8 * elements * count)
        make(self, operation, elements, count)

    monkeypatch.setattr(stream.NodeStreams, "__init__", counted)
    free = {0: 8 << 20, 1: 1 << 20}
    monkeypatch.setattr(numa, "available", free.__getitem__)
    test_bandwidth.test_numa_bandwidth(Values())
    assert made == [3 << 17] * 2
    free[1] = 300 << 10
    with pytest.raises(pytest.skip.Exception, match="memory 0 MB can be used"):
        test_bandwidth.test_numa_bandwidth(Values())


def test_process_on_cpus_without_memory_has_no_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numa, "read_nodes", lambda: {0: {9000}, 1: set()})
    with pytest.raises(pytest.skip.Exception, match="none of the CPUs"):
        test_bandwidth.test_numa_bandwidth(Values())


def test_cores_stream_at_once_and_a_flipped_bit_or_a_lost_core_is_seen() -> None:
    cpus = sorted(os.sched_getaffinity(0))[:2]
    streams = stream.NodeStreams("triad", 1 << 14, 2)
    assert streams.rate(cpus) > 0
    assert os.sched_getaffinity(0) >= set(cpus)
    assert streams.wrong_elements() == 0
    flip_bit(streams._streams[1]._x, 77, 52)
    assert streams.wrong_elements() >= 1
    with pytest.raises(OSError, match="Invalid argument"):
        streams.rate([9000])
