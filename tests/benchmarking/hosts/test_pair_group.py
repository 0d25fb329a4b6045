"""Hosts that send to each other: rates of each direction, changed bytes, and a host that vanishes."""

from __future__ import annotations

import math
import os
import signal
import socket
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest

from pytest_anubis.benchmarking.children import ChildError
from pytest_anubis.benchmarking.hosts import pair_group
from pytest_anubis.benchmarking.hosts.pair_group import PairGroup, PairRates, Place
from pytest_anubis.fleet.links.attribution import Part
from pytest_anubis.fleet.links.pair_plans import PlanError, round_robin
from tests.benchmarking.hosts.corrupt_pair_rank import SPOILED


class HostsOfOneName:
    """Hosts that are this machine."""

    interface = "lo"

    def __init__(self, count: int) -> None:
        self._count = count
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port = str(free.getsockname()[1])

    def __len__(self) -> int:
        return self._count

    def places(self) -> list[Place]:
        common = {"WORLD_SIZE": str(self._count), "MASTER_ADDR": "127.0.0.1"}
        common |= {"MASTER_PORT": self._port, "GLOO_SOCKET_IFNAME": "lo"}
        return [
            Place(number=number, name="twin", environment={**common, "RANK": str(number)})
            for number in range(self._count)
        ]


@pytest.mark.usefixtures("quick_processes")
def test_pairs_are_measured_each_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pair_group, "MODULE", "tests.benchmarking.hosts.corrupt_pair_rank")
    plan = round_robin(2)
    with PairGroup(HostsOfOneName(2), port=1.25e9, patience=60) as group:
        assert group.join() == ("twin#0", "twin#1")
        assert group.ports == (1.25e9, 1.25e9)
        least, most = pair_group.SIZES
        assert least <= group.size_for(plan, 0.001) <= most
        rates, found = group.find_guilty(plan, size=1 << 18, repeats=2)
        assert len(rates.of(0, 1)) == len(rates.of(1, 0)) >= 2
        assert min(*rates.of(0, 1), *rates.of(1, 0)) > 0
        assert math.isnan(rates.of(0, 0)[0])
        assert rates.wrong[0][1] == rates.wrong[1][0] == 0
        resent = np.asarray(rates.resent)
        assert resent.shape == np.shape(rates.rates)
        assert (resent[:, [0, 1], [1, 0]] >= 0).all()
        assert {one.part.kind for one in found} <= {"way", "send", "receive"}
        spoiled = group.measure(plan, size=SPOILED, repeats=1)
        assert (spoiled.wrong[0][1], spoiled.wrong[1][0]) == (0, 1)
        with pytest.raises(PlanError, match="beyond the 2"):
            group.measure(round_robin(4), size=1, repeats=1)
        os.kill(group.processes[1].pid, signal.SIGKILL)
        with pytest.raises(ChildError, match="host twin is gone"):
            group.measure(plan, size=SPOILED, repeats=1)


@pytest.mark.usefixtures("quick_processes")
def test_all_send_to_each_host_at_once_and_get_one_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pair_group, "MODULE", "tests.benchmarking.hosts.corrupt_pair_rank")
    off = ~np.eye(3, dtype=bool)
    with PairGroup(HostsOfOneName(3), patience=60) as group:
        assert group.join() == ("twin#0", "twin#1", "twin#2")
        found = group.measure_fans(size=1 << 18, repeats=2)
        rates = np.asarray(found.rates)
        assert rates.shape == (4, 3, 3)  # two kinds of rounds, twice
        assert (rates[:, off] > 0).all()
        assert np.isnan(rates[:, ~off]).all()
        assert (np.asarray(found.together) > 0).all()
        assert np.shape(found.together) == (4, 3)
        # Of a host that sends to several at once nothing says which way a segment belonged to.
        resent = np.asarray(found.resent)
        assert not np.isnan(resent[0::2, off]).any()
        assert np.isnan(resent[1::2]).all()
        assert (np.asarray(found.wrong)[off] == 0).all()
        # Each of both kinds of rounds brings the spoiled byte once to each of the others.
        spoiled = np.asarray(group.measure_fans(size=SPOILED, repeats=1).wrong)
        assert (spoiled[1, [0, 2]] == [2, 2]).all()
        assert (spoiled[[0, 2, 0, 2], [1, 1, 2, 0]] == 0).all()
        os.kill(group.processes[2].pid, signal.SIGKILL)
        with pytest.raises(ChildError, match="host twin is gone"):
            group.measure_fans(size=SPOILED, repeats=1)


def rates_of(rates: npt.NDArray[np.float64], wrong: Sequence[tuple[int, int]] = ()) -> PairRates:
    changed = np.zeros_like(rates)
    for way in wrong:
        changed[way] = 1
    np.fill_diagonal(changed, np.nan)
    rows = tuple(map(tuple, rates.tolist()))
    return PairRates(names=(), rates=(rows,), wrong=tuple(map(tuple, changed.tolist())))


def test_hosts_with_slower_ports_by_design_are_not_accused(monkeypatch: pytest.MonkeyPatch) -> None:
    group = PairGroup.__new__(PairGroup)
    group.ports = (25.0,) * 5 + (10.0,) * 3
    chance = np.random.default_rng(1)
    rates = np.minimum.outer(group.ports, group.ports) * chance.uniform(0.98, 1, (8, 8))
    monkeypatch.setattr(group, "measure", lambda *_, **__: rates_of(rates))

    def guilty() -> list[Part]:
        return [one.part for one in group.find_guilty((), size=1, repeats=1)[1]]

    assert guilty() == []
    rates[6] *= 0.7
    assert guilty() == [Part("send", (6,))]
    rates[2] *= 0.7
    assert set(guilty()) == {Part("send", (6,)), Part("send", (2,))}
    group.ports = (25.0,) * 7 + (10.0,)  # the last one has negotiated down
    rates = np.minimum.outer(group.ports, group.ports)
    assert guilty() == [Part("node", (7,))]


@pytest.mark.parametrize(
    ("wrong", "blamed"),
    [
        ([(1, 0), (1, 2), (1, 3)], {1}),
        ([(0, 1), (2, 1)], {1}),
        ([(0, 1)], {0, 1}),
        # Two receivers, though each other host sends to both.
        ([(a, b) for a in range(4) for b in (1, 2) if a != b], {1, 2}),
        ([(1, 0), (1, 2), (3, 2)], {1, 2, 3}),
    ],
)
def test_end_that_changed_ways_have_in_common_is_to_blame(
    wrong: list[tuple[int, int]], blamed: set[int]
) -> None:
    found = rates_of(np.ones((4, 4)), wrong).changed()
    assert set(found) == set(wrong)
    assert {host for ends in found.values() for host in ends} == blamed


@pytest.mark.parametrize(("rate", "size"), [(1e9, 6_000_000), (30e3, 100_000), (3e3, 65_536)])
def test_blocks_are_smaller_where_a_fan_would_outlast_gloo(
    rate: float, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = PairGroup.__new__(PairGroup)
    group.ports, group._world = (), 4
    sizes = []

    def fans(*, size: int, repeats: int) -> PairRates:
        sizes.append(size)
        one = rates_of(np.full((4, 4), rate))
        return replace(one, rates=one.rates * 2, together=((rate,) * 4,) * 2)

    monkeypatch.setattr(group, "measure_fans", fans)
    group.find_guilty_hosts(size=6_000_000, repeats=3)
    assert sizes == [pair_group.SIZES[0], size]
