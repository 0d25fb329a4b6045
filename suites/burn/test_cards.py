"""Accelerators under full load, all at once and each alone, results compared bit for bit."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from pytest_anubis import MetricFixture, NodeFixture
from pytest_anubis.benchmarking.room import inlet_temperature

if TYPE_CHECKING:
    from suites.burn.cards import Cards

SIZE = {"smoke": 8192, "standard": 8192, "soak": 16384}
"""Rows and columns of the factors: large enough for the full rate of every card there is."""

WARM_UP = {"smoke": 2.0, "standard": 15.0, "soak": 60.0}
"""Seconds under load before rates count: a card's clock falls with its temperature."""

LOADS = {"smoke": 5, "standard": 100, "soak": 3600}
"""Loads of a second, of all cards together, one right after the other."""

AT_ONCE = {"smoke": 4, "standard": 40, "soak": 3600}
"""The same while they copy and reduce besides."""

ALONE = {"smoke": 0.5, "standard": 2.0, "soak": 60.0}
"""Seconds for which each card works alone, and right before that among all."""

STEPS = {
    "smoke": (10.0,),
    "standard": (1.0, 3.0, 10.0, 30.0, 100.0),
    "soak": (1.0, 3.0, 10.0, 30.0, 100.0),
}
"""Steps of the load in a second: power supplies regulate some of them away, and resonate at others."""

STEPPING = {"smoke": 2.0, "standard": 5.0, "soak": 300.0}
"""Seconds for each of these."""

COPIED = {"smoke": 64 << 20, "standard": 256 << 20, "soak": 256 << 20}
"""Bytes of a copy and of an all-reduce that run during the products."""

TRAFFIC = {
    "to_device": "What do the copies to the slowest card reach while all compute and reduce?",
    "to_host": "What do the copies from the slowest card reach while all compute and reduce?",
    "reduced": "Which bus bandwidth do the all-reduces reach while all cards compute and copy?",
}
"""What runs during the products, and the metrics of it."""

SECOND = 1.0
START = {1: 5.0, 2: 12.0}
"""Seconds until at least so many processes have loaded torch and are connected, in the first test here."""

AROUND = 2.0
"""Seconds in which factors and the first result are made, and results are looked at in the end, in double
precision too: less than a second where the card has units for it."""

pytestmark = pytest.mark.anubis(scope="node", cards=1, deadline="600s")


def costs(seconds: Callable[[str, int], float]) -> dict[str, object]:
    """Return what a test costs by profile and number of cards, as the lengths above add up.

    Args:
        seconds: Of a profile and a number of cards.
    """
    on_cards = {
        number: {profile: f"{seconds(profile, number):.0f}s" for profile in SIZE}
        for number in (1, 2, 4, 8)
    }
    return {"cpu": "1s", "accelerator": on_cards}


_ACTION = (
    "A wrong element: take the card out of service. A slow one: compare its clock, power and temperature, in "
    "the test's properties, with the others'; exchange places with another card to tell card from slot"
)
_COOLING = "Clean filters and fans, look at the paste and the seat of the cooler"


@pytest.fixture(scope="module")
def shared_cards() -> Iterator[Cards]:
    """A process for each card until this file ends; where they do not connect, each test says why."""
    from pytest_anubis.benchmarking.ranks import lasting
    from suites.burn.cards import Cards

    with lasting(Cards) as group:
        yield group


@pytest.fixture
def cards(request: pytest.FixtureRequest, anubis_node: NodeFixture) -> Iterator[Cards]:
    """All accelerators of the node, a process each, connected, with nothing in their memory."""
    import torch

    count = torch.cuda.device_count()
    if not count:
        pytest.skip("not applicable: no accelerator of NVIDIA's or AMD's")
    from pytest_anubis.benchmarking.ranks import sharing
    from suites.burn.cards import Cards

    shared = request.getfixturevalue("shared_cards")
    with sharing(shared, lambda: Cards(count, anubis_node.cores)) as found:
        yield found


def short_type() -> str:
    """Return the type of 8 bits that the first card has units for: floats, else whole numbers."""
    import torch

    from pytest_anubis.benchmarking.applicability import supports

    for dtype in ("float8_e4m3fn", "float8_e4m3fnuz", "int8"):  # fnuz: AMD's MI300
        if supports(torch.device("cuda", 0), dtype):
            return dtype
    pytest.skip("not applicable: these accelerators have no units for 8 bits")


def verified(cards: Cards) -> None:
    """Assert that all results were right, on cards that notice wrong ones."""
    wrong = cards.check()
    assert not wrong, "; ".join(wrong)


@pytest.mark.anubis(
    component="accelerator.burn",
    version=3,  # a shorter load in `smoke`
    cost=costs(
        lambda profile, cards: (
            START[min(cards, 2)]
            + AROUND
            + WARM_UP[profile]
            + LOADS[profile]
            + (2 * cards * ALONE[profile] if cards > 1 else 0)
        )
    ),
    metrics=["burn_rate", "slowest_share", "burn_errors"],
    goal="Accelerators compute right, and at their rate, when all of them work as hard as they can",
    question="What does the slowest card sustain while all of them are under full load?",
    action=_ACTION,
)
@pytest.mark.parametrize(
    "width", [16, pytest.param(8, marks=pytest.mark.anubis(profiles=("standard", "soak")))]
)
def test_burn(
    anubis_metric: MetricFixture,
    anubis_node: NodeFixture,
    cards: Cards,
    record_property: Callable[[str, object], None],
    width: int,
) -> None:
    """All cards multiply at once, then each alone; no bit of any result differs from the first."""
    cards.prepare(anubis_node.pick(**SIZE), "bfloat16" if width == 16 else short_type())
    cards.warm_up(anubis_node.pick(**WARM_UP))
    cards.load(SECOND, anubis_node.pick(**LOADS))
    record_property("cards", cards.summary())
    sensors(anubis_metric, cards)
    anubis_metric.record(
        "burn_rate", [rate / 1e12 for rate in cards.slowest()], unit="TFLOP/s", better="higher"
    )
    anubis_metric.record(
        "slowest_share",
        cards.slowest_shares(),
        unit="1",
        better="higher",
        question="How much slower is the slowest card than its neighbours, at the same moment?",
    )
    if cards.world > 1:
        anubis_metric.record(
            "together_share",
            min(cards.together_shares(anubis_node.pick(**ALONE))),
            unit="1",
            better="higher",
            question="What is left of a card's rate when all the others work as well?",
            action="Look at the power limit of the node, at its supplies and at its cooling: alone, and as "
            "warm, the card is faster",
        )
    anubis_metric.record(
        "burn_errors",
        cards.wrong,
        unit="count",
        better="equal",
        question="How many elements of how many results were wrong?",
    )
    verified(cards)


def sensors(anubis_metric: MetricFixture, cards: Cards) -> None:
    """Record the sensors of the worst card, where all cards have them."""
    clocks, heats, powers = (cards.readings(name) for name in ("clock", "temperature", "power"))
    if clocks:
        anubis_metric.record(
            "burn_clock",
            [min(row) for row in clocks],
            unit="MHz",
            better="higher",
            question="At which clock does the slowest card end up under full load?",
        )
    if heats and cards.world > 1:
        anubis_metric.record(
            "hottest_share",
            [max(row) / statistics.median(row) for row in heats],
            unit="1",
            better="lower",
            question="How much hotter is the hottest card than its neighbours, at the same moment?",
            action=_COOLING,
        )
    # A warmer room is no fault of a card: without a sensor of its air the temperature is only printed.
    if heats and (inlet := inlet_temperature()) is not None:
        anubis_metric.record(
            "burn_warming",
            [max(row) - inlet for row in heats],
            unit="°C",
            better="lower",
            question="How much hotter than the air that comes in does the hottest card get?",
            action=_COOLING,
        )
    if powers and all(min(row) > 0 for row in powers):
        efficiency = [
            min(rate / power for rate, power in zip(rates, row, strict=True))
            for rates, row in zip(cards.rates_by_load(), powers, strict=True)
        ]
        anubis_metric.record(
            "burn_efficiency",
            [value / 1e9 for value in efficiency],
            unit="GFLOP/J",
            better="higher",
            question="How much work does the worst card do with its energy?",
            action="A card that needs more energy for the same work slows down first where power is limited: "
            "compare its voltage and temperature",
        )


@pytest.mark.anubis(
    component="accelerator.power",
    version=2,  # `standard` steps for a third of the time
    cost=costs(lambda profile, _: AROUND / 2 + SECOND + len(STEPS[profile]) * STEPPING[profile]),
    metrics=["step_rate_10", "step_errors"],
    goal="Power supplies hold when the load of all accelerators comes and goes at once",
    question="What do the cards deliver in the moments of load, and is it right?",
    action="Look for power brakes and for events of the supplies in the management controller's log; repeat "
    "with one supply less and with the other ones to find which droops",
)
def test_load_steps(anubis_metric: MetricFixture, anubis_node: NodeFixture, cards: Cards) -> None:
    """The load of all cards steps from idle to full and back in the same moments; no result is wrong."""
    from suites.burn.cards import slowest

    cards.prepare(anubis_node.pick(**SIZE) // 2, "bfloat16")  # products short against a step
    cards.warm_up(SECOND)
    parts = max(1, round(anubis_node.pick(**STEPPING) / SECOND))
    for hertz in anubis_node.pick(**STEPS):
        each = max(1, round(hertz * SECOND))
        # A metric of its own: supplies that resonate at one frequency do not at the others.
        anubis_metric.record(
            f"step_rate_{hertz:g}",
            [rate / 1e12 for rate in slowest(cards.step(hertz, parts * each, each))],
            unit="TFLOP/s",
            better="higher",
        )
    anubis_metric.record("step_errors", cards.wrong, unit="count", better="equal")
    verified(cards)


@pytest.mark.anubis(
    component="accelerator.burn",
    version=3,  # a shorter load in `smoke`
    cost=costs(lambda profile, _: AROUND + SECOND + AT_ONCE[profile]),
    # One card alone reduces nothing, so that rate cannot be asked of every node.
    metrics=[
        "combined_rate",
        *(f"combined_{name}_rate" for name in TRAFFIC if name != "reduced"),
        "combined_errors",
    ],
    goal="Units, memory, links and copy engines work together as they do alone",
    question="What do the matrix units deliver while copies and all-reduces run beside them?",
    action=_ACTION,
)
def test_everything_at_once(
    anubis_metric: MetricFixture, anubis_node: NodeFixture, cards: Cards
) -> None:
    """Products, copies both ways and all-reduces at once: each at its rate, and every result right."""
    cards.prepare(anubis_node.pick(**SIZE), "bfloat16")
    cards.warm_up(SECOND)
    cards.together(SECOND, anubis_node.pick(**COPIED), anubis_node.pick(**AT_ONCE))
    anubis_metric.record(
        "combined_rate",
        [rate / 1e12 for rate in cards.slowest()],
        unit="TFLOP/s",
        better="higher",
    )
    for name, question in TRAFFIC.items():
        if name == "reduced" and cards.world == 1:
            continue  # nothing goes over a link
        anubis_metric.record(
            f"combined_{name}_rate",
            [rate / 1e9 for rate in cards.slowest_moved(name)],
            unit="GB/s",
            better="higher",
            question=question,
        )
    anubis_metric.record("combined_errors", cards.wrong, unit="count", better="equal")
    verified(cards)
