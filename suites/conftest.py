"""Fixtures that several benchmarks share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pytest_anubis import NodeFixture
from pytest_anubis.benchmarking.precision import drop_tf32_variables, single_precision
from pytest_anubis.benchmarking.ranks import drop_nccl_choices

_DROPPED = drop_tf32_variables()  # now: before any test of this process loads a CUDA library
_CHOICES = drop_nccl_choices()


def pytest_itemcollected(item: pytest.Item) -> None:
    """Let a library's warning be a warning: settings that turn warnings into errors are for other tests."""
    item.add_marker(pytest.mark.filterwarnings("default"))


def pytest_report_header() -> list[str]:
    """Say what of the environment the benchmarks do not obey."""
    why = [
        (_DROPPED, "float32 is measured in single precision"),
        (_CHOICES, "links are measured by the way that the library chooses"),
    ]
    return [f"suites: {', '.join(names)} ignored: {what}" for names, what in why if names]


@pytest.fixture
def torch_settings(anubis_node: NodeFixture) -> Iterator[int]:
    """Let torch use exactly the CPUs that this test may use and true single precision; put both back.

    With an accelerator these are its lane's, near the card; several lanes have none in common. Torch takes
    its defaults from the environment; a node where somebody exported a thread count or switched TF32 on would
    otherwise look like slow, or wrong, hardware.
    """
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(anubis_node.cores)
    with single_precision():
        yield anubis_node.cores
    torch.set_num_threads(before)
