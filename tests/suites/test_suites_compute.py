"""The arithmetic kernels do the work they say, and notice every wrong bit."""

from __future__ import annotations

import mmap
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from pytest_anubis import DeviceFixture
from pytest_anubis.benchmarking import applicability
from pytest_anubis.hardware.text_files import Files
from suites.compute import energy, test_gemm
from suites.compute.energy import Efficiency
from suites.compute.kernels import Gemm, Launch, matrix, multiply
from suites.memory.huge_pages import HUGE

pytestmark = pytest.mark.usefixtures("one_thread")
Costs = Callable[..., list[float]]
CPU = torch.device("cpu")
INTEGERS = {"float64": torch.int64, "float32": torch.int32, "bfloat16": torch.int16}
BITS = {
    "float64": {"last": 0, "sign": 63, "exponent": 60},
    "float32": {"last": 0, "sign": 31, "exponent": 28},
    "bfloat16": {"last": 0, "sign": 15, "exponent": 12},
}


def flipping(dtype: str, bit: int) -> Callable[[torch.Tensor, torch.Tensor, torch.Tensor], None]:
    """Return a product that flips one bit of the largest element of its result."""

    def product(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> None:
        multiply(a, b, out)
        place = int(out.abs().argmax())
        bits = out.view(INTEGERS[dtype]).view(-1)
        sign_bit = torch.iinfo(INTEGERS[dtype]).bits - 1
        mask = torch.iinfo(INTEGERS[dtype]).min if bit == sign_bit else 1 << bit
        bits[place] ^= mask

    return product


@pytest.mark.parametrize("dtype", list(BITS))
@pytest.mark.parametrize("size", [96, 257])
def test_gemm_is_right_on_healthy_hardware(dtype: str, size: int) -> None:
    gemm = Gemm(size, dtype, CPU)
    gemm.run()
    assert gemm.relative_error() < gemm.tolerance
    assert gemm.wrong_rows() == 0


@pytest.mark.parametrize("dtype", list(BITS))
@pytest.mark.parametrize("bit", ["last", "sign", "exponent"])
def test_gemm_notices_any_flipped_bit(dtype: str, bit: str) -> None:
    gemm = Gemm(96, dtype, CPU, product=flipping(dtype, BITS[dtype][bit]))
    assert gemm.wrong_rows() == 1


@pytest.mark.parametrize("dtype", list(BITS))
def test_gemm_notices_a_flipped_exponent_among_normal_numbers(dtype: str) -> None:
    gemm = Gemm(96, dtype, CPU, product=flipping(dtype, BITS[dtype]["exponent"]))
    gemm.run()
    # An infinite or undefined error is not within the tolerance either.
    assert not gemm.relative_error() < gemm.tolerance


def test_gemm_that_computes_nothing_is_wrong() -> None:
    gemm = Gemm(64, "float32", CPU, product=lambda a, b, out: out.zero_())
    assert gemm.wrong_rows() > 0


@pytest.mark.skipif(not hasattr(mmap, "MADV_HUGEPAGE"), reason="this kernel has no huge pages")
@pytest.mark.parametrize("kind", [torch.float64, torch.bfloat16, torch.int8])
def test_matrices_begin_a_huge_page_and_share_none(kind: torch.dtype) -> None:
    cpu = torch.device("cpu")
    one, other = (matrix(300, 200, kind, cpu) for _ in "ab")
    one.fill_(1)
    other.fill_(2)
    assert one.shape == other.shape == (300, 200)
    assert one.data_ptr() % HUGE == other.data_ptr() % HUGE == 0
    assert (int(one.sum(dtype=torch.int64)), int(other.sum(dtype=torch.int64))) == (60_000, 120_000)
    del one  # its room is given back by itself
    assert int(other.sum(dtype=torch.int64)) == 120_000


def test_a_kernel_without_huge_pages_gives_small_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    class Refusing(mmap.mmap):
        def madvise(self, *_: int) -> None:
            raise OSError(22, "Invalid argument")

    monkeypatch.setattr(mmap, "mmap", Refusing)
    made = matrix(30, 20, torch.float64, torch.device("cpu"))
    assert float(made.fill_(1).sum()) == 600


@pytest.mark.alone
def test_larger_product_costs_more(costs: Costs) -> None:
    small, large = Gemm(256, "float32", CPU), Gemm(512, "float32", CPU)
    assert large.work == 8 * small.work
    least = costs(small.run, large.run)
    assert least[1] > 2 * least[0]


@pytest.mark.alone
def test_slower_product_shows(costs: Costs) -> None:
    def thrice(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> None:
        for _ in range(3):
            multiply(a, b, out)

    healthy, slow = Gemm(256, "float32", CPU), Gemm(256, "float32", CPU, product=thrice)
    least = costs(healthy.run, slow.run)
    assert least[1] > 1.5 * least[0]


@pytest.mark.alone
def test_every_launch_counts(costs: Costs) -> None:
    launch = Launch(CPU)
    assert launch.count(1000) == 1000
    least = costs(lambda: launch.count(1000), lambda: launch.count(4000))
    assert least[1] > 2 * least[0]


def test_a_lost_launch_is_noticed() -> None:
    launches = 0

    def lossy(counter: torch.Tensor) -> None:
        nonlocal launches
        launches += 1
        if launches != 500:
            counter.add_(1)

    assert Launch(CPU, operation=lossy).count(1000) == 999


class Counter:
    """A device whose energy counter moves every so many calls, by ten joules a call."""

    def __init__(self, step: int) -> None:
        self.calls = 0
        self._step = step

    def run(self) -> None:
        self.calls += 1

    def energy(self) -> float | None:
        return 10.0 * (self.calls // self._step * self._step) if self._step else 0.0

    def synchronize(self) -> None:
        pass


def test_efficiency_is_work_over_what_the_counter_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        energy, "BATCH", 0.0
    )  # looks after every call: no end of a window is blurred
    device = cast("DeviceFixture", counter := Counter(step=100))
    window = Efficiency(counter.run, 2e9, device, 0.05)
    assert window.moves()
    assert window.value() == pytest.approx(0.2)
    assert Efficiency(counter.run, 4e9, device, 0.05).value() == pytest.approx(0.4)


def test_counter_that_stands_still_is_no_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(energy, "PATIENCE", 0.1)
    device = Counter(step=0)
    window = Efficiency(device.run, 1.0, cast("DeviceFixture", device), 0.01)
    assert not window.moves()
    with pytest.raises(RuntimeError, match="stood still"):
        window.value()


def test_type_without_instructions_does_not_apply(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # Products of a type that a CPU only converts run at 0.0007 TFLOP/s and say nothing of it.
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/cpuinfo").write_text(
        "processor : 0\nflags : fpu sse2 avx2 f16c fma avx512f\n"
    )
    monkeypatch.setattr(applicability, "Files", lambda: Files(tmp_path))
    device = cast(DeviceFixture, SimpleNamespace(kind="cpu", name="cpu", torch=CPU))
    measured: list[str] = []
    monkeypatch.setattr(test_gemm, "_rates", lambda *given: measured.append(given[-1]))
    monkeypatch.setattr(test_gemm, "_right", lambda *_: None)
    fixtures = cast(Any, None), device, cast(Any, None)
    for dtype in ("float32", "float64"):
        test_gemm.test_gemm(*fixtures, dtype)
    with pytest.raises(pytest.skip.Exception, match="not applicable: this CPU has no instructions"):
        test_gemm.test_gemm(*fixtures, "bfloat16")
    assert measured == ["float32", "float64"]
