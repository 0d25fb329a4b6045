"""Latency by pairs of NUMA nodes: who has which CPUs, where memory is taken from, which pair is slow."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from suites.memory import chase, native, numa, test_latency
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


@needs_compiler
def test_every_pair_is_measured_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    places: list[tuple[int, int]] = []
    cpus = os.sched_getaffinity(0)

    @contextmanager
    def place(starts: set[int], node: int) -> Iterator[None]:
        places.append((len(starts), node))
        yield

    monkeypatch.setattr(numa, "read_nodes", lambda: {0: cpus, 1: {9000}, 3: set()})
    monkeypatch.setattr(numa, "place", place)
    monkeypatch.setattr(chase, "footprint", lambda *_: 64 * 64)
    monkeypatch.setitem(test_latency.STEPS, "dram", 100)
    taken, said = Taken(), dict[str, Any]()
    test_latency.test_numa_latency(taken, said.__setitem__)
    assert places == [(len(cpus), 0), (len(cpus), 1), (len(cpus), 3)]
    assert list(taken.asked) == ["local_latency", "remote_latency"]
    assert list(said) == ["node 0 to node 0", "node 0 to node 1", "node 0 to node 3"]

    def lost(chain: chase.Chase) -> int:
        return 2

    monkeypatch.setattr(chase.Chase, "wrong_links", lost)
    with pytest.raises(
        AssertionError, match="2 of 64 lines of the chain from node 0 to node 0 do not"
    ):
        test_latency.test_numa_latency(Taken(), said.__setitem__)


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
