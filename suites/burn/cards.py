"""All accelerators of the node under load: together, in step, each alone."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from pytest_anubis.benchmarking.children import Message
from pytest_anubis.benchmarking.ranks import ROUND, START, Ranks
from suites.burn.burner import BATCH

MODULE = "suites.burn.card_rank"
LEAD = 0.05
"""Seconds between the request and the moment at which all cards begin: a message takes a millisecond."""

STRETCH = 30.0
"""Seconds of one request, about: the cards rest between two, which would be a load step of its own once a
second, and a lost card is noticed when its request ends."""


@dataclass(frozen=True, slots=True)
class CardLoad:
    """What one card did in one load.

    Attributes:
        rate: Operations a second.
        wrong: Elements that differed from those of the first result, and bytes that were moved wrongly.
        sensors: Its readings: ``clock`` (MHz), ``power`` (W), ``temperature`` (°C).
        moved: Bytes a second that were copied and reduced meanwhile (`suites.burn.traffic.Traffic.rates`).
    """

    rate: float
    wrong: int
    sensors: dict[str, float] = field(default_factory=dict)
    moved: dict[str, float] = field(default_factory=dict)


class Cards(Ranks):
    """Accelerators under load, a process each; a context manager.

    Args:
        cards: How many.
        cores: CPUs that this process may use, shared among them.
        module: What each runs; tests put in one with a fault.
        backend: torch's word for how they reduce; ``gloo`` lets CPUs stand in for cards.

    Attributes:
        loads: What each card did in every load of all together, in order.
        settled: Index of the first load with warm cards; rates and sensors are reported from it on.
        others: Card, and its part of a load that does not count for the rate of all.
    """

    def __init__(
        self,
        cards: int,
        cores: int,
        *,
        module: str = MODULE,
        backend: str = "nccl",
    ) -> None:
        self.loads: list[list[CardLoad]] = []
        self.others: list[tuple[int, CardLoad]] = []
        self.settled = 0
        self._each = 0.0
        threads = max(1, cores // cards)
        super().__init__(module, cards, backend=backend, threads=threads)

    def prepare(self, size: int, dtype: str) -> int:
        """Make every card's product of matrices of a size, of a smaller one where memory is short; return it.

        All cards have the same, as their results are compared.
        """
        while True:
            answers = self.ask_all("prepare", timeout=START, size=size, dtype=dtype)
            sizes = {int(answer["size"]) for answer in answers}
            if len(sizes) == 1:
                break
            size = min(sizes)
        self._each = max(answer["seconds"] for answer in answers)
        self.loads.clear()
        self.others.clear()
        self.settled = 0
        return sizes.pop()

    def warm_up(self, seconds: float) -> None:
        """Load all cards for so long; it counts for what was wrong, not for the rates."""
        self.load(seconds)
        self.settled = len(self.loads)

    def load(self, seconds: float, count: int = 1) -> list[list[CardLoad]]:
        """Load all cards at once; return what they did in each of `count` parts of so many seconds.

        They rest between two parts only where one would make the stretch longer than `STRETCH`.
        """
        return self._sustain("load", seconds, count, seconds=seconds)

    def load_alone(self, number: int, seconds: float) -> CardLoad:
        """Load one card while the others rest."""
        request = {"do": "load", "seconds": seconds, "count": 1, "begin": 0.0}
        answer = self.processes[number].ask(request, timeout=ROUND + seconds)
        done = _load(answer["parts"][0])
        self.others.append((number, done))
        return done

    def together_shares(self, seconds: float) -> list[float]:
        """Return the rate of each card among all over its rate alone, which it does right after the other.

        So it is as warm in the one as in the other: a card that has rested is quicker, whatever the node is.
        """
        shares = []
        for number in range(self.world):
            together = self.load(seconds)[0][number]
            shares.append(together.rate / self.load_alone(number, seconds).rate)
        return shares

    def step(self, hertz: float, periods: int, each: int) -> list[list[CardLoad]]:
        """Load all cards in the same half of each period, and let them rest in the other.

        One request, as the cards would rest between two for longer than the steps say. Returns what the cards
        did in so many periods at a time (`each`).
        """
        begin, timeout = time.monotonic() + LEAD, ROUND + periods / hertz
        asked = {"hertz": hertz, "periods": periods, "each": each, "begin": begin}
        return self._done(self.ask_all("steps", timeout=timeout, **asked))

    def together(self, seconds: float, size: int, count: int = 1) -> list[list[CardLoad]]:
        """Load all units, copy engines and links at once, with buffers of `size` bytes, as `load` does."""
        # As many all-reduces on every card, or they would wait for each other for ever.
        batches = max(1, math.ceil(seconds / max(BATCH, self._each)))
        return self._sustain("together", seconds, count, bytes=size, batches=batches)

    def check(self, names: Sequence[str] = ()) -> list[str]:
        """Return what is wrong with the cards' results, a sentence each: none, on healthy cards.

        Args:
            names: What to call the cards; by default by their numbers.
        """
        wrong = [0] * self.world
        for number, load in self._every_load():
            wrong[number] += load.wrong
        answers = self.ask_all("check", timeout=START)
        common = statistics.mode(answer["fingerprint"] for answer in answers)
        found = []
        for number, answer in enumerate(answers):
            name = names[number] if names else f"card {number}"
            if wrong[number]:
                found.append(f"{name}: {wrong[number]} elements were wrong{_rows(answer)}")
            if answer["unlike_double"]:
                found.append(
                    f"{name}: {answer['unlike_double']} elements of its first result are wrong"
                )
            if answer["fingerprint"] != common:
                found.append(f"{name}: its first result is not that of the other cards")
            if not answer["notices"]:
                found.append(
                    f"{name}: does not notice a flipped bit, so no result of it is believed"
                )
        return found

    @property
    def wrong(self) -> int:
        """How many elements were wrong so far, on all cards, together and alone."""
        return sum(load.wrong for _, load in self._every_load())

    def _every_load(self) -> Iterator[tuple[int, CardLoad]]:
        """Give card and load of all that was done since `prepare`."""
        for loads in self.loads:
            yield from enumerate(loads)
        yield from self.others

    def slowest(self) -> list[float]:
        """Return the rate of the slowest card in each load of all."""
        return slowest(self._warm)

    def slowest_shares(self) -> list[float]:
        """Return the rate of the slowest card over the median of all, in each load: 1 where all are alike."""
        return [min(row) / statistics.median(row) for row in self.rates_by_load()]

    def slowest_moved(self, name: str) -> list[float]:
        """Return the bytes a second of the slowest card in each load of all, of a kind of traffic."""
        return [min(load.moved[name] for load in loads) for loads in self._warm]

    def rates(self) -> list[float]:
        """Return the median rate of each card."""
        return [statistics.median(card) for card in zip(*self.rates_by_load(), strict=True)]

    def rates_by_load(self) -> list[list[float]]:
        """Return the rate of each card, load by load."""
        return [[load.rate for load in loads] for loads in self._warm]

    def readings(self, name: str) -> list[list[float]]:
        """Return the readings of one sensor of each card, load by load; empty if any is missing."""
        rows = [[load.sensors.get(name) for load in loads] for loads in self._warm]
        known = [[value for value in row if value is not None] for row in rows]
        return known if all(len(row) == self.world for row in known) else []

    def summary(self) -> list[str]:
        """Return a line for each card: rate and sensors, medians over all loads."""
        lines = []
        for number in range(self.world):
            mine = [loads[number] for loads in self._warm]
            parts = [f"{statistics.median(load.rate for load in mine) / 1e12:.4g} TFLOP/s"]
            for name, unit in UNITS.items():
                values = [load.sensors[name] for load in mine if name in load.sensors]
                if values:
                    parts.append(f"{statistics.median(values):.4g} {unit}")
            lines.append(f"card {number}: {', '.join(parts)}")
        return lines

    @property
    def _warm(self) -> list[list[CardLoad]]:
        return self.loads[self.settled :]

    def _sustain(
        self, do: str, length: float, count: int, **arguments: object
    ) -> list[list[CardLoad]]:
        """Ask for `count` parts of some `length` in seconds, as many at once as a stretch has."""
        most = max(1, int(STRETCH / length))
        done: list[list[CardLoad]] = []
        while len(done) < count:
            parts = min(most, count - len(done))
            begin, timeout = time.monotonic() + LEAD, ROUND + parts * length
            done += self._done(
                self.ask_all(do, timeout=timeout, count=parts, begin=begin, **arguments)
            )
        return done

    def _done(self, answers: Sequence[Message]) -> list[list[CardLoad]]:
        """Keep and return what the cards did, part by part."""
        parts = [
            [_load(part) for part in cards]
            for cards in zip(*(answer["parts"] for answer in answers), strict=True)
        ]
        self.loads += parts
        return parts


def slowest(loads: Sequence[Sequence[CardLoad]]) -> list[float]:
    """Return the rate of the slowest card in each of some loads."""
    return [min(load.rate for load in cards) for cards in loads]


UNITS = {"clock": "MHz", "power": "W", "temperature": "°C"}
"""Units of what sensors tell."""

SHOWN = 8
"""Rows that a message names, enough to see whether they share a unit."""


def _load(answer: Message) -> CardLoad:
    wrong = answer["wrong"] + answer.get("wrong_moved", 0)
    rate = answer["work"] / answer["seconds"]
    return CardLoad(rate, wrong, answer.get("sensors", {}), answer.get("moved", {}))


def _rows(answer: Message) -> str:
    rows = answer["rows"]
    if not rows:
        return ""
    shown = ", ".join(str(row) for row in rows[:SHOWN])
    return f", in {len(rows)} rows ({shown}{', ...' if len(rows) > SHOWN else ''})"
