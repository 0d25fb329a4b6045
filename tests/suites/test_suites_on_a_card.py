"""The branches for accelerators run to their end on a stand-in for one, and notice a sick one."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from pytest_anubis.benchmarking import placement, precision, ranks, sizes
from pytest_anubis.core.nominal_rate import NominalRate
from pytest_anubis.hardware import round_plans
from pytest_anubis.hardware.round_plans import Settle
from pytest_anubis.session.collecting.device_parameters import Device
from suites.collective import test_allreduce, test_operations, test_overlap
from suites.collective.group import Overlap, RankGroup
from suites.collective.operations import BUS
from suites.compute import test_dispatch, test_gemm
from suites.compute.kernels import Gemm
from suites.memory import test_bandwidth
from suites.memory.stream import OPERATIONS
from suites.training import test_step as training
from suites.training.resnet import ResNetShape, resnet_step
from suites.training.step import TrainingStep
from tests.places import ROOT
from tests.suites.stand_in_card import CARD, stand_in

pytestmark = pytest.mark.usefixtures("one_thread", "quick_processes")
CALLS = 3


@dataclass
class Taken:
    """Stands for ``anubis_metric``: calls what it is given a few times.

    Attributes:
        asked: By metric, what was asked for.
        values: By metric, what was returned or recorded.
    """

    asked: dict[str, dict[str, Any]] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)

    def measure(self, name: str, fn: Callable[[], object], **asked: Any) -> tuple[float, ...]:
        """Call it."""
        self.asked[name] = asked
        for _ in range(CALLS):
            fn()
        return (1.0,)

    def collect(self, name: str, fn: Callable[[], Any], **asked: Any) -> tuple[float, ...]:
        """Call it, and see that it returns what can be recorded."""
        self.asked[name] = asked
        values = [float(fn()) for _ in range(CALLS)]
        assert all(math.isfinite(value) and value >= 0 for value in values)
        self.values[name] = tuple(values)
        return tuple(values)

    def record(self, name: str, value: Any, **asked: Any) -> tuple[float, ...]:
        """Keep it."""
        self.asked[name], self.values[name] = asked, value
        return (value,)


@dataclass
class Node:
    """Stands for ``anubis_node``."""

    profile: str = "smoke"
    cores: int = 1
    scratch: Path = Path()
    name: str = "node"

    def pick(self, **of: Any) -> Any:
        """Return the profile's."""
        return of[self.profile]

    def nominal(self, link: str = "port", name: str = "") -> NominalRate:
        """Return a rate that names the link."""
        return NominalRate(value=4e9, of=f"{link} {name}".rstrip())


@pytest.fixture
def card() -> Iterator[Any]:
    with stand_in() as found, precision.single_precision():
        yield found


SMALL_RESNET = {"width": 8, "stages": 2, "blocks": 1, "picture": 16}
MIDDLE_RESNET = {"width": 16, "stages": 4, "blocks": 1, "picture": 32}
SMALL_GPT = {"layers": 1, "width": 32, "heads": 2, "context": 32, "vocabulary": 64}


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shapes for a CPU."""
    monkeypatch.setattr(training, "RESNET", SMALL_RESNET)
    monkeypatch.setattr(training, "PICTURES", 8)
    monkeypatch.setattr(training, "GPT", SMALL_GPT)
    monkeypatch.setattr(training, "SEQUENCES", 4)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("test", [training.test_resnet_step, training.test_gpt_step])
def test_training_step_is_checked_captured_and_replayed(
    test: Callable[..., None], card: Any
) -> None:
    taken, said = Taken(), dict[str, object]()
    test(taken, Device("cuda:0"), Node(), said.__setitem__)
    assert list(taken.asked) == ["training_rate"]
    assert said == {"training_step": "captured as a graph"}
    assert [graph.replays for graph in card.graphs] == [CALLS]


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("test", [training.test_resnet_step, training.test_gpt_step])
def test_training_step_that_cannot_be_captured_runs_and_says_why(
    test: Callable[..., None],
) -> None:
    taken, said = Taken(), dict[str, object]()
    with stand_in(captures=False):
        test(taken, Device("cuda:0"), Node(), said.__setitem__)
    assert taken.asked["training_rate"]["group"] == "eager"  # no criterion of graphs judges it
    assert said == {"training_step": "eager: operation not permitted when stream is capturing"}


def small_step() -> TrainingStep:
    return resnet_step(ResNetShape(**SMALL_RESNET, batch=8), CARD, half=True)


def test_healthy_card_has_a_margin_and_tf32_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    with stand_in():
        step = resnet_step(ResNetShape(**MIDDLE_RESNET, batch=4), CARD, half=True)
        for half, tolerance in training.GRADIENT_TOLERANCE.items():
            assert step.gradient_errors(half)[0] < tolerance / 3
        monkeypatch.setattr("suites.training.step.single_precision", nullcontext)
        with precision.single_precision(tf32=True):
            assert step.gradient_errors(False)[0] > training.GRADIENT_TOLERANCE[False]


def test_reference_in_double_precision_is_computed_once() -> None:
    with stand_in(rounded=False):
        step = small_step()
        kinds: list[torch.dtype] = []
        first = next(m for m in step.model.modules() if isinstance(m, torch.nn.Conv2d))
        first.register_forward_hook(lambda _module, given, _out: kinds.append(given[0].dtype))
        training.right_gradient(step, half=True)
    assert kinds == [torch.float32, torch.float32, torch.float64]  # autocast is inside of the layer


def quietly_wrong(module: Any, inputs: Any, output: torch.Tensor) -> torch.Tensor:
    """Be wrong in one channel, but in double precision, as a kernel of low precision may be."""
    if output.dtype is torch.float64:
        return output
    output = output.clone()
    output[:, 0] *= 1.5
    return output


def test_corrupted_kernel_is_caught_in_either_precision() -> None:
    with stand_in():
        for half in (False, True):
            step = resnet_step(ResNetShape(**MIDDLE_RESNET, batch=4), CARD, half=True)
            first = next(m for m in step.model.modules() if isinstance(m, torch.nn.BatchNorm2d))
            first.register_forward_hook(quietly_wrong)
            assert step.gradient_errors(half)[0] > training.GRADIENT_TOLERANCE[half]


class Counting(Device):
    """A device that counts its energy: ten joules with each look."""

    looks = 0

    def energy(self) -> float:
        """Return more than before."""
        Counting.looks += 1
        return 10.0 * Counting.looks


ALL_METRICS = ["gemm_burst_rate", "gemm_rate", "gemm_efficiency"]


@pytest.mark.usefixtures("card")
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64", "tf32"])
@pytest.mark.parametrize(
    ("device", "metrics"),
    [(Device("cuda:0"), ALL_METRICS[:2]), (Counting("cuda:0"), ALL_METRICS)],
    ids=["without energy", "with energy"],
)
def test_product_is_right_and_has_a_burst_and_a_sustained_rate(
    monkeypatch: pytest.MonkeyPatch, dtype: str, device: Device, metrics: list[str]
) -> None:
    monkeypatch.setattr(test_gemm, "SIZES", {"accelerator": {"smoke": 192}})
    monkeypatch.setattr(test_gemm, "WINDOW", {"smoke": 0.01})
    taken = Taken()
    if dtype == "tf32":
        test_gemm.test_gemm_tf32(taken, device, Node())
    else:
        test_gemm.test_gemm(taken, device, Node(), dtype)
    energy = (
        "gemm_efficiency" in metrics and dtype == "bfloat16"
    )  # of others in the longer profiles
    assert list(taken.asked) == (ALL_METRICS if energy else ALL_METRICS[:2])
    assert taken.asked["gemm_burst_rate"]["load"] == "short"


@pytest.mark.usefixtures("card")
def test_energy_counter_that_falls_silent_is_no_fault_of_the_card(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Silent(Counting):
        def energy(self) -> float | None:  # type: ignore[override]
            return super().energy() if Counting.looks < 8 else None

    monkeypatch.setattr(Counting, "looks", 0)
    monkeypatch.setattr(test_gemm, "SIZES", {"accelerator": {"smoke": 192}})
    monkeypatch.setattr(test_gemm, "WINDOW", {"smoke": 0.01})
    taken = Taken()
    test_gemm.test_gemm(taken, Silent("cuda:0"), Node(), "bfloat16")
    assert "gemm_rate" in taken.asked
    assert "gemm_efficiency: not measured: the energy counter" in capsys.readouterr().out


@pytest.mark.parametrize("variable", precision.TF32_VARIABLES)
def test_tf32_of_the_environment_is_ignored(
    card: Any, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, "1")
    assert precision.drop_tf32_variables() == (variable,)
    assert variable not in os.environ
    # What the variable does to torch when it is loaded before the suites are.
    with precision.single_precision(tf32=True):
        gemm = Gemm(192, "float32", CARD)
        gemm.run()
        assert gemm.relative_error() > gemm.tolerance
        with precision.single_precision():
            gemm.run()
            assert gemm.relative_error() < gemm.tolerance
        assert torch.get_float32_matmul_precision() == "high"


class Settings(SimpleNamespace):
    """Torch's settings of old, which refuse to be read where somebody has mixed them with the new ones."""

    mixed = False

    def __getattribute__(self, name: str) -> Any:
        if name == "allow_tf32" and super().__getattribute__("mixed"):
            raise RuntimeError("you have used a mix of the legacy and new APIs")
        return super().__getattribute__(name)


@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("new", [True, False], ids=["torch 2.9 on", "torch before 2.9"])
def test_tf32_that_somebody_has_set_is_put_aside_and_back(
    monkeypatch: pytest.MonkeyPatch, new: bool, mixed: bool
) -> None:
    values = ("tf32", "tf32", "none", "bf16", "ieee")
    parts = [SimpleNamespace(fp32_precision=value) for value in values]
    cudnn = Settings(allow_tf32=True, mixed=mixed and new)
    if new:
        cudnn.conv, cudnn.rnn = parts[1:3]
    backends = SimpleNamespace(
        cuda=SimpleNamespace(matmul=parts[0]),
        cudnn=cudnn,
        mkldnn=SimpleNamespace(matmul=parts[3], conv=parts[4]),
    )
    told = ["medium"]
    monkeypatch.setattr(torch, "backends", backends)
    monkeypatch.setattr(torch, "get_float32_matmul_precision", lambda: told[-1])
    monkeypatch.setattr(torch, "set_float32_matmul_precision", told.append)
    for tf32 in (False, True):
        with precision.single_precision(tf32=tf32):
            assert told[-1] == ("high" if tf32 else "highest")
            assert vars(cudnn)["allow_tf32"] is tf32
            if new:
                assert {part.fp32_precision for part in parts} == {"tf32" if tf32 else "ieee"}
        assert told[-1] == "medium"
        assert vars(cudnn)["allow_tf32"] is (tf32 if cudnn.mixed else True)
        assert tuple(part.fp32_precision for part in parts) == values


@pytest.mark.usefixtures("card")
def test_device_that_does_not_notice_an_error_is_not_believed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gemm = Gemm(96, "float32", CARD)
    assert gemm.wrong_rows() == 0
    monkeypatch.setattr(gemm, "_broken", lambda: torch.zeros(96, dtype=torch.bool))
    assert gemm.wrong_rows() == 96


def test_what_has_no_room_is_halved_and_nothing_else() -> None:
    for memory, wanted in ((80, 8), (16, 8), (15, 4), (3, 1)):
        with stand_in(memory=memory << 30):
            assert sizes.fitting(8 << 30, CARD) == wanted << 30
    with stand_in(memory=16 << 30):
        assert sizes.fitting(8 << 30, CARD, times=2) == 4 << 30
    assert sizes.fitting(8 << 30, torch.device("cpu")) == 8 << 30


@pytest.mark.usefixtures("card")
@pytest.mark.parametrize("operation", list(OPERATIONS))
def test_stream_is_bounded_by_the_memory_of_the_card(card: Any, operation: str) -> None:
    card.memory = 96 << 20
    taken = Taken()
    test_bandwidth.test_stream(taken, Device("cuda:0"), Node(), operation)
    # Three arrays in half of it: 16 MiB each.
    assert taken.asked["stream_rate"]["work"] == OPERATIONS[operation][0] * (16 << 20)


@pytest.mark.usefixtures("card")
@pytest.mark.parametrize("test", [test_dispatch.test_dispatch, test_dispatch.test_round_trip])
def test_launches_are_counted(test: Callable[..., None]) -> None:
    taken = Taken()
    test(taken, Device("cuda:0"))
    assert [asked["clock"] for asked in taken.asked.values()] == ["host"]


def test_ranks_on_cards_take_what_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(test_overlap.ON_ACCELERATORS, "order", 128)
    taken = Taken()
    with RankGroup(2, 2, module="tests.suites.rank_on_a_card") as group:
        assert group.on_accelerators
        sizes: list[int] = []
        prepare = group.prepare

        def noting(size: int, **given: Any) -> None:
            sizes.append(size)
            prepare(size, **given)

        monkeypatch.setattr(group, "prepare", noting)
        test_allreduce.test_all_reduce(taken, Node(), group)
        test_overlap.test_overlap(taken, group)
        assert sizes == [8 << 20, 6 << 20]
        assert list(taken.asked) == ["bus_bandwidth", "overlap_stretch", "overlapped_step"]
        assert taken.asked["bus_bandwidth"]["nominal"] == Node().nominal("nvlink")
        monkeypatch.setattr(test_operations, "SWEEP", {"1MiB": 1 << 20})
        monkeypatch.setattr(test_operations, "LARGE", {"3MiB": 3 << 20})
        monkeypatch.setattr(test_operations, "ROUND", 0.001)
        each, said = Taken(), dict[str, object]()
        test_operations.test_operations(each, group, said.__setitem__)
    sizes_of = [f"{one}_{size}" for one in test_operations.OPERATIONS for size in ("1MiB", "3MiB")]
    assert list(each.asked) == list(said) == sizes_of
    assert set(test_operations.OPERATIONS) == set(BUS)


def test_round_of_all_reduces_loads_the_cards_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    group = object.__new__(RankGroup)
    group.on_accelerators, group.world = True, 8
    asked: list[int] = []

    def bandwidth(_size: int, times: int) -> float:
        asked.append(times)
        return 480e9  # eight H100

    for name, answer in (
        ("fitting", lambda size: size),
        ("prepare", lambda size: None),
        ("bus_bandwidth", bandwidth),
        ("wrong_elements", lambda: 0),
    ):
        monkeypatch.setattr(group, name, answer)
    test_allreduce.test_all_reduce(Taken(), Node(), group)
    assert asked == [10] * 3 + [77] * CALLS  # 77 times 3.9 ms
    asked.clear()
    step = Overlap(compute=6e-3, communicate=6e-3, together=7e-3)

    def overlap(steps: int) -> Overlap:
        asked.append(steps)
        return step

    monkeypatch.setattr(group, "overlap", overlap)
    monkeypatch.setattr(group, "prepare", lambda size, **_: None)
    test_overlap.test_overlap(Taken(), group)
    assert asked == [3] * 3 + [16] * CALLS  # both metrics of the same rounds


def test_ranks_stay_near_their_cards(tmp_path: Path) -> None:
    card = SimpleNamespace(pci_domain_id=0, pci_bus_id=0x61, pci_device_id=0)
    home = os.sched_getaffinity(0)
    near = min(home)
    place = tmp_path / "sys/bus/pci/devices/0000:61:00.0"
    place.mkdir(parents=True)
    try:
        (place / "local_cpulist").write_text("8000-8003,8007\n")
        assert placement.cpus_near(card, tmp_path) == {8000, 8001, 8002, 8003, 8007}
        assert not placement.stay_near(card, tmp_path)  # none of ours
        assert os.sched_getaffinity(0) == home
        (place / "local_cpulist").write_text(f"{near},8000-8001\n")
        assert placement.stay_near(card, tmp_path)
        assert os.sched_getaffinity(0) == {near}
    finally:
        os.sched_setaffinity(0, home)
    assert not placement.stay_near(SimpleNamespace(), tmp_path)  # torch before 2.6


def test_rank_is_near_its_card_before_it_has_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    from suites.collective import rank

    steps: list[str] = []
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: f"card {device.index}")
    monkeypatch.setattr(ranks, "stay_near", steps.append)
    monkeypatch.setattr(torch, "set_num_threads", lambda _: steps.append("threads"))

    def begin(*_: Any, **__: Any) -> None:
        raise RuntimeError("joined")

    monkeypatch.setattr(torch.cuda, "set_device", lambda _: None)
    monkeypatch.setattr(torch.distributed, "init_process_group", begin)
    with pytest.raises(RuntimeError, match="joined"):
        rank.main("0", "5", "8", "nccl", "store", "2")
    assert steps == ["card 5", "threads"]


def test_link_five_times_slower_shows_behind_the_products() -> None:
    # What eight H100 attain: 700 TFLOP/s under load, 480 GB/s on the bus.
    shape = test_overlap.ON_ACCELERATORS
    compute = shape["products"] * 2 * shape["order"] ** 3 / 700e12
    communicate = shape["size"] * 2 * 7 / 8 / 480e9
    assert communicate < 1.2 * compute  # hidden where all is well
    assert max(compute, 5 * communicate) > 3 * compute


def test_run_on_a_card_tells_its_duty(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick = Settle(min_seconds=0.1, max_seconds=0.5, wake_seconds=0.05)
    monkeypatch.setattr(round_plans, "SETTLE", dict.fromkeys(round_plans.SETTLE, quick))
    monkeypatch.setitem(round_plans.CARD_ROUNDS, "smoke", (4, 0.005, 0.1))
    node = ROOT / "tests/data/recorded_8gpu.json"
    result = pytester.runpytest(
        *(
            "--anubis",
            "--anubis-in-process",
            "--anubis-gate=off",
            f"--anubis-inventory={node}",
            "-v",
        ),
        *("-p", "tests.suites.stand_in_plugin", "-k", "cuda:0", f"--rootdir={ROOT}"),
        *(
            f"{ROOT}/suites/compute/test_dispatch.py::{name}"
            for name in ("test_dispatch", "test_round_trip")
        ),
    )
    result.assert_outcomes(skipped=2, deselected=14)
    result.stdout.fnmatch_lines(["duty: accelerators were measuring * of the time of 2 tests, *"])
