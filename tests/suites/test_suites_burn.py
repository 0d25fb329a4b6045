"""Loads do the work they say, step when they should, and name the card that computes wrong or slowly."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_anubis.benchmarking.children import Message
from pytest_anubis.session.collecting.device_parameters import Device
from suites.burn import test_cards, test_cores, test_device
from suites.burn.burner import BATCH, EVERY, SHORT_BATCH, Burner
from suites.burn.cards import CardLoad, Cards
from suites.compute.units import CoreLoad
from tests.suites import burning_rank
from tests.suites.stand_in_card import stand_in
from tests.suites.test_suites_on_a_card import Node, Taken

pytestmark = pytest.mark.usefixtures("one_thread", "quick_processes")
SECONDS = 0.0005
"""Of one product on the clock of the tests."""

TINY = 1e-6
"""Of a period, against the rounding of the clock."""


class Machine:
    """A device with a clock of its own: a product takes its time when it is waited for, a comparison 12 %."""

    work = 2e9

    def __init__(self, seconds: float = SECONDS) -> None:
        self.time, self.seconds = 0.0, seconds
        self.queued = 0.0
        self.wrong = 0
        self.loaded: list[tuple[float, float]] = []
        self.faulty = False

    def keep(self) -> None:
        self.queued += 1

    def run(self) -> None:
        self.queued += 1

    def compare(self) -> None:
        self.queued += 0.12
        self.wrong += self.faulty

    def wrong_elements(self) -> int:
        return self.wrong

    def synchronize(self) -> None:
        begin = self.time
        self.time += self.queued * self.seconds
        self.loaded.append((begin, self.time))
        self.queued = 0.0

    def sleep(self, seconds: float) -> None:
        self.time += seconds

    def burner(self) -> Burner:
        burner = Burner(self, self.synchronize, now=lambda: self.time, sleep=self.sleep)
        assert burner.seconds == pytest.approx(self.seconds)
        return burner


def test_twice_the_time_is_twice_the_work_at_the_same_rate() -> None:
    machine = Machine()
    burner = machine.burner()
    once, twice = burner.load(1.0), burner.load(2.0)
    assert twice.products == pytest.approx(2 * once.products, rel=0.02)
    assert once.rate == pytest.approx(machine.work / SECONDS, rel=0.01)  # that of the units
    assert once.compared == pytest.approx(once.products / EVERY, abs=2)
    assert once.seconds == pytest.approx(1.0, abs=BATCH)


def test_where_products_take_long_one_a_second_is_compared() -> None:
    assert Machine(0.4).burner().load(8.0).compared == pytest.approx(10, abs=2)
    assert Machine(3.0).burner().load(9.0).compared == 3


def test_slower_device_shows_in_its_rate() -> None:
    healthy, slow = Machine().burner().load(1.0), Machine(1.25 * SECONDS).burner().load(1.0)
    assert slow.rate == pytest.approx(0.8 * healthy.rate)


@pytest.mark.parametrize("hertz", [1.0, 10.0, 100.0])
def test_load_steps_at_its_rate_and_rests_for_half_of_the_time(hertz: float) -> None:
    machine = Machine()
    burner = machine.burner()
    machine.loaded.clear()
    begin = machine.time + 1.0
    parts = burner.steps(hertz, 20, 8, begin=begin)
    assert machine.time == pytest.approx(begin + 20 / hertz)  # the last rest, too
    phases = [((start - begin) * hertz + TINY) % 1 for start, _ in machine.loaded]
    assert max(phases) <= 0.5 + TINY  # no work begins in the second half of a period
    assert {int((start - begin) * hertz + TINY) for start, _ in machine.loaded} == set(range(20))
    for done, periods in zip(parts, (8, 8, 4), strict=True):
        assert done.seconds == pytest.approx(
            periods / 2 / hertz, rel=0.05, abs=periods * SHORT_BATCH
        )
        assert done.rate == pytest.approx(machine.work / SECONDS, rel=0.05)
        assert done.compared >= 2 * periods  # the first and the last of each


def test_wrong_elements_belong_to_the_load_in_which_they_were_counted() -> None:
    machine = Machine()
    burner = machine.burner()
    assert burner.load(0.1).wrong == 0
    machine.faulty = True
    found = burner.load(0.1)
    assert found.wrong == found.compared > 1
    machine.faulty = False
    assert burner.load(0.1).wrong == 0


def test_so_many_batches_are_as_many_on_every_card() -> None:
    looks: list[int] = []
    for seconds in (SECONDS, 3 * SECONDS):
        count = 0

        def look() -> None:
            nonlocal count
            count += 1

        (_,) = Machine(seconds).burner().parts(0.0, 1, batches=7, each_batch=look)
        looks.append(count)
    assert looks == [7, 7]


def small(monkeypatch: pytest.MonkeyPatch) -> None:
    profiles = ("smoke", "standard", "soak")
    for name, value in {
        "SIZE": 128, "WARM_UP": 0.01, "LOADS": 2, "ALONE": 0.01, "SECOND": 0.02, "STEPPING": 0.04,
        "COPIED": 1 << 16,
    }.items():  # fmt: skip
        each = value if name == "SECOND" else dict.fromkeys(profiles, value)
        monkeypatch.setattr(test_cards, name, each)
    monkeypatch.setattr(test_cards, "STEPS", {"smoke": (50.0, 100.0)})
    monkeypatch.setattr(test_cards, "short_type", lambda: "int8")


@pytest.fixture
def ranks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Two processes in the place of cards, the second of which can be made to compute wrong."""
    monkeypatch.setenv(burning_rank.FAULT, str(tmp_path / "fault"))
    small(monkeypatch)
    with Cards(2, 2, backend="gloo", module="tests.suites.burning_rank") as found:
        found.join()
        yield found


def test_cards_burn_step_and_move_and_the_one_that_computes_wrong_is_named(
    ranks: Cards, tmp_path: Path
) -> None:
    said: dict[str, object] = {}
    taken = Taken()
    for width in (8, 16):
        taken = Taken()
        test_cards.test_burn(taken, Node(), ranks, said.__setitem__, width)
        assert list(taken.asked) == ["burn_rate", "slowest_share", "together_share", "burn_errors"]
    for test, metrics in (
        (test_cards.test_load_steps, ["step_rate_50", "step_rate_100", "step_errors"]),
        (
            test_cards.test_everything_at_once,
            [
                "combined_rate",
                "combined_to_device_rate",
                "combined_to_host_rate",
                "combined_reduced_rate",
                "combined_errors",
            ],
        ),
    ):
        taken = Taken()
        test(taken, Node(), ranks)
        assert list(taken.asked) == metrics
    assert [line.partition(":")[0] for line in said["cards"]] == ["card 0", "card 1"]  # type: ignore[attr-defined]

    for do in (ranks.load, partial(ranks.load_alone, 1)):
        ranks.prepare(128, "float32")
        (tmp_path / "fault").touch()
        do(0.01)
        (tmp_path / "fault").unlink()
        assert ranks.wrong > 0
        (found,) = ranks.check()
        assert found.startswith("card 1: ")
        assert found.endswith(" elements were wrong, in 1 rows (5)")
    (tmp_path / "fault").touch()
    ranks.prepare(128, "float32")  # wrong from the first result on, and always alike
    ranks.load(0.01)
    with pytest.raises(
        AssertionError, match=r"^card 1: 1 elements of its first result are wrong; card 1: "
    ):
        test_cards.verified(ranks)


def cards_that_told(*loads: list[CardLoad]) -> Cards:
    cards = object.__new__(Cards)
    cards.loads, cards.others, cards.settled, cards.world = list(loads), [], 1, len(loads[0])
    return cards


def test_slow_and_hot_card_shows_among_its_neighbours() -> None:
    def load(rates: list[float], heat: float = 60.0) -> list[CardLoad]:
        told = {"clock": 1400.0, "power": 700.0, "temperature": 60.0}
        return [
            CardLoad(rate, 0, {**told, "temperature": heat if number == 2 else 60.0})
            for number, rate in enumerate(rates)
        ]

    even, slow = [7e14] * 8, [7e14, 7e14, 6.65e14, *[7e14] * 5]
    cards = cards_that_told(load([1e14] * 8), load(even), load(slow, heat=88.0))
    assert cards.slowest_shares() == pytest.approx([1.0, 0.95])  # the first was the warm-up
    assert cards.slowest() == [7e14, 6.65e14]
    taken = Taken()
    test_cards.sensors(taken, cards)
    assert list(taken.asked) == ["burn_clock", "hottest_share", "burn_efficiency"]
    assert cards.summary()[2] == "card 2: 682.5 TFLOP/s, 1400 MHz, 700 W, 74 °C"
    silent = cards_that_told(load(even), [CardLoad(1.0, 0)] * 8)
    test_cards.sensors(untold := Taken(), silent)
    assert untold.asked == {}


def test_room_is_no_part_of_how_hot_a_card_is(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[dict[str, Any]] = []
    for room in (0.0, 8.0):
        told = [CardLoad(7e14, 0, {"temperature": 60.0 + room + 2 * number}) for number in range(3)]
        monkeypatch.setattr(test_cards, "inlet_temperature", lambda room=room: 24.0 + room)
        test_cards.sensors(taken := Taken(), cards_that_told(told, told))
        test_cards.sensors(alone := Taken(), cards_that_told(told[:1], told[:1]))
        assert list(taken.values) == ["hottest_share", "burn_warming"]
        assert list(alone.values) == ["burn_warming"]
        found.append({**taken.values, "alone": alone.values["burn_warming"]})
    assert found[0]["burn_warming"] == found[1]["burn_warming"] == [40.0]
    assert found[0]["alone"] == found[1]["alone"] == [36.0]
    assert found[1]["hottest_share"] == pytest.approx(found[0]["hottest_share"], rel=0.01)
    monkeypatch.setattr(test_cards, "inlet_temperature", lambda: None)
    test_cards.sensors(untold := Taken(), cards_that_told(told[:1], told[:1]))
    assert untold.values == {}


class StandIns(Cards):
    """As many cards as wanted, without processes: each request is answered at once."""

    def __init__(self, world: int) -> None:
        self.world, self._each = world, 0.01
        self.loads, self.others, self.settled = [], [], 0
        one: Any = SimpleNamespace(ask=lambda asked, **_: self.reply(**asked))
        self.processes = [one] * world

    def reply(self, do: str, count: int = 1, periods: int = 1, each: int = 1, **_: Any) -> Message:
        part = {
            "work": 7e14,
            "seconds": 1.0,
            "wrong": 0,
            "moved": dict.fromkeys(test_cards.TRAFFIC, 1e9),
        }
        parts = [part] * (periods // each if do == "steps" else count)
        right = {"fingerprint": 7, "unlike_double": 0, "rows": [], "notices": True}
        return {"size": 128, "seconds": 0.01, "parts": parts, **right}

    def ask_all(self, do: str, *, timeout: float | None = None, **asked: Any) -> list[Message]:
        return [self.reply(do, **asked)] * self.world


@pytest.mark.parametrize("world", [1, 2, 8])
@pytest.mark.parametrize(
    ("test", "more"),
    [
        (test_cards.test_burn, (lambda *_: None, 16)),
        (test_cards.test_load_steps, ()),
        (test_cards.test_everything_at_once, ()),
    ],
)
def test_what_is_declared_is_recorded_of_every_number_of_cards(
    monkeypatch: pytest.MonkeyPatch, world: int, test: Any, more: tuple[Any, ...]
) -> None:
    monkeypatch.setattr(test_cards, "SECOND", 0.02)
    test(taken := Taken(), Node(), StandIns(world), *more)
    (mark,) = [one for one in test.pytestmark if one.name == "anubis"]
    assert set(mark.kwargs["metrics"]) <= set(taken.asked)
    assert ("combined_reduced_rate" in taken.asked) == (
        test is test_cards.test_everything_at_once and world > 1
    )


class Heating:
    """Cards that lose 5 % of their rate as they warm up, within some 5 s, and regain it as they rest."""

    def __init__(self, world: int, limit: float = 1.0) -> None:
        self.heat, self.limit = [0.0] * world, limit

    def load(self, seconds: float, *numbers: int) -> list[Message]:
        rates = []
        for number, before in enumerate(self.heat):
            wanted = float(number in numbers)
            self.heat[number] = wanted + (before - wanted) * math.exp(-seconds / 5)
            rates.append(7e14 * (1 - 0.05 * (before + self.heat[number]) / 2))
        share = self.limit if len(numbers) > 1 else 1.0
        done = [{"work": rate * share, "seconds": 1.0, "wrong": 0} for rate in rates]
        return [{"parts": [one]} for one in done]

    def one(self, number: int) -> Any:
        return SimpleNamespace(ask=lambda asked, **_: self.load(asked["seconds"], number)[number])

    def cards(self) -> Cards:
        every = range(len(self.heat))
        cards = cards_that_told([CardLoad(1.0, 0)] * len(self.heat))
        cards.ask_all = lambda *_, seconds, **__: self.load(seconds, *every)  # type: ignore[method-assign]
        cards.processes = [self.one(number) for number in every]
        cards.load(60.0)
        return cards


def test_hot_cards_are_compared_with_themselves_as_hot() -> None:
    assert Heating(8).cards().together_shares(1.0) == pytest.approx([1.0] * 8, abs=0.005)
    assert min(Heating(8, limit=0.9).cards().together_shares(1.0)) == pytest.approx(0.9, abs=0.005)
    cards = Heating(8).cards()
    together = cards.loads[-1]
    for number in (6, 7):  # that have rested meanwhile
        cards.load_alone(0, 10.0)
        assert together[number].rate / cards.load_alone(number, 1.0).rate < 0.99


def test_card_whose_first_result_is_another_is_named() -> None:
    right: Message = {"fingerprint": 7, "unlike_double": 0, "rows": [], "notices": True}
    answers = [right, right, {**right, "fingerprint": 8}, {**right, "notices": False}]
    cards = cards_that_told([CardLoad(1.0, 0)] * 4)
    cards.ask_all = lambda *_, **__: answers  # type: ignore[method-assign]
    assert cards.check() == [
        "card 2: its first result is not that of the other cards",
        "card 3: does not notice a flipped bit, so no result of it is believed",
    ]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8", "float8_e4m3fn"])
def test_device_alone_is_verified(monkeypatch: pytest.MonkeyPatch, dtype: str) -> None:
    monkeypatch.setattr(test_device, "SIZES", {"accelerator": {"smoke": 64}})
    monkeypatch.setattr(test_device, "BURN", {"accelerator": {"smoke": 0.01}})
    taken = Taken()
    with stand_in(rounded=False):
        test_device.test_burn_device(taken, Device("cuda:0"), Node(), dtype)
    assert list(taken.asked) == ["burn_rate", "burn_errors"]
    assert taken.asked["burn_rate"]["unit"] == ("TOP/s" if dtype == "int8" else "TFLOP/s")


class Sick:
    """Cores of which the second computes wrong, and slowly."""

    def __init__(self) -> None:
        self.wrong = {0: 0, 1: 0}

    def load(self, _seconds: float) -> list[CoreLoad]:
        self.wrong[1] += 2
        return [CoreLoad(0, 40e9, 1.0, 0), CoreLoad(1, 20e9, 1.0, 2)]

    def steps(self, _hertz: float, periods: int, each: int) -> list[list[CoreLoad]]:
        return [self.load(1.0) for _ in range(periods // each)]

    def notice(self) -> bool:
        return True


@pytest.mark.parametrize("test", [test_cores.test_burn_cores, test_cores.test_core_load_steps])
def test_core_that_computes_wrong_fails_and_is_named(test: Callable[..., None]) -> None:
    taken: Any = Taken()
    with pytest.raises(AssertionError, match=r"wrong checksum: CPU 1: \d+"):
        test(taken, Node(), Sick())


def test_cores_burn_at_a_rate_of_which_the_slowest_is_told() -> None:
    taken = Taken()
    values: dict[str, list[float]] = {}

    def record(name: str, value: Any, **_: Any) -> tuple[float, ...]:
        values[name] = list(value) if isinstance(value, list) else [value]
        return ()

    healthy: Any = SimpleNamespace(
        wrong={0: 0, 1: 0},
        notice=lambda: True,
        load=lambda _: [CoreLoad(0, 4e9, 0.1, 0), CoreLoad(1, 2e9, 0.1, 0)],
    )
    taken.record = record  # type: ignore[method-assign]
    test_cores.test_burn_cores(taken, Node(), healthy)
    assert values == {"slowest_core_rate": [20.0] * 3, "burn_errors": [0]}
    healthy.notice = lambda: False
    with pytest.raises(AssertionError, match="does not notice"):
        test_cores.verified(healthy)
