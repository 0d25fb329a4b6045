"""The group of ranks that the benchmarks of pipelines share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from suites.shared_ranks import rank_fixtures

if TYPE_CHECKING:
    from suites.pipeline.group import PipelineGroup


def kind() -> type[PipelineGroup]:
    """Return the class of the ranks."""
    from suites.pipeline.group import PipelineGroup

    return PipelineGroup


shared_ranks, ranks = rank_fixtures(kind)
