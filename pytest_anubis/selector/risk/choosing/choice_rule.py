"""The rule by which a risk model is chosen from its scores in backtests.

It takes the simplest proportional-hazards model that no other beats in skill (the Brier skill score) by more
than the backtests' error and by more than `SKILL_GAIN`, or the mean of those that the backtests cannot
distinguish. Cox-Time replaces it if it ranks nodes better by more than `RANK_GAIN`, again beyond the error,
and costs no skill. The margins are there because the fleet's next change is one more draw: a model that was
only just better at a few origins is as often only just worse at the next one. Origins after which no model
ranks better than chance are left out: nothing that came then was like what the models had learned.
`model_choice` uses it; `backtest_record` uses the margin.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from pytest_anubis.selector.risk.choosing.risk_backtest import Score

SIMPLE = ("exponential", "weibull", "cox")
"""Proportional models, simplest first."""
SKILL_GAIN = 0.01
"""What a richer proportional model must gain in skill, judged at several moments of a history: on public
histories a smaller gain was gone within a year."""
_MAX_ERROR = 0.03
"""Standard error of a gain in skill beyond which the backtests differ too much to choose by."""
RANK_GAIN = 0.005
"""What Cox-Time must gain in concordance, for the same reason."""
CHANCE = 0.5
"""Concordance of a model that knows nothing."""


def _excess(one: Sequence[float], other: Sequence[float], judged: int) -> tuple[float, float]:
    """Return the mean of `one` less `other` over origins, and its standard error.

    With a single origin, the error is that of a share among so many judged incidents.
    """
    more = np.asarray(one) - np.asarray(other)
    if len(more) == 1:
        return float(more[0]), 0.5 / max(judged, 1) ** 0.5
    return float(more.mean()), float(more.std(ddof=1) / len(more) ** 0.5)


def _skill_losses(scores: Sequence[Score], *, levelled: bool = False) -> list[float]:
    """Return what each origin subtracts from skill.

    It is relative to the mean of the usual scores, because that of a quiet stretch is nearly 0 and would
    outweigh all others.
    """
    usual = float(np.mean([each.usual for each in scores]))
    return [(each.levelled if levelled else each.brier) / usual for each in scores]


def _simplest(
    scores: Mapping[str, Sequence[Score]], judged: int, *, timed: bool
) -> tuple[tuple[str, ...], str]:
    """Return the simplest proportional model that no other beats beyond margin and error, and why.

    Several are returned if the error is above `_MAX_ERROR`: their mean is never far from the best.
    """
    losses = {name: _skill_losses(scores[name]) for name in SIMPLE}
    best = min(SIMPLE, key=lambda name: float(np.mean(losses[name])))
    behind = {name: _excess(losses[name], losses[best], judged) for name in SIMPLE}
    count = len(losses[best])
    s = "s" if count > 1 else ""
    where = f"over {count} {f'earlier moment{s}' if timed else f'part{s} held back in turn'}"
    unclear = [name for name, (gain, error) in behind.items() if gain <= error > _MAX_ERROR]
    if unclear:
        names = tuple(name for name in SIMPLE if name in (*unclear, best))
        worst = max(behind[name][1] for name in unclear)
        return names, (
            f"the mean of {', '.join(names)}: {where} their skills cannot be told apart (± {worst:.2f})"
        )
    near = (
        name
        for name, (gain, error) in behind.items()
        if gain <= max(error, SKILL_GAIN * timed)  # at the latest the best one, with a gain of 0
    )
    name = next(near, SIMPLE[-1])
    if name == SIMPLE[0]:
        return (name,), f"{name}: no richer one predicted better {where}"
    gain, error = _excess(losses[SIMPLE[0]], losses[name], judged)
    return (name,), (f"{name}: its skill beats {SIMPLE[0]}'s by {gain:.3f} (± {error:.3f}) {where}")


def chosen_models(
    scores: Mapping[str, Sequence[Score]], judged: Sequence[int], *, timed: bool
) -> tuple[tuple[str, ...], str]:
    """Return the models whose mean is taken, usually one, and why.

    `scores` has each model's score at each origin, `judged` the incidents after each origin; origins are
    moments if `timed`, else folds.
    """
    informative = [
        place
        for place in range(len(judged))
        if max(each[place].concordance for each in scores.values()) > CHANCE
    ]
    if not informative or len(informative) == len(judged):
        return _choose(scores, max(judged), timed=timed)
    some = {name: [each[place] for place in informative] for name, each in scores.items()}
    names, reason = _choose(some, max(judged[place] for place in informative), timed=timed)
    left = len(judged) - len(informative)
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
    rank, rank_error = _excess(
        [each.concordance for each in network],
        np.mean([[each.concordance for each in scores[name]] for name in names], axis=0).tolist(),
        judged,
    )
    cost, cost_error = _excess(
        _skill_losses(network, levelled=True),
        np.mean([_skill_losses(scores[name], levelled=True) for name in names], axis=0).tolist(),
        judged,
    )
    rivals = "they" if len(names) > 1 else names[0]
    ranks = (
        f"cox-time ranks nodes better than {rivals} by {rank:+.3f} (C, 0.5 is chance; ± {rank_error:.3f})"
        if rank > 0
        else f"cox-time ranks nodes no better than {rivals} ({rank:+.3f} ± {rank_error:.3f})"
    )
    if rank <= max(rank_error, RANK_GAIN * timed):
        return names, f"{reason}; {ranks}: not enough to trust a network with the next shift"
    if cost > max(cost_error, SKILL_GAIN):
        return names, f"{reason}; {ranks}, but its skill at equal level is {cost:.3f} worse"
    over = f"{len(network)} backtest{'s' if len(network) > 1 else ''}"
    return ("cox-time",), f"{ranks} over {over}, its skill at equal level {-cost:+.3f}"
