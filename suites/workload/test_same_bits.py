"""The first steps of a training, bit for bit: twice on one device, and on every device of a class."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from pytest_anubis import DeviceFixture, MetricFixture
from pytest_anubis.benchmarking.applicability import require
from suites.workload.catalogue import Sizes, Workload, require_step, runs

if TYPE_CHECKING:
    from suites.training.step import TrainingStep

LOSS_TOLERANCES = {"float32": (1e-5, 2e-2), "bfloat16": (2e-2, 0.2), "float16": (5e-3, 0.1)}
"""Largest relative error of the first loss and of those after it, against double precision. Single steps of
a deep network amplify rounding a thousandfold; an error of the first step's gradient is amplified just as
much."""

ON_CARDS = Sizes(batch=8, length=128)
ON_CPU = Sizes(batch=2, length=64)
"""Small: bits are as telling, and a double-precision run of the same steps has to be paid for as well."""


def check_losses(losses: tuple[float, ...], exact: tuple[float, ...], dtype: str) -> None:
    """Assert that the losses are those of double precision, the first one closely."""
    from suites.workload.trajectory import loss_error

    first, later = LOSS_TOLERANCES[dtype]
    for name, count, tolerance in (("first loss", 1, first), ("losses", len(losses), later)):
        error = loss_error(losses[:count], exact[:count])
        assert error < tolerance, (
            f"the {name} in {dtype} are off by {error:.1e}, tolerance {tolerance:.0e}: {losses}, in double "
            f"precision {exact}"
        )


def software(on_cpu: bool) -> str:
    """Return what makes bits comparable: the version of torch, which a class of hosts does not tell apart."""
    import torch

    return f"torch {torch.__version__.partition('+')[0]}" if on_cpu else ""


@pytest.mark.anubis(
    component="workload.bits",
    scope="device",
    deadline="300s",
    metrics=["training_bits"],
    goal="Every device of a class computes the same, to the last bit, every time",
    question="Do the first three steps of a training give the same losses and weights as everywhere else?",
    action="Run it again on this device: if it differs from itself or always from its siblings, take the "
    "device out of service; if all devices differ from the baseline, a library was exchanged: learn anew",
)
@pytest.mark.parametrize(("workload", "dtype"), runs("bits", cost="15s", cards="15s"))
@pytest.mark.usefixtures("torch_settings")
def test_same_bits(
    anubis_metric: MetricFixture,
    anubis_device: DeviceFixture,
    record_property: Callable[[str, object], None],
    workload: Workload,
    dtype: str,
) -> None:
    """The first steps give the right losses, the same bits twice, and those that the class gives."""
    require_step(workload, "bits", dtype, anubis_device.kind)
    import torch

    from suites.workload.running import training_step
    from suites.workload.trajectory import NotDeterministicError, follow, follow_exactly

    device = anubis_device.torch
    require(device, dtype)
    on_cpu = anubis_device.kind == "cpu"
    sizes = ON_CPU if on_cpu else ON_CARDS
    if on_cpu:
        torch.set_num_threads(
            1
        )  # in how many parts a sum is taken must not hang on the machine's quota

    def fresh() -> TrainingStep:
        return training_step(workload, sizes, device, dtype)

    try:
        once, again = follow(fresh()), follow(fresh())
    except NotDeterministicError as error:
        pytest.skip(f"not applicable: {error}")
    exact = follow_exactly(fresh())
    check_losses(once.losses, exact, dtype)
    assert once == again, (
        f"the same {len(once.losses)} steps gave other bits: losses {once.losses} and {again.losses}, "
        f"weights {once.weights:016x} and {again.weights:016x}"
    )
    record_property("losses", " ".join(f"{one:.9g}" for one in once.losses))
    anubis_metric.record(
        "training_bits", float(once.bits), unit="1", better="equal", group=software(on_cpu)
    )
