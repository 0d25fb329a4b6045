"""How much of a slow time, such as a step of a recorded job, each of its parts has caused.

`validator.surveying.step_shares` finds the shares; a verdict carries them as an explanation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pytest_anubis.core.field_types import AnyFloat, Count, Rare


@dataclass(frozen=True, slots=True, kw_only=True)
class LossShare:
    """The share of a loss that one factor causes; it may be below 0, or above 1 if others are below 0."""

    # How many times as long as expected; of a part, besides the factor that all parts have
    factor: AnyFloat
    share: AnyFloat  # extra time by this factor, divided by the extra time of the whole
    # Lower end of the 95 % interval of `share`; 0 where noise explains the factor as well
    low: AnyFloat
    high: AnyFloat  # upper end
    metric: Annotated[str, Rare] = ""  # the part; empty for the factor that all parts have
    # The component that such a part points at; empty if unknown
    component: Annotated[str, Rare] = ""

    @property
    def clear(self) -> bool:
        """Whether it is clear of noise."""
        return self.low > 0 or self.high < 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StepShares:
    """Which parts cause the loss of their whole; it explains, and decides nothing."""

    common: LossShare  # what the factor common to all parts causes: that of clock, power or host
    parts: tuple[LossShare, ...]  # what each part's own factor causes, the largest share first
    lost: AnyFloat  # extra time of the whole relative to the expected one
    left_out: Annotated[Count, Rare] = 0  # how many parts have no criterion

    @property
    def named(self) -> tuple[LossShare, ...]:
        """What causes the loss, the largest share first; empty if nothing is clear of noise."""
        found = [one for one in (self.common, *self.parts) if one.low > 0]
        return tuple(sorted(found, key=lambda one: -one.share))

    @property
    def rest(self) -> float:
        """The unexplained share."""
        return 1 - sum(one.share for one in (self.common, *self.parts) if one.clear)
