"""Inference of the networks that users serve: batches, prompts, and one token after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from pytest_anubis import DeviceFixture, MetricFixture
from pytest_anubis.benchmarking.applicability import require
from pytest_anubis.benchmarking.capture import EAGER
from pytest_anubis.benchmarking.verification import wrong_elements
from suites.workload.catalogue import Sizes, Step, Workload, require_step, runs

if TYPE_CHECKING:
    from suites.workload.serving import Serving

TOLERANCE = {"float32": 1e-4, "bfloat16": 0.1, "float16": 0.02}
"""Largest relative error of the scores against double precision: at least four times that of healthy
devices with the deepest networks. TF32 errs by 1e-3."""

pytestmark = [
    pytest.mark.anubis(
        component="workload.inference",
        scope="device",
        deadline="600s",
        goal="Every device answers at the rate of its class, and right",
        action="A low rate in batches means computing: compare with GEMM; a long time per token memory or "
        "launches: compare with STREAM and dispatch; a wrong score or a weight that changed is silent "
        "corruption: take the device out of service",
    ),
    pytest.mark.usefixtures("torch_settings"),
]


def served(
    device: DeviceFixture,
    record_property: Callable[[str, object], None],
    workload: Workload,
    dtype: str,
    step: Step,
    batch: int | None = None,
) -> tuple[Serving, Sizes, str]:
    """Return a step of inference whose scores are right, captured where that is possible, and its batch.

    Last the group of what is measured: what was not captured where others are is compared with its like.
    """
    require_step(workload, step, dtype, device.kind)
    from suites.workload.running import NoRoomError, fitting_served
    from suites.workload.serving import Serving

    require(device.torch, dtype)
    sizes = workload.served["cpu" if device.kind == "cpu" else "card"]
    if batch is not None:
        sizes = Sizes(batch=batch, length=sizes.length)
    try:
        sizes = fitting_served(workload, sizes, device.torch, dtype)
    except NoRoomError as error:
        pytest.skip(f"not applicable: {error}")
    serving = Serving(workload, sizes, device.torch, dtype, step)
    right_scores(serving, dtype)
    reason = ""
    if device.kind != "cpu":
        reason = serving.capture()
        record_property("inference_step", f"eager: {reason}" if reason else "captured as a graph")
    return serving, sizes, EAGER if reason else ""


def right_scores(serving: Serving, dtype: str) -> None:
    """Assert that the scores are those of double precision."""
    error = serving.error()
    assert error < TOLERANCE[dtype], (
        f"the scores in {dtype} are off by {error:.1e}, tolerance {TOLERANCE[dtype]:.0e}"
    )


@contextmanager
def steady(serving: Serving) -> Iterator[None]:
    """Assert at the end that weights and scores are what they were at the beginning, bit for bit."""
    weights = serving.weights()
    serving.run()
    scores = serving.output.clone()
    yield
    serving.run()
    wrong = wrong_elements(serving.output.contiguous(), scores.contiguous())
    assert wrong == 0, f"{wrong} of {scores.numel()} scores changed from one step to another"
    assert serving.weights() == weights, "a weight changed in memory while it was only read"


@pytest.mark.anubis(
    metrics=["inference_rate"],
    question="How many pictures, sequences or texts a second does a network tell apart?",
)
@pytest.mark.parametrize(("workload", "dtype"), runs("inference", cost="40s", cards="25s"))
def test_inference(
    anubis_metric: MetricFixture,
    anubis_device: DeviceFixture,
    record_property: Callable[[str, object], None],
    workload: Workload,
    dtype: str,
) -> None:
    """A batch is classified quickly; its scores are right and stay the same."""
    serving, sizes, group = served(anubis_device, record_property, workload, dtype, "inference")
    with steady(serving):
        anubis_metric.measure(
            "inference_rate",
            serving.run,
            work=float(sizes.batch),
            unit="samples/s",
            better="higher",
            group=group,
        )


@pytest.mark.anubis(
    metrics=["prefill_rate"],
    question="How many tokens of prompts a second does a language model read?",
)
@pytest.mark.parametrize(("workload", "dtype"), runs("prefill", cost="40s", cards="25s"))
def test_prefill(
    anubis_metric: MetricFixture,
    anubis_device: DeviceFixture,
    record_property: Callable[[str, object], None],
    workload: Workload,
    dtype: str,
) -> None:
    """Prompts are read quickly; the scores of the next token are right, and stay the same."""
    serving, sizes, group = served(anubis_device, record_property, workload, dtype, "prefill")
    with steady(serving):
        anubis_metric.measure(
            "prefill_rate",
            serving.run,
            work=float(sizes.batch * sizes.length),
            unit="tokens/s",
            better="higher",
            group=group,
        )


@pytest.mark.anubis(
    metrics=["token_time"],
    question="How long does one more token take for one text that was read?",
)
@pytest.mark.parametrize(("workload", "dtype"), runs("token", cost="40s", cards="25s"))
def test_token(
    anubis_metric: MetricFixture,
    anubis_device: DeviceFixture,
    record_property: Callable[[str, object], None],
    workload: Workload,
    dtype: str,
) -> None:
    """One text gets its next token soon; its scores are right, and stay the same."""
    serving, _, group = served(anubis_device, record_property, workload, dtype, "token", batch=1)
    with steady(serving):
        anubis_metric.measure("token_time", serving.run, unit="ms", better="lower", group=group)


@pytest.mark.anubis(
    metrics=["decode_rate"],
    question="How many tokens a second does a language model add to a batch of texts?",
)
@pytest.mark.parametrize(("workload", "dtype"), runs("decode", cost="40s", cards="25s"))
def test_decode(
    anubis_metric: MetricFixture,
    anubis_device: DeviceFixture,
    record_property: Callable[[str, object], None],
    workload: Workload,
    dtype: str,
) -> None:
    """A batch of texts is continued quickly; the scores are right, and stay the same."""
    serving, sizes, group = served(anubis_device, record_property, workload, dtype, "decode")
    with steady(serving):
        anubis_metric.measure(
            "decode_rate",
            serving.run,
            work=float(sizes.batch),
            unit="tokens/s",
            better="higher",
            group=group,
        )
