"""Gradients exchanged in chunks arrive summed, in the order that is planned, and a slow link shows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from suites.traffic import layered_exchange, test_layered
from suites.traffic.buckets import buckets_of, shared_out
from suites.traffic.exchange_order import cut, first_come, first_needed, ready_times
from suites.traffic.group import TrafficGroup
from suites.traffic.layered_exchange import LayeredTraffic
from suites.traffic.seat import Seat
from suites.workload.catalogue import BY_NAME
from tests.suites.test_suites_on_a_card import Taken
from tests.suites.traffic_groups import behind_link, faulty, of_ranks

pytestmark = pytest.mark.usefixtures("quick_processes")
SMALL: dict[str, Any] = {"size": 1 << 16, "products": 8, "order": 32, "dtype": "float32"}
RATE = 25e6
NETWORKS = ("vgg16", "resnet50")


@pytest.fixture(scope="module")
def two() -> Iterator[TrafficGroup]:
    with of_ranks(2) as group:
        yield group


@pytest.mark.parametrize(("name", "multiplications"), [("vgg16", 15.47e9), ("resnet50", 4.09e9)])
def test_buckets_hold_all_parameters_of_a_network_and_its_work(
    name: str, multiplications: float
) -> None:
    buckets = buckets_of(name)
    assert sum(bucket.numbers for bucket in buckets) == BY_NAME[name].parameters
    assert sum(bucket.work for bucket in buckets) == pytest.approx(multiplications, rel=0.01)
    least = 0.005 * BY_NAME[name].parameters
    assert all(bucket.numbers >= least for bucket in buckets[:-1])


def test_gradients_of_vgg_lie_behind_and_its_work_before() -> None:
    buckets = buckets_of("vgg16")
    half = len(buckets) // 2
    assert sum(bucket.numbers for bucket in buckets[:half]) < 0.1 * 138e6
    assert sum(bucket.work for bucket in buckets[:half]) > 0.7 * 15.47e9


def test_products_are_shared_out_by_work_without_loss() -> None:
    assert shared_out([1, 1, 2], 8) == [2, 2, 4]
    assert sum(shared_out([3, 5, 7, 1], 10)) == 10


def test_order_by_hand() -> None:
    assert cut(10, 4) == [4, 4, 2]
    chunks = [[1], [1, 1], [2, 2]]
    assert first_come(chunks) == [2, 2, 1, 1, 0]
    # Bucket 2 is ready at once, the others while its first and second chunk travel.
    assert first_needed(chunks, [3.5, 1.0, 0.0], 1.0) == [2, 1, 1, 0, 2]
    # The link waits for bucket 0 when nothing else is left.
    assert first_needed([[1], [1]], [9.0, 0.0], 1.0) == [1, 0]
    assert ready_times([1, 2, 3], 0.5) == [6.0, 5.0, 3.0]


def step(
    order: Sequence[int], chunks: Sequence[Sequence[int]], products: Sequence[int], number: float
) -> float:
    """Return what a step takes whose product takes a second and the exchange of a number so many."""
    ready = ready_times(products, 1.0)
    left = [list(some) for some in chunks]
    link, there = 0.0, [0.0] * len(chunks)
    for bucket in order:
        link = max(link, ready[bucket]) + left[bucket].pop(0) * number
        there[bucket] = link
    now = ready[0]
    for arrived, count in zip(there, products, strict=True):
        now = max(now, arrived) + count
    return now


@pytest.mark.parametrize(("name", "gain"), [("vgg16", 1.15), ("resnet50", 1.0)])
def test_what_is_needed_first_overtakes_where_that_gains(name: str, gain: float) -> None:
    buckets = buckets_of(name)
    numbers = [bucket.numbers for bucket in buckets]
    products = shared_out([bucket.work for bucket in buckets], 300)
    chunks = [cut(count, sum(numbers) // 48) for count in numbers]
    number = 900 / sum(numbers)  # as long as all products
    order = first_needed(chunks, ready_times(products, 1.0), number)
    assert sorted(order) == sorted(first_come(chunks))
    come, needed = (step(one, chunks, products, number) for one in (first_come(chunks), order))
    assert 900 <= needed <= 1800
    assert come >= gain * needed


@pytest.mark.parametrize("network", NETWORKS)
def test_both_orders_sum_all_gradients(two: TrafficGroup, network: str) -> None:
    orders = two.prepare_layers(network, **SMALL, warm=1)
    assert len(orders.first_come) == len(orders.first_needed)
    test_layered.right_sums(two, orders)
    assert two.layered_step(orders.first_needed, 2) > 0
    test_layered.right_sums(two, orders)  # nothing of the steps was left in the way


def test_twice_the_work_is_twice_the_products_and_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    exchanged: list[int] = []

    class Done:
        def wait(self) -> None:
            """Be over."""

    def reduced(chunk: torch.Tensor) -> Any:
        exchanged.append(len(chunk))
        return Done()

    monkeypatch.setattr(layered_exchange, "_reduced", reduced)
    counted = []
    for times in (1, 2):
        traffic = LayeredTraffic(Seat(0, 1, torch.device("cpu")))
        numbers = [64 * times, 128 * times]
        traffic.prepare_layers(
            {"numbers": numbers, "products": [2 * times, times], "chunk": 32, "size": 8,
             "dtype": "float32"}
        )  # fmt: skip
        assert traffic._gemm is not None
        runs: list[int] = []
        monkeypatch.setattr(traffic._gemm, "run", lambda runs=runs: runs.append(1))
        exchanged.clear()
        traffic._step(first_come([cut(count, 32) for count in numbers]))
        counted.append((len(runs), sum(exchanged)))
    assert counted == [(9, 192), (18, 384)]


@pytest.mark.alone
def test_a_slow_link_shows() -> None:
    # `benchmarks/suites/traffic.py` prints the step beside its bounds, by priority and first in, first out.
    with behind_link(RATE) as (group, shape):
        orders = group.prepare_layers(
            "vgg16", size=4 << 20, products=16, order=64, dtype="float32", warm=3
        )
        quick = min(group.layered_step(orders.first_needed) for _ in range(3))
        shape(RATE / 4)
        assert group.layered_step(orders.first_needed) > 2 * quick


def test_benchmark_runs_and_a_flipped_bit_fails_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(test_layered, "ON_A_HOST", SMALL)
    with faulty(tmp_path, monkeypatch) as (group, fault):
        taken, said = Taken(), dict[str, object]()
        test_layered.test_layered(taken, group, said.__setitem__, "vgg16")
        assert list(taken.asked) == ["layered_step"]
        assert "first in, first out" in str(said["layered_step"])
        fault.write_text("flip")
        with pytest.raises(AssertionError, match="sums or rows of a product"):
            test_layered.test_layered(Taken(), group, said.__setitem__, "vgg16")
