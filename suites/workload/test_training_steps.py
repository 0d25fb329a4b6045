"""Training steps of the networks that users train, on every device alone."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pytest_anubis import DeviceFixture, MetricFixture
from pytest_anubis.benchmarking.applicability import require
from suites.training.test_step import captured, learned
from suites.workload.catalogue import Workload, require_step, runs

GRADIENT_TOLERANCE = {"float32": 3e-4, "bfloat16": 0.4, "float16": 0.2}
"""Largest relative error of the gradient in each type: at least three times that of a healthy device with the
deepest network (`float32` 6e-6, with TF32 2e-3; `bfloat16` 0.1). A flipped high bit, a tile that is not
computed or a wrong stride is off by more than 1."""

LOSS_TOLERANCE = 5e-3
"""Largest relative error of the loss of a network whose gradient in double precision would not fit too;
its bfloat16 has 8 bits, and a thousand tokens' errors average out."""


@pytest.mark.anubis(
    component="workload.training",
    scope="device",
    deadline="900s",
    metrics=["training_rate"],
    goal="Every device trains the networks that users train at the rate of its class, and right",
    question="How many examples a second does a network of the reference's size learn from?",
    action="Compare with the GEMM, memory and dispatch benchmarks of this device: if those are normal, "
    "compare the networks with each other: convolutions alone slow means their library, all slow under long "
    "load only means heat or power",
)
@pytest.mark.parametrize(("workload", "dtype"), runs("training", cost="45s", cards="30s"))
@pytest.mark.usefixtures("torch_settings")
def test_training_step(
    anubis_metric: MetricFixture,
    anubis_device: DeviceFixture,
    record_property: Callable[[str, object], None],
    workload: Workload,
    dtype: str,
) -> None:
    """A training step of a network is quick, its gradient right, and its loss falls."""
    require_step(workload, "training", dtype, anubis_device.kind)
    from suites.workload.running import NoRoomError, fitting_batch, forward_error, training_step

    device = anubis_device.torch
    require(device, dtype)
    sizes = workload.cpu if anubis_device.kind == "cpu" else workload.cards
    assert sizes is not None
    try:
        sizes = fitting_batch(workload, sizes, device)
    except NoRoomError as missing:
        pytest.skip(f"not applicable: {missing}")
    step = training_step(workload, sizes, device, dtype)
    if workload.light:
        error = forward_error(step.model, workload, device)
        assert error < LOSS_TOLERANCE, f"the loss in {dtype} is off by {error:.1e}"
    else:
        halves = (False,) if dtype == "float32" else (False, True)
        for half, error in zip(halves, step.gradient_errors(*halves), strict=True):
            kind = dtype if half else "float32"
            tolerance = workload.tolerances.get(kind, GRADIENT_TOLERANCE[kind])
            assert error < tolerance, (
                f"the gradient in {kind} is off by {error:.1e}, tolerance {tolerance:.0e}"
            )
    group = captured(step, record_property) if anubis_device.kind != "cpu" else ""
    work = sizes.batch * (sizes.length if workload.task == "language" else 1)
    anubis_metric.measure(
        "training_rate",
        step.run,
        work=float(work),
        unit=workload.unit,
        better="higher",
        group=group,
    )
    learned(step, fell=not workload.light)
