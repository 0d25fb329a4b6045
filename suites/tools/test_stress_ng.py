"""stress-ng: load on one part of the host at a time, with its own checks of what it computed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_anubis import MetricFixture, NodeFixture
from pytest_anubis.benchmarking.tools import ToolOutput, find_tool, run_tool, tool_version
from pytest_anubis.tool_outputs.stress_ng import TOOL, Stressor, failures, read_stress_ng

STRESSORS = {
    "cpu": ["--cpu-method", "all"],
    "matrix": ["--matrix-method", "prod"],
    "vm": ["--vm-method", "all"],
    "cache": [],
    "context": [],
}
"""Stressor -> its own options."""

A_CPU = {"smoke": 16, "standard": 64, "soak": 1024}
"""MiB of memory with patterns, for each CPU: all patterns have to come round within a run."""

STARTING = 60.0
"""Seconds beyond its own time that a run may take: memory is filled, and given back."""

NOT_BEGUN = (1, 3)
"""Exit statuses for options and resources that do not fit: its lines ``error:`` say which, only ``fail:`` is
a finding then."""

NOT_IMPLEMENTED, UNTRUSTWORTHY = 4, 7
"""Of its exit statuses (stress-ng(1)): the stressor does not exist here; its counts are not to be trusted."""


def checked(done: ToolOutput, results: Path, stressor: str) -> Stressor:
    """Return what the stressor did.

    Args:
        done: The run, ended however.
        results: The file that ``--yaml`` named.
        stressor: The one that ran.

    Raises:
        AssertionError: A check of stress-ng's own failed.
    """
    if done.code == NOT_IMPLEMENTED:
        pytest.skip(f"not applicable: stress-ng has no {stressor} stressor for this machine")
    if done.code == UNTRUSTWORTHY:
        done.unreadable("it says itself that its counts are not to be trusted (exit status 7)")
    found = failures(f"{done.errors}\n{done.output}")
    if done.code in NOT_BEGUN:
        found = tuple(line for line in found if "fail:" in line)
    assert not found, "; ".join(found[:5])
    done.check()
    if not results.is_file():
        done.unreadable("it wrote no YAML")
    run = done.read(read_stress_ng, results.read_text(encoding="utf-8", errors="replace"))
    if [one.name for one in run.stressors] != [stressor]:
        done.unreadable(
            f"{stressor} expected, found {', '.join(one.name for one in run.stressors)}"
        )
    if not run.stressors[0].operations:
        done.unreadable(f"{stressor} counted no operation: nothing was measured")
    return run.stressors[0]


@pytest.mark.anubis(
    component="host.stress",
    scope="node",
    cost="20s",
    deadline="30min",
    profiles=["standard", "soak"],
    metrics=["bogo_rate"],
    resources=["cpu"],
    goal="The host computes and remembers rightly under full load, at the rate of its class",
    question="How many operations a second does stress-ng count, and does it find one wrong?",
    action="A failed check is a fault of the processor or of a memory module: read the corrected-error "
    "counts and test the memory alone; a low rate: CPU governor, power limit, cooling, neighbours",
)
@pytest.mark.parametrize("stressor", STRESSORS)
def test_stress_ng(
    anubis_metric: MetricFixture,
    anubis_node: NodeFixture,
    record_property: Callable[[str, object], None],
    stressor: str,
) -> None:
    """The stressor runs on every CPU at its rate, and finds nothing wrong."""
    tool = find_tool(TOOL, hint="apt install stress-ng")
    version = tool_version(tool, pattern=r"version (\S+)", record_property=record_property)
    seconds = anubis_node.pick(smoke=1, standard=4, soak=60)
    results = anubis_node.scratch / "stress-ng.yaml"
    cpus = anubis_node.cores
    memory = ["--vm-bytes", f"{cpus * anubis_node.pick(**A_CPU)}m"] if stressor == "vm" else []
    command = [
        tool, f"--{stressor}", str(cpus), *STRESSORS[stressor], *memory, "--timeout", f"{seconds}s",
        "--verify", "--metrics-brief", "--temp-path", str(anubis_node.scratch), "--yaml", str(results),
    ]  # fmt: skip
    rates = []
    for _ in range(anubis_node.pick(smoke=1, standard=5, soak=20)):
        results.unlink(missing_ok=True)
        done = run_tool(command, timeout=seconds + STARTING, version=version, accept=None)
        rates.append(checked(done, results, stressor).rate)
    # What an operation is changes with the version: values of two are not to be compared.
    anubis_metric.record(
        "bogo_rate", rates, unit="op/s", better="higher", group=f"{TOOL} {version}".strip()
    )
