"""The collective operations on a stand-in node: each algorithm is asked for by its name."""

from __future__ import annotations

from typing import Any
from unittest.mock import MagicMock

import pytest
import torch

from pytest_anubis.benchmarking.children import ChildError
from pytest_anubis.benchmarking.ranks import NCCL_CHOICES
from suites.collective import operations, test_operations
from suites.collective.group import RankGroup
from suites.collective.operations import Exchange
from suites.tools.nics import Port
from tests.suites.test_suites_on_a_card import Node, Taken


def test_all_reduce_is_measured_by_each_of_its_algorithms(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []

    class Group(RankGroup):
        def __init__(self, accelerators: int, cores: int, **given: Any) -> None:
            told.append((accelerators, given["environment"]))

        def join(self) -> None:
            if told[-1][1].get("NCCL_ALGO") == "NVLS" and refused:
                raise ChildError(f"rank 3: DistBackendError: {refused}")
            raise RuntimeError("joined")

        def __exit__(self, *_: object) -> None:
            pass

    refused = ""
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 8)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (9, 0))
    monkeypatch.setattr("suites.collective.group.RankGroup", Group)
    for algorithm in test_operations.ALGORITHMS:
        with pytest.raises(RuntimeError, match="joined"):
            test_operations.test_all_reduce_by(Taken(), Node(), algorithm)
    assert told == [(8, {"NCCL_ALGO": name}) for name in ("Ring", "Tree", "NVLS")]
    monkeypatch.setattr(test_operations, "active_ports", lambda: [Port("mlx5_0", 1)])
    with pytest.raises(RuntimeError, match="joined"):
        test_operations.test_all_reduce_through_adapters(Taken(), Node())
    alone = {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1", "NCCL_NVLS_ENABLE": "0"}
    assert told[-1] == (8, alone)
    assert set(alone) <= set(
        NCCL_CHOICES
    )  # what a site sets is dropped, what a benchmark chooses is not
    monkeypatch.setattr(test_operations, "active_ports", list)
    with pytest.raises(pytest.skip.Exception, match="not applicable: no port of an RDMA"):
        test_operations.test_all_reduce_through_adapters(Taken(), Node())
    refused = "Error : no algorithm/protocol available for function AllReduce"
    with pytest.raises(pytest.skip.Exception, match="NCCL has no NVLS on this node: rank 3"):
        test_operations.test_all_reduce_by(Taken(), Node(), "nvls")
    monkeypatch.setattr(test_operations, "has_switches", lambda: True)
    with pytest.raises(pytest.fail.Exception, match="though its cards hang on an NVSwitch fabric"):
        test_operations.test_all_reduce_by(Taken(), Node(), "nvls")
    refused = "unhandled system error"  # a broken switch is no missing algorithm
    with pytest.raises(ChildError, match="unhandled"):
        test_operations.test_all_reduce_by(Taken(), Node(), "nvls")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (8, 0))
    with pytest.raises(pytest.skip.Exception, match="not applicable: switches add"):
        test_operations.test_all_reduce_by(Taken(), Node(), "nvls")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(pytest.skip.Exception, match="not applicable: fewer than two"):
        test_operations.test_all_reduce_by(Taken(), Node(), "ring")
    with pytest.raises(pytest.skip.Exception, match="not applicable: fewer than two"):
        test_operations.test_all_reduce_through_adapters(Taken(), Node())


def test_rates_of_links_are_recorded_with_what_they_could_be(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    group = MagicMock(**{"bus_bandwidth.return_value": 3e9, "wrong_elements.return_value": 0})
    group.__enter__.return_value = group
    monkeypatch.setattr("suites.collective.group.RankGroup", lambda *_, **__: group)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 8)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (9, 0))
    monkeypatch.setattr(test_operations, "active_ports", lambda: [Port("mlx5_0", 1)])
    found = []
    for algorithm in test_operations.ALGORITHMS:
        taken = Taken()
        test_operations.test_all_reduce_by(taken, Node(), algorithm)
        found.append(taken.asked["bus_bandwidth"]["nominal"])
    assert found == [Node().nominal("nvlink"), None, None]
    taken = Taken()
    test_operations.test_all_reduce_through_adapters(taken, Node())
    assert taken.asked["bus_bandwidth"]["nominal"] == Node().nominal("adapters")


def test_rank_that_does_not_notice_an_error_is_not_believed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def alone(_operation: str, _sent: torch.Tensor, _due: torch.Tensor) -> None:
        """Do nothing: what one rank alone sends to all is there already."""

    exchange = Exchange("broadcast", 1 << 12, 0, 1, torch.device("cpu"), alone)
    assert exchange.wrong_elements() == 0
    monkeypatch.setattr(operations, "differing", lambda *_: 0)
    with pytest.raises(AssertionError, match="does not notice an error"):
        exchange.wrong_elements()
