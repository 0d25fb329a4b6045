"""gpu-burn: matrix products on all cards at once, compared with the first one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from pytest_anubis import MetricFixture, NodeFixture
from pytest_anubis.benchmarking.tools import ToolOutput, find_tool, note_tool, run_tool
from pytest_anubis.tool_outputs.gpu_burn import Card, read_gpu_burn

STARTING = 180.0
"""Seconds beyond its own time that a run may take: it fills nine tenths of the cards' memory."""


def checked(done: ToolOutput) -> Sequence[Card]:
    """Return what the cards did.

    Raises:
        AssertionError: A card computed something wrong, or its process died.
        UnreadableOutput: A card computed nothing: it says OK of that as well.
    """
    cards = done.read(read_gpu_burn)
    bad = [
        f"GPU {card.index}: " + (f"{card.errors} errors" if card.errors else "faulty")
        + (", its process died" if card.died else "")
        for card in cards
        if card.errors or card.died or not card.ok
    ]  # fmt: skip
    assert not bad, "; ".join(bad)
    done.check()
    idle = [str(card.index) for card in cards if not card.rates or not min(card.rates)]
    if idle or not cards:
        done.unreadable(f"it reports no rate of GPU {', '.join(idle)}" if cards else "no card")
    return cards


@pytest.mark.anubis(
    component="compute.burn",
    scope="node",
    cost="2min",
    deadline="90min",
    profiles=["standard", "soak"],
    metrics=["burn_rate_0"],
    resources=["cpu"],
    goal="All cards compute rightly at their rate when all of them are hot",
    question="Does gpu-burn find a wrong element, and at which rate does each card compute?",
    action="An error is silent corruption: take the card out of service; a low rate of one card: its "
    "cooling, power limit and slot; of all: the node's power and air",
)
def test_gpu_burn(
    anubis_metric: MetricFixture,
    anubis_node: NodeFixture,
    record_property: Callable[[str, object], None],
    nvidia_cards: int,
) -> None:
    """No card errs while all of them compute, and each reaches its rate."""
    tool = find_tool("gpu_burn", "gpu-burn", hint="build github.com/wilicc/gpu-burn")
    seconds = anubis_node.pick(smoke=20, standard=120, soak=3600)
    # Its kernel for comparing lies beside it, and is looked for where it runs.
    folder = Path(tool).resolve().parent
    note_tool(tool, "", record_property)
    command = [tool, "-tc", str(seconds)]
    done = run_tool(command, timeout=seconds + STARTING, cwd=folder, accept=None)
    for card in checked(done):
        anubis_metric.record(f"burn_rate_{card.index}", card.rates, unit="GFLOP/s", better="higher")
