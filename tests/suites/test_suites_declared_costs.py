"""What tests of a card declare, against the least that their measurements last by the profile's lengths."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pytest_anubis.hardware.round_plans import PLANS
from pytest_anubis.session.collecting.device_parameters import Device
from suites.compute import test_dispatch, test_gemm, test_shapes
from suites.link import test_transfer
from suites.memory import test_bandwidth, test_card_memory
from suites.training import test_step
from tests.suites.stand_in_plugin import card
from tests.suites.test_suites_budgets import tasks_of
from tests.suites.test_suites_on_a_card import Node

__all__ = ["card"]


class Planned:
    """Stands for ``anubis_metric``: adds up the least that its measurements last on a card in ``smoke``."""

    seconds = 0.0

    def measure(self, _: str, fn: Callable[[], object], **asked: Any) -> tuple[float, ...]:
        """Add what lies between the first call and the last value."""
        plan = PLANS["smoke"].on_accelerator("smoke")
        if asked.get("load") == "short":
            plan = plan.short_load()
        fn()
        self.seconds += plan.settle_seconds + plan.wake_seconds + plan.bursts * plan.rest_seconds
        self.seconds += plan.rounds * plan.round_seconds
        return (1.0,)

    def collect(self, *_: object, **__: object) -> tuple[float, ...]:
        """Add nothing: how long such values take only the test knows."""
        return (1.0,)

    record = collect


@pytest.fixture(scope="module")
def declared(tmp_path_factory: pytest.TempPathFactory) -> dict[str, float]:
    tasks = tasks_of("smoke", 1, tmp_path_factory.mktemp("plan"))
    return {task.test.rpartition("::")[2]: task.cost or 0.0 for task in tasks}


@pytest.mark.parametrize(
    ("test", "name", "given"),
    [
        (test_dispatch.test_dispatch, "test_dispatch[cuda:0]", {}),
        (test_dispatch.test_round_trip, "test_round_trip[cuda:0]", {}),
        (test_gemm.test_gemm, "test_gemm[cuda:0-float32]", {"dtype": "float32"}),
        (test_gemm.test_gemm, "test_gemm[cuda:0-bfloat16]", {"dtype": "bfloat16"}),
        (test_bandwidth.test_stream, "test_stream[cuda:0-triad]", {"operation": "triad"}),
        (test_card_memory.test_cache, "test_cache[cuda:0]", {}),
        (test_transfer.test_host_device_copy, "test_host_device_copy[cuda:0]", {}),
        (test_transfer.test_both_ways, "test_both_ways[cuda:0]", {}),
        (test_shapes.test_short_types, "test_short_types[cuda:0-float8]", {"dtype": "int8"}),
        (test_step.test_resnet_step, "test_resnet_step[cuda:0]", {}),
        (test_step.test_gpt_step, "test_gpt_step[cuda:0]", {}),
    ],
)
def test_no_test_of_a_card_declares_less_than_its_measurements_last(
    declared: dict[str, float], test: Callable[..., None], name: str, given: dict[str, str]
) -> None:
    code = test.__code__
    taken = Planned()
    known: dict[str, Any] = {
        "anubis_metric": taken,
        "anubis_device": Device("cuda:0"),
        "anubis_node": Node(),
        "record_property": lambda *_: None,
        **given,
    }
    test(**{one: known[one] for one in code.co_varnames[: code.co_argcount]})
    assert 0 < taken.seconds <= declared[name]
