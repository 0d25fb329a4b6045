"""How long and how often a metric is measured, by profile and device."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundPlan:
    """How long and how often to measure.

    Attributes:
        rounds: Values wanted; on a host, clear ones.
        round_seconds: Aimed length of one round. On a host it is short, so that the two readings around it
            tell its state.
        warmup_seconds: Longest warm-up.
        budget_seconds: No further round begins after this, once `least` are there; rests not counted.
        least: Fewest rounds, whatever they take.
        bursts: Into how many bursts the rounds of a short load are split.
        rest_seconds: Rest between two bursts.
        settle_seconds: Least time of load before the rate counts as steady, and over how long steadiness is
            looked at; 0: three batches, which is enough for caches and lazy initialisation.
        wake_seconds: Load before the first round that is no part of the measurement: sensors are read
            between warm-up and rounds, and a card that rests meanwhile begins cool.
    """

    rounds: int
    round_seconds: float
    warmup_seconds: float
    budget_seconds: float
    least: int = 5
    bursts: int = 1
    rest_seconds: float = 0.0
    settle_seconds: float = 0.0
    wake_seconds: float = 0.0

    def look(self) -> RoundPlan:
        """Return the plan of one further look at a close call."""
        return replace(
            self,
            rounds=max(1, self.rounds // LOOKS),
            least=max(1, self.least // LOOKS),
            budget_seconds=self.budget_seconds / LOOKS,
            bursts=1,
        )

    def on_accelerator(self, profile: str) -> RoundPlan:
        """Return the plan for a device that slows down under load and would clock down in a pause."""
        settle = SETTLE[profile]
        rounds, length, budget = CARD_ROUNDS[profile]
        return replace(
            self,
            rounds=rounds,
            round_seconds=length,
            budget_seconds=budget,
            warmup_seconds=settle.most,
            settle_seconds=settle.least,
            wake_seconds=settle.wake,
        )

    def short_load(self) -> RoundPlan:
        """Return the plan for the rate of a rested device: a few short rounds, with rests between them."""
        return replace(
            self,
            rounds=SHORT_ROUNDS,
            least=SHORT_ROUNDS,
            round_seconds=SHORT_ROUND,
            warmup_seconds=0.0,
            settle_seconds=0.0,
            wake_seconds=0.0,
            bursts=SHORT_BURSTS,
            rest_seconds=REST,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Settle:
    """How long an accelerator is loaded until its rate counts.

    Attributes:
        least: Seconds of load before it can count as steady.
        most: Seconds after which it is measured, steady or not.
        wake: Seconds of load between the reading of sensors and the first round.
    """

    least: float
    most: float
    wake: float


SETTLE: dict[str, Settle] = {
    "smoke": Settle(least=1.0, most=4.0, wake=0.3),
    "standard": Settle(least=3.0, most=8.0, wake=0.5),
    "soak": Settle(least=10.0, most=60.0, wake=1.0),
}
"""Under full load a card's clock falls from its boost to what its power limit allows within a second or so,
and further with the temperature for some more."""

REST = 0.3
"""Seconds of rest before each burst of short load: several times what a card's power controller averages
over, and too short for its clock to be lowered."""

SHORT_ROUND = 0.02
"""Seconds of a round of short load."""

SHORT_ROUNDS = 8
"""Rounds of short load: few enough that no search for changes is made in them, as they may well fall."""

SHORT_BURSTS = 2
"""Bursts of short load: 80 ms each, over before power is limited."""

LOOKS = 5
"""A further look takes this part of the rounds of the first one."""

PLANS: dict[str, RoundPlan] = {
    "smoke": RoundPlan(rounds=16, round_seconds=0.02, warmup_seconds=0.3, budget_seconds=1.0),
    "standard": RoundPlan(rounds=200, round_seconds=0.02, warmup_seconds=5.0, budget_seconds=30.0),
    "soak": RoundPlan(rounds=6000, round_seconds=0.02, warmup_seconds=30.0, budget_seconds=3600.0),
}
"""On a host, by profile. What differs from run to run is the moment, so ``smoke`` has fewer values than a
search for changes within a run needs."""

CARD_ROUNDS: dict[str, tuple[int, float, float]] = {
    "smoke": (30, 0.02, 2.0),
    "standard": (60, 0.1, 8.0),
    "soak": (600, 1.0, 3600.0),
}
"""Rounds on an accelerator, the seconds of one and of all, by profile: a card's rate is steady once it has
settled, so that a tenth of a second repeats as well as more."""

LENGTHS: dict[str, int] = {"standard": 2}
"""Version of the lengths above on accelerators, by profile, where it is not the first: a card that works for
less long is less hot, and its values are no more those of before. Counts up with every change of them."""


def lengths_version(profile: str, kind: str) -> int:
    """Return the version of a profile's lengths on a kind of device: ``cpu``, or any other."""
    return 1 if kind == "cpu" else LENGTHS.get(profile, 1)


PROFILE_FACTOR: dict[str, dict[str, float]] = {
    "cpu": {"smoke": 1.0, "standard": 11.0, "soak": 1800.0},
    "accelerator": {"smoke": 1.0, "standard": 4.0, "soak": 1800.0},
}
"""How much longer than in ``smoke`` a benchmark takes. On a host that settles within half of its longest
warm-up: .5 to 1.2 s in ``smoke`` and 6.5 to 18 in ``standard``, which is fourteen times, and less of what is
made and checked in both. On an accelerator, where ``smoke`` settles for 1 to 4 s and measures for 0.6 s,
``standard`` settles for 3 to 8 s and measures 6."""
