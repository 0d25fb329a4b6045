"""The group of ranks that the benchmarks of traffic share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from suites.shared_ranks import rank_fixtures

if TYPE_CHECKING:
    from suites.traffic.group import TrafficGroup


def kind() -> type[TrafficGroup]:
    """Return the class of the ranks."""
    from suites.traffic.group import TrafficGroup

    return TrafficGroup


shared_ranks, ranks = rank_fixtures(kind)
