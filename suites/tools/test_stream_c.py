"""McCalpin's STREAM, the program in C: the rate of the host's memory as everybody quotes it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pytest_anubis import MetricFixture, NodeFixture
from pytest_anubis.benchmarking.tools import ToolOutput, find_tool, note_tool, run_tool
from pytest_anubis.tool_outputs.stream_benchmark import StreamRun, read_stream

ONCE = 300.0
"""Seconds that one run may take: arrays of a gigabyte, two hundred times, take ten."""

TIMES_CACHE = 4
"""STREAM's rule: each array is at least four times the last-level caches together."""


def checked(done: ToolOutput) -> StreamRun:
    """Return what a run measured.

    Raises:
        AssertionError: The arrays do not hold what they should.
    """
    run = done.read(read_stream)
    assert not run.failure, run.failure
    done.check()
    return run


@pytest.mark.anubis(
    component="memory.bandwidth",
    scope="node",
    cost="20s",
    deadline="30min",
    profiles=["standard", "soak"],
    metrics=["copy_rate", "scale_rate", "add_rate", "triad_rate"],
    resources=["cpu"],
    goal="Memory feeds the processors at the rate of its class, whoever measures it",
    question="Which rates does STREAM report, and does its solution validate?",
    action="Compare the number, size, speed and slots of the memory modules with a healthy node, and read "
    "the corrected-error counts",
)
def test_stream_c(
    anubis_metric: MetricFixture,
    anubis_node: NodeFixture,
    record_property: Callable[[str, object], None],
) -> None:
    """All four kernels reach their rates, and the arrays hold what they should."""
    from suites.memory.caches import read_caches

    # Not "stream": ImageMagick has a program of that name.
    tool = find_tool(
        "stream_c",
        "stream_c.exe",
        hint="build cs.virginia.edu/stream/FTP/Code/stream.c with OpenMP",
    )
    threads = {"OMP_NUM_THREADS": str(anubis_node.cores), "OMP_PROC_BIND": "true"}
    rates: dict[str, list[float]] = {}
    for _ in range(anubis_node.pick(smoke=1, standard=5, soak=20)):
        run = checked(run_tool([tool], timeout=ONCE, environment=threads, accept=None))
        needed = TIMES_CACHE * read_caches().last_total
        if run.array < needed:
            pytest.skip(
                f"STREAM was built with arrays of {run.array >> 20} MiB, which caches hold here; build it "
                f"with -DSTREAM_ARRAY_SIZE={needed // 8}"
            )
        for kernel, rate in run.rates.items():
            rates.setdefault(f"{kernel.lower()}_rate", []).append(rate / 1e3)
    note_tool(tool, run.version, record_property)
    for name, values in rates.items():
        anubis_metric.record(name, values, unit="GB/s", better="higher")
