"""The local disk, through fio."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import pytest

from pytest_anubis import MetricFixture, NodeFixture
from suites.joint_rounds import collect_with

if TYPE_CHECKING:
    from suites.storage.fio import Direction, DiskFile, Mixed, Windows

MIB = 1 << 20
WINDOWS = {"smoke": 5, "standard": 10, "soak": 60}
"""Windows of the mixed load, each a run of fio of its own: fio has percentiles of whole runs only."""

RUN = {"smoke": 1.2, "standard": 5.0, "soak": 60.0}
"""Seconds of one run of fio. In ``smoke`` one run has all windows that are wanted: starting another one
takes as long as it measures."""

LATENCY_WINDOWS = {"smoke": 0.0, "standard": 0.25, "soak": 1.0}
"""Seconds of a window of latencies: at 16 in flight, thousands of requests of any drive without moving parts.
In the second of ``smoke`` there would be four, or too few requests in each for the slowest hundredth."""

FILES = 2000
"""Small files of a round: a tenth of a second where the file system is quick."""

LATENCIES = [f"{kind}_latency_{at}" for kind in ("read", "write") for at in ("p50", "p99", "p999")]
_ACTION = (
    "Read the drive's SMART log (wear, media errors, temperature), compare firmware and link width with "
    "a healthy node, and look for other writers and a nearly full file system"
)

SHORT_ON_HOSTS = pytest.mark.anubis(
    cost={"cpu": "3s", "accelerator": "27s"},
    profiles={"cpu": ("smoke", "standard", "soak"), "accelerator": ("standard", "soak")},
)
"""Of what ``smoke`` measures on hosts, and leaves to longer profiles where there are accelerators to test."""

LONGER = pytest.mark.anubis(profiles=("standard", "soak"))
"""Of what ``smoke`` leaves out: it writes at random places, which is the harder of both."""

pytestmark = pytest.mark.anubis(
    component="storage.disk",
    scope="node",
    resources=["disk"],
    goal="Checkpoints and training data move at the rate of the class's disks",
)


@pytest.fixture
def disk(
    anubis_node: NodeFixture, record_property: Callable[[str, object], None]
) -> Iterator[DiskFile]:
    """A file on the scratch file system, removed when the test is torn down."""
    from pytest_anubis.benchmarking.tools import find_tool, tool_version
    from suites.storage.fio import DiskFile

    program = find_tool("fio", hint="apt install fio")
    tool_version(program, pattern=r"fio-(\S+)", record_property=record_property)
    size = anubis_node.pick(smoke=128 * MIB, standard=4096 * MIB, soak=16384 * MIB)
    with DiskFile(anubis_node.scratch, size, program) as file:
        record_property("disk_io", str(file.way))
        yield file


@pytest.mark.anubis(
    cost="3s",
    version=2,  # a stall counts for as long as it lasts
    metrics=["transfer_rate"],
    question="How many bytes a second does the disk read or write in large blocks?",
    action=_ACTION,
)
@pytest.mark.parametrize("direction", ["read", pytest.param("write", marks=LONGER)])
def test_sequential_io(
    anubis_metric: MetricFixture, anubis_node: NodeFixture, disk: DiskFile, direction: Direction
) -> None:
    """Large blocks move at the disk's rate, and what was written comes back."""
    seconds = anubis_node.pick(**RUN)
    anubis_metric.collect(
        "transfer_rate",
        lambda: [rate / 1e9 for rate in disk.sequential(direction, seconds)],
        unit="GB/s",
        better="higher",
    )
    disk.write_checked()


@pytest.mark.anubis(
    cost="3s",
    version=2,  # as above
    metrics=["operation_rate"],
    question="How many blocks of 4 KiB a second does the disk read or write at random places?",
    action=_ACTION,
)
@pytest.mark.parametrize("direction", [pytest.param("read", marks=SHORT_ON_HOSTS), "write"])
def test_random_io(
    anubis_metric: MetricFixture, anubis_node: NodeFixture, disk: DiskFile, direction: Direction
) -> None:
    """Small blocks at random places move at the disk's rate, and what was written comes back.

    In the longer profiles each window's latencies are metrics as well. Sequential blocks have none: with as
    many in flight all the time their mean latency is the rate over again, and of some dozens of blocks in a
    window the slowest hundredth is none.
    """
    seconds = anubis_node.pick(**RUN)
    window = anubis_node.pick(**LATENCY_WINDOWS)
    runs: list[Windows] = []

    def rates() -> list[float]:
        runs.append(disk.random_windows(direction, seconds, window))
        return runs[-1].rates

    kept = anubis_metric.collect("operation_rate", rates, unit="IOPS", better="higher")
    counting = counted(runs, kept)
    for name in counting[0].latencies if counting else ():
        values = [value for run in counting for value in run.latencies[name]]
        anubis_metric.record(f"latency_{name}", values, unit="us", better="lower")
    disk.write_checked()


def counted(runs: Sequence[Windows], kept: Sequence[float]) -> list[Windows]:
    """Return the runs whose rates were kept, in time order: those of a lead-in were not.

    Args:
        runs: All of them.
        kept: The rates that count: those of some of the runs, one after the other.
    """
    found, left = [], list(kept)
    for run in reversed(runs):  # a lead-in comes first
        begin = len(left) - len(run.rates)
        if run.rates and begin >= 0 and left[begin:] == run.rates:
            found.append(run)
            del left[begin:]
    return found[::-1]


@pytest.mark.anubis(
    cost="45s",
    profiles=("standard", "soak"),
    metrics=["mixed_operation_rate", *LATENCIES],
    question="How many blocks of 4 KiB a second does the disk read and write at once, and how long do they "
    "take?",
    action=_ACTION
    + "; high percentiles alone: garbage collection of a full drive, a queue that it shares",
)
def test_mixed_io(anubis_metric: MetricFixture, anubis_node: NodeFixture, disk: DiskFile) -> None:
    """Seventy reads to thirty writes keep their rate and their latencies, and what was written comes back."""
    seconds = anubis_node.pick(smoke=0.5, standard=3.0, soak=10.0)

    def rate() -> tuple[float, Mixed]:
        window = disk.mixed(seconds)
        return window.rate, window

    windows = collect_with(
        anubis_metric,
        "mixed_operation_rate",
        rate,
        unit="IOPS",
        better="higher",
        rounds=anubis_node.pick(**WINDOWS),
    )
    for name in LATENCIES:
        values = [window.latencies[name.replace("latency_", "")] for window in windows]
        anubis_metric.record(
            name, values, unit="us", better="lower", rounds_of="mixed_operation_rate"
        )
    disk.write_checked()


@pytest.mark.anubis(
    component="storage.files",
    cost="30s",
    profiles=("standard", "soak"),
    metrics=["file_create_rate", "file_stat_rate", "file_unlink_rate"],
    goal="Trees of small files are made, searched and removed as quickly as on the class's nodes",
    question="How many small files a second does the file system make, look up and remove?",
    action="Compare the file system, its mount options and how full it is with a healthy node, look for a "
    "slow core, a security module or an indexer that looks at every file",
)
def test_small_files(anubis_metric: MetricFixture, anubis_node: NodeFixture) -> None:
    """Small files are made, looked up and removed at their rates, and each holds what was written to it."""
    from suites.storage.small_files import SmallFiles

    with SmallFiles(anubis_node.scratch, FILES) as files:
        for name, work in (
            ("file_create_rate", files.create),
            ("file_stat_rate", files.look),
            ("file_unlink_rate", files.unlink),
        ):
            anubis_metric.collect(name, work, unit="files/s", better="higher")
        wrong = files.wrong_files()
    assert wrong == 0, f"{wrong} of {FILES} small files do not hold what was written to them"


@pytest.mark.anubis(
    cost="30s",
    profiles=("standard", "soak"),
    metrics=["fsync_time"],
    question="How long does a write of 4 KiB take until the disk says that it is safe?",
    action=_ACTION
    + "; a drive whose write cache is off, or has lost its capacitor, takes ten times as long",
)
def test_fsync(anubis_metric: MetricFixture, anubis_node: NodeFixture) -> None:
    """A short write that is waited for is safe in time, and is what was written."""
    from suites.storage.small_files import SyncedFile

    with SyncedFile(anubis_node.scratch) as file:
        anubis_metric.measure("fsync_time", file.sync, unit="us", better="lower")
        wrong = file.wrong_blocks()
    assert wrong == 0, f"{wrong} blocks are not what was written to them last"
