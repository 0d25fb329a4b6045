"""What a part of the hardware could deliver at best by its specification, and what share a value reaches.

`hardware.nominal_rates` has the rates of links and ports; a benchmark may state any other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Annotated

from pytest_anubis.core.field_types import Range, compact

ATTAINED = 0.6
"""Share of a nominal rate below which a value is far below it. Healthy links carry .8 to .95 of theirs after
headers; one at half its width or rate carries .4 to .48."""


@compact("defaults")
@dataclass(frozen=True, slots=True, kw_only=True)
class NominalRate:
    """A rate by specification, or for a metric that is better lower a least time.

    Raises:
        ValueError: The value is no finite number above 0, or `of` is empty or unprintable.
    """

    # In the unit of the metric that has it; bytes per second from `hardware.nominal_rates`
    value: Annotated[float, Range(above=0.0, finite=True)]
    of: str  # the part and its link, such as ``PCIe 5.0 x16``

    def __post_init__(self) -> None:
        if not 0 < self.value < math.inf:
            raise ValueError(f"nominal={self.value}: it has to be a finite number above 0")
        if not self.of.strip() or not self.of.isprintable():
            raise ValueError("say what is rated so, such as nominal_of='PCIe 5.0 x16'")

    @property
    def both_ways(self) -> NominalRate:
        """What both ways of a link carry together, if each is independent of the other."""
        return replace(self, value=2 * self.value, of=f"{self.of} both ways")

    def attained(self, value: float | None, better: str) -> float | None:
        """Return which share of it a value in the metric's unit reaches; None without a value above 0."""
        if value is None or not value > 0:
            return None
        return self.value / value if better == "lower" else value / self.value
