"""Training by all devices of the node together: what users rent a node for."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from pytest_anubis import MetricFixture
from suites.joint_rounds import collect_with
from suites.shared_ranks import rank_fixtures, times_within
from suites.workload.catalogue import Workload, require_step, runs

if TYPE_CHECKING:
    from suites.workload.data_parallel import Together, TrainingGroup
    from suites.workload.waiting import Rounds

GRADIENT_TOLERANCE = 3e-4
"""As of one device: the exchange adds up a few numbers of the same size."""

LOADED = {"cpu": 0.1, "cuda": 0.3}
"""Seconds that a round lasts, at least: single steps vary with the scheduling of the ranks."""

GROUPS = (2, 4)
"""Numbers of groups of ranks for which is computed what they win if they do not wait for each other."""

WARM = 3
"""Rounds before the first that counts: libraries choose kernels, and links and buffers are made."""


def kind() -> type[TrainingGroup]:
    """Return the class of the ranks."""
    from suites.workload.data_parallel import TrainingGroup

    return TrainingGroup


shared_ranks, ranks = rank_fixtures(kind, "module")


@pytest.mark.anubis(
    component="workload.parallel",
    scope="node",
    deadline="600s",
    version=2,  # `waiting_stretch` is new
    metrics=["training_rate", "exchange_stretch", "waiting_stretch"],
    resources=["cpu", "network"],
    goal="A node trains with all of its devices at the rate of its class, and all of them learn the same",
    question="How many examples a second does the whole node learn from, and what does the exchange cost?",
    action="A long exchange with normal all-reduce benchmarks means that computing and links fight for power "
    "or memory; a low rate with a normal exchange is the slowest device: property ``waited_for`` names it if "
    "it takes 5 % longer than the others, beyond chance",
)
@pytest.mark.parametrize(("workload", "dtype"), runs("parallel", cost="60s", cards="30s"))
def test_data_parallel(
    anubis_metric: MetricFixture,
    ranks: TrainingGroup,
    record_property: Callable[[str, object], None],
    workload: Workload,
    dtype: str,
) -> None:
    """Ranks exchange right gradients, end with the same weights, and are quick."""
    require_step(workload, "parallel", dtype, ranks.kind)
    from suites.workload.running import NoRoomError

    try:
        measure(anubis_metric, record_property, ranks, workload, dtype)
    except NoRoomError as error:
        pytest.skip(f"not applicable: {error}")


def measure(
    anubis_metric: MetricFixture,
    record_property: Callable[[str, object], None],
    ranks: TrainingGroup,
    workload: Workload,
    dtype: str,
) -> None:
    """Check the exchanged gradient, take the metrics, and check that all ranks have the same weights."""
    batch = ranks.fitting(workload.name)
    right_exchange(ranks, workload)
    examples = ranks.prepare(workload.name, dtype, batch)
    sizes = workload.cpu if ranks.kind == "cpu" else workload.cards
    assert sizes is not None
    work = examples * (sizes.length if workload.task == "language" else 1)
    for _ in range(WARM):
        taken = ranks.step()
    steps = times_within(LOADED[ranks.kind], taken.alone + taken.together)

    def rate() -> tuple[float, Together]:
        taken = ranks.step(steps)
        return work / taken.together, taken

    kept = collect_with(anubis_metric, "training_rate", rate, unit=workload.unit, better="higher")
    anubis_metric.record(
        "exchange_stretch",
        [step.stretch for step in kept],  # of the same rounds, as each makes steps of both forms
        unit="1",
        better="lower",
        rounds_of="training_rate",
    )
    report_waiting(anubis_metric, record_property, ranks, [step.each for step in kept])
    same_weights(ranks)


def report_waiting(
    anubis_metric: MetricFixture,
    record_property: Callable[[str, object], None],
    ranks: TrainingGroup,
    rounds: Rounds,
) -> None:
    """Record how long ranks wait for the slowest, who that is, and what groups of ranks would win back.

    `rounds` are the seconds of each rank's own work in the rounds of ``training_rate``.
    """
    from suites.workload.waiting import waited_for, waiting_share, waiting_stretch, won_back

    slow = [one.text(ranks.name_of(one.rank)) for one in waited_for(rounds)]
    # A share would be near 0 on healthy nodes, where the smallest change is many times as much.
    anubis_metric.record(
        "waiting_stretch",
        [waiting_stretch(row) for row in rounds],
        unit="1",
        better="lower",
        question="How many times as long as the mean device does the slowest take, for which all wait?",
        rounds_of="training_rate",
        evidence=slow,
    )
    if slow:
        record_property("waited_for", "; ".join(slow))
        sys.stdout.write("waited for: " + "; ".join(slow) + "\n")
    waited = statistics.median(map(waiting_share, rounds))
    record_property("waiting_share", f"{100 * waited:.1f} %")
    groups = [count for count in GROUPS if ranks.world % count == 0]
    gains = [f"{count} groups {100 * won_back(rounds, count):+.1f} %" for count in groups]
    if gains:
        record_property("without_waiting", ", ".join(gains))


def right_exchange(ranks: TrainingGroup, workload: Workload) -> None:
    """Assert that every rank's exchanged gradient is that of all parts."""
    error = ranks.gradient_error(workload.name)
    assert error < GRADIENT_TOLERANCE, (
        f"the exchanged gradient is off by {error:.1e}, tolerance {GRADIENT_TOLERANCE:.0e}"
    )


def same_weights(ranks: TrainingGroup) -> None:
    """Assert that all ranks have the same weights, bit for bit, and that each one's loss fell."""
    outcome = ranks.outcome()
    weights = [one[0] for one in outcome]
    usual = max(weights, key=weights.count)
    others = [f"rank {number}" for number, one in enumerate(weights) if one != usual]
    assert not others, f"{', '.join(others)} ended with other weights than the rest"
    for number, (_, first, last) in enumerate(outcome):
        assert last < first, f"rank {number}: the loss went from {first:.6g} to {last:.6g}"
