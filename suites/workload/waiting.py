"""Who is waited for: what ranks lose to the slowest of them, from each one's own times of the same rounds."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

MARGIN = 0.05
"""Share by which a rank's time has to exceed the median of the others' before anybody waits for it: healthy
ranks differ by 1 % or so in every round."""

CHANCE = 0.01
"""Probability with which one of several equal ranks may be named: in a sign test each one is above the median
of the others in half of the rounds."""

Rounds = Sequence[Sequence[float]]
"""Seconds of every rank's own work, round by round."""


@dataclass(frozen=True, slots=True)
class Slow:
    """A rank that the others wait for.

    Attributes:
        rank: Its number.
        excess: Median share by which its time exceeded the median of the others'.
        slow_rounds: In how many rounds it did so by more than `MARGIN`.
        rounds: Of how many.
    """

    rank: int
    excess: float
    slow_rounds: int
    rounds: int

    def text(self, name: str) -> str:
        """Return one phrase; `name` is what the rank is called."""
        return (
            f"{name} took {100 * self.excess:.0f} % longer than the others' median, in {self.slow_rounds} "
            f"of {self.rounds} rounds"
        )


def waiting_stretch(seconds: Sequence[float]) -> float:
    """Return how many times as long as the mean rank the slowest takes: 1 if all are alike."""
    return max(seconds) / statistics.fmean(seconds)


def waiting_share(seconds: Sequence[float]) -> float:
    """Return the share of a round that the mean rank spends waiting for the slowest: 0 if all are alike."""
    return 1 - 1 / waiting_stretch(seconds)


def won_back(rounds: Rounds, groups: int) -> float:
    """Return by what share more is trained if ranks wait only for those of their own group.

    Groups are of equal size and consecutive ranks, each as slow as its slowest rank of every round (the
    hybrid of Kurth et al. 2017, arXiv 1708.05256); what such a training learns is not considered.

    Raises:
        ValueError: The ranks cannot be divided into so many groups.
    """
    ranks = len(rounds[0])
    if ranks % groups:
        raise ValueError(f"{ranks} ranks are not {groups} groups of equal size")
    size = ranks // groups
    together = sum(max(row) for row in rounds)
    own = [sum(max(row[first : first + size]) for row in rounds) for first in range(0, ranks, size)]
    return statistics.fmean(together / one for one in own) - 1


def waited_for(rounds: Rounds) -> list[Slow]:
    """Return the ranks that are slower than the others' median by more than `MARGIN`, and beyond chance.

    Ranks whose work differs, such as the stages of a pipeline, must be compared stage by stage.
    """
    from scipy.stats import binom

    found = []
    for rank in range(len(rounds[0])):
        excess = [
            row[rank] / statistics.median([*row[:rank], *row[rank + 1 :]]) - 1 for row in rounds
        ]
        slow = sum(one > MARGIN for one in excess)
        if binom.sf(slow - 1, len(rounds), 0.5) * len(rounds[0]) < CHANCE:
            found.append(Slow(rank, statistics.median(excess), slow, len(rounds)))
    return found
