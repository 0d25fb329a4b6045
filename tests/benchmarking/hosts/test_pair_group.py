"""Hosts that send to each other: rates of each direction, changed bytes, and a host that vanishes."""

from __future__ import annotations

import math
import os
import signal
import socket

import pytest

from pytest_anubis.benchmarking.children import ChildError
from pytest_anubis.benchmarking.hosts import pair_group
from pytest_anubis.benchmarking.hosts.pair_group import PairGroup, Place
from pytest_anubis.fleet.links.pair_plans import PlanError, round_robin
from tests.benchmarking.hosts.corrupt_pair_rank import SPOILED


class TwoOfOneName:
    """Two hosts that are this machine."""

    def __init__(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port = str(free.getsockname()[1])

    def __len__(self) -> int:
        return 2

    def places(self) -> list[Place]:
        common = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": self._port}
        common["GLOO_SOCKET_IFNAME"] = "lo"
        return [
            Place(number=number, name="twin", environment={**common, "RANK": str(number)})
            for number in range(2)
        ]


@pytest.mark.usefixtures("quick_processes")
def test_pairs_are_measured_each_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pair_group, "MODULE", "tests.benchmarking.hosts.corrupt_pair_rank")
    plan = round_robin(2)
    with PairGroup(TwoOfOneName(), patience=60) as group:
        assert group.join() == ("twin#0", "twin#1")
        least, most = pair_group.SIZES
        assert least <= group.size_for(plan, 0.001) <= most
        rates, found = group.find_guilty(plan, size=1 << 18, repeats=2)
        assert len(rates.of(0, 1)) == len(rates.of(1, 0)) >= 2
        assert min(*rates.of(0, 1), *rates.of(1, 0)) > 0
        assert math.isnan(rates.of(0, 0)[0])
        assert rates.wrong[0][1] == rates.wrong[1][0] == 0
        assert {one.part.kind for one in found} <= {"way", "send", "receive"}
        spoiled = group.measure(plan, size=SPOILED, repeats=1)
        assert (spoiled.wrong[0][1], spoiled.wrong[1][0]) == (0, 1)
        with pytest.raises(PlanError, match="beyond the 2"):
            group.measure(round_robin(4), size=1, repeats=1)
        os.kill(group.processes[1].pid, signal.SIGKILL)
        with pytest.raises(ChildError, match="host twin is gone"):
            group.measure(plan, size=SPOILED, repeats=1)
