"""The benchmarks of collectives reduce what they say, show a slow link, and notice a wrong bit."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import pytest
import torch

from pytest_anubis.benchmarking.children import ChildError
from pytest_anubis.benchmarking.ranks import (
    ROUND,
    SETTLE,
    START,
    TIMEOUT,
    drop_nccl_choices,
    sharing,
)
from pytest_anubis.benchmarking.shaped_link import INTERFACE, NotPossible, ShapedLink
from pytest_anubis.benchmarking.verification import flip_bit
from pytest_anubis.distributed.containment.watchdog import deadline_of
from pytest_anubis.durations import seconds
from pytest_anubis.hardware.load.disturbance import HostWatch
from suites import conftest as suites_conftest
from suites.collective.group import Overlap, RankGroup
from suites.collective.operations import BUS, Span, spans
from suites.collective.rank import Rank
from tests import forked

pytestmark = pytest.mark.usefixtures("quick_processes")

Costs = Callable[..., list[float]]
MIB = 1 << 20
FAULT = "ANUBIS_TEST_FAULT"


@pytest.fixture(scope="module")
def healthy() -> Iterator[RankGroup]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subprocess, "Popen", forked.Quick)  # as ``quick_processes`` does for one test
        group = RankGroup(0, 2)
    with group:
        yield group


def test_sum_is_right_alone_and_beside_a_product(healthy: RankGroup) -> None:
    healthy.prepare(MIB + 12)
    assert healthy.wrong_elements() == 0
    healthy.rest()
    healthy.prepare(MIB, products=1, order=64, dtype="float32")
    assert healthy.wrong_elements() == 0


@pytest.mark.parametrize("element", [0, 1021, 2042])
def test_sign_of_any_element_is_noticed(element: int) -> None:
    def turn(buffer: torch.Tensor, _in_background: bool) -> None:
        flip_bit(buffer, element, 31)

    rank = Rank(0, 1, torch.device("cpu"), reduce=turn)
    rank.prepare({"bytes": 1 << 14})
    assert rank.check({})["wrong"] == 1


class Shared:
    """Ranks of which only their life is played."""

    def __init__(self) -> None:
        self.failed, self.processes = False, [SimpleNamespace(gone=False, late=False)]
        self.seen: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.seen.append("ended")

    def join(self) -> None:
        self.seen.append("joined")

    def rest(self) -> None:
        self.seen.append("rested")


def test_tests_share_ranks_until_a_request_to_them_has_failed() -> None:
    shared: Any = Shared()
    with sharing(shared, Shared) as given:
        assert given is shared
    shared.processes[0].gone = True
    with sharing(shared, Shared) as given:
        assert given is not shared
        assert given.seen == ["joined"]
    assert given.seen == ["joined", "ended"]
    assert shared.seen == ["rested"]


def test_a_failed_request_is_remembered(healthy: RankGroup) -> None:
    assert not healthy.failed
    with pytest.raises(ChildError):
        healthy.ask_all("what nobody knows")
    assert healthy.failed


@pytest.mark.alone
def test_more_bytes_and_more_steps_cost_more(healthy: RankGroup, costs: Costs) -> None:
    healthy.prepare(4 * MIB)
    least = costs(*(partial(healthy.bus_bandwidth, 4 * MIB, times) for times in (2, 16)), rounds=5)
    assert least[1] > 2 * least[0]
    healthy.prepare(MIB, products=2, order=256, dtype="float32")
    least = costs(*(partial(healthy.overlap, times) for times in (1, 8)), rounds=5)
    assert least[1] > 2 * least[0]


def test_operation_is_right_on_every_rank_time_after_time(healthy: RankGroup) -> None:
    for operation in BUS:
        assert healthy.prepare_exchange(operation, MIB + 12) == MIB + 8
        assert healthy.wrong_in_exchange() == 0
        assert healthy.exchange(2) > 0
        assert healthy.wrong_in_exchange() == 0  # nothing of the first time was left in the way


@pytest.mark.parametrize("world", [2, 3, 8])
@pytest.mark.parametrize("operation", list(BUS))
def test_every_rank_is_due_what_the_others_send(operation: str, world: int) -> None:
    part = 6
    sent, due = zip(*(spans(operation, rank, world, part) for rank in range(world)), strict=True)

    def laid_out(of: list[Span]) -> dict[int, tuple[int, int]]:
        return {
            span.begin + step: (span.number + step, span.factor)
            for span in of
            for step in range(span.length)
        }

    leaves, arrives = [laid_out(of) for of in sent], [laid_out(of) for of in due]
    everything = world * part
    for rank, found in enumerate(arrives):
        for place, (number, factor) in found.items():
            if operation == "all_gather":  # part by part, in the order of the ranks
                assert (number, factor) == leaves[place // part][place % part]
            elif operation == "all_to_all":  # of every rank the part for this one
                assert (number, factor) == leaves[place // part][rank * part + place % part]
            elif operation == "broadcast":
                assert (number, factor) == leaves[0][place]
            else:
                begin = rank * part if operation == "reduce_scatter" else 0
                assert number == begin + place
                assert factor == sum(one[number][1] for one in leaves)
        whole = part if operation == "reduce_scatter" else everything
        assert len(found) == (0 if operation == "reduce" and rank else whole)


@pytest.mark.parametrize(
    ("operation", "factor"),
    [
        *(("all_reduce", 1.75), ("all_gather", 0.875), ("reduce_scatter", 0.875)),
        *(("all_to_all", 0.875), ("broadcast", 1.0), ("reduce", 1.0)),
    ],
)
def test_bus_bandwidth_is_that_of_the_nccl_tests(operation: str, factor: float) -> None:
    assert BUS[operation](8) == factor


def each_operation(group: RankGroup, operation: str) -> float:
    """Return the least seconds of an operation on half a mebibyte."""
    group.prepare_exchange(operation, MIB // 2)
    return min(group.exchange() for _ in range(2))


def best(measure: Callable[[], float], wanted: float) -> float:
    """Return the best of some values, the first that is enough; where others take the CPUs, none is."""
    with HostWatch() as watch:
        for _ in range(20):
            found = measure()
            if found > wanted:
                return found
    if watch.disturbance:
        pytest.skip(f"no rate of a link can be read here: {', '.join(watch.disturbance)}")
    return found


@pytest.mark.alone
def test_known_rate_of_a_link_is_read_back_and_a_fifth_of_it_shows_in_the_overlap() -> None:
    rate = 50e6
    payload = 1448 / 1514  # of a full frame of Ethernet; the shaper counts the headers too
    try:
        link = ShapedLink(rate)
    except NotPossible as why:
        pytest.skip(str(why))
    ends = [link.command(end) for end in range(2)]
    variables = {"GLOO_SOCKET_IFNAME": INTERFACE}
    with link, RankGroup(0, 2, environment=variables, within=ends) as group:
        group.prepare(4 * MIB, products=1, order=256, dtype="float32")
        whole = rate * payload
        read = best(lambda: group.bus_bandwidth(4 * MIB), 0.94 * whole)
        assert 0.94 < read / whole < 1.05
        for size in (2 * MIB, 4 * MIB):  # twice the bytes: the same rate
            carried = group.prepare_exchange("broadcast", size)
            read = best(lambda carried=carried: carried / group.exchange(2), 0.94 * whole)  # type: ignore[misc]
            assert 0.94 < read / whole < 1.05, size
        quick = {one: each_operation(group, one) for one in BUS}
        group.prepare(4 * MIB, products=1, order=256, dtype="float32")
        healthy = min(group.overlap().together for _ in range(3))
        link.shape(rate / 5)
        assert group.overlap().together > 3 * healthy
        assert group.wrong_elements() == 0
        for (
            one,
            seconds,
        ) in quick.items():  # gloo moves more than it must, or in turns: not the link's rate
            assert each_operation(group, one) > 2.5 * seconds, one


@pytest.mark.alone
def test_slow_link_shows_and_a_flipped_bit_on_one_rank_is_noticed(
    healthy: RankGroup, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault = tmp_path / "fault"
    monkeypatch.setenv(FAULT, str(fault))
    fault.write_text("slow")
    with RankGroup(0, 2, module="tests.suites.faulty_rank") as faulty:
        for group in (healthy, faulty):
            group.prepare(MIB, products=1, order=64, dtype="float32")
        free = max(healthy.bus_bandwidth(MIB) for _ in range(5))
        assert faulty.bus_bandwidth(MIB) < free / 2
        parts = faulty.overlap()
        assert parts.communicate > 2 * parts.compute
        assert faulty.wrong_elements() == 0

        fault.write_text("flip")
        faulty.prepare(MIB)
        assert faulty.wrong_elements() == 1
        part = MIB // 8  # numbers of one of the two ranks
        for operation in BUS:
            size = faulty.prepare_exchange(operation, MIB + 5)
            assert size == MIB
            found = {}
            for what in ("", "flip", "lose", "swap"):
                fault.write_text(what)
                found[what] = faulty.wrong_in_exchange()
            due = part if operation == "reduce_scatter" else 2 * part
            assert (found[""], found["flip"], found["lose"]) == (0, 1, due), operation
            assert found["swap"] > 0.99 * due, operation
        pids = [rank.pid for rank in faulty.processes]
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def costs_of(cost: Any) -> list[str]:
    """Return the costs of ranks that exchange something: with one card there are none."""
    if isinstance(cost, str):
        return [cost]
    return [text for number, one in cost.items() if number != 1 for text in costs_of(one)]


def test_ranks_can_say_who_is_missing_before_the_test_is_ended() -> None:
    from suites.collective import test_allreduce, test_operations, test_overlap

    assert TIMEOUT < ROUND
    tests: list[Callable[..., None]] = [test_allreduce.test_all_reduce, test_overlap.test_overlap]
    tests += [test_operations.test_operations, test_operations.test_all_reduce_by]
    for test in tests:
        marks: list[pytest.Mark] = test.pytestmark  # type: ignore[attr-defined]
        (mark,) = (one for one in marks if one.name == "anubis")
        cost = mark.kwargs["cost"]
        deadline = deadline_of(
            cost=min(map(seconds, costs_of(cost))),
            mark=None,
            limit=None,
            least=seconds(mark.kwargs["deadline"]),
        )
        assert deadline.seconds - 60 > START + ROUND + SETTLE


def test_rank_that_dies_is_named_and_not_the_one_that_waits_for_it() -> None:
    with RankGroup(0, 2) as group:
        group.prepare(MIB)
        os.kill(group.processes[1].pid, signal.SIGKILL)
        with pytest.raises(ChildError, match=r"^rank 1 is gone"):
            group.bus_bandwidth(MIB)


@pytest.mark.parametrize(
    ("together", "stretch"),
    [(4.0, 1.0), (6.0, 1.5), (8.0, 2.0)],
    ids=["hidden", "half hidden", "one after the other"],
)
def test_stretch_is_relative_to_the_longer_part(together: float, stretch: float) -> None:
    assert Overlap(compute=4.0, communicate=4.0, together=together).stretch == stretch
    assert Overlap(compute=4.0, communicate=1.0, together=together).stretch == stretch
    assert Overlap(compute=1.0, communicate=4.0, together=together).stretch == stretch


class Disturbed:
    """Stands for ``anubis_metric``: three rounds were disturbed, the three taken after them count."""

    def __init__(self) -> None:
        self.values: dict[str, list[float]] = {}

    def collect(self, name: str, fn: Callable[[], float], **_: Any) -> tuple[float, ...]:
        self.values[name] = [fn() for _ in range(6)][3:]
        return tuple(self.values[name])

    def record(self, name: str, value: Sequence[float], **_: Any) -> None:
        self.values[name] = list(value)


def test_both_metrics_are_of_the_rounds_that_count(monkeypatch: pytest.MonkeyPatch) -> None:
    from suites.collective import test_overlap
    from suites.workload import data_parallel, test_data_parallel
    from suites.workload.catalogue import BY_NAME

    rounds: list[float] = []

    def step(_steps: int = 1) -> float:
        rounds.append(1.0 + len(rounds) / 16)
        return rounds[-1]

    group = SimpleNamespace(
        on_accelerators=False,
        prepare=lambda *_, **__: 2,
        overlap=lambda steps: Overlap(compute=1.0, communicate=1.0, together=step(steps)),
        wrong_elements=lambda: 0,
    )
    taken: Any = Disturbed()
    test_overlap.test_overlap(taken, group)  # type: ignore[arg-type]
    assert taken.values["overlapped_step"] == pytest.approx([one * 1e3 for one in rounds[-3:]])
    assert taken.values["overlap_stretch"] == rounds[-3:]
    assert len(rounds) == 3 + 6

    rounds.clear()
    for name in ("right_exchange", "same_weights"):
        monkeypatch.setattr(test_data_parallel, name, lambda *_: None)
    trained: Any = SimpleNamespace(
        kind="cpu",
        world=2,
        fitting=lambda _: 1,
        prepare=lambda *_: 2,
        step=lambda steps=1: data_parallel.Together((1.0, 1.0), step(steps)),
    )
    workload: Any = BY_NAME["llama-small"]
    test_data_parallel.measure(taken, lambda *_: None, trained, workload, "float32")
    assert taken.values["exchange_stretch"] == rounds[-3:]
    assert len(rounds) == test_data_parallel.WARM + 6


def test_choices_of_a_users_environment_are_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NCCL_P2P_DISABLE", "1")
    monkeypatch.setenv("NCCL_SOCKET_IFNAME", "eth0")
    assert drop_nccl_choices() == ("NCCL_P2P_DISABLE",)
    assert "NCCL_P2P_DISABLE" not in os.environ
    assert os.environ["NCCL_SOCKET_IFNAME"] == "eth0"
    monkeypatch.setattr(suites_conftest, "_CHOICES", ("NCCL_P2P_DISABLE",))
    (line,) = suites_conftest.pytest_report_header()
    assert line.startswith("suites: NCCL_P2P_DISABLE ignored: ")
