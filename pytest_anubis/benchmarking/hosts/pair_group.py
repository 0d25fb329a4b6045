"""Pairs of hosts that send to each other, all pairs of a round at once, through torch's collectives (gloo).

There is one process on each host. Of simulated hosts this process starts all; where a launcher started this
program on every host, each starts its own, and all know afterwards what was measured anywhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from pytest_anubis.benchmarking.children import Child, Group
from pytest_anubis.fleet.links.attribution import (
    Accusation,
    attribute,
    expected_by_distance,
    typical_rates,
)
from pytest_anubis.fleet.links.pair_plans import Round, check_rounds, ways

MODULE = "pytest_anubis.benchmarking.hosts.pair_rank"

PORT = 29500
"""Where the first host is found if nothing else is said: torchrun's own default."""

PATIENCE = 600.0
"""Seconds for which hosts wait for one another: their runs reach a test at different times."""

ROUND = 240.0
"""Seconds that one request may take besides the transfers: longer than a host waits for another one, so that
it can say who is missing."""

SLOWEST = 1e6
"""Bytes a second below which a way counts as dead: what the time of a request is reckoned with."""

PILOT = 1 << 20
"""Bytes with which the rate is looked for that the size of a transfer follows from."""

SIZES = (1 << 16, 1 << 30)
"""Least and most bytes of a transfer."""

SETTLE = 2.0
"""Seconds for which the other hosts are listened to when one has failed: it may have waited for another."""

_groups = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where one host's process runs.

    Attributes:
        number: The host's number among all, from 0.
        environment: Variables of the process besides this one's.
        within: What stands before its command, such as ``ip netns exec NAME``.
    """

    number: int
    name: str
    environment: Mapping[str, str] = field(default_factory=dict)
    within: tuple[str, ...] = ()


class Hosts(Protocol):
    """Hosts among which pairs are measured: simulated ones, or those of a launcher."""

    def __len__(self) -> int:
        """Return how many hosts there are in all."""
        ...

    def places(self) -> Sequence[Place]:
        """Return those whose process this session starts; the first one says what all measured."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PairRates:
    """What was measured among all hosts.

    Attributes:
        rates: Bytes a second by repeat, sender and receiver; nan where none was measured.
        wrong: Bytes that arrived changed, by sender and receiver; nan likewise.
    """

    names: tuple[str, ...]
    rates: tuple[tuple[tuple[float, ...], ...], ...]
    wrong: tuple[tuple[float, ...], ...]

    def of(self, sender: int, receiver: int) -> tuple[float, ...]:
        """Return the rates of one way, in time order."""
        return tuple(one[sender][receiver] for one in self.rates)


class PairGroup(Group):
    """The hosts' processes; a context manager that ends those of this session.

    Args:
        hosts: Where they run.
        patience: Seconds to wait for the others.

    Attributes:
        names: What the hosts are called, once they have joined; where two have one name, with their numbers.
        own: Numbers of the hosts of this session.
    """

    def __init__(self, hosts: Hosts, *, patience: float = PATIENCE) -> None:
        global _groups
        super().__init__(timeout=ROUND, settle=SETTLE)
        _groups += 1
        self.names: tuple[str, ...] = ()
        self._world = len(hosts)
        self._patience = patience
        places = hosts.places()
        self.own = tuple(place.number for place in places)
        with self._starting():
            for place in places:
                self._start(
                    Child(
                        MODULE,
                        [place.name, str(_groups), str(patience)],
                        name=f"host {place.name}",
                        environment=place.environment,
                        within=place.within,
                    )
                )

    def join(self) -> tuple[str, ...]:
        """Wait until all hosts are connected; return their names.

        Raises:
            ChildError: A host failed, or the others did not come in time.
        """
        answers = self.ask_all("join", timeout=self._patience + ROUND)
        told = [str(name) for name in answers[0]["names"]]
        self.names = tuple(
            f"{name}#{number}" if told.count(name) > 1 else name for number, name in enumerate(told)
        )
        return self.names

    def size_for(self, rounds: Sequence[Round], seconds: float) -> int:
        """Return how many bytes the quickest ways of the first round send in so many seconds.

        All hosts come to the same answer.

        Raises:
            ChildError: A host failed.
        """
        first = self.measure(rounds[:1], size=PILOT, repeats=2).rates[-1]
        quickest = max((rate for row in first for rate in row if rate == rate), default=0.0)
        least, most = SIZES
        return min(most, max(least, int(quickest * seconds)))

    def measure(self, rounds: Sequence[Round], *, size: int, repeats: int) -> PairRates:
        """Run rounds of pairs, each direction by itself, all pairs of a round at once.

        Args:
            rounds: Of pairs (`pytest_anubis.fleet.links.pair_plans`).
            size: Bytes of one transfer.
            repeats: How often the whole plan is run: repeats far apart in time are not disturbed together.

        Raises:
            ChildError: A host failed or is gone.
            PlanError: The plan is none for these hosts.
        """
        check_rounds(rounds, self._world)
        directed = [[list(way) for way in one] for one in ways(rounds)]
        longest = ROUND + repeats * len(directed) * size / SLOWEST
        request = {"rounds": directed, "bytes": size, "repeats": repeats, "teller": self.own[0]}
        answer = self.ask_all("measure", timeout=longest, **request)[0]
        return PairRates(
            names=self.names,
            rates=tuple(
                tuple(tuple(size / seconds for seconds in row) for row in one)
                for one in answer["seconds"]
            ),
            wrong=tuple(tuple(row) for row in answer["wrong"]),
        )

    def find_guilty(
        self,
        rounds: Sequence[Round],
        *,
        size: int,
        repeats: int,
        hops: Sequence[Sequence[int]] | None = None,
        good: Sequence[int] = (),
    ) -> tuple[PairRates, list[Accusation]]:
        """Measure, and say who is to blame for slow pairs; whoever is accused is measured again first.

        All hosts come to the same answer.

        Args:
            rounds: As for `measure`.
            size: As for `measure`.
            repeats: As for `measure`; there are twice as many where somebody is accused.
            hops: The hosts' distances in links, where those far apart are expected to be slower.
            good: Hosts that are known to be good.

        Raises:
            ChildError: A host failed or is gone.
            PlanError: The plan is none for these hosts.
        """
        rates = self.measure(rounds, size=size, repeats=repeats)
        found = _guilty(rates, hops, good)
        if found:
            again = self.measure(rounds, size=size, repeats=repeats)
            rates = replace(
                again,
                rates=(*rates.rates, *again.rates),
                wrong=tuple(
                    tuple(a + b for a, b in zip(*rows, strict=True))
                    for rows in zip(rates.wrong, again.wrong, strict=True)
                ),
            )
            found = _guilty(rates, hops, good)
        return rates, found


def _guilty(
    rates: PairRates, hops: Sequence[Sequence[int]] | None, good: Sequence[int]
) -> list[Accusation]:
    typical = typical_rates(rates.rates)
    expected = None if hops is None else expected_by_distance(typical, hops)
    return attribute(typical, expected=expected, good=good)
