"""Plans for how long and how often to measure a metric, by profile and device."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundPlan:
    """Number and lengths of the rounds of one measurement."""

    rounds: int  # number of values wanted; on a host, only clear values count
    # Target length of one round. It is short on a host, so that the two readings around a round
    # describe it.
    round_seconds: float
    warmup_seconds: float  # maximum warm-up
    # Time, without rests, after which no further round begins once `min_rounds` are taken
    budget_seconds: float
    min_rounds: int = 5  # minimum number of rounds, however long they take
    bursts: int = 1  # number of bursts into which the rounds of a short load are split
    rest_seconds: float = 0.0  # rest between two bursts
    # Minimum load before the rate counts as steady, and the time over which it must be steady; 0:
    # three batches, which is enough for caches and lazy initialisation
    settle_seconds: float = 0.0
    # Load before the first round. Sensors are read between warm-up and rounds, and the card cools
    # down meanwhile.
    wake_seconds: float = 0.0

    def look(self) -> RoundPlan:
        """Return the plan for one further look at a close call."""
        return replace(
            self,
            rounds=max(1, self.rounds // LOOKS),
            min_rounds=max(1, self.min_rounds // LOOKS),
            budget_seconds=self.budget_seconds / LOOKS,
            bursts=1,
        )

    def on_accelerator(self, profile: str) -> RoundPlan:
        """Return the plan for a device that slows down under load and lowers its clock when idle."""
        settle = SETTLE[profile]
        rounds, length, budget = CARD_ROUNDS[profile]
        return replace(
            self,
            rounds=rounds,
            round_seconds=length,
            budget_seconds=budget,
            warmup_seconds=settle.max_seconds,
            settle_seconds=settle.min_seconds,
            wake_seconds=settle.wake_seconds,
        )

    def short_load(self) -> RoundPlan:
        """Return the plan for a rested device: bursts of a few short rounds with rests between them."""
        return replace(
            self,
            rounds=SHORT_ROUNDS,
            min_rounds=SHORT_ROUNDS,
            round_seconds=SHORT_ROUND,
            warmup_seconds=0.0,
            settle_seconds=0.0,
            wake_seconds=0.0,
            bursts=SHORT_BURSTS,
            rest_seconds=REST,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Settle:
    """Load on an accelerator before its rate is measured."""

    min_seconds: float  # load before the rate can count as steady
    max_seconds: float  # load after which the rate is measured, steady or not
    wake_seconds: float  # load between the reading of the sensors and the first round


SETTLE: dict[str, Settle] = {
    "smoke": Settle(min_seconds=1.0, max_seconds=4.0, wake_seconds=0.3),
    "standard": Settle(min_seconds=3.0, max_seconds=8.0, wake_seconds=0.5),
    "soak": Settle(min_seconds=10.0, max_seconds=60.0, wake_seconds=1.0),
}
"""Load by profile. Under full load a card's clock falls within about a second from its boost to what the
power limit allows, and then falls further for some seconds as the card heats up."""

REST = 0.3
"""Seconds of rest before each burst of short load: several times the period over which a card's power
controller averages, and too short for the card to lower its clock."""

SHORT_ROUND = 0.02
"""Seconds of one round of short load."""

SHORT_ROUNDS = 8
"""Rounds of short load: too few for the search for changes, since these rates may well fall."""

SHORT_BURSTS = 2
"""Bursts of short load: each takes 80 ms and ends before the card limits its power."""

LOOKS = 5
"""A further look takes one `LOOKS`-th of the rounds of the first look."""

PLANS: dict[str, RoundPlan] = {
    "smoke": RoundPlan(rounds=16, round_seconds=0.02, warmup_seconds=0.3, budget_seconds=1.0),
    "standard": RoundPlan(rounds=200, round_seconds=0.02, warmup_seconds=5.0, budget_seconds=30.0),
    "soak": RoundPlan(rounds=6000, round_seconds=0.02, warmup_seconds=30.0, budget_seconds=3600.0),
}
"""Plans for a host, by profile. Values differ more between runs than within one, so ``smoke`` takes fewer
values than the search for changes within a run needs."""

CARD_ROUNDS: dict[str, tuple[int, float, float]] = {
    "smoke": (30, 0.02, 2.0),
    "standard": (60, 0.1, 8.0),
    "soak": (600, 1.0, 3600.0),
}
"""By profile: rounds on an accelerator, seconds of one round, and seconds of all. The rate of a settled card
is steady, so rounds of a tenth of a second repeat as well as longer ones."""

LENGTHS: dict[str, int] = {"standard": 2}
"""Version of the lengths above on accelerators, by profile, where it is not 1. Increase it with every change:
a card that works for a shorter time stays cooler, so its values are not comparable with the earlier ones."""


def lengths_version(profile: str, kind: str) -> int:
    """Return the version of a profile's lengths on a kind of device, such as ``cpu`` or ``cuda``."""
    return 1 if kind == "cpu" else LENGTHS.get(profile, 1)


PROFILE_FACTOR: dict[str, dict[str, float]] = {
    "cpu": {"smoke": 1.0, "standard": 11.0, "soak": 1800.0},
    "accelerator": {"smoke": 1.0, "standard": 4.0, "soak": 1800.0},
}
"""Duration of a benchmark relative to ``smoke``. A host that settles within half of its maximum warm-up
takes 0.5 to 1.2 s in ``smoke`` and 6.5 to 18 s in ``standard``: 14 times as long, but 11 times
with set-up and checks, which take the same time in both. An accelerator settles for 1 to 4 s and measures for
0.6 s in ``smoke``; in ``standard`` it settles for 3 to 8 s and measures for 6 s."""
