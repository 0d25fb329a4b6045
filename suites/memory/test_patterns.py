"""Nearly all of a card's memory, and a share of a host's, holds what was written."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from pytest_anubis import DeviceFixture, MetricFixture, NodeFixture

if TYPE_CHECKING:
    from suites.memory.patterns import Finding, Memory

SHARE = 0.95
"""Of a card's memory, all profiles: a bad row lies somewhere."""

UNEVEN = 2
"""Pieces by which what was had may be short of that: a piece is a five-hundredth of a card's memory."""

HOST_SHARE = {"smoke": 1 / 64, "standard": 1 / 16, "soak": 1 / 2}
"""Of the memory that is available on a host: others live there."""

SEEDS = {"smoke": 1, "standard": 2, "soak": 64}
PAUSE = {"smoke": 1.0, "standard": 30.0, "soak": 300.0}
HOST_PAUSE = {"smoke": 1.0, "standard": 10.0, "soak": 300.0}
"""Seconds for which words have to be kept: rows are refreshed every 32 or 64 ms, a weak cell may last
longer."""

_GOAL = "Memory keeps what is written to it, everywhere"
_QUESTION = "Does every word hold what was written, whatever it is and whatever its neighbours do?"


def keeps_all(
    anubis_metric: MetricFixture, memory: Memory, seeds: int, pause: float
) -> list[Finding]:
    """Run all patterns, record errors and rate, and assert that nothing was wrong."""
    from suites.memory.patterns import run

    found = run(memory, seeds, pause)
    anubis_metric.record(
        "pattern_rate",
        [one.moved / one.seconds / 1e9 for one in found],
        unit="GB/s",
        better="higher",
        question="How quickly are patterns made, written and compared?",
    )
    anubis_metric.record(
        "pattern_errors", [one.wrong for one in found], unit="count", better="equal"
    )
    wrong = [str(one) for one in found if one.wrong]
    assert not wrong, "; ".join(wrong)
    assert memory.notices(), "a flipped bit of the memory is not noticed, so nothing is believed"
    return found


@pytest.mark.anubis(
    component="memory.cells",
    scope="device",
    cost={"cpu": "0.1s", "accelerator": {"smoke": "15s", "standard": "80s", "soak": "2h"}},
    cards=1,
    deadline="300s",
    metrics=["covered_share", "pattern_rate", "pattern_errors"],
    goal=_GOAL,
    question=_QUESTION,
    action="Read the card's counts of corrected and uncorrected errors and of remapped rows; reset the "
    "card so that the row is remapped, repeat this test, and exchange the card if it fails again",
)
def test_card_patterns(
    anubis_metric: MetricFixture, anubis_device: DeviceFixture, anubis_node: NodeFixture
) -> None:
    """Nearly all of a card's memory keeps addresses, moving bits, random words and what is moved in it.

    Where somebody else has too much of it, what is left is tested all the same, and nothing is accepted.
    """
    import torch

    from pytest_anubis.benchmarking.sizes import MemoryTakenError, memory_of
    from suites.memory.patterns import SPARE, Memory, piece_of

    device = anubis_device.torch
    give_back = getattr(torch, device.type).empty_cache
    give_back()  # what earlier tests of this process left
    known = memory_of(device)
    if known is None:
        pytest.skip("the size of this device's memory is unknown")
    free, total = known
    piece = piece_of(total, device)
    memory = Memory(int(min(SHARE * total, free - SPARE * piece)), device, piece)
    try:
        # Another process, perhaps invisible from here, holds the rest: no fault of the card.
        taken = memory.size < SHARE * total - UNEVEN * piece
        if not taken:
            anubis_metric.record(
                "covered_share",
                memory.size / total,
                unit="1",
                better="higher",
                question="How much of the card's memory could be had and tested?",
                action="End what else uses this card's memory, and repeat the test",
            )
        keeps_all(anubis_metric, memory, anubis_node.pick(**SEEDS), anubis_node.pick(**PAUSE))
        if taken:
            raise MemoryTakenError(
                f"of {device}'s {total / 1e9:.1f} GB only {memory.size / 1e9:.1f} GB could be had and keep "
                f"what is written, and this benchmark tests {100 * SHARE:.0f} % on every card of its class"
            )
    finally:
        del memory
        give_back()


@pytest.mark.anubis(
    component="memory.cells",
    scope="node",
    cost="30s",  # most of it are two pauses
    deadline="600s",
    profiles=("standard", "soak"),
    metrics=["pattern_rate", "pattern_errors"],
    goal=_GOAL,
    question=_QUESTION,
    action="Read the corrected-error counts of the memory controllers (edac), repeat with half of the "
    "modules to find which, and exchange it",
)
@pytest.mark.usefixtures("torch_settings")
def test_host_patterns(
    anubis_metric: MetricFixture,
    anubis_node: NodeFixture,
    record_property: Callable[[str, object], None],
) -> None:
    """A share of the host's memory keeps addresses, moving bits, random words and what is moved in it."""
    import torch

    from pytest_anubis.benchmarking.sizes import host_memory
    from suites.memory.patterns import Memory, piece_of

    available, total = host_memory()
    size = int(anubis_node.pick(**HOST_SHARE) * available)
    host = torch.device("cpu")
    memory = Memory(size, host, piece_of(total, host))
    record_property("memory_tested", f"{memory.size / 2**30:.1f} of {total / 2**30:.1f} GiB")
    keeps_all(anubis_metric, memory, anubis_node.pick(**SEEDS), anubis_node.pick(**HOST_PAUSE))
