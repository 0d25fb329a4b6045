"""All cores of the host under full load at once, every result with a known checksum."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_anubis import MetricFixture, NodeFixture
from suites.joint_rounds import collect_with

if TYPE_CHECKING:
    from suites.compute.units import Cores

SECONDS = 0.03
"""Seconds of one load on all cores: much longer than the start of threads (milliseconds), and short enough
that the readings before and after it describe the host's state."""

BURN = {"smoke": 0.0, "standard": 30.0, "soak": 1800.0}
"""Seconds under load before the rates count: most of a heat sink's way up; a soak sees the rest."""

STEPS = (1.0, 3.0, 10.0, 30.0, 100.0)
"""Steps of the load in a second."""

STEPPING = {"smoke": 1.0, "standard": 5.0, "soak": 60.0}
"""Seconds for each of these."""

LOAD = 1.0
"""Seconds of one load of the matrix units."""

_ACTION = (
    "A wrong result: take the CPU out of service; the core that the test names is the first to look at. A "
    "low rate: compare clocks, power limit and temperature under load with a healthy node"
)


@pytest.fixture
def cores(anubis_node: NodeFixture) -> Cores:
    """All CPUs that this process may use."""
    from suites.compute.units import SOURCE, Cores, cpus_for
    from suites.memory import native

    return Cores(native.compiled(SOURCE), cpus_for(anubis_node.cores))


def verified(cores: Cores) -> None:
    """Assert that no core computed anything wrong, and that each notices what is."""
    wrong = [f"CPU {cpu}: {count}" for cpu, count in cores.wrong.items() if count]
    assert not wrong, f"blocks of steps with a wrong checksum: {', '.join(wrong)}"
    assert cores.notice(), "a core does not notice a flipped bit, so no result of it is believed"


@pytest.mark.anubis(
    component="compute.burn",
    scope="node",
    resources=["cpu"],
    cost="4s",
    version=3,  # products of 16 bits too
    metrics=["burn_rate", "slowest_core_rate", "burn_errors"],
    goal="Every core computes right, and at its rate, when all of them work as hard as they can",
    question="How many operations a second do all cores do together, in vectors and in whole numbers?",
    action=_ACTION,
)
def test_burn_cores(anubis_metric: MetricFixture, anubis_node: NodeFixture, cores: Cores) -> None:
    """Every core does vectors of both precisions and whole numbers in turns; each block ends as it should."""
    for _ in range(round(anubis_node.pick(**BURN) / LOAD)):
        cores.load(LOAD)

    def rate() -> tuple[float, float]:
        rates = [core.rate / 1e9 for core in cores.load(SECONDS)]
        return sum(rates), min(rates)

    slowest = collect_with(anubis_metric, "burn_rate", rate, unit="GOP/s", better="higher")
    anubis_metric.record(
        "slowest_core_rate",
        slowest,
        unit="GOP/s",
        better="higher",
        question="How many operations a second does the slowest core do beside the others?",
        rounds_of="burn_rate",
    )
    anubis_metric.record("burn_errors", sum(cores.wrong.values()), unit="count", better="equal")
    verified(cores)


@pytest.mark.anubis(
    component="compute.power",
    scope="node",
    resources=["cpu"],
    cost="25s",
    version=2,  # products of 16 bits too
    profiles=("standard", "soak"),
    metrics=[*(f"step_rate_{hertz:g}" for hertz in STEPS), "step_errors"],
    goal="Power supplies hold when the load of all cores comes and goes at once",
    question="What do the cores deliver in the moments of load, and is it right?",
    action="Look for events of the power supplies and voltage regulators in the management controller's log",
)
def test_core_load_steps(
    anubis_metric: MetricFixture, anubis_node: NodeFixture, cores: Cores
) -> None:
    """The load of all cores steps from idle to full and back in the same moments; no result is wrong."""
    for hertz in STEPS:
        each = round(hertz)  # of a second
        loads = cores.steps(hertz, each * round(anubis_node.pick(**STEPPING)), each)
        # A metric of its own: regulators that resonate at one frequency do not at the others.
        anubis_metric.record(
            f"step_rate_{hertz:g}",
            [sum(core.rate for core in load) / 1e9 for load in loads],
            unit="GOP/s",
            better="higher",
        )
    anubis_metric.record("step_errors", sum(cores.wrong.values()), unit="count", better="equal")
    verified(cores)
