"""Who is waited for: what ranks lose to the slowest of them, from each one's own times of the same rounds."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

MARGIN = 0.05
"""Share by which a rank's time has to exceed the median of the others', in the median of all rounds: healthy
ranks differ by 1 % or so, the same ones in every round."""

CHANCE = 0.01
"""Probability with which a rank may be named although all are equal, each the slowest in as many rounds."""

Rounds = Sequence[Sequence[float]]
"""Seconds of every rank's own work, round by round."""


@dataclass(frozen=True, slots=True)
class Slow:
    """A rank that the others wait for.

    Attributes:
        rank: Its number.
        excess: Median share by which its time exceeded the median of the others'.
        slowest: In how many rounds it was the slowest of all.
        rounds: Of how many.
    """

    rank: int
    excess: float
    slowest: int
    rounds: int

    def text(self, name: str) -> str:
        """Return one phrase; `name` is what the rank is called."""
        return (
            f"{name} took {100 * self.excess:.0f} % longer than the others, and longest in {self.slowest} of "
            f"{self.rounds} rounds"
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
    """Return the ranks that are the slowest in more rounds than by `CHANCE`, and by more than `MARGIN`.

    Ranks whose work differs, such as the stages of a pipeline, must be compared stage by stage.
    """
    from scipy.stats import binom

    found, ranks = [], len(rounds[0])
    for rank in range(ranks):
        excess = statistics.median(
            row[rank] / statistics.median([*row[:rank], *row[rank + 1 :]]) - 1 for row in rounds
        )
        slowest = sum(row[rank] == max(row) for row in rounds)
        by_chance = ranks * binom.sf(slowest - 1, len(rounds), 1 / ranks)
        if by_chance < CHANCE and excess > MARGIN:
            found.append(Slow(rank, excess, slowest, len(rounds)))
    return found
