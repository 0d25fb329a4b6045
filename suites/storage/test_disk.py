"""The local disk, through fio."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from pytest_anubis import MetricFixture, NodeFixture

if TYPE_CHECKING:
    from suites.storage.fio import Direction, DiskFile

MIB = 1 << 20
_GOAL = "Checkpoints and training data move at the rate of the class's disks"
_ACTION = (
    "Read the drive's SMART log (wear, media errors, temperature), compare firmware and link width with "
    "a healthy node, and look for other writers and a nearly full file system"
)


@pytest.fixture
def disk(
    anubis_node: NodeFixture, record_property: Callable[[str, object], None]
) -> Iterator[DiskFile]:
    """A file on the scratch file system, removed when the test is torn down."""
    from suites.storage.fio import DiskFile, find_fio

    program = find_fio()
    if program is None:
        pytest.skip("fio not found: install it, e.g. apt install fio")
    size = anubis_node.pick(smoke=128 * MIB, standard=4096 * MIB, soak=16384 * MIB)
    with DiskFile(anubis_node.scratch, size, program) as file:
        record_property("disk_io", str(file.way))
        yield file


@pytest.mark.anubis(
    component="storage.disk",
    scope="node",
    cost="3s",
    metrics=["transfer_rate"],
    resources=["disk"],
    goal=_GOAL,
    question="How many bytes a second does the disk read or write in large blocks?",
    action=_ACTION,
)
@pytest.mark.parametrize("direction", ["read", "write"])
def test_sequential_io(
    anubis_metric: MetricFixture, anubis_node: NodeFixture, disk: DiskFile, direction: Direction
) -> None:
    """Large blocks move at the disk's rate, and what was written comes back."""
    seconds = anubis_node.pick(smoke=0.5, standard=5.0, soak=60.0)
    anubis_metric.collect(
        "transfer_rate",
        lambda: [rate / 1e9 for rate in disk.sequential(direction, seconds)],
        unit="GB/s",
        better="higher",
    )
    disk.write_checked()


@pytest.mark.anubis(
    component="storage.disk",
    scope="node",
    cost="3s",
    metrics=["operation_rate"],
    resources=["disk"],
    goal=_GOAL,
    question="How many blocks of 4 KiB a second does the disk read or write at random places?",
    action=_ACTION,
)
@pytest.mark.parametrize("direction", ["read", "write"])
def test_random_io(
    anubis_metric: MetricFixture, anubis_node: NodeFixture, disk: DiskFile, direction: Direction
) -> None:
    """Small blocks at random places move at the disk's rate, and what was written comes back."""
    seconds = anubis_node.pick(smoke=0.5, standard=5.0, soak=60.0)
    anubis_metric.collect(
        "operation_rate",
        lambda: disk.random(direction, seconds),
        unit="IOPS",
        better="higher",
    )
    disk.write_checked()
