"""NVIDIA's nvbandwidth: every copy that a node with NVIDIA's cards can make, by engine and by kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import pytest

from pytest_anubis import MetricFixture, NodeFixture
from pytest_anubis.benchmarking.tools import ToolOutput, find_tool, note_tool, run_tool
from pytest_anubis.tool_outputs.nvbandwidth import Case, NvbandwidthRun, read_nvbandwidth

ONCE = 900.0
"""Seconds that all its cases may take: eight H100 need about three minutes."""


def checked(done: ToolOutput) -> NvbandwidthRun:
    """Return what a run measured.

    Raises:
        AssertionError: A case failed.
    """
    run = done.read(read_nvbandwidth)
    assert not run.failures, (
        f"nvbandwidth {run.version}: {'; '.join(': '.join(filter(None, one)) for one in run.failures)}"
    )
    done.check()
    return run


def metrics_of(case: Case) -> list[tuple[str, float, str, Literal["higher", "lower"]]]:
    """Return name, value, unit and direction of what counts of a case.

    The worst device or pair says what a sum hides; the sum says what all of them together deliver.
    """
    if case.unit == "ns":
        return [(f"{case.name}_highest", case.worst, "ns", "lower")]
    found: list[tuple[str, float, str, Literal["higher", "lower"]]] = [
        (f"{case.name}_lowest", case.worst, "GB/s", "higher")
    ]
    if len(case.cells) > 1:
        found.append((f"{case.name}_sum", case.total, "GB/s", "higher"))
    return found


@pytest.mark.anubis(
    component="memory.transfer",
    scope="node",
    cards=1,
    cost="90s",
    deadline="80min",  # more than the five runs of `soak` at ONCE, and the help
    profiles=["standard", "soak"],
    metrics=["host_to_device_memcpy_ce_lowest", "device_to_host_memcpy_ce_lowest"],
    resources=["cpu"],
    goal="Data reaches every device, from the host and from its peers, at the rate of its link",
    question="Which rates and latencies does nvbandwidth report, and which of the slowest pair?",
    action="Run nvbandwidth by hand for its matrix, read width and generation of the slow card's link, its "
    "NVLink states and error counts, and compare with the copies of this set",
)
def test_nvbandwidth(
    anubis_metric: MetricFixture,
    anubis_node: NodeFixture,
    record_property: Callable[[str, object], None],
    nvidia_cards: int,
) -> None:
    """Every copy between the host and the cards delivers its rate, and arrives as it was sent."""
    tool = find_tool("nvbandwidth", hint="build github.com/NVIDIA/nvbandwidth")
    help_text = run_tool(
        [tool, "--help"], timeout=60.0, accept=None
    )  # says whether it writes JSON: from 0.5 on
    form = ["-j"] if "--json" in help_text.output + help_text.errors else []
    values: dict[tuple[str, str, Literal["higher", "lower"]], list[float]] = {}
    for _ in range(anubis_node.pick(smoke=1, standard=1, soak=5)):
        run = checked(run_tool([tool, *form], timeout=ONCE, accept=None))
        for case in run.cases:
            for name, value, unit, better in metrics_of(case):
                values.setdefault((name, unit, better), []).append(value)
    note_tool(tool, run.version, record_property)
    for (name, unit, better), found in values.items():
        anubis_metric.record(name, found, unit=unit, better=better)
