"""Measure pairs of hosts that send to each other, all pairs of a round at once, through gloo.

There is one process on each host. For simulated hosts this program starts all of them. Under a
launcher the session on each host starts one process, and every session gets the results of all hosts. Where
`fleet.links` blames a host or link, `find_guilty` measures again; the fixture `anubis_pairs` records all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Protocol

import numpy as np

from pytest_anubis.benchmarking.children import Child, Group
from pytest_anubis.fleet.links.attribution import (
    Accusation,
    attribute,
    common_ends,
    expected_by_distance,
    typical_rates,
    usual_speeds,
)
from pytest_anubis.fleet.links.fan_rates import fan_rates
from pytest_anubis.fleet.links.pair_plans import Round, check_rounds, fans, ways

MODULE = "pytest_anubis.benchmarking.hosts.pair_rank"

PORT = 29500
"""Default TCP port of the first host, torchrun's default as well."""

PATIENCE = 600.0
"""Seconds for which hosts wait for each other, since their runs reach a test at different times."""

ROUND = 240.0
"""Seconds that one request may take in addition to the transfers: longer than a host waits for another one,
so that it can report which one is missing."""

SLOWEST = 1e6
"""Minimum rate in bytes per second, from which the time-out of a request is computed."""

PILOT = 1 << 20
"""Bytes of the first transfers, from whose rate the size of all others is computed."""

SIZES = (1 << 16, 1 << 30)
"""Minimum and maximum bytes of a transfer."""

PILOTS = 3
"""Runs of small blocks from which the size of a fan's blocks is derived."""

LONGEST = 10.0
"""Seconds that the slowest fan should take at most: a small part of the time for which gloo waits."""

SETTLE = 2.0
"""Seconds to wait for further failures after the first one, which may come from a host waiting for
another."""

_groups = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The place of one host's process."""

    number: int  # the host's number among all, from 0
    name: str  # the host's name
    # Variables to set in addition to those of this process
    environment: Mapping[str, str] = field(default_factory=dict)
    within: tuple[str, ...] = ()  # prefix of its command, such as ``ip netns exec NAME``


class Hosts(Protocol):
    """Hosts among which pairs are measured: simulated ones, or those of a launcher."""

    @property
    def interface(self) -> str:
        """Name of the network interface between them; empty if unknown."""
        ...

    def __len__(self) -> int:
        """Return the number of hosts."""
        ...

    def places(self) -> Sequence[Place]:
        """Return the places of processes that this session starts; the first one answers with all results."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PairRates:
    """The results of all hosts."""

    names: tuple[str, ...]  # names of the hosts
    # Bytes per second by repeat, sender and receiver; nan if not measured
    rates: tuple[tuple[tuple[float, ...], ...], ...]
    # Number of corrupted bytes by sender and receiver; nan if not measured
    wrong: tuple[tuple[float, ...], ...]
    # TCP segments that the sender's host sent again meanwhile, as `rates`; nan if unknown
    resent: tuple[tuple[tuple[float, ...], ...], ...] = ()
    # Bytes per second by repeat and host: the sum over its ways where it had several at once
    together: tuple[tuple[float, ...], ...] = ()

    def of(self, sender: int, receiver: int) -> tuple[float, ...]:
        """Return the rates of one direction, in time order."""
        return tuple(one[sender][receiver] for one in self.rates)

    def changed(self) -> dict[tuple[int, int], frozenset[int]]:
        """Return the ways on which bytes arrived changed, sender first, with the hosts that may be to blame.

        These are both ends, or the one that several such ways have in common.
        """
        wrong = np.array(self.wrong)
        ends = common_ends(wrong > 0, ~np.isnan(wrong))
        found = {}
        for a, b in np.argwhere(wrong > 0).tolist():
            common = [part.nodes[0] for part in ends if (a, b) in part.ways(len(wrong))]
            found[a, b] = frozenset(common or (a, b))
        return found

    def joined(self, later: PairRates) -> PairRates:
        """Return these results and later ones of the same plan as one."""
        return PairRates(
            names=self.names,
            rates=(*self.rates, *later.rates),
            wrong=tuple(
                tuple(a + b for a, b in zip(*rows, strict=True))
                for rows in zip(self.wrong, later.wrong, strict=True)
            ),
            resent=(*self.resent, *later.resent),
            together=(*self.together, *later.together),
        )


class PairGroup(Group):
    """The processes of all hosts; a context manager that ends those of this session.

    Args:
        hosts: The hosts.
        port: Current speed of these hosts' network port in bytes per second; 0 if unknown.
        patience: Seconds to wait for the other hosts.

    Attributes:
        names: Names of the hosts after `join`; equal names get the hosts' numbers.
        ports: What their ports carry in bytes per second, after `join`; 0 if unknown.
        own: Numbers of the hosts whose processes this session starts.
    """

    def __init__(self, hosts: Hosts, *, port: float = 0.0, patience: float = PATIENCE) -> None:
        global _groups
        super().__init__(timeout=ROUND, settle=SETTLE)
        _groups += 1
        self.names: tuple[str, ...] = ()
        self.ports: tuple[float, ...] = ()
        self._world = len(hosts)
        self._patience = patience
        places = hosts.places()
        self.own = tuple(place.number for place in places)
        with self._starting():
            for place in places:
                self._start(
                    Child(
                        MODULE,
                        [place.name, str(_groups), str(patience), str(port)],
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
        names = [str(name) for name in answers[0]["names"]]
        self.ports = tuple(answers[0]["ports"])
        self.names = tuple(
            f"{name}#{number}" if names.count(name) > 1 else name
            for number, name in enumerate(names)
        )
        return self.names

    @property
    def differing_ports(self) -> tuple[float, ...]:
        """The `ports`, if all are known and not the same; else empty."""
        return self.ports if all(self.ports) and len(set(self.ports)) > 1 else ()

    def size_for(self, rounds: Sequence[Round], seconds: float) -> int:
        """Return the bytes that the fastest direction of the first round sends in `seconds`.

        The result is the same on all hosts.

        Raises:
            ChildError: A host failed.
        """
        first = self.measure(rounds[:1], size=PILOT, repeats=2).rates[-1]
        quickest = max((rate for row in first for rate in row if rate == rate), default=0.0)
        smallest, largest = SIZES
        return min(largest, max(smallest, int(quickest * seconds)))

    def measure(self, rounds: Sequence[Round], *, size: int, repeats: int) -> PairRates:
        """Run rounds of pairs, one direction at a time, all pairs of a round at once.

        Args:
            rounds: Rounds of pairs (`pytest_anubis.fleet.links.pair_plans`).
            size: Bytes of one transfer.
            repeats: How often to run the whole plan, so that one disturbance does not affect all repeats.

        Raises:
            ChildError: A host failed or is gone.
            PlanError: The plan is not valid for these hosts.
        """
        check_rounds(rounds, self._world)
        return self._run(ways(rounds), size=size, repeats=repeats)

    def measure_fans(self, *, size: int, repeats: int) -> PairRates:
        """Let all hosts send to one at once, then this one to all of them, for every host in turn.

        Args:
            size: Bytes that each host sends and gets.
            repeats: As for `measure`.

        Returns:
            The rates, alternately of the fans to each host and of those from it (`fan_rates`).

        Raises:
            ChildError: A host failed or is gone.
        """
        return self._run(fans(self._world), size=size, repeats=repeats, kinds=2)

    def _run(
        self, directed: Sequence[Round], *, size: int, repeats: int, kinds: int = 1
    ) -> PairRates:
        """Run rounds of ways; rounds of several kinds alternate, and each kind has every way at most once."""
        crowded = sum(max(Counter(chain(*one)).values(), default=0) for one in directed)
        longest = ROUND + repeats * crowded * size / SLOWEST
        request = {
            "rounds": [[list(way) for way in one] for one in directed],
            "bytes": size,
            "repeats": repeats,
            "kinds": kinds,
            "teller": self.own[0],
        }
        answer = self.ask_all("measure", timeout=longest, **request)[0]
        return PairRates(
            names=self.names,
            rates=tuple(
                tuple(tuple(size / seconds for seconds in row) for row in one)
                for one in answer["seconds"]
            ),
            wrong=tuple(tuple(row) for row in answer["wrong"]),
            resent=tuple(tuple(tuple(row) for row in one) for one in answer["resent"]),
            together=tuple(
                tuple((self._world - 1) * size / seconds for seconds in row)
                for row in answer["together"]
            ),
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
        """Measure, and attribute slow pairs to hosts or links; if any is accused, measure again.

        The result is the same on all hosts.

        Args:
            rounds: As for `measure`.
            size: As for `measure`.
            repeats: As for `measure`; doubled if a host or link is accused.
            hops: The hosts' distances in links, if distant hosts are expected to be slower; the speeds of
                their ports do not count then.
            good: Hosts that are known to be good.

        Raises:
            ChildError: A host failed or is gone.
            PlanError: The plan is not valid for these hosts.
        """
        return _confirmed(
            lambda: self.measure(rounds, size=size, repeats=repeats),
            lambda rates: _guilty(rates, hops, good, self.differing_ports),
        )

    def find_guilty_hosts(self, *, size: int, repeats: int) -> tuple[PairRates, list[Accusation]]:
        """Run `measure_fans`, and name slow hosts or directions; if any is accused, run it again.

        The result is the same on all hosts.

        Args:
            size: As for `measure_fans`; less if the slowest fan would take too long.
            repeats: As for `measure_fans`; doubled if a host is accused.

        Raises:
            ChildError: A host failed or is gone.
        """
        # A lost packet of small blocks costs TCP a fifth of a second, a slow port is slow every time.
        quick = np.array(self.measure_fans(size=SIZES[0], repeats=PILOTS).together)
        slowest = min(quick[way::2].max(axis=0).min() for way in (0, 1))
        longest = int(slowest * LONGEST / (self._world - 1))
        size = min(size, max(SIZES[0], longest))
        return _confirmed(
            lambda: self.measure_fans(size=size, repeats=repeats),
            lambda rates: fan_rates(rates.rates, rates.together).guilty(self.differing_ports),
        )


def _confirmed(
    measure: Callable[[], PairRates], accuse: Callable[[PairRates], list[Accusation]]
) -> tuple[PairRates, list[Accusation]]:
    """Measure, and if any part is accused, measure again and accuse by all results together."""
    rates = measure()
    found = accuse(rates)
    if found:
        rates = rates.joined(measure())
        found = accuse(rates)
    return rates, found


def _guilty(
    rates: PairRates,
    hops: Sequence[Sequence[int]] | None,
    good: Sequence[int],
    ports: Sequence[float],
) -> list[Accusation]:
    """Accuse parts of slow ways.

    Where the hosts' `ports` differ, ways are compared whose slower port has the same usual speed.
    """
    typical = typical_rates(rates.rates)
    speeds = usual_speeds(ports)
    alike = np.minimum.outer(speeds, speeds) if hops is None and speeds else hops
    expected = None if alike is None else expected_by_distance(typical, alike)
    return attribute(typical, expected=expected, good=good)
