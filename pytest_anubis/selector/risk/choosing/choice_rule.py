"""By which rule a model is chosen from backtests, and why the others are not.

The simplest of the proportional models that no other beats in skill by more than the backtests' own error
and by more than `SKILL_GAIN`, or the mean of those that cannot be told apart; Cox-Time in their place where
it ranks better by more than `RANK_GAIN`, again beyond the error, and costs no skill. The margins are there
because the next shift of a fleet is one more draw: what was only just better over a few origins is as often
only just worse after the next one. Origins after which no model ranks better than chance say nothing: what
came then was none of what the models had learned, and which of them was least wrong is no merit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from pytest_anubis.selector.risk.choosing.risk_backtest import Score

SIMPLE = ("exponential", "weibull", "cox")
"""Proportional models, simplest first."""
SKILL_GAIN = 0.01
"""What a richer proportional model must gain in skill: on public histories less did not last a year."""
_VAGUE = (
    0.03  # standard error of a gain in skill beyond which backtests are too unlike to choose by
)
RANK_GAIN = 0.005
"""What Cox-Time must gain in concordance, for the same reason."""
CHANCE = 0.5
"""Concordance of a model that knows nothing."""


def _gain(losses: Sequence[float], better: Sequence[float], judged: int) -> tuple[float, float]:
    """Return the mean of paired differences over origins, and its standard error.

    Of one origin it is taken for as large as that of a share among so many incidents.
    """
    gains = np.asarray(losses) - np.asarray(better)
    if len(gains) == 1:
        return float(gains[0]), 0.5 / max(judged, 1) ** 0.5
    return float(gains.mean()), float(gains.std(ddof=1) / len(gains) ** 0.5)


def _skills(scores: Sequence[Score], *, levelled: bool = False) -> list[float]:
    """Return what each origin takes from skill.

    By the mean of the usual scores: that of a quiet stretch is next to nothing and would outweigh all others.
    """
    usual = float(np.mean([each.usual for each in scores]))
    return [(each.levelled if levelled else each.brier) / usual for each in scores]


def _simplest(
    scores: Mapping[str, Sequence[Score]], judged: int, *, timed: bool
) -> tuple[tuple[str, ...], str]:
    """Return the simplest proportional model that no other beats beyond margin and error, and why.

    Several where the backtests cannot tell them apart, for their error is larger than the margin: their
    mean is never far from the best of them.
    """
    losses = {name: _skills(scores[name]) for name in SIMPLE}
    best = min(SIMPLE, key=lambda name: float(np.mean(losses[name])))
    behind = {name: _gain(losses[name], losses[best], judged) for name in SIMPLE}
    count = len(losses[best])
    s = "s" if count > 1 else ""
    where = f"over {count} {f'earlier moment{s}' if timed else f'part{s} held back in turn'}"
    vague = [name for name, (gain, error) in behind.items() if gain <= error > _VAGUE]
    if vague:
        names = tuple(name for name in SIMPLE if name in (*vague, best))
        worst = max(behind[name][1] for name in vague)
        return names, (
            f"the mean of {', '.join(names)}: {where} their skills cannot be told apart (± {worst:.2f})"
        )
    for name in SIMPLE:
        gain, error = behind[name]
        if gain <= max(error, SKILL_GAIN * timed):
            break
    if name == SIMPLE[0]:
        return (name,), f"{name}: no richer one predicted better {where}"
    gain, error = _gain(losses[SIMPLE[0]], losses[name], judged)
    return (name,), (f"{name}: its skill beats {SIMPLE[0]}'s by {gain:.3f} (± {error:.3f}) {where}")


def chosen_models(
    scores: Mapping[str, Sequence[Score]], judged: Sequence[int], *, timed: bool
) -> tuple[tuple[str, ...], str]:
    """Return the models whose mean is taken, mostly one, and why.

    Args:
        scores: Model -> its score at each origin.
        judged: How many incidents came after each origin.
        timed: Whether origins are moments; otherwise they are parts held back in turn.
    """
    told = [
        place
        for place in range(len(judged))
        if max(each[place].concordance for each in scores.values()) > CHANCE
    ]
    if not told or len(told) == len(judged):
        return _choose(scores, max(judged), timed=timed)
    some = {name: [each[place] for place in told] for name, each in scores.items()}
    names, reason = _choose(some, max(judged[place] for place in told), timed=timed)
    left = len(judged) - len(told)
    return (
        names,
        f"{reason}; at {left} of {len(judged)} no model ranked better than chance: left out",
    )


def _choose(
    scores: Mapping[str, Sequence[Score]], judged: int, *, timed: bool
) -> tuple[tuple[str, ...], str]:
    names, reason = _simplest(scores, judged, timed=timed)
    if "cox-time" not in scores:
        return names, reason
    network = scores["cox-time"]
    rank, error = _gain(
        [each.concordance for each in network],
        np.mean([[each.concordance for each in scores[name]] for name in names], axis=0).tolist(),
        judged,
    )
    cost, doubt = _gain(
        _skills(network, levelled=True),
        np.mean([_skills(scores[name], levelled=True) for name in names], axis=0).tolist(),
        judged,
    )
    rivals = "they" if len(names) > 1 else names[0]
    words = (
        f"cox-time ranks nodes better than {rivals} by {rank:+.3f} (C, 0.5 is chance; ± {error:.3f})"
        if rank > 0
        else f"cox-time ranks nodes no better than {rivals} ({rank:+.3f} ± {error:.3f})"
    )
    if rank <= max(error, RANK_GAIN * timed):
        return names, f"{reason}; {words}: not enough to trust a network with the next shift"
    if cost > max(doubt, SKILL_GAIN):
        return names, f"{reason}; {words}, but its skill at equal level is {cost:.3f} worse"
    over = f"{len(network)} backtest{'s' if len(network) > 1 else ''}"
    return ("cox-time",), f"{words} over {over}, its skill at equal level {-cost:+.3f}"
