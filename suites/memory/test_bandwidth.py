"""Memory bandwidth by the four operations of STREAM, and by reading alone."""

from __future__ import annotations

import pytest

from pytest_anubis import DeviceFixture, MetricFixture, NodeFixture
from pytest_anubis.benchmarking.sizes import fitting

ELEMENT = 8
"""Bytes of a number in double precision."""

ARRAYS = 3
LONGER = ("scale", "add")
"""Operations for the longer profiles only: they move over the same channels as copy and triad do."""

ROUNDS = {"smoke": 60, "standard": None, "soak": None}
"""Values on a host; None: by the profile. A pass takes about as long as a round of ``smoke``, so that thirty
are over in less time than the arrays take to be made and checked."""

BYTES = {"smoke": 1 << 30, "standard": 2 << 30, "soak": 4 << 30}
"""Bytes of one of the arrays on an accelerator: far larger than caches of tens of megabytes."""


@pytest.mark.anubis(
    component="memory.bandwidth",
    scope="device",
    host=True,
    cost={"cpu": "3s", "accelerator": "2s"},
    version=2,  # twice as many rounds on hosts in `smoke`
    metrics=["stream_rate"],
    goal="Memory feeds the arithmetic units at the rate of its class",
    question="Do all memory channels deliver their full bandwidth?",
    action="Compare the number, size, speed and slots of the memory modules with a healthy node, read "
    "the corrected-error counts, and look for remapped rows on an accelerator",
)
@pytest.mark.parametrize(
    "operation",
    [
        *("copy", "triad", "read"),
        *(
            pytest.param(one, marks=pytest.mark.anubis(profiles=("standard", "soak")))
            for one in LONGER
        ),
    ],
)
@pytest.mark.usefixtures("torch_settings")
def test_stream(
    anubis_metric: MetricFixture,
    anubis_device: DeviceFixture,
    anubis_node: NodeFixture,
    operation: str,
) -> None:
    """A pass over arrays far larger than the caches delivers its rate, and every element is right."""
    from suites.memory.caches import memory_size, read_caches
    from suites.memory.stream import OPERATIONS, Stream, elements_for

    if operation == "read" and anubis_device.kind == "mps":
        pytest.skip(
            "not applicable: a sum is exact in double precision only, which this device has not"
        )
    rounds = None
    if anubis_device.kind == "cpu":
        rounds = anubis_node.pick(**ROUNDS)
        arrays = anubis_node.pick(smoke=OPERATIONS[operation][0], standard=1, soak=1)
        elements = elements_for(read_caches().last_total, memory_size(), arrays)
    else:
        wanted = anubis_node.pick(**BYTES)
        elements = fitting(wanted, anubis_device.torch, times=ARRAYS) // ELEMENT
    dtype = "float32" if anubis_device.kind == "mps" else "float64"
    stream = Stream(operation, elements, anubis_device.torch, dtype=dtype)
    anubis_metric.measure(
        "stream_rate", stream.run, work=stream.bytes, unit="GB/s", better="higher", rounds=rounds
    )
    wrong = stream.wrong_elements()
    assert wrong == 0, f"{operation}: {wrong} of {elements} elements are wrong"
