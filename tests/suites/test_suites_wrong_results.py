"""Whole benchmarks with a fault put in: what a kernel's check notices fails the test that uses it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import pytest
import torch

from pytest_anubis.session.collecting.device_parameters import Device
from suites.burn import test_device
from suites.collective import test_allreduce, test_operations, test_overlap
from suites.collective.group import Overlap
from suites.compute import exact, test_dispatch, test_gemm, test_units
from suites.compute.kernels import Gemm, Launch, multiply
from suites.compute.units import Cores, cpus_for
from suites.link import test_transfer
from suites.link.transfer import Transfer, copy
from suites.memory import (
    card_rates,
    chase,
    native,
    stream,
    test_bandwidth,
    test_card_memory,
    test_latency,
)
from suites.memory.chase import Chase
from suites.network import test_loopback
from suites.network.loopback import Loopback
from suites.storage import test_disk
from suites.storage.fio import FioError, Windows
from suites.storage.small_files import SmallFiles, SyncedFile
from suites.tools.nics import Port
from suites.training import test_step
from suites.workload import test_training_steps
from tests.suites.relay import Relay
from tests.suites.stand_in_card import stand_in
from tests.suites.test_suites_exact import flipping as flipping_once
from tests.suites.test_suites_on_a_card import SMALL_GPT, SMALL_RESNET, Node, Taken
from tests.suites.test_suites_workload_on_a_card import on_cards

pytestmark = pytest.mark.usefixtures("one_thread")
CARD, CPU = Device("cuda:0"), Device("cpu")
Patch = pytest.MonkeyPatch
SMALL = 1 << 20
PROFILES = ("smoke", "standard", "soak")


@pytest.fixture
def card(monkeypatch: Patch) -> Iterator[Any]:
    """A stand-in whose sizes are small."""
    small = dict.fromkeys(PROFILES, SMALL)
    monkeypatch.setattr(test_card_memory, "WRITTEN", dict.fromkeys(PROFILES, 1 << 16))
    monkeypatch.setattr(test_card_memory, "STEPS", 16)
    monkeypatch.setattr(test_card_memory, "READ", 3 << 18)
    monkeypatch.setattr(test_transfer, "SIZES", small)
    monkeypatch.setattr(test_gemm, "SIZES", {"accelerator": {"smoke": 96}})
    monkeypatch.setattr(test_device, "SIZES", {"accelerator": {"smoke": 64}})
    monkeypatch.setattr(test_device, "BURN", {"accelerator": {"smoke": 0.01}})
    with stand_in(rounded=False) as found, pytest.MonkeyPatch.context() as patch:
        told = SimpleNamespace(L2_cache_size=1 << 15)
        patch.setattr(torch.cuda, "get_device_properties", lambda *_: told)
        yield found


def by_default(patch: Patch, kind: Any, **given: Any) -> None:
    """Give a kernel another default, which is what its benchmark takes."""
    patch.setattr(kind.__init__, "__kwdefaults__", (kind.__init__.__kwdefaults__ or {}) | given)


def spoil_product(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> None:
    multiply(a, b, out)
    out[3, 5] += 1


def lose_launches(counter: torch.Tensor) -> None:
    counter.add_(2)


def spoil_copy(target: torch.Tensor, source: torch.Tensor) -> None:
    copy(target, source)
    target[len(target) // 2] += 1  # not undone by doing it twice


def spoil_sum(view: torch.Tensor, *, dim: int, out: torch.Tensor) -> None:
    torch.sum(view, dim=dim, out=out)
    out[0] += 1


def spoil_write(array: torch.Tensor, number: int) -> None:
    array.fill_(number)
    array[77] ^= 1


def spoil_links(patch: Patch) -> None:
    begin = card_rates.CardChase.begin

    def torn(chase: card_rates.CardChase) -> None:
        chase._table[1] ^= 2
        begin(chase)

    patch.setattr(card_rates.CardChase, "begin", torn)
    patch.setattr(card_rates, "load_times", lambda *_: [2.0, 1.0])


def spoil_burn(patch: Patch) -> None:
    patch.setattr(exact, "product_of", lambda *_: flipping_once("float32", 0, first_too=False))


NODE = Node()
ON_A_CARD: dict[str, tuple[Callable[[Patch], object], Callable[[Any], None], str]] = {
    "burn": (
        spoil_burn,
        lambda taken: test_device.test_burn_device(taken, CARD, NODE, "float32"),
        "float32 products differ",
    ),
    **{
        f"gemm {kind}": (
            partial(by_default, kind=Gemm, product=spoil_product),
            partial(run, kind),
            "product",
        )
        for kind, run in {
            "float32": lambda _, taken: test_gemm.test_gemm(taken, CARD, NODE, "float32"),
            "tf32": lambda _, taken: test_gemm.test_gemm_tf32(taken, CARD, NODE),
        }.items()
    },
    **{
        test.__name__: (
            partial(by_default, kind=Launch, operation=lose_launches),
            partial(lambda run, taken: run(taken, CARD), test),
            "the device counted",
        )
        for test in (test_dispatch.test_dispatch, test_dispatch.test_round_trip)
    },
    **{
        test.__name__: (
            partial(by_default, kind=Transfer, move=spoil_copy),
            partial(lambda run, taken: run(taken, CARD, NODE), test),
            "bytes differ after",
        )
        for test in (
            test_transfer.test_host_device_copy,
            test_transfer.test_both_ways,
            test_transfer.test_pageable_copy,
        )
    },
    "write": (
        partial(by_default, kind=card_rates.Write, apply=spoil_write),
        lambda taken: test_card_memory.test_write(taken, CARD, NODE),
        "1 elements do not hold",
    ),
    "cache": (
        partial(by_default, kind=card_rates.CacheRead, apply=spoil_sum),
        lambda taken: test_card_memory.test_cache(taken, CARD),
        "1 of 96 sums are wrong",
    ),
    "chase": (
        spoil_links,
        lambda taken: test_card_memory.test_chase(taken, CARD, NODE, print, "memory"),
        "led astray|places do not hold",
    ),
    "far load": (
        spoil_links,
        lambda taken: test_card_memory.test_far_load(taken, CARD, NODE, print),
        "led astray|places do not hold",
    ),
}
"""Benchmark -> how the fault comes in, how the benchmark is run, and what it then says."""


@pytest.mark.usefixtures("card")
@pytest.mark.parametrize("name", ON_A_CARD)
def test_wrong_result_fails_a_benchmark_of_a_card(name: str, monkeypatch: Patch) -> None:
    spoil, run, words = ON_A_CARD[name]
    spoil(monkeypatch)
    with pytest.raises(AssertionError, match=words):
        run(Taken())


@pytest.mark.parametrize("operation", ["triad", "read"])
def test_wrong_element_fails_the_stream(operation: str, monkeypatch: Patch) -> None:
    plain = stream.OPERATIONS[operation][1]

    def spoilt(x: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> None:
        plain(x, y, out)
        out.view(torch.int64)[-1] ^= 1

    by_default(monkeypatch, stream.Stream, apply=spoilt)
    with (
        stand_in(memory=24 << 20, rounded=False),
        pytest.raises(AssertionError, match=f"{operation}: 1 of"),
    ):
        test_bandwidth.test_stream(Taken(), CARD, NODE, operation)


def test_wrong_element_of_a_core_fails_its_stream(monkeypatch: Patch) -> None:
    plain = stream.OPERATIONS["triad"][1]

    def spoilt(x: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> None:
        plain(x, y, out)
        out.view(torch.int64)[-1] ^= 1

    by_default(monkeypatch, stream.Stream, apply=spoilt)
    monkeypatch.setattr(stream, "elements_for", lambda *_, **__: 1 << 16)
    said: dict[str, object] = {}
    with pytest.raises(AssertionError, match=r"wrong elements of 65536 by CPU: \{\d+: 1"):
        test_bandwidth.test_core_stream(Taken(), NODE, said.__setitem__)
    assert said  # which core gave what


@pytest.mark.skipif(native.find_compiler() is None, reason="no C compiler found")
def test_wrong_line_and_wrong_unit_fail(monkeypatch: Patch) -> None:
    plain = Chase.latency

    def flipping(chain: Chase, steps: int) -> float:
        took = plain(chain, steps)
        chain.flip(5, 40)
        return took

    monkeypatch.setattr(Chase, "latency", flipping)
    monkeypatch.setattr(chase, "_PAGES", 1)  # a chain that is flipped is not walked
    for table in ("STEPS", "LOADS"):
        monkeypatch.setattr(test_latency, table, dict.fromkeys(test_latency.STEPS, 100))
    with pytest.raises(AssertionError, match=r"1 of .* lines of the chain|led astray"):
        test_latency.test_load_latency(Taken(), Node(), "l2")
    by_default(monkeypatch, Cores, faults={cpus_for(1)[0]: 1 << 7})
    monkeypatch.setattr(test_units, "SECONDS", 0.0)
    with pytest.raises(AssertionError, match=r"blocks of int64 with a wrong checksum: CPU \d+"):
        test_units.test_units(Taken(), Node(), "int64")


class Few(Node):
    """A node whose transfers are small."""

    def pick(self, **_: Any) -> Any:
        """Return bytes, or messages."""
        return 1 << 10


def test_changed_bytes_fail_both_tests_of_tcp(monkeypatch: Patch) -> None:
    monkeypatch.setattr(test_loopback, "MIB", 1 << 10)
    with Relay() as relay, Loopback(through=relay.before) as link:
        relay.flip = True
        with pytest.raises(AssertionError, match="not the bytes that were sent"):
            test_loopback.test_tcp_rate(Taken(), Few(), link)
        with pytest.raises(RuntimeError, match="messages came back changed"):
            test_loopback.test_tcp_round_trip(Taken(), Few(), [link])


def test_changed_blocks_and_files_fail_the_tests_of_disks(
    tmp_path: Path, monkeypatch: Patch
) -> None:
    def changed() -> None:
        raise FioError("fio check: a block did not come back")

    window = SimpleNamespace(
        rate=1.0, latencies=dict.fromkeys((n.replace("latency_", "") for n in test_disk.LATENCIES), 1.0)
    )  # fmt: skip
    disk: Any = SimpleNamespace(
        sequential=lambda *_: [1.0], random_windows=lambda *_: Windows([1.0], {}), mixed=lambda _: window,
        write_checked=changed,
    )  # fmt: skip
    taken: Any = SimpleNamespace(
        collect=lambda _, fn, **__: [fn()], record=lambda *_, **__: None, measure=lambda _, fn, **__: fn()
    )  # fmt: skip
    for test in (test_disk.test_sequential_io, test_disk.test_random_io):
        with pytest.raises(FioError):
            test(taken, NODE, disk, "read")
    with pytest.raises(FioError):
        test_disk.test_mixed_io(taken, NODE, disk)

    def lose_a_byte(file: int, data: bytes) -> int:
        return os.write(file, data[:-1] + bytes([data[-1] ^ 1]))

    monkeypatch.setattr(test_disk, "FILES", 3)
    for kind, run, words in (
        (SmallFiles, test_disk.test_small_files, "3 of 3 small files"),
        (SyncedFile, test_disk.test_fsync, "1 blocks are not what was written"),
    ):
        by_default(monkeypatch, kind, write=lose_a_byte)
        with pytest.raises(AssertionError, match=words):
            run(taken, Node(scratch=tmp_path))


class Ranks:
    """Two ranks, one of which has a wrong element; how they notice it has tests of its own."""

    on_accelerators, world = False, 2
    step = Overlap(compute=1.0, communicate=1.0, together=1.0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        told = {"overlap": self.step, "wrong_elements": 1, "wrong_in_exchange": 1, "fitting": SMALL}
        return lambda *_, **__: told.get(name, 1.0)


def test_wrong_sum_of_one_rank_fails_every_collective(monkeypatch: Patch) -> None:
    ranks: Any = Ranks()
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr("suites.collective.group.RankGroup", lambda *_, **__: ranks)
    monkeypatch.setattr(test_operations, "active_ports", lambda: [Port("mlx5_0", 1)])
    runs: tuple[Callable[[Any], object], ...] = (
        lambda taken: test_allreduce.test_all_reduce(taken, NODE, ranks),
        lambda taken: test_operations.test_operations(taken, ranks, print),
        lambda taken: test_operations.test_all_reduce_by(taken, NODE, "ring"),
        lambda taken: test_operations.test_all_reduce_through_adapters(taken, NODE),
        lambda taken: test_overlap.test_overlap(taken, ranks),
    )
    for run in runs:
        with pytest.raises(AssertionError, match="wrong"):
            run(Taken())


def off(_step: object, *halves: bool) -> list[float]:
    """Return errors of gradients of which the last is far off."""
    return [0.0] * (len(halves) - 1) + [9.0]


def test_wrong_gradient_fails_every_training_step(monkeypatch: Patch) -> None:
    monkeypatch.setattr(test_step, "RESNET", SMALL_RESNET)
    monkeypatch.setattr(test_step, "PICTURES", 8)
    monkeypatch.setattr(test_step, "GPT", SMALL_GPT)
    monkeypatch.setattr(test_step, "SEQUENCES", 4)
    monkeypatch.setattr("suites.training.step.TrainingStep.gradient_errors", off)
    with stand_in(rounded=False):
        for test in (test_step.test_resnet_step, test_step.test_gpt_step):
            with pytest.raises(AssertionError, match="the gradient in bfloat16 is off by"):
                test(Taken(), CARD, NODE, print)
        with pytest.raises(AssertionError, match="the gradient in bfloat16 is off by"):
            test_training_steps.test_training_step(
                Taken(), CARD, print, on_cards("llama-small"), "bfloat16"
            )
