"""Tests of accelerators timed by the host never overlap; lanes that share cores run them alone."""

from __future__ import annotations

from pytest_anubis.distributed.dispatch.prediction import ScheduledTest, plan
from pytest_anubis.distributed.dispatch.tasks import (
    CPU,
    NODE,
    Task,
    lane_of,
    layout,
    make_task,
    may_overlap,
)

EIGHT = tuple(f"cuda:{number}" for number in range(8))


def tasks_of(timing: str, *, apart: bool = True, devices: tuple[str, ...] = EIGHT) -> list[Task]:
    return [
        make_task(f"{timing}[{one}]", device=one, scope="device", cost=1.0, timing=timing, apart=apart)
        for one in devices
    ]  # fmt: skip


def overlaps(slots: list[ScheduledTest]) -> int:
    return sum(
        a.start < b.end and b.start < a.end
        for number, a in enumerate(slots)
        for b in slots[:number]
    )


def test_two_tests_that_the_host_times_never_overlap() -> None:
    first, second = tasks_of("host", devices=EIGHT[:2])
    on_device = tasks_of("device", devices=EIGHT[1:2])[0]
    assert not may_overlap(first, second, frozenset())
    assert may_overlap(first, on_device, frozenset())
    predicted = plan([*tasks_of("device"), *tasks_of("host")], layout(EIGHT, 9))
    host = [slot for slot in predicted.slots if slot.test.startswith("host")]
    device = [slot for slot in predicted.slots if slot.test.startswith("device")]
    assert overlaps(host) == 0
    assert overlaps(device) > 0
    assert not any(slot.alone for slot in predicted.slots)


def test_lanes_use_the_time_of_other_host_tests() -> None:
    tasks = [*tasks_of("host"), *tasks_of("graph")]
    for number in range(12):
        tasks += tasks_of(f"device {number}")
    predicted = plan(tasks, layout(EIGHT, 9))
    host = [slot for slot in predicted.slots if slot.test.startswith("host")]
    assert overlaps(host) == 0
    assert predicted.wall == 14.0  # what each lane has to do: none waits for the others
    order = [slot.test for slot in predicted.slots if slot.lane == "cuda:5" and slot not in host]
    assert order == [task.test for task in tasks[8:] if task.device == "cuda:5"]


def test_lanes_sharing_cores_run_host_tests_alone() -> None:
    lanes = layout(EIGHT, 9)
    shared = tasks_of("host", apart=False)
    assert all(task.exclusive and lane_of(task, lanes) == NODE for task in shared)
    predicted = plan([*tasks_of("device", apart=False), *shared], lanes)
    host = [slot for slot in predicted.slots if slot.test.startswith("host")]
    assert all(slot.alone for slot in host)
    assert min(slot.start for slot in host) >= 1.0
    assert overlaps(host) == 0


def test_on_the_cpu_nothing_is_different() -> None:
    for apart in (True, False):
        assert tasks_of("host", apart=apart, devices=(CPU,))[0].resources == {CPU}
        assert not tasks_of("host", apart=apart, devices=(CPU,))[0].exclusive
