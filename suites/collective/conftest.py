"""The group of ranks that the benchmarks of collectives share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from pytest_anubis import NodeFixture

if TYPE_CHECKING:
    from suites.collective.group import RankGroup


@pytest.fixture(scope="package")
def shared_ranks() -> Iterator[RankGroup]:
    """Ranks that live until the last test of this folder; where they do not connect, each test says why."""
    from pytest_anubis.benchmarking.ranks import lasting
    from suites.collective.group import RankGroup

    with lasting(RankGroup) as group:
        yield group


@pytest.fixture
def ranks(request: pytest.FixtureRequest, anubis_node: NodeFixture) -> Iterator[RankGroup]:
    """Ranks that are connected, with nothing in their memory; after a failure fresh ones."""
    import torch

    if not torch.distributed.is_available():
        pytest.skip("not applicable: this build of torch has no distributed package")
    cards = torch.cuda.device_count()
    if cards == 1:
        pytest.skip("not applicable: fewer than two accelerators")
    from pytest_anubis.benchmarking.ranks import sharing
    from suites.collective.group import RankGroup

    shared = request.getfixturevalue("shared_ranks")
    with sharing(shared, lambda: RankGroup(cards, anubis_node.cores)) as group:
        yield group
