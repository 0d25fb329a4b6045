"""The group of ranks that the benchmarks of collectives share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from suites.shared_ranks import rank_fixtures

if TYPE_CHECKING:
    from suites.collective.group import RankGroup


def kind() -> type[RankGroup]:
    """Return the class of the ranks."""
    from suites.collective.group import RankGroup

    return RankGroup


shared_ranks, ranks = rank_fixtures(kind)
