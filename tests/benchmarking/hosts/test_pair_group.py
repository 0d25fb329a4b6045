"""Hosts that send to each other: rates of each direction, changed bytes, and a host that vanishes."""

from __future__ import annotations

import math
import os
import signal
import socket

import numpy as np
import pytest

from pytest_anubis.benchmarking.children import ChildError
from pytest_anubis.benchmarking.hosts import pair_group
from pytest_anubis.benchmarking.hosts.pair_group import PairGroup, Place
from pytest_anubis.fleet.links.pair_plans import PlanError, round_robin
from tests.benchmarking.hosts.corrupt_pair_rank import SPOILED


class HostsOfOneName:
    """Hosts that are this machine."""

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
    with PairGroup(HostsOfOneName(2), patience=60) as group:
        assert group.join() == ("twin#0", "twin#1")
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
