"""Tasks (tests to be run), lanes (places to run them), and the rule which tasks may overlap."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

NODE = "node"
"""Name of the lane, and of the "device", of tests of the node as a whole."""

CPU = "cpu"
"""Device and resource of tests that compute on the host."""

HOST_TIME = "host time"
"""Resource of all accelerator tests in which the host takes the time or moves the data."""

Certificates = frozenset[frozenset[str]]
"""Pairs of benchmark ids that do not disturb each other, as measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One test as the dispatcher sees it."""

    test: str  # node id
    benchmark: str = ""  # node id without the device parameter, as in certificates
    device: str = NODE  # device that it runs on, ``node`` if it has none of its own
    exclusive: bool = True  # nothing else may run on the node meanwhile
    # Resources that it occupies besides its device, e.g. ``disk``, ``network``, ``cpu``.
    resources: frozenset[str] = frozenset()
    cost: float | None = None  # expected duration in seconds, None if unknown
    deadline: float | None = None  # seconds after which it counts as hung, None without a limit
    why: str = ""  # origin of the deadline, for people
    applies: bool = True  # this node has what it needs; else it is skipped, and not part of a plan


@dataclass(frozen=True, slots=True)
class Lane:
    """A place where tests run one after the other: one worker process at a time serves it.

    The lane is named uniquely in its run, and takes the tests of its devices.
    """

    name: str
    devices: tuple[str, ...] = ()


def make_task(
    test: str,
    *,
    benchmark: str = "",
    device: str = NODE,
    scope: str = NODE,
    resources: Collection[str] = (),
    cost: float | None = None,
    deadline: float | None = None,
    why: str = "",
    timing: str = "device",
    apart: bool = True,
    applies: bool = True,
) -> Task:
    """Make a task from a test's mark.

    A test of one device may overlap with tests of other devices. A test of the host (disk, network, CPU) may
    overlap with others if its mark names its resources. All other tests run alone: of the whole node, of
    links between devices, and without a mark. Tests of accelerators that the host times share a resource; if
    the lanes have no cores of their own, they run alone.
    """
    occupied = frozenset(resources) | ({CPU} if device == CPU else frozenset())
    on_device = scope == "device" and device != NODE
    if on_device and device != CPU and timing == "host":
        occupied |= {HOST_TIME}
        on_device = apart
    of_host = scope == NODE and device == NODE and bool(occupied)
    return Task(
        test=test,
        benchmark=benchmark or test,
        device=device,
        exclusive=not (on_device or of_host),
        resources=occupied,
        cost=cost,
        deadline=deadline,
        why=why,
        applies=applies,
    )


def may_overlap(a: Task, b: Task, certificates: Certificates) -> bool:
    """Return whether two tasks may run at the same time.

    They may not if one is exclusive, or if they share a device or a declared resource. Otherwise tests of two
    accelerators may, and tests with a part on the host need a certificate.
    """
    if a.exclusive or b.exclusive or a.resources & b.resources:
        return False
    if a.device == b.device != NODE:
        return False
    if not of_host(a) and not of_host(b):
        return True
    return frozenset((a.benchmark, b.benchmark)) in certificates


def layout(devices: Sequence[str], workers: int, *, overlapping: bool = False) -> tuple[Lane, ...]:
    """Return the lanes of a run, one per worker; the last one with work is the node's own.

    With one worker more than accelerators, every accelerator has a lane of its own. With fewer workers the
    accelerators are dealt out in turn, and a single lane takes everything. Surplus workers get lanes without
    work.

    Args:
        devices: Devices of the node in order: accelerators, or only ``cpu``.
        workers: Number of workers, at least 1.
        overlapping: On a node without accelerators, add a lane for tests of the host next to the CPU's.

    Raises:
        ValueError: `workers` is less than 1.
    """
    if workers < 1:
        raise ValueError(f"{workers} workers; at least 1 is needed")
    useful = min(workers, useful_workers(devices, overlapping=overlapping))
    if useful == 1:
        lanes = [Lane(NODE, tuple(devices))]
    else:
        groups = [tuple(devices[start :: useful - 1]) for start in range(useful - 1)]
        lanes = [Lane("+".join(group), group) for group in groups] + [Lane(NODE)]
    return (*lanes, *(Lane(f"spare{number}") for number in range(1, workers - useful + 1)))


def useful_workers(devices: Sequence[str], *, overlapping: bool = False) -> int:
    """Return the largest number of workers that have work: one per accelerator and one for the node.

    Without accelerators there is one, because CPU benchmarks must not overlap. Certificates (`overlapping`)
    allow a second one, for tests of the host.
    """
    if any(device != CPU for device in devices):
        return len(devices) + 1
    return 2 if overlapping and devices else 1


def lane_of(task: Task, lanes: Sequence[Lane]) -> str:
    """Return the name of a task's lane: that of its device, or the node's for exclusive and host tasks."""
    if not task.exclusive:
        for lane in lanes:
            if task.device in lane.devices:
                return lane.name
    return NODE


def of_host(task: Task) -> bool:
    """Return whether the task is measured on the host, where other work would disturb it."""
    return task.device in (NODE, CPU)
