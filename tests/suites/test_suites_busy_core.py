"""A core that is busy elsewhere is said of every rate and time that the host has a part in, one by one.

Each benchmark runs whole, at a small size, and records through the real `anubis_metric`, whose watch of the
host sees one core taken. What says so rejects nobody (`tests/session/measuring/test_recorder.py`); a value
that is recorded as if only the device's clock had been there, or by nobody's watch, would.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, Self

import pytest

from benchmarks.suites import coverage_table
from pytest_anubis.benchmarking.hosts.pair_group import PairRates
from pytest_anubis.benchmarking.tier_schedule import Tier
from pytest_anubis.core.events import Measured
from pytest_anubis.core.measurement import Measurement
from pytest_anubis.hardware import round_plans
from pytest_anubis.hardware.load.clear_moments import MonitoredRounds
from pytest_anubis.hardware.round_plans import RoundPlan, Settle
from pytest_anubis.session.collecting.benchmark_mark import BenchmarkMark
from pytest_anubis.session.collecting.device_parameters import Device
from pytest_anubis.session.context import RunContext
from pytest_anubis.session.measuring.conditions import ConditionsWatch
from pytest_anubis.session.measuring.pair_fixtures import Pairs
from pytest_anubis.session.measuring.recorder import Recorder
from pytest_anubis.settings import Settings
from suites.burn import test_device
from suites.burn.cards import CardLoad
from suites.collective import test_operations
from suites.collective.group import Overlap
from suites.compute import (
    functions,
    test_dispatch,
    test_functions,
    test_gemm,
    test_shapes,
    test_units,
)
from suites.compute.units import CoreLoad
from suites.link import all_cards, test_transfer
from suites.memory import (
    chase,
    native,
    numa,
    patterns,
    stream,
    test_bandwidth,
    test_card_memory,
    test_latency,
    test_patterns,
)
from suites.memory.caches import Caches
from suites.network import test_fan_in, test_loopback, test_pairs
from suites.pipeline import test_pipeline
from suites.pipeline.group import Plan, StepTimes
from suites.pipeline.layers import Layer
from suites.recommendation import test_tables
from suites.recommendation.tables import BITS
from suites.recommendation.tables import Shape as TableShape
from suites.storage import test_disk, test_input_pipeline
from suites.storage.fio import Windows
from suites.tools.nics import Port
from suites.traffic.group import JobTimes, Orders, PartTimes, TierTimes, Way
from suites.training import test_step
from suites.workload import (
    test_data_parallel,
    test_inference,
    test_training_steps,
)
from suites.workload.data_parallel import Together
from tests.suites.stand_in_card import right_eight_bits, stand_in
from tests.suites.test_suites_on_a_card import Node
from tests.suites.test_suites_workload import tiny

pytestmark = pytest.mark.usefixtures("one_thread")

BUSY = "other processes used 1.0 of 2 cores: stress (pid 7) 1.0"
SMALL = 1 << 16
CPU, CARD = Device("cpu"), Device("cuda:0")
BRIEF = RoundPlan(
    rounds=1, min_rounds=1, round_seconds=1e-4, warmup_seconds=0.0, budget_seconds=0.0
)
Patch = pytest.MonkeyPatch


class Watch:
    """Stands for the watch of the host: one core is taken."""

    found = None

    def __init__(self, *_: object, **__: object) -> None:
        self.disturbance: tuple[str, ...] = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.disturbance = (BUSY,)


class AmbientLoad:
    """Stands for the readings of the host's load during a whole test."""

    def begin(self) -> str:
        """Take a reading."""
        return "a reading"

    def since(self, _: object) -> tuple[str, ...]:
        """Return what others did."""
        return (BUSY,)


@dataclass
class Bench:
    """What a benchmark gets.

    Attributes:
        metric: The real recorder.
        patch: Makes sizes small.
        node: Its node.
    """

    metric: Recorder
    patch: Patch
    node: Any


@pytest.fixture
def taken(
    monkeypatch: Patch,
) -> Iterator[tuple[Callable[[Device | None], Recorder], list[Measurement]]]:
    """Make recorders on a machine one core of which is busy, and keep what they record."""
    monkeypatch.setattr("pytest_anubis.hardware.load.disturbance.HostWatch", Watch)
    monkeypatch.setattr(MonitoredRounds, "clear", lambda rounds: [False] * len(rounds.values))
    monkeypatch.setattr(ConditionsWatch, "_sources", lambda _: [])
    monkeypatch.setitem(round_plans.PLANS, "smoke", BRIEF)
    monkeypatch.setitem(round_plans.CARD_ROUNDS, "smoke", (1, 1e-4, 0.0))
    monkeypatch.setitem(
        round_plans.SETTLE, "smoke", Settle(min_seconds=0.0, max_seconds=0.0, wake_seconds=0.0)
    )
    context = RunContext(settings=Settings(active=True, profile="smoke"))
    surroundings = ConditionsWatch(context)
    kept: list[Measurement] = []

    def keep(event: object) -> None:
        if isinstance(event, Measured):
            kept.append(event.measurement)

    def make(device: Device | None) -> Recorder:
        ambient: Any = AmbientLoad()
        recorder = Recorder(
            test="t", benchmark="t", mark=BenchmarkMark(), device=device, context=context, sink=keep,
            ambient=ambient, watch=surroundings,
        )  # fmt: skip
        recorder.body_begins()
        return recorder

    yield make, kept
    surroundings.close()


class Cores:
    """Two healthy cores."""

    wrong: ClassVar = {0: 0, 1: 0}

    def load(self, _: float) -> list[CoreLoad]:
        """Load both."""
        return [CoreLoad(0, 4e9, 0.1, 0), CoreLoad(1, 2e9, 0.1, 0)]

    def steps(self, _hertz: float, periods: int, each: int) -> list[list[CoreLoad]]:
        """Step both."""
        return [self.load(1.0) for _ in range(periods // each)]

    def notice(self) -> bool:
        """Notice a flipped bit."""
        return True


class Ranks:
    """Two healthy ranks."""

    on_accelerators, world, kind = False, 2, "cpu"

    def overlap(self, _: int) -> Overlap:
        """Return a step."""
        return Overlap(compute=1.0, communicate=1.0, together=1.5)

    def step(self, _: int = 1) -> Any:
        """Return a step of training."""
        return Together((1.0, 1.0), 1.1)

    def __getattr__(self, name: str) -> Any:
        told = {"wrong_elements": 0, "wrong_in_exchange": 0, "fitting": SMALL, "prepare": 2}
        return lambda *_, **__: told.get(name, 1.0)


class TrafficRanks:
    """Four healthy ranks whose exchanges have patterns."""

    on_accelerators, world, loaded = False, 4, 0.0

    def __getattr__(self, name: str) -> Any:
        told = {
            "prepare_experts": 1,
            "ways": [Way(1, 1)],
            "layer": PartTimes(alone=1.0, exchange=1.0, together=1.5),
            "check_experts": ({"float64": 0.0}, 0),
            "prepare_layers": Orders([0], [0], 1.0, 1.0),
            "wrong_in_layers": 0,
            "prepare_tiers": ([Tier(ranks=2, bandwidth=1e9)] * 2, []),
            "tiers": TierTimes(within=1.0, across=1.0, together=1.0),
            "wrong_in_tiers": 0,
            "jobs": JobTimes(apart=2.0, in_turns=1.0),
            "parts_of_jobs": (1.0, 1.0),
            "tables": PartTimes(alone=1.0, exchange=1.0, together=1.0),
            "wrong_rows": [],
            "check_tables": (0, BITS),
            "check_jobs": [
                {"alone": [1], "in_turns": [1], "first": [2.0], "last": [1.0], "last_alone": [1.0]}
            ],
        }
        return lambda *_, **__: told.get(name, 1.0)


class Disk:
    """A disk that answers."""

    def sequential(self, *_: object) -> list[float]:
        """Return a rate."""
        return [1e9]

    def random_windows(self, *_: object) -> Windows:
        """Return a rate and its latencies."""
        return Windows([1e3], {"p99": [1.0]})

    def mixed(self, _: float) -> Any:
        """Return a window."""
        names = [name.replace("latency_", "") for name in test_disk.LATENCIES]
        return SimpleNamespace(rate=1e3, latencies=dict.fromkeys(names, 1.0))

    def write_checked(self) -> None:
        """Find what was written."""


class Link:
    """A connection that carries."""

    def rate(self, _: int) -> float:
        """Return bytes a second."""
        return 1e9

    def round_trip(self, _: int) -> float:
        """Return seconds."""
        return 1e-5

    def intact(self, _: int) -> bool:
        """Say that bytes arrive."""
        return True


class Cards:
    """Two healthy cards under load."""

    world, wrong = 2, 0

    def __getattr__(self, name: str) -> Any:
        rates = [[CardLoad(1e12, 0)] * 2]
        told = {"step": rates, "slowest": [1e12], "slowest_shares": [1.0], "together_shares": [1.0],
                "slowest_moved": [1e9]}  # fmt: skip
        return lambda *_: told.get(name, [])


class Group:
    """Three hosts with healthy ways."""

    names, own, ports, differing_ports = ("here", "there", "far"), (0,), (0.0,) * 3, ()

    def size_for(self, *_: object) -> int:
        """Return bytes."""
        return SMALL

    def find_guilty(self, *_: object, **__: object) -> tuple[PairRates, tuple[()]]:
        """Return the rates of all ways, and that none is to blame."""
        ways = tuple(tuple(float("nan") if a == b else 1e9 for b in range(3)) for a in range(3))
        rates = PairRates(
            names=self.names,
            rates=(ways, ways),
            wrong=((0.0,) * 3,) * 3,
            together=((1e9,) * 3,) * 2,
        )
        return rates, ()

    find_guilty_hosts = find_guilty


def say(*_: object) -> None:
    """Stand for ``record_property``."""


def function(b: Bench) -> None:
    norm = next(name for name in functions.FUNCTIONS if "norm" in name)  # the least work
    test_functions.test_function(b.metric, CPU, norm)


def shapes(b: Bench) -> None:
    b.patch.setattr(test_shapes, "HOST_SHAPES", {"small": (16, 16, 16, 1)})
    test_shapes.test_shapes_on_the_host(b.metric, "small")


def short_types(b: Bench) -> None:
    b.patch.setattr(test_shapes, "HOST_SIZES", {"smoke": 32})
    b.patch.setattr("pytest_anubis.benchmarking.applicability.require", lambda *_: None)
    right_eight_bits(b.patch)
    test_shapes.test_short_types_on_the_host(b.metric, b.node, "int8")


def burn(b: Bench) -> None:
    b.patch.setattr(test_device, "SIZES", {"cpu": {"smoke": 32}})
    b.patch.setattr(test_device, "BURN", {"cpu": {"smoke": 0.0}})
    test_device.test_burn_device(b.metric, CPU, b.node, "float32")


def gemm(b: Bench) -> None:
    b.patch.setattr(test_gemm, "SIZES", {"cpu": {"smoke": 64}})
    test_gemm.test_gemm(b.metric, CPU, b.node, "float32")


def units(b: Bench) -> None:
    b.patch.setattr(test_units, "SECONDS", 0.0)
    test_units.test_units(b.metric, b.node, "int64")


def pageable(b: Bench) -> None:
    b.patch.setattr(test_transfer, "SIZES", {"smoke": SMALL})
    with stand_in(rounded=False):
        test_transfer.test_pageable_copy(b.metric, CARD, b.node)


def dispatch(b: Bench) -> None:
    with stand_in(rounded=False):
        test_dispatch.test_dispatch(b.metric, CARD)


def round_trip(b: Bench) -> None:
    with stand_in(rounded=False):
        test_dispatch.test_round_trip(b.metric, CARD)


def cold_start(b: Bench) -> None:
    b.patch.setattr(test_dispatch, "cold_start", lambda _: 250.0)
    with stand_in(rounded=False):
        test_dispatch.test_cold_start(b.metric, CARD, b.node)


def first_start(b: Bench) -> None:
    b.patch.setattr(test_dispatch, "cold_start", lambda _: 250.0)
    with stand_in(rounded=False, cards=8):
        test_dispatch.test_first_start(b.metric, b.node)


def streams(b: Bench) -> None:
    b.patch.setattr(stream, "elements_for", lambda *_, **__: 1 << 12)
    test_bandwidth.test_stream(b.metric, CPU, b.node, "triad")


def core_streams(b: Bench) -> None:
    b.patch.setattr(stream, "elements_for", lambda *_, **__: 1 << 12)
    test_bandwidth.test_core_stream(b.metric, b.node, say)


def few_loads(b: Bench) -> None:
    caches = Caches(level2=1 << 16, last=1 << 17, last_total=1 << 17)
    b.patch.setattr(test_latency, "read_caches", lambda: caches)
    b.patch.setattr(test_latency, "SWEPT", 64 << 10)
    b.patch.setattr(chase, "footprint", lambda *_: 64 << 10)
    for table in ("STEPS", "LOADS"):
        b.patch.setattr(test_latency, table, dict.fromkeys(test_latency.STEPS, 100))


def load_latency(b: Bench) -> None:
    few_loads(b)
    test_latency.test_load_latency(b.metric, b.node, "llc")


def by_footprint(b: Bench) -> None:
    few_loads(b)
    test_latency.test_latency_by_footprint(b.metric)


def numa_latency(b: Bench) -> None:
    few_loads(b)

    @contextmanager
    def place(*_: object) -> Iterator[None]:
        yield

    cpus = os.sched_getaffinity(0)
    b.patch.setattr(numa, "read_nodes", lambda: {0: cpus, 1: {9000}})
    b.patch.setattr(numa, "place", place)
    test_latency.test_numa_latency(b.metric, say)


def numa_bandwidth(b: Bench) -> None:
    b.patch.setattr(stream, "elements_for", lambda *_, **__: 1 << 10)
    cpus = os.sched_getaffinity(0)
    b.patch.setattr(numa, "read_nodes", lambda: {0: cpus, 1: {9000}})
    b.patch.setattr(numa, "place", lambda *_: nullcontext())
    test_bandwidth.test_numa_bandwidth(b.metric)


def host_patterns(b: Bench) -> None:
    b.patch.setattr("pytest_anubis.benchmarking.sizes.host_memory", lambda: (1 << 22, 1 << 23))
    b.patch.setattr(test_patterns, "HOST_PAUSE", {"smoke": 0.0})
    b.patch.setattr(patterns, "BLOCK", 1 << 30)
    test_patterns.test_host_patterns(b.metric, b.node, say)


def small_files(b: Bench) -> None:
    b.patch.setattr(test_disk, "FILES", 3)
    test_disk.test_small_files(b.metric, b.node)


def input_pipeline(b: Bench) -> None:
    sizes = {"samples": 2, "batch": 2, "length": 32, "width": 2}
    b.patch.setattr(test_input_pipeline, "ON_A_HOST", sizes)
    b.patch.setattr(test_input_pipeline, "LOADED", 0.0)
    test_input_pipeline.test_input_pipeline(b.metric, b.node, say)


def resnet(b: Bench) -> None:
    b.patch.setattr(b.node, "pick", lambda **_: 2)
    test_step.test_resnet_step(b.metric, CPU, b.node, say)


def gpt(b: Bench) -> None:
    b.patch.setattr(b.node, "pick", lambda **_: 1)
    test_step.test_gpt_step(b.metric, CPU, b.node, say)


def served(test: Callable[..., None], name: str) -> Callable[[Bench], None]:
    def run(b: Bench) -> None:
        test(b.metric, CPU, say, tiny(name), "float32")

    return run


def copies_of_all(b: Bench) -> None:
    def slowest(*_: object) -> Callable[[], float]:
        def rate() -> float:
            return 1.0

        rate.text = ""  # type: ignore[attr-defined]
        return rate

    cards = SimpleNamespace(times_within=lambda *_: 1, wrong_bytes=lambda: [0, 0])
    b.patch.setattr(all_cards, "AllCards", lambda *_: nullcontext(cards))
    b.patch.setattr(all_cards, "Slowest", slowest)
    b.patch.setattr("torch.cuda.device_count", lambda: 2)
    with stand_in(rounded=False, cards=2):
        test_transfer.test_copies_of_all_cards(b.metric, b.node, say)


def card_patterns(b: Bench) -> None:
    b.patch.setattr(test_patterns, "PAUSE", {"smoke": 0.0})
    b.patch.setattr(patterns, "SMALLEST_PIECE", 2048)
    b.patch.setattr(patterns, "BLOCK", 1 << 18)
    with stand_in(memory=1 << 20, rounded=False), Patch.context() as patch:
        patch.setattr("torch.cuda.mem_get_info", lambda *_: (1 << 20, 1 << 20))
        test_patterns.test_card_patterns(b.metric, CARD, b.node)


def by_nccl(test: Callable[..., None], *more: object) -> Callable[[Bench], None]:
    def run(b: Bench) -> None:
        b.patch.setattr("torch.cuda.device_count", lambda: 2)
        b.patch.setattr("suites.collective.group.RankGroup", lambda *_, **__: nullcontext(RANKS))
        b.patch.setattr(test_operations, "active_ports", lambda: [Port("mlx5_0", 1)])
        test(b.metric, b.node, *more)

    return run


def pairs(b: Bench) -> None:
    group: Any = Group()
    test_pairs.test_pairs(Pairs(group, b.metric, BenchmarkMark(), "t", "here"), b.node)


def fan_in(b: Bench) -> None:
    group: Any = Group()
    test_fan_in.test_fan_in(Pairs(group, b.metric, BenchmarkMark(), "t", "here"), b.node)


def data_parallel(b: Bench) -> None:
    for name in ("right_exchange", "same_weights"):
        b.patch.setattr(test_data_parallel, name, lambda *_: None)
    ranks: Any = Ranks()
    test_data_parallel.measure(b.metric, say, ranks, tiny("llama-small"), "float32")


def pipeline(b: Bench) -> None:
    stages, layer = [range(1), range(1, 2)], Layer("block", 1, 1, 1, 1)
    plan = Plan([layer] * 2, {}, [1.0] * 2, stages, [1.0] * 2, batches=2, tokens=1)

    def step(number: int, *, check: bool = False) -> StepTimes:
        return StepTimes(number % 2, 1.0, (0.5, 0.5), (0.5, 0.5))

    ranks: Any = SimpleNamespace(world=2, uncut=lambda: ([0.0, 0.0], []), step=step)
    test_pipeline.measure(b.metric, ranks, say, plan, "float32", 2)


SMALL_TABLES = TableShape(rows=1 << 8, width=16, samples=24, pooling=(3, 1, 5))


def tables(b: Bench) -> None:
    b.patch.setattr(test_tables, "shape_for", lambda *_: SMALL_TABLES)
    test_tables.test_tables(b.metric, CPU, say, "uniform")


def without_tcp(b: Bench) -> None:
    b.patch.setattr("suites.network.loopback.Loopback", lambda _: nullcontext(LINK))
    test_loopback.test_without_tcp(b.metric, b.node)


NODE = object()
"""Stands for the node among the arguments of a benchmark."""
RANKS: Any = Ranks()
TRAFFIC: Any = TrafficRanks()
CARDS: Any = Cards()
CORES: Any = Cores()
DISK: Any = Disk()
LINK: Any = Link()
GIVEN: dict[str, tuple[object, ...]] = {
    "burn/test_cards.py::test_burn": (NODE, CARDS, say, 16),
    "burn/test_cards.py::test_load_steps": (NODE, CARDS),
    "burn/test_cards.py::test_everything_at_once": (NODE, CARDS),
    "burn/test_cores.py::test_burn_cores": (NODE, CORES),
    "burn/test_cores.py::test_core_load_steps": (NODE, CORES),
    "collective/test_allreduce.py::test_all_reduce": (NODE, RANKS),
    "collective/test_operations.py::test_operations": (RANKS, say),
    "collective/test_overlap.py::test_overlap": (RANKS,),
    "network/test_loopback.py::test_tcp_rate": (NODE, LINK),
    "network/test_loopback.py::test_tcp_round_trip": (NODE, [LINK]),
    "storage/test_disk.py::test_sequential_io": (NODE, DISK, "read"),
    "storage/test_disk.py::test_random_io": (NODE, DISK, "read"),
    "storage/test_disk.py::test_mixed_io": (NODE, DISK),
    "storage/test_disk.py::test_fsync": (NODE,),
    "traffic/test_sharded_tables.py::test_sharded_tables": (TRAFFIC, say),
    "traffic/test_experts.py::test_experts": (TRAFFIC, say),
    "traffic/test_layered.py::test_layered": (TRAFFIC, say, "vgg16"),
    "traffic/test_two_tiers.py::test_two_tiers": (TRAFFIC, say),
    "traffic/test_two_jobs.py::test_two_jobs": (NODE, TRAFFIC, say),
}
"""Benchmark -> what it is given after the recorder, where nothing has to be made small."""

MADE_SMALL: dict[str, Callable[[Bench], None]] = {
    "burn/test_device.py::test_burn_device": burn,
    "collective/test_operations.py::test_all_reduce_by": by_nccl(
        test_operations.test_all_reduce_by, "ring"
    ),
    "collective/test_operations.py::test_all_reduce_through_adapters": by_nccl(
        test_operations.test_all_reduce_through_adapters
    ),
    "compute/test_dispatch.py::test_dispatch": dispatch,
    "compute/test_dispatch.py::test_round_trip": round_trip,
    "compute/test_dispatch.py::test_cold_start": cold_start,
    "compute/test_dispatch.py::test_first_start": first_start,
    "compute/test_functions.py::test_function": function,
    "compute/test_gemm.py::test_gemm": gemm,
    "compute/test_shapes.py::test_short_types_on_the_host": short_types,
    "compute/test_shapes.py::test_shapes_on_the_host": shapes,
    "compute/test_units.py::test_units": units,
    "link/test_transfer.py::test_pageable_copy": pageable,
    "link/test_transfer.py::test_copies_of_all_cards": copies_of_all,
    "memory/test_bandwidth.py::test_stream": streams,
    "memory/test_bandwidth.py::test_core_stream": core_streams,
    "memory/test_bandwidth.py::test_numa_bandwidth": numa_bandwidth,
    "memory/test_latency.py::test_load_latency": load_latency,
    "memory/test_latency.py::test_latency_by_footprint": by_footprint,
    "memory/test_latency.py::test_numa_latency": numa_latency,
    "memory/test_patterns.py::test_card_patterns": card_patterns,
    "memory/test_patterns.py::test_host_patterns": host_patterns,
    "network/test_fan_in.py::test_fan_in": fan_in,
    "network/test_loopback.py::test_without_tcp": without_tcp,
    "network/test_pairs.py::test_pairs": pairs,
    "pipeline/test_pipeline.py::test_pipeline": pipeline,
    "recommendation/test_tables.py::test_tables": tables,
    "storage/test_disk.py::test_small_files": small_files,
    "storage/test_input_pipeline.py::test_input_pipeline": input_pipeline,
    "training/test_step.py::test_resnet_step": resnet,
    "training/test_step.py::test_gpt_step": gpt,
    "workload/test_training_steps.py::test_training_step": served(
        test_training_steps.test_training_step, "llama-small"
    ),
    "workload/test_inference.py::test_inference": served(test_inference.test_inference, "lstm"),
    "workload/test_inference.py::test_prefill": served(test_inference.test_prefill, "llama-small"),
    "workload/test_inference.py::test_token": served(test_inference.test_token, "llama-small"),
    "workload/test_inference.py::test_decode": served(test_inference.test_decode, "llama-small"),
    "workload/test_data_parallel.py::test_data_parallel": data_parallel,
}
"""Benchmark -> how it is run whole, at a small size."""

ON_A_CARD = (
    *("test_dispatch", "test_round_trip", "test_cold_start", "test_pageable_copy"),
    "test_card_patterns",
)
IN_C = ("test_units", "test_load_latency", "test_latency_by_footprint", "test_numa_latency")


def test_each_benchmark_that_is_asked_for_it_has_its_own_proof() -> None:
    catches = coverage_table.rows()["catches"]
    asked = {name for name, row in catches.items() if "core" in row["probes"]}
    assert {f"suites/{name}" for name in (*GIVEN, *MADE_SMALL)} == asked


def benchmark(name: str) -> Any:
    """Return the function of a benchmark."""
    path, _, test = name.partition("::")
    module = importlib.import_module("suites." + path.removesuffix(".py").replace("/", "."))
    return getattr(module, test)


def declared(name: str) -> set[str]:
    """Return the metrics that the mark of a benchmark declares, whatever its case."""
    marks = getattr(benchmark(name), "pytestmark", [])
    return {one for mark in marks for one in mark.kwargs.get("metrics", ())}


def run(name: str, bench: Bench) -> None:
    """Run a benchmark whole."""
    if name in MADE_SMALL:
        MADE_SMALL[name](bench)
    else:
        given = (bench.node if one is NODE else one for one in GIVEN[name])
        benchmark(name)(bench.metric, *given)


@pytest.mark.parametrize("name", [*GIVEN, *MADE_SMALL])
def test_a_busy_core_is_said_of_every_value_that_it_can_change(
    name: str, taken: Any, monkeypatch: Patch, tmp_path: Path
) -> None:
    if name.endswith(IN_C) and native.find_compiler() is None:
        pytest.skip("no C compiler found")
    make, kept = taken
    on_a_card = name.endswith(ON_A_CARD)
    node = Node(scratch=tmp_path)
    run(name, Bench(make(CARD if on_a_card else None), monkeypatch, node))
    if not name.endswith("test_latency_by_footprint"):  # of which few sizes are left here
        missing = declared(name) - {one.metric.name for one in kept}
        assert not missing, f"{missing} are declared, not recorded: the node would be rejected"
    rates = [one for one in kept if one.metric.better != "equal"]
    assert rates
    unsaid = [one.metric.name for one in rates if BUSY not in one.disturbance]
    assert not unsaid, f"{unsaid} are recorded as if nobody had been there"


def graph(b: Bench) -> None:
    test_dispatch.test_graph(b.metric, CARD)


def tf32(b: Bench) -> None:
    b.patch.setattr(test_gemm, "SIZES", {"accelerator": {"smoke": 64}})
    test_gemm.test_gemm_tf32(b.metric, CARD, b.node)


def short_types_of_a_card(b: Bench) -> None:
    b.patch.setattr(test_shapes, "SIZES", {"smoke": 64})
    test_shapes.test_short_types(b.metric, CARD, b.node, "int8")


def shapes_of_a_card(b: Bench) -> None:
    b.patch.setattr(test_shapes, "SHAPES", {"small": (16, 16, 16, 1)})
    test_shapes.test_shapes(b.metric, CARD, "small")


def moving(test: Callable[..., None]) -> Callable[[Bench], None]:
    def run(b: Bench) -> None:
        b.patch.setattr(test_transfer, "SIZES", {"smoke": SMALL})
        test(b.metric, CARD, b.node)

    return run


def in_card_memory(test: Callable[..., None], *more: object) -> Callable[[Bench], None]:
    def run(b: Bench) -> None:
        b.patch.setattr(test_card_memory, "WRITTEN", {"smoke": SMALL})
        b.patch.setattr(test_card_memory, "STEPS", 16)
        b.patch.setattr("suites.memory.card_rates.load_times", lambda *_: [2.0, 1.0])
        test(b.metric, CARD, b.node, *more)

    return run


BY_ITS_OWN_CLOCK: dict[str, Callable[[Bench], None]] = {
    "compute/test_dispatch.py::test_graph": graph,
    "compute/test_gemm.py::test_gemm_tf32": tf32,
    "compute/test_shapes.py::test_short_types": short_types_of_a_card,
    "compute/test_shapes.py::test_shapes": shapes_of_a_card,
    "link/test_transfer.py::test_host_device_copy": moving(test_transfer.test_host_device_copy),
    "link/test_transfer.py::test_both_ways": moving(test_transfer.test_both_ways),
    "memory/test_card_memory.py::test_write": in_card_memory(test_card_memory.test_write),
    "memory/test_card_memory.py::test_far_load": in_card_memory(
        test_card_memory.test_far_load, say
    ),
}
"""Benchmarks of one card that are not asked -> how they are run whole."""


@pytest.mark.parametrize("name", BY_ITS_OWN_CLOCK)
def test_what_a_cards_own_clock_times_is_none_of_the_hosts(
    name: str, taken: Any, monkeypatch: Patch
) -> None:
    assert coverage_table.rows()["catches"][f"suites/{name}"]["no_core"] == "its own clock"
    make, kept = taken
    with stand_in(rounded=False):
        BY_ITS_OWN_CLOCK[name](Bench(make(CARD), monkeypatch, Node()))
    assert kept
    assert not declared(name) - {one.metric.name for one in kept}
    assert not [one.metric.name for one in kept if one.disturbance]
    assert all(any(BUSY in line for line in one.evidence) for one in kept)
