"""Memory bandwidth by the four STREAM operations."""

from __future__ import annotations

import pytest

from pytest_anubis import DeviceFixture, MetricFixture, NodeFixture


@pytest.mark.anubis(
    component="memory.bandwidth",
    scope="device",
    host=True,
    cost="2s",
    metrics=["stream_rate"],
    goal="Memory feeds the arithmetic units at the rate of its class",
    question="Do all memory channels deliver their full bandwidth?",
    action="Compare the number, size, speed and slots of the memory modules with a healthy node, read "
    "the corrected-error counts, and look for remapped rows on an accelerator",
)
@pytest.mark.parametrize("operation", ["copy", "scale", "add", "triad"])
@pytest.mark.usefixtures("torch_settings")
def test_stream(
    anubis_metric: MetricFixture,
    anubis_device: DeviceFixture,
    anubis_node: NodeFixture,
    operation: str,
) -> None:
    """A pass over arrays far larger than the caches delivers its rate, and every element is right."""
    from suites.memory.caches import memory_size, read_caches
    from suites.memory.stream import Stream, elements_for

    if anubis_device.kind == "cpu":
        elements = elements_for(read_caches().last_total, memory_size())
    else:
        elements = anubis_node.pick(smoke=1 << 27, standard=1 << 28, soak=1 << 29)
    dtype = "float32" if anubis_device.kind == "mps" else "float64"
    stream = Stream(operation, elements, anubis_device.torch, dtype=dtype)
    anubis_metric.measure(
        "stream_rate", stream.run, work=stream.bytes, unit="GB/s", better="higher"
    )
    wrong = stream.wrong_elements()
    assert wrong == 0, f"{operation}: {wrong} of {elements} elements are wrong"
