"""The group of ranks that the benchmarks of collectives share in form."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from pytest_anubis import NodeFixture

if TYPE_CHECKING:
    from suites.collective.group import RankGroup


@pytest.fixture
def ranks(anubis_node: NodeFixture) -> Iterator[RankGroup]:
    """Ranks that are connected, and live until the test is torn down."""
    import torch

    from suites.collective.group import RankGroup

    if not torch.distributed.is_available():
        pytest.skip("not applicable: this build of torch has no distributed package")
    with RankGroup(torch.cuda.device_count(), anubis_node.cores) as group:
        group.join()
        yield group
