"""What somebody decides about a slower group of units."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from pytest_anubis.core.baseline import Criterion


def decided(criterion: Criterion, what: Literal["both", "faster"]) -> Criterion:
    """Return a criterion after a decision about its second population; it can be decided anew.

    Args:
        criterion: One with a second population.
        what: ``both``: the slower group is as good, so down to its own limit everything passes;
            ``faster``: it is not, so the practical threshold is that of the faster group again.
    """
    second = criterion.second
    if second is None:
        return criterion
    learned = criterion.learned if second.decided != "both" else second.before
    if what == "both":
        low = second.threshold
        return replace(
            criterion,
            alpha=low,
            learned=low if learned is None else min(low, learned),
            second=replace(second, decided="both", before=learned),
        )
    return replace(
        criterion,
        alpha=second.alpha,
        learned=learned,
        second=replace(second, decided="faster"),
    )
