"""A language model cut over all devices of the node: one stage on each, where no single card may hold it."""

from __future__ import annotations

import itertools
import statistics
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import pytest

from pytest_anubis import MetricFixture, NodeFixture
from suites.joint_rounds import collect_with
from suites.workload.catalogue import Workload, require_step, runs

if TYPE_CHECKING:
    from suites.pipeline.group import Binding, PipelineGroup, Plan, StepTimes

ROUNDS = {"smoke": 16, "standard": 40, "soak": 600}
"""Values of `pipeline_rate`, each of the next rotation: a multiple of the usual numbers of cards."""


@pytest.mark.anubis(
    component="workload.pipeline",
    scope="node",
    deadline="600s",
    metrics=["pipeline_rate", "busy_share"],
    resources=["cpu", "network"],
    goal="A network that is cut over all cards is as quick on every one of their orders",
    question="How many tokens a second pass through all stages, and what share of the time do stages wait?",
    action="The test's properties name the stage or the card that is the slowest in every rotation: compare "
    "that card's products and the copies to it with the others'. Where none is named and stages wait longer "
    "than planned, run the copies between cards; a wrong result is silent corruption: take the card out",
)
@pytest.mark.parametrize(("workload", "dtype"), runs("pipeline", cost="40s", cards="32s"))
def test_pipeline(
    anubis_metric: MetricFixture,
    anubis_node: NodeFixture,
    ranks: PipelineGroup,
    record_property: Callable[[str, object], None],
    workload: Workload,
    dtype: str,
) -> None:
    """Every rotation of the cards gives the bits of the uncut network, and what binds is named."""
    require_step(workload, "pipeline", dtype, "cuda" if ranks.on_accelerators else "cpu")
    from suites.workload.running import NoRoomError

    try:
        plan = ranks.plan(workload.name, dtype)
    except NoRoomError as error:
        pytest.skip(f"not applicable: {error}")
    measure(anubis_metric, ranks, record_property, plan, dtype, anubis_node.pick(**ROUNDS))


def measure(
    anubis_metric: MetricFixture,
    ranks: PipelineGroup,
    record_property: Callable[[str, object], None],
    plan: Plan,
    dtype: str,
    rounds: int,
) -> None:
    """Compare every rotation with the uncut network, and take both metrics."""
    from suites.pipeline.group import slowest_part

    right_network(ranks, dtype)
    for rotation in range(ranks.world):  # libraries choose kernels
        right_step(ranks.step(rotation, check=True).wrong)
    wrong: list[str] = []
    rotations = itertools.count()

    def rate() -> tuple[float, StepTimes]:
        step = ranks.step(next(rotations))
        wrong.extend(step.wrong)
        return plan.batches * plan.tokens / step.seconds, step

    clear = collect_with(
        anubis_metric, "pipeline_rate", rate, unit="tokens/s", better="higher", rounds=rounds
    )
    bound = slowest_part(clear)
    found = words(bound, plan, ranks)
    seconds = statistics.median(step.seconds for step in clear)
    record_property("pipeline_binds", found)
    record_property(
        "pipeline_step", f"{1e3 * seconds:.3g} ms, planned {1e3 * plan.step:.3g} ms of {plan}"
    )
    sys.stdout.write(f"pipeline: {found}\n")
    bubble = statistics.median(step.bubble for step in clear)
    record_property("bubble_share", f"{100 * bubble:.1f} %")
    anubis_metric.record(
        "busy_share",
        [1 - step.bubble for step in clear],
        unit="1",
        better="higher",
        rounds_of="pipeline_rate",
        evidence=() if bound.card is None else (found,),
    )
    right_step(dict.fromkeys(wrong))


def words(found: Binding, plan: Plan, ranks: PipelineGroup) -> str:
    """Return what binds in every rotation in words."""
    if found.unseen:
        return f"not known what binds: no clear round of {found.unseen} of {ranks.world} rotations"
    if found.card is not None:
        return f"{ranks.name_of(found.card)} binds in every rotation, whatever stage it is"
    if found.stage is not None:
        return f"{plan.words(found.stage)} binds in every rotation, whatever card it is on"
    return "no stage and no card binds in every rotation"


def right_network(ranks: PipelineGroup, dtype: str) -> None:
    """Assert that all ranks compute the uncut network alike, and near double precision."""
    from suites.workload.test_inference import TOLERANCE

    errors, others = ranks.uncut()
    assert not others, "; ".join(others)
    for layer, error in enumerate(errors):
        assert error < TOLERANCE[dtype], (
            f"layer {layer} of {len(errors)} in {dtype} is off by {error:.1e}, "
            f"tolerance {TOLERANCE[dtype]:.0e}"
        )


def right_step(wrong: Iterable[str]) -> None:
    """Assert that nothing was wrong in steps."""
    lines = list(wrong)
    assert not lines, "; ".join(lines)
