"""What is to be run and where it may run: tasks, lanes, and which tasks may run at the same time."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

NODE = "node"
"""Name of the lane, and of the "device", of everything that concerns the node as a whole."""

CPU = "cpu"
"""Device and resource of everything that computes on the host."""

HOST_TIME = "host time"
"""Resource of every test of an accelerator that the host times, or whose data it moves: one at a time."""

Certificates = frozenset[frozenset[str]]
"""Pairs of benchmark ids of which a measurement says that they do not disturb each other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One test as far as its place and time matter.

    Attributes:
        test: Node id.
        benchmark: Node id without the device parameter; certificates speak of these.
        device: Device that it runs on, ``node`` when it has none of its own.
        exclusive: Nothing else may run on the node meanwhile.
        resources: What it occupies besides its device, e.g. ``disk``, ``network``, ``cpu``.
        cost: Expected duration in seconds, None when nothing is known.
        deadline: Seconds after which it is taken to hang, None without a limit.
        why: Where the deadline comes from, for people.
        applies: This node has what it needs; else it is skipped, and no part of a plan.
    """

    test: str
    benchmark: str = ""
    device: str = NODE
    exclusive: bool = True
    resources: frozenset[str] = frozenset()
    cost: float | None = None
    deadline: float | None = None
    why: str = ""
    applies: bool = True


@dataclass(frozen=True, slots=True)
class Lane:
    """A place where tests run one after the other: one worker process at a time serves it.

    Attributes:
        name: Unique among the lanes of a run.
        devices: Devices whose tests run here.
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
    """Make a task of what a test's mark says.

    A test of one device may run beside tests of other devices. A test of the host (disk, network, CPU)
    may run beside others if it says what it occupies; whole-node tests, tests of links between devices
    and tests that say nothing about themselves run alone. Tests of accelerators that are timed on the host
    share a resource; where lanes have no cores of their own nothing else may run beside them at all.

    Args:
        test: Node id.
        benchmark: Node id without the device parameter; default `test`.
        device: Device parameter, ``node`` without one.
        scope: The mark's scope: ``device``, ``pair`` or ``node``.
        resources: The mark's resources.
        cost: Expected duration in seconds.
        deadline: Seconds until it is taken to hang.
        why: Where the deadline comes from.
        timing: The mark's timing: ``device`` or ``host``.
        apart: Every lane of accelerators has cores of its own.
        applies: This node has what it needs.
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
    """True when two tasks may run at the same time.

    Never when one is exclusive, when they share a device or a declared resource. Tests of two different
    accelerators may; as soon as the host takes part, a certificate must say that they do not disturb
    each other.
    """
    if a.exclusive or b.exclusive or a.resources & b.resources:
        return False
    if a.device == b.device != NODE:
        return False
    if not of_host(a) and not of_host(b):
        return True
    return frozenset((a.benchmark, b.benchmark)) in certificates


def layout(devices: Sequence[str], workers: int, *, overlapping: bool = False) -> tuple[Lane, ...]:
    """Return the lanes of a run, one per worker; the last that has work is the node's own.

    With a worker for every accelerator and one more, every accelerator has a lane of its own; with fewer
    the accelerators are dealt out in turn. A single lane takes everything. Workers beyond what is of use
    get lanes without work.

    Args:
        devices: Devices of the node in order: accelerators, or only ``cpu``.
        workers: How many workers there are, at least 1.
        overlapping: On a node without accelerators, give the host's tests a lane next to the CPU's.

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
    """Return the largest number of workers that a node with these devices has work for.

    One per accelerator and one for the node. Without accelerators one: CPU benchmarks must not run beside
    each other; with certificates (`overlapping`) one more, for what they allow next to the CPU's.
    """
    if any(device != CPU for device in devices):
        return len(devices) + 1
    return 2 if overlapping and devices else 1


def lane_of(task: Task, lanes: Sequence[Lane]) -> str:
    """Return the name of the lane that a task runs in.

    Exclusive tasks and those of the host run in the node's lane, and so do tasks of a device that no lane
    knows.
    """
    if not task.exclusive:
        for lane in lanes:
            if task.device in lane.devices:
                return lane.name
    return NODE


def of_host(task: Task) -> bool:
    """True when the task is measured on the host, so that other work there would disturb it."""
    return task.device in (NODE, CPU)
