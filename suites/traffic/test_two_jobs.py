"""Two trainings in turns at the same devices: neither units nor links rest."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from pytest_anubis import MetricFixture, NodeFixture

if TYPE_CHECKING:
    from suites.traffic.group import TrafficGroup

ON_ACCELERATORS: dict[str, Any] = {"size": 4096, "batches": 1, "dtype": "bfloat16"}
ON_A_HOST: dict[str, Any] = {"size": 512, "batches": 1, "dtype": "float32"}
"""Two products and as many numbers to exchange take about as long, on accelerators with fast links."""

SECONDS = {"smoke": 0.1, "standard": 0.3, "soak": 5.0}
"""Of a round without any rest."""

COMPARED = 10
"""Rounds with both ways."""

CHECKED = 4
"""Steps of the jobs that have to learn the same as alone."""

WARM = 3


@pytest.mark.anubis(
    component="traffic.jobs",
    scope="node",
    cost={"cpu": "45s", "accelerator": {1: "0.1s", 2: "20s"}},
    deadline="420s",
    metrics=["turns_gain", "turns_rate"],
    profiles=("standard", "soak"),
    resources=["cpu", "network"],
    goal="Units and links of the node's devices work without rest, side by side, at the rate of their class",
    question="What does one job's exchange behind another job's products gain, and does it stay so quick?",
    action="A small gain with a normal all-reduce and normal products: they disturb each other, so look at "
    "power limit, memory and the cores of the communication threads",
)
def test_two_jobs(
    anubis_metric: MetricFixture,
    anubis_node: NodeFixture,
    ranks: TrafficGroup,
    record_property: Callable[[str, object], None],
) -> None:
    """Two trainings in turns are quicker than one after the other by a gain, and learn the same as alone."""
    from suites.traffic.group import times_within

    ranks.prepare_jobs(**(ON_ACCELERATORS if ranks.on_accelerators else ON_A_HOST))
    for _ in range(WARM):
        one = ranks.jobs(1)
    steps = times_within(ranks.loaded, one.apart + one.in_turns)
    anubis_metric.collect(
        "turns_gain", lambda: ranks.jobs(steps).gain, unit="1", better="higher", rounds=COMPARED
    )
    parts = [ranks.parts_of_jobs(steps) for _ in range(WARM)]
    computing, exchange = (statistics.median(some) for some in zip(*parts, strict=True))
    record_property("step", f"{1e3 * computing:.3g} ms, exchange {1e3 * exchange:.3g} ms")
    many = times_within(anubis_node.pick(**SECONDS), one.in_turns)
    anubis_metric.collect(
        "turns_rate",
        lambda: 2 / ranks.jobs_in_turns(many),
        unit="steps/s",
        better="higher",
    )
    same_as_alone(ranks)


def same_as_alone(ranks: TrafficGroup) -> None:
    """Assert that both jobs learn the same bits in turns as alone, on all ranks, and that they learn."""
    answers = ranks.check_jobs(CHECKED)
    alone = answers[0]["alone"]
    for number, answer in enumerate(answers):
        assert answer["in_turns"] == answer["alone"], f"rank {number}: other weights than alone"
        assert answer["alone"] == alone, f"rank {number}: other weights than rank 0"
        for first, last in zip(answer["first"], answer["last"], strict=True):
            assert last < first, f"rank {number}: the loss went from {first:.6g} to {last:.6g}"
