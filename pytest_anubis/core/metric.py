"""What is measured: a metric with its unit, its direction and the reason why it is measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from pytest_anubis.core.field_types import compact

Direction = Literal["higher", "lower", "equal"]
DIRECTIONS: tuple[str, ...] = get_args(Direction)


_TIMES = frozenset(
    ("ns", "us", "\N{MICRO SIGN}s", "\N{GREEK SMALL LETTER MU}s", "ms", "s", "min", "h")
)


class MetricError(ValueError):
    """A metric was declared or recorded in a way that cannot be judged."""


@compact("defaults")
@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One quantity on a ratio scale (never negative).

    Attributes:
        name: Name within its benchmark, e.g. ``gemm_rate``.
        unit: Unit of every value, e.g. ``TFLOP/s``; ``count`` for counts, ``1`` for ratios.
        better: ``higher`` or ``lower`` is better; ``equal`` for exact results such as error counts.
            There is no default on purpose: a guessed direction turns every verdict round.
        goal: What the measurement is for (the G of Goal-Question-Metric).
        question: What the metric answers (the Q).
        action: What to do when the metric is bad.

    Raises:
        MetricError: The name or the unit is empty or unprintable, or the direction is unknown.
    """

    name: str
    unit: str
    better: Direction
    goal: str = ""
    question: str = ""
    action: str = ""

    def __post_init__(self) -> None:
        if not self.name.strip() or not self.name.isprintable():
            raise MetricError(f"metric name {self.name!r} is empty or unprintable; give it a name")
        if not self.unit.strip() or not self.unit.isprintable():
            raise MetricError(
                f"metric {self.name!r} has no unit; give one such as unit='GB/s' "
                "('count' for counts, '1' for ratios)"
            )
        if self.better not in DIRECTIONS:
            raise MetricError(
                f"metric {self.name!r} has better={self.better!r}; "
                "say better='higher', better='lower' or better='equal'"
            )

    @property
    def is_duration(self) -> bool:
        """Every value is what something took: lower is better, in a unit such as ``ms`` or ``us/step``.

        Nothing takes no time, so a duration of 0 was never measured.
        """
        return self.better == "lower" and self.unit.partition("/")[0].strip() in _TIMES
