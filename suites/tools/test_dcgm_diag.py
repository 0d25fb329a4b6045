"""NVIDIA's DCGM: what its diagnostics say of every card, level by level."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from pytest_anubis import MetricFixture
from pytest_anubis.benchmarking.tools import ToolOutput, find_tool, run_tool, tool_version
from pytest_anubis.tool_outputs.dcgm_diag import FAIL, SKIP, WARN, DiagRun, read_dcgm_diag

LEVELS = {1: 300.0, 2: 1800.0, 3: 5400.0, 4: 4 * 3600.0}
"""Level -> seconds that it may take; usual are some, two minutes, a quarter of an hour, up to two hours."""


def checked(done: ToolOutput) -> DiagRun:
    """Return the plugins' results; the caller reports those that failed, after counting them."""
    run = done.read(read_dcgm_diag)
    assert not run.error, f"dcgmi diag broke off: {run.error}"
    return run


def complaints(run: DiagRun) -> list[str]:
    """Return one line for every plugin and device that failed."""
    return [
        f"{one.plugin} {one.device}: {one.text or 'failed'}".replace(" :", ":")
        for one in run.results
        if one.status == FAIL
    ]


def _level(level: int, *, cost: str, deadline: str, profiles: list[str]) -> Any:
    mark = pytest.mark.anubis(cost=cost, deadline=deadline, profiles=profiles)
    return pytest.param(level, marks=mark)


@pytest.mark.anubis(
    component="accelerator.diagnostics",
    scope="node",
    cards=1,
    metrics=["plugins_run"],
    resources=["cpu"],
    goal="NVIDIA's own diagnostics find nothing wrong with a card",
    question="Which of DCGM's plugins complain of which card?",
    action="Read the plugin's warning: it names the error and what NVIDIA advises; run it alone "
    "(dcgmi diag -r PLUGIN -i CARD), then exchange the card",
)
@pytest.mark.parametrize(
    "level",
    [
        _level(1, cost="10s", deadline="10min", profiles=["standard", "soak"]),
        _level(2, cost="2min", deadline="40min", profiles=["standard"]),
        _level(3, cost="15min", deadline="2h", profiles=["soak"]),
        _level(4, cost="90min", deadline="5h", profiles=["soak"]),
    ],
)
def test_dcgm_diag(
    anubis_metric: MetricFixture,
    record_property: Callable[[str, object], None],
    nvidia_cards: int,
    level: int,
) -> None:
    """No plugin of this level fails, and as many run as on the other nodes of the class."""
    tool = find_tool("dcgmi", hint="apt install datacenter-gpu-manager-4-cuda-all")
    version = tool_version(tool, pattern=r"version:? *(\d[\w.]*)", record_property=record_property)
    command = [tool, "diag", "-r", str(level), "-j"]
    done = run_tool(command, timeout=LEVELS[level], version=version, accept=None)
    run = checked(done)
    ran = Counter(one.plugin for one in run.results if one.status != SKIP)
    if not ran:
        pytest.skip(f"DCGM skipped every plugin of level {level} on these cards")
    bad = Counter(one.plugin for one in run.results if one.status in (FAIL, WARN))
    # An unknown card makes DCGM leave out most of its plugins without a word.
    anubis_metric.record("plugins_run", float(ran.total()), unit="count", better="equal")
    for plugin in ran:
        anubis_metric.record(
            f"{plugin}_not_passed", float(bad[plugin]), unit="count", better="equal"
        )
    failed = complaints(run)
    assert not failed, "; ".join(failed)
    done.check()
