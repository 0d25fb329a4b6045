"""nccl-tests and rccl-tests: collectives over all accelerators of the node, by size."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pytest_anubis import Metric, MetricFixture, NodeFixture
from pytest_anubis.benchmarking.tools import ToolOutput, find_tool, note_tool, run_tool
from pytest_anubis.tool_outputs.nccl_tests import NcclRun, read_nccl_tests

PROGRAMS = (
    "all_reduce_perf", "all_gather_perf", "reduce_scatter_perf", "alltoall_perf", "broadcast_perf",
    "reduce_perf", "sendrecv_perf",
)  # fmt: skip
USUAL = ("all_reduce_perf", "alltoall_perf")
"""Those that load every link in one direction and the other, and all pairs at once; the others' patterns are
the set's own collectives' too (`suites/collective`), and belong to ``soak``."""
SWEEP = {"smoke": ("32M", "256M", "8"), "standard": ("16", "2G", "8"), "soak": ("8", "8G", "2")}
"""Smallest and largest message, and the factor between sizes; every sweep has 256 MiB."""

ONCE = 300.0
"""Seconds that one sweep may take: eight H100 need one minute for 31 sizes."""


def checked(done: ToolOutput) -> NcclRun:
    """Return what a run measured.

    Raises:
        AssertionError: The program says that results are wrong.
    """
    run = done.read(read_nccl_tests)
    wrong = run.wrong()
    assert not wrong, f"wrong elements: {', '.join(f'{n} {count:g}' for n, count in wrong.items())}"
    assert not run.failure, run.failure
    done.check()
    return run


@pytest.mark.anubis(
    component="collective.nccl",
    scope="node",
    cards=2,
    deadline="30min",
    metrics=["busbw_268435456"],
    resources=["cpu", "network"],
    goal="Ranks of one machine exchange data at the rate of its class, whoever measures it",
    question="Which bus bandwidth and time do nccl-tests report for every size?",
    action="Compare with the collectives of this set, read link states and error counts (nvidia-smi nvlink "
    "-e), and run the program on pairs of cards (CUDA_VISIBLE_DEVICES) to find the slow link",
)
@pytest.mark.parametrize(
    "program",
    [
        pytest.param(
            one,
            marks=pytest.mark.anubis(
                cost="40s" if one in USUAL else "15min",
                profiles=["standard", "soak"] if one in USUAL else ["soak"],
            ),
        )
        for one in PROGRAMS
    ],
)
def test_nccl_tests(
    anubis_metric: MetricFixture,
    anubis_node: NodeFixture,
    record_property: Callable[[str, object], None],
    cards: int,
    program: str,
) -> None:
    """Every size delivers its rate, and no element is wrong."""
    if cards < 2:
        pytest.skip("not applicable: one accelerator alone has no one to talk to")
    tool = find_tool(program, hint="build github.com/NVIDIA/nccl-tests, or ROCm/rccl-tests")
    low, high, factor = anubis_node.pick(**SWEEP)
    sizes = ["-b", low, "-e", high, "-f", factor]
    values: dict[Metric, list[float]] = {}
    for _ in range(anubis_node.pick(smoke=1, standard=3, soak=5)):
        command = [tool, *sizes, "-g", str(cards), "-c", "1", "-w", "5", "-n", "20"]
        run = checked(run_tool(command, timeout=ONCE, accept=None))
        for row in run.rows:
            for metric, value, _ in row.metrics() if row.size else ():
                values.setdefault(metric, []).append(value)
    note_tool(tool, run.version, record_property)
    for metric, found in values.items():
        anubis_metric.record(metric.name, found, unit=metric.unit, better=metric.better)
