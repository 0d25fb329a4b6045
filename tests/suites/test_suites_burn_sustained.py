"""A load of many seconds is one: its parts are told one by one, and nothing rests between them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pytest_anubis.benchmarking.children import Message
from suites.burn import test_cards
from suites.burn.burner import BATCH, EVERY
from suites.burn.cards import LEAD, STRETCH, CardLoad
from tests.suites.test_suites_burn import SECONDS, TINY, Machine, cards_that_told
from tests.suites.test_suites_on_a_card import Node, Taken


def resting(machine: Machine) -> float:
    """Return the seconds that a machine rested between its first work and its last."""
    begin, end = machine.loaded[0][0], machine.loaded[-1][1]
    return end - begin - sum(end - begin for begin, end in machine.loaded)


def test_nothing_rests_between_the_parts_of_a_load() -> None:
    machine = Machine()
    burner = machine.burner()
    machine.loaded.clear()
    begin = machine.time + 1.0
    parts = list(burner.parts(1.0, 20, begin=begin))
    assert resting(machine) == pytest.approx(0.0, abs=TINY)
    assert machine.time == pytest.approx(begin + 20.0, abs=BATCH)  # no part ends later and later
    for done in parts:
        assert done.seconds == pytest.approx(1.0, abs=BATCH)
        assert done.rate == pytest.approx(machine.work / SECONDS, rel=0.01)
        assert done.compared == pytest.approx(done.products / EVERY, abs=2)
    machine.faulty = True
    told = [done.wrong for done in burner.parts(0.1, 2)]
    assert min(told) > 1


class Played:
    """Stands for two cards on the clock of a machine: does what is asked of all of them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.machine, self.asked = Machine(), [""]
        self.burner = self.machine.burner()
        self.machine.loaded.clear()
        monkeypatch.setattr("suites.burn.cards.time.monotonic", lambda: self.machine.time)
        monkeypatch.setattr(test_cards, "verified", lambda _: None)
        self.cards = cards_that_told([CardLoad(1.0, 0)] * 2)
        self.cards.loads, self.cards._each = [], SECONDS
        self.cards.prepare = lambda *_: 128  # type: ignore[method-assign]
        self.cards.ask_all = self.answer  # type: ignore[method-assign,assignment]

    def answer(self, do: str, *, timeout: float, **asked: Any) -> list[Message]:
        """Work as a card does; the message takes a millisecond, and so does its answer."""
        self.asked.append(do)
        self.machine.time += 1e-3
        began = self.machine.time
        parts = []
        for done in self.burner.parts(
            asked.get("seconds", 0.0), asked["count"], begin=asked["begin"],
            batches=asked.get("batches", 0),
        ):  # fmt: skip
            moved = dict.fromkeys(test_cards.TRAFFIC, 1e9)
            parts.append({"work": done.work, "seconds": done.seconds, "wrong": 0, "moved": moved})
        assert self.machine.time - began < timeout
        self.machine.time += 1e-3
        return [{"parts": parts}] * 2


@pytest.mark.parametrize("do", ["load", "together"])
def test_cards_do_not_rest_once_a_second(monkeypatch: pytest.MonkeyPatch, do: str) -> None:
    played = Played(monkeypatch)
    test: Callable[..., None] = test_cards.test_everything_at_once
    seconds = (test_cards.LOADS if do == "load" else test_cards.AT_ONCE)["standard"]
    if do == "load":
        test, played.cards.world = test_cards.test_burn, 1
        arguments: list[Any] = [lambda *_: None, 16]
    else:
        arguments = []
    test(Taken(), Node("standard"), played.cards, *arguments)
    assert played.asked.count(do) >= seconds / STRETCH
    assert len(played.cards.loads) == 1 + seconds  # the warm-up, and each second by itself
    end, begin = played.machine.loaded[-1][1], played.machine.loaded[0][0]
    rests = len(played.asked) - 2  # between two requests
    assert resting(played.machine) == pytest.approx(rests * (LEAD + 1e-3), rel=0.05)
    assert resting(played.machine) < 0.003 * (end - begin)
