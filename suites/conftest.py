"""Fixtures that several benchmarks share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pytest_anubis import NodeFixture
from pytest_anubis.benchmarking.precision import drop_tf32_variables, single_precision

_DROPPED = drop_tf32_variables()  # now: before any test of this process loads a CUDA library


def pytest_report_header() -> str | None:
    """Say what of the environment the benchmarks do not obey."""
    if not _DROPPED:
        return None
    return f"suites: {', '.join(_DROPPED)} ignored: float32 is measured in single precision"


@pytest.fixture
def torch_settings(anubis_node: NodeFixture) -> Iterator[int]:
    """Let torch use exactly the CPUs that this test may use and true single precision; put both back.

    Beside an accelerator these are its lane's, near the card; several lanes have none in common. Torch takes
    its defaults from the environment; a node where somebody exported a thread count or switched TF32 on would
    otherwise look like slow, or wrong, hardware.
    """
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(anubis_node.cores)
    with single_precision():
        yield anubis_node.cores
    torch.set_num_threads(before)
