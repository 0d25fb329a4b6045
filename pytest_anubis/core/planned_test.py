"""What a run means to execute, and to which end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from pytest_anubis.core.field_types import NotNegative

Purpose = Literal["measure", "learn", "acceptance"]
PURPOSES: tuple[str, ...] = get_args(Purpose)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedTest:
    """One test that the run meant to execute.

    Attributes:
        test: Node id.
        benchmark: Node id without the device parameter.
        component: Component of the mark, empty without one.
        device: Device that the test is bound to, empty if none.
        metrics: Names of the metrics that the mark declares.
        cost: Expected duration in seconds, None when nothing is known.
    """

    test: str
    benchmark: str = ""
    component: str = ""
    device: str = ""
    metrics: tuple[str, ...] = ()
    cost: NotNegative | None = None
