"""The functions that models spend their time in, one at a time."""

from __future__ import annotations

import pytest

from pytest_anubis import DeviceFixture, MetricFixture

NAMES = (
    "bert-large-attention-out", "bert-large-feed-forward", "bert-large-feed-forward-data-gradient",
    "bert-large-feed-forward-weight-gradient", "bert-large-scores", "bert-large-context",
    "gpt2-xl-feed-forward", "llama-8b-gate", "llama-8b-gate-decode", "lstm-1024-gates", "resnet50-first",
    "resnet50-3x3", "resnet50-3x3-data-gradient", "resnet50-3x3-weight-gradient", "resnet50-3x3-nhwc",
    "resnet50-3x3-nhwc-data-gradient", "resnet50-3x3-nhwc-weight-gradient", "resnet50-1x1", "vgg16-3x3",
    "vgg16-3x3-nhwc-data-gradient", "vgg16-3x3-nhwc-weight-gradient", "densenet121-3x3",
    "bert-large-attention", "llama-8b-attention", "bert-large-norm", "llama-8b-norm",
)  # fmt: skip
"""Keys of `functions.FUNCTIONS`, which loads torch: tests are listed without it."""

LONGER = (
    "bert-large-attention-out", "bert-large-feed-forward-data-gradient",
    "bert-large-feed-forward-weight-gradient", "bert-large-context", "gpt2-xl-feed-forward",
    "lstm-1024-gates", "resnet50-3x3", "resnet50-3x3-data-gradient", "resnet50-3x3-weight-gradient",
    "vgg16-3x3", "vgg16-3x3-nhwc-data-gradient", "vgg16-3x3-nhwc-weight-gradient", "densenet121-3x3",
    "llama-8b-norm",
)  # fmt: skip
"""Of the same kind as others, between them in size, or in the layout that accelerators are seldom given: on
those they belong to ``soak`` only."""

ON_A_CPU = 64
"""How many times fewer examples a CPU computes."""


@pytest.mark.anubis(
    component="compute.function",
    scope="device",
    metrics=["function_time"],
    goal="Models spend their time as on every other device of the class",
    question="How long does this function of a well-known model take?",
    action="Compare with the products of the same type: if they are normal, compare the versions of the "
    "libraries, which choose another kernel for each shape",
)
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            one,
            marks=pytest.mark.anubis(
                cost={"cpu": "40s", "accelerator": "12min" if one in LONGER else "15s"},
                profiles={
                    "cpu": ("standard", "soak"),
                    "accelerator": ("soak",) if one in LONGER else ("standard", "soak"),
                },
            ),
        )
        for one in NAMES
    ],
)
@pytest.mark.usefixtures("torch_settings")
def test_function(anubis_metric: MetricFixture, anubis_device: DeviceFixture, name: str) -> None:
    """A layer, a convolution, attention or a normalisation takes its time, and every element is right."""
    from pytest_anubis.benchmarking.applicability import supports
    from suites.compute.functions import FUNCTIONS, FunctionCall

    device, function = anubis_device.torch, FUNCTIONS[name]
    on_cpu = anubis_device.kind == "cpu"
    halves = not on_cpu and supports(device, "bfloat16")
    examples = max(1, function.examples // ON_A_CPU) if on_cpu else function.examples
    call = FunctionCall(function, "bfloat16" if halves else "float32", device, examples=examples)
    anubis_metric.measure("function_time", call.run, unit="us", better="lower")
    wrong = call.wrong_elements()
    assert wrong == 0, f"{name}: {wrong} elements of the last result are wrong"
