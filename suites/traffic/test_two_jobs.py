"""Two trainings in turns at the same devices: neither units nor links rest."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from pytest_anubis import MetricFixture, NodeFixture
from suites.shared_ranks import times_within

if TYPE_CHECKING:
    from suites.traffic.group import TrafficGroup

ON_ACCELERATORS: dict[str, Any] = {"size": 4096, "batches": 1, "dtype": "bfloat16"}
ON_A_HOST: dict[str, Any] = {"size": 512, "batches": 1, "dtype": "float32"}
"""Two products and as many numbers to exchange take about as long, on accelerators with fast links."""

SECONDS = {"smoke": 0.1, "standard": 0.3, "soak": 5.0}
"""Of a round without any rest."""

CHECKED = 4
"""Steps of the jobs that have to learn the same as alone."""

CLOSE = 1e-3
"""Relative difference of a loss in turns from that alone that rounding explains."""

WARM = 3


@pytest.mark.anubis(
    component="traffic.jobs",
    scope="node",
    cost={"cpu": "45s", "accelerator": {1: "0.1s", 2: "20s"}},
    deadline="420s",
    metrics=["turns_rate"],
    profiles=("standard", "soak"),
    resources=["cpu", "network"],
    goal="Units and links of the node's devices work without rest, side by side, at the rate of their class",
    question="How many steps a second do two jobs make while one exchanges behind the other's products?",
    action="Where the all-reduce and products are normal, they disturb each other: look at power limit, "
    "memory and the cores of the communication threads; the property `turns_gain` is what the turns gain",
)
def test_two_jobs(
    anubis_metric: MetricFixture,
    anubis_node: NodeFixture,
    ranks: TrafficGroup,
    record_property: Callable[[str, object], None],
) -> None:
    """Two trainings in turns take their time, and learn the same as alone."""
    ranks.prepare_jobs(**(ON_ACCELERATORS if ranks.on_accelerators else ON_A_HOST))
    for _ in range(WARM):
        one = ranks.jobs(1)
    steps = times_within(ranks.loaded, one.apart + one.in_turns)
    # No metric: it is largest where products and exchange are equally long, and less with quicker links.
    gain = statistics.median(ranks.jobs(steps).gain for _ in range(WARM))
    record_property("turns_gain", f"{gain:.3g} times as quick as one after the other")
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
    """Assert that both jobs learn the same in turns as alone, all ranks the same bits, and that they learn.

    On accelerators two sums of the same numbers may differ in their last bits (NCCL's NVLS), but not by rank.
    """
    answers = ranks.check_jobs(CHECKED)
    first = answers[0]
    for number, answer in enumerate(answers):
        for form in ("alone", "in_turns"):
            assert answer[form] == first[form], f"rank {number}: other weights than rank 0"
        if not ranks.on_accelerators:
            assert answer["in_turns"] == answer["alone"], f"rank {number}: other weights than alone"
        for begin, last, alone in zip(
            answer["first"], answer["last"], answer["last_alone"], strict=True
        ):
            assert last < begin, f"rank {number}: the loss went from {begin:.6g} to {last:.6g}"
            assert abs(last - alone) <= CLOSE * alone, (
                f"rank {number}: a loss of {last:.6g} in turns, {alone:.6g} alone"
            )
