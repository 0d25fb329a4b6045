"""The benchmarks of collectives reduce what they say, show a slow link, and notice a wrong bit."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pytest_anubis.benchmarking.children import ChildError
from pytest_anubis.benchmarking.ranks import ROUND, SETTLE, START, TIMEOUT
from pytest_anubis.distributed.containment.watchdog import deadline_of
from pytest_anubis.settings import seconds
from suites.collective.group import Overlap, RankGroup

Costs = Callable[..., list[float]]
MIB = 1 << 20
FAULT = "ANUBIS_TEST_FAULT"


@pytest.fixture(scope="module")
def healthy() -> Iterator[RankGroup]:
    with RankGroup(0, 2) as group:
        yield group


def test_sum_is_right_alone_and_beside_a_product(healthy: RankGroup) -> None:
    healthy.prepare(MIB + 12)
    assert healthy.wrong_elements() == 0
    healthy.prepare(MIB, products=1, order=64, dtype="float32")
    assert healthy.wrong_elements() == 0


@pytest.mark.alone
def test_more_bytes_and_more_steps_cost_more(healthy: RankGroup, costs: Costs) -> None:
    healthy.prepare(4 * MIB)
    least = costs(
        lambda: healthy.bus_bandwidth(4 * MIB, 2), lambda: healthy.bus_bandwidth(4 * MIB, 16)
    )
    assert least[1] > 2 * least[0]
    healthy.prepare(MIB, products=2, order=256, dtype="float32")
    least = costs(lambda: healthy.overlap(1), lambda: healthy.overlap(8))
    assert least[1] > 2 * least[0]


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
        pids = [rank.pid for rank in faulty.processes]
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_ranks_can_say_who_is_missing_before_the_test_is_ended() -> None:
    from suites.collective import test_allreduce, test_overlap

    assert TIMEOUT < ROUND
    tests: list[Callable[..., None]] = [test_allreduce.test_all_reduce, test_overlap.test_overlap]
    for test in tests:
        marks: list[pytest.Mark] = test.pytestmark  # type: ignore[attr-defined]
        (mark,) = (one for one in marks if one.name == "anubis")
        deadline = deadline_of(
            cost=seconds(mark.kwargs["cost"]),
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
