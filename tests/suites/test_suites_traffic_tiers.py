"""An all-reduce over two tiers sums by any schedule, shows a slow tier, and notices a wrong bit."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from pytest_anubis.benchmarking import ranks, sizes
from pytest_anubis.benchmarking.children import ChildError
from pytest_anubis.benchmarking.tier_schedule import Stage, Tier, fixed_order, timeline
from suites.traffic import (
    test_experts,
    test_layered,
    test_sharded_tables,
    test_two_jobs,
    test_two_tiers,
)
from suites.traffic.group import TierTimes, TrafficGroup
from suites.traffic.seat import Seat
from suites.traffic.two_tiers import TierTraffic
from tests.suites.test_suites_on_a_card import Node, Taken
from tests.suites.traffic_groups import behind_link, faulty, of_ranks, run
from tests.suites.work_probe import doubles

pytestmark = pytest.mark.usefixtures("quick_processes")
SIZE, CHUNKS = 1 << 16, 4
EQUAL = [Tier(2, 1.0), Tier(2, 1.0)]
RATE = 20e6
SMALL: dict[Any, Any] = {
    test_two_tiers: SIZE,
    test_experts: {"width": 16, "inner": 24, "tokens": 128, "dtype": "float32"},
    test_layered: {"size": 1 << 16, "products": 4, "order": 16, "dtype": "float32"},
    test_two_jobs: {"size": 16, "batches": 1, "dtype": "float32"},
    test_sharded_tables: {"rows": 1 << 8, "width": 16},
}


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes of all patterns with which they take moments."""
    for module, size in SMALL.items():
        monkeypatch.setattr(module, "ON_A_HOST", size)
    monkeypatch.setitem(test_two_jobs.SECONDS, "standard", 0.01)
    monkeypatch.setattr(test_two_tiers, "CHUNKS", CHUNKS)
    monkeypatch.setitem(test_sharded_tables.SAMPLES, False, 16)


@pytest.fixture(scope="module")
def four() -> Iterator[TrafficGroup]:
    with of_ranks(4) as group:
        yield group


def test_all_orders_sum_every_number(four: TrafficGroup) -> None:
    for orders in (fixed_order(EQUAL, CHUNKS), [(1, 0)] * CHUNKS, [(0, 1), (1, 0)] * 2):
        four.prepare_tiers(SIZE, CHUNKS, 1)
        stages = timeline(EQUAL, SIZE, orders)
        assert four.wrong_in_tiers(stages) == 0
        assert four.tiers(stages, 2).together > 0
        assert four.wrong_in_tiers(stages) == 0  # nothing was left in the way


def test_ranks_of_six_have_halves_of_three() -> None:
    with TrafficGroup(0, 2, on_cpu=6) as six:
        seen, stages = six.prepare_tiers(SIZE, CHUNKS, 1)
        assert [tier.ranks for tier in seen] == [3, 2]
        assert six.wrong_in_tiers(stages) == 0


def test_buffer_is_what_the_smallest_device_has_room_for(
    four: TrafficGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sizes, "memory_of", lambda _: (1000, 1000))
    traffic = TierTraffic(Seat(0, 1, torch.device("cpu")))
    assert traffic.fit_tiers({"bytes": 512})["bytes"] == 128  # a half is for it and its sums
    ask = four.ask_all

    def one_is_small(do: str, **given: Any) -> list[dict[str, Any]]:
        answers = ask(do, **given)
        if do == "fit_tiers":
            answers[2]["bytes"] //= 2
        return answers

    monkeypatch.setattr(four, "ask_all", one_is_small)
    _, stages = four.prepare_tiers(SIZE, CHUNKS, 1)
    assert sum(stage.bytes for stage in stages) == 1.5 * SIZE / 2


def test_stretch_is_what_tiers_lose_together_and_not_a_slow_tier() -> None:
    assert TierTimes(within=1.0, across=4.0, together=4.0).stretch == 1.0  # quick within
    assert TierTimes(within=4.0, across=8.0, together=8.0).stretch == 1.0  # slow across
    assert TierTimes(within=4.0, across=4.0, together=8.0).stretch == 2.0  # one after the other


@pytest.mark.alone
def test_twice_the_bytes_take_twice_as_long_and_half_the_rate_across_shows_in_that_tier() -> None:
    with behind_link(RATE, 4) as (group, shape):

        def of_bytes(times: int) -> float:
            seen, stages[:] = group.prepare_tiers(times << 19, 8, 1)
            assert seen[1].bandwidth < 1.05 * RATE
            return min(group.tiers(stages).together for _ in range(3))

        def of_rate(times: int) -> float:
            shape(RATE / times)
            return min(group.tiers(stages).across for _ in range(3))

        stages: list[Stage] = []
        doubles(of_bytes)
        doubles(of_rate)
        assert group.wrong_in_tiers(stages) == 0


def test_benchmark_runs_and_a_flipped_bit_fails_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(test_two_tiers, "ON_A_HOST", SIZE)
    monkeypatch.setattr(test_two_tiers, "CHUNKS", CHUNKS)
    with faulty(tmp_path, monkeypatch, 4) as (group, fault):
        taken, said = Taken(), dict[str, object]()
        test_two_tiers.test_two_tiers(taken, group, said.__setitem__)
        assert list(taken.asked) == ["tiers_stretch"]
        assert f"of {CHUNKS} chunks begin within" in str(said["tier_rates"])
        fault.write_text("flip")
        with pytest.raises(AssertionError, match="1 sums over 4 ranks and two tiers are wrong"):
            test_two_tiers.test_two_tiers(Taken(), group, said.__setitem__)


def test_two_ranks_have_no_tiers() -> None:
    two: Any = SimpleNamespace(world=2)
    with pytest.raises(pytest.skip.Exception, match=r"^not applicable: 2 ranks are no two groups"):
        test_two_tiers.test_two_tiers(Taken(), two, lambda *_: None)


@pytest.mark.usefixtures("small")
def test_all_patterns_run_through_in_a_session(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = TrafficGroup.__init__

    def four_ranks(group: TrafficGroup, cards: int, cores: int) -> None:
        begin(group, cards, cores, on_cpu=4)

    monkeypatch.setattr(TrafficGroup, "__init__", four_ranks)
    result = run(pytester, monkeypatch, "-k", "not resnet50")
    result.assert_outcomes(skipped=5, deselected=1)
    metrics = ("layer_rate", "layered_step", "sharded_rate", "turns_rate", "tiers_stretch")
    result.stdout.fnmatch_lines([f"*{name}*" for name in metrics])


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    ("pattern", "more"),
    [
        (test_two_tiers.test_two_tiers, {}),
        (test_experts.test_experts, {}),
        (test_layered.test_layered, {"network": "vgg16"}),
        (test_two_jobs.test_two_jobs, {"anubis_node": Node()}),
        (test_sharded_tables.test_sharded_tables, {}),
    ],
)
def test_rank_that_dies_in_an_exchange_ends_the_benchmark_with_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    pattern: Callable[..., None],
    more: dict[str, Any],
) -> None:
    monkeypatch.setattr(ranks, "SETTLE", 0.5)
    with faulty(tmp_path, monkeypatch, 4) as (group, fault):
        group.join()
        fault.write_text("die")
        begin = time.monotonic()
        with pytest.raises(ChildError) as caught:
            pattern(anubis_metric=Taken(), ranks=group, record_property=lambda *_: None, **more)
        line = r"rank 1 is gone(; rank \d: ((?!; rank)[^\n])*)?"  # and one that waited for it
        assert re.fullmatch(line, str(caught.value))
        assert time.monotonic() - begin < ranks.TIMEOUT / 2  # for which a rank waits for the others
    for rank in group.processes:
        with pytest.raises(ProcessLookupError):
            os.kill(rank.pid, 0)
