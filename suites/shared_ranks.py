"""What benchmarks of connected ranks share: fixtures of the ranks, and the length of a round."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, Literal

import pytest

from pytest_anubis import NodeFixture


def times_within(seconds: float, one: float) -> int:
    """Return how often to do what takes `one` second so that a round fills so many seconds."""
    return max(1, math.ceil(seconds / one))


def rank_fixtures(
    kind: Callable[[], Any], scope: Literal["package", "module"] = "package"
) -> tuple[Any, Any]:
    """Return the fixtures ``shared_ranks`` and ``ranks``.

    Args:
        kind: Returns the class of the ranks, a `NodeRanks`, importing it only then: it loads torch.
        scope: How long they live: ``package`` in a folder's ``conftest.py``, ``module`` in a test's file.
    """

    @pytest.fixture(scope=scope)
    def shared_ranks() -> Iterator[Any]:
        """Ranks that live until the last test; if they do not connect, each test says why."""
        from pytest_anubis.benchmarking.ranks import lasting

        with lasting(kind()) as group:
            yield group

    @pytest.fixture
    def ranks(request: pytest.FixtureRequest, anubis_node: NodeFixture) -> Iterator[Any]:
        """Ranks that are connected, with nothing in their memory; after a failure fresh ones."""
        import torch

        if not torch.distributed.is_available():
            pytest.skip("not applicable: this build of torch has no distributed package")
        cards = torch.cuda.device_count()
        if cards == 1:
            pytest.skip("not applicable: fewer than two accelerators")
        from pytest_anubis.benchmarking.ranks import sharing

        shared = request.getfixturevalue("shared_ranks")
        with sharing(shared, lambda: kind()(cards, anubis_node.cores)) as group:
            yield group

    return shared_ranks, ranks
