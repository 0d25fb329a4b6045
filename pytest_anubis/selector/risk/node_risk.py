"""The risk of one node, as every model and every choice knows it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRisk:
    """How likely a node is to have an incident.

    Attributes:
        node: Its name.
        probability: Probability of an incident within the horizon, 0 to 1 (1 excluded).
        low: Lower end of its 95 % interval; None if unknown.
        high: Upper end.
    """

    node: str
    probability: float
    low: float | None = None
    high: float | None = None
