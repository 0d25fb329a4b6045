"""The vector and integer units of all cores, one kind at a time."""

from __future__ import annotations

import pytest

from pytest_anubis import MetricFixture, NodeFixture

SECONDS = 0.05
"""Of one load of all cores: long against the milliseconds in which the threads begin."""


@pytest.mark.anubis(
    component="compute.vector",
    scope="node",
    resources=["cpu"],
    cost="25s",
    version=2,  # products of 16 bits use vectors with every compiler
    profiles=("standard", "soak"),
    metrics=["unit_rate"],
    goal="Every core computes at the rate of its class, and computes right",
    question="How many operations a second do the units of one kind do, on all cores at once?",
    action="Low in floating point only: the widest vectors are not used, or lower the clock; compare with a "
    "healthy node's. A wrong result: take the CPU out of service",
)
@pytest.mark.parametrize("unit", ["float64", "float32", "int32", "int64", "int16"])
def test_units(anubis_metric: MetricFixture, anubis_node: NodeFixture, unit: str) -> None:
    """Blocks of steps on every core at once: at their rate, and each with its known checksum."""
    from suites.compute.units import SOURCE, Cores, cpus_for
    from suites.memory import native

    cores = Cores(native.compiled(SOURCE), cpus_for(anubis_node.cores), [unit])
    anubis_metric.collect(
        "unit_rate",
        lambda: sum(core.rate for core in cores.load(SECONDS)) / 1e9,
        unit="GFLOP/s" if unit.startswith("float") else "GOP/s",
        better="higher",
    )
    wrong = [f"CPU {cpu}: {count}" for cpu, count in cores.wrong.items() if count]
    assert not wrong, f"blocks of {unit} with a wrong checksum: {', '.join(wrong)}"
    assert cores.notice(), "a core does not notice a flipped bit, so no result of it is believed"
