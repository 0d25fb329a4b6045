"""The group of ranks that the benchmarks of traffic share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from pytest_anubis import NodeFixture

if TYPE_CHECKING:
    from suites.traffic.group import TrafficGroup


@pytest.fixture(scope="package")
def shared_ranks() -> Iterator[TrafficGroup]:
    """Ranks that live until the last test of this folder; where they do not connect, each test says why."""
    from pytest_anubis.benchmarking.ranks import lasting
    from suites.traffic.group import TrafficGroup

    with lasting(TrafficGroup) as group:
        yield group


@pytest.fixture
def ranks(request: pytest.FixtureRequest, anubis_node: NodeFixture) -> Iterator[TrafficGroup]:
    """Ranks that are connected, with nothing in their memory; after a failure fresh ones."""
    import torch

    if not torch.distributed.is_available():
        pytest.skip("not applicable: this build of torch has no distributed package")
    cards = torch.cuda.device_count()
    if cards == 1:
        pytest.skip("not applicable: fewer than two accelerators")
    from pytest_anubis.benchmarking.ranks import sharing
    from suites.traffic.group import TrafficGroup

    shared = request.getfixturevalue("shared_ranks")
    with sharing(shared, lambda: TrafficGroup(cards, anubis_node.cores)) as group:
        yield group
