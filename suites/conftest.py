"""Fixtures that several benchmarks share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pytest_anubis import NodeFixture


@pytest.fixture
def torch_threads(anubis_node: NodeFixture) -> Iterator[int]:
    """Let torch use exactly the CPUs that this test may use, and put its own choice back.

    Beside an accelerator these are its lane's, near the card; several lanes have none in common. Torch takes
    its default from the environment; a node where somebody exported a thread count would otherwise look like
    slow hardware.
    """
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(anubis_node.cores)
    yield anubis_node.cores
    torch.set_num_threads(before)
