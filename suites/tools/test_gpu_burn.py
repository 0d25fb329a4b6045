"""gpu-burn: matrix products on all cards at once, compared with the first one."""

from __future__ import annotations

import stat
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median

import pytest

from pytest_anubis import MetricFixture, NodeFixture
from pytest_anubis.benchmarking.tools import ToolOutput, find_tool, note_tool, run_tool
from pytest_anubis.benchmarking.trusted_paths import refusal_of_file
from pytest_anubis.tool_outputs.gpu_burn import Card, read_gpu_burn

STARTING = 180.0
"""Seconds beyond its own time that a run may take: it fills nine tenths of the cards' memory."""

STANDSTILL = (10.0, 40.0)
"""Percent of the run without a report of a card that are no standstill yet, at least and at most: within the
shortest run a report comes every 10 to 15 %."""

USUAL_STEPS = 3.0
"""Times the usual time between a card's reports that are a standstill: clocks fall by less when it is hot."""

FEW = 3
"""Reports from which on a card's own time between them is known; before, that of the others is taken."""

BEHIND = 0.5
"""Of the products of the other cards of its model: less is no slow card but one that stood still."""


def home_of(tool: str) -> Path:
    """Return the folder to run it in; skip, as not tested, where somebody else can have put files there.

    Its kernel for comparing (``compare.*``) lies in its folder, which has to be the working directory.
    """
    folder = Path(tool).resolve().parent
    if folder.stat().st_mode & (stat.S_IWOTH | stat.S_ISVTX):
        pytest.skip(
            f"gpu_burn is not run: everybody can put files into {folder}; move it to a folder of root's"
        )
    for place in sorted(folder.glob("compare.*")):
        refusal = refusal_of_file(place)
        if refusal:
            pytest.skip(f"gpu_burn is not run: {refusal}")
    return folder


def standing(cards: Sequence[Card]) -> list[str]:
    """Return one line for every card that did not compute to the end, or far less than those of its model.

    gpu-burn says OK of a card that stopped after its second report: it counts what is wrong, not what is
    missing.
    """
    steps = {card.index: [b - a for a, b in pairwise(card.parts)] for card in cards}
    usual = max((median(one) for one in steps.values() if len(one) >= FEW - 1), default=0.0)
    found = []
    for card in cards:
        own = steps[card.index]
        step = median(own) if len(own) >= FEW - 1 else usual or median(own)
        allowed = min(max(USUAL_STEPS * step, STANDSTILL[0]), STANDSTILL[1])
        # Before its first report a card fills its memory.
        still = max([*own, 100.0 - card.parts[-1]])
        like = [one.products for one in cards if one.name == card.name]
        batch = card.products / len(card.parts)
        if still > allowed:
            found.append(
                f"GPU {card.index} stood still for {still:.0f} % of the run, its last report came at "
                f"{card.parts[-1]:.0f} % (OK: up to {allowed:.0f} %)"
            )
        elif card.products + batch < BEHIND * median(like):
            found.append(
                f"GPU {card.index} computed {card.products} products, those of its model {median(like):g}"
            )
    return found


def checked(done: ToolOutput) -> Sequence[Card]:
    """Return what the cards did.

    Raises:
        AssertionError: A card computed something wrong, its process died, or it stood still.
        UnreadableOutput: No card computed anything: it says OK of that as well.
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
    assert not 0 < len(idle) < len(cards), (
        f"GPU {', '.join(idle)} computed nothing while the others did"
    )
    if idle or not cards:
        done.unreadable(f"it reports no rate of GPU {', '.join(idle)}" if cards else "no card")
    still = standing(cards)
    assert not still, "; ".join(still)
    return cards


@pytest.mark.anubis(
    component="compute.burn",
    scope="node",
    cards=1,
    cost="62min",
    deadline="90min",
    profiles=["soak"],
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
    folder = home_of(tool)
    note_tool(tool, "", record_property)
    command = [tool, "-tc", str(seconds)]
    done = run_tool(command, timeout=seconds + STARTING, cwd=folder, accept=None)
    for card in checked(done):
        anubis_metric.record(f"burn_rate_{card.index}", card.rates, unit="GFLOP/s", better="higher")
