"""Functions of models do the work of their shapes, and no wrong element stays unseen; starts, graphs."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from pytest_anubis.benchmarking.precision import single_precision
from pytest_anubis.session.collecting.device_parameters import Device
from suites.compute import cold, test_dispatch, test_functions
from suites.compute.functions import (
    FUNCTIONS,
    Apply,
    Function,
    FunctionCall,
    attention,
    convolution,
    convolution_gradient,
    layer_norm,
    linear,
    linear_gradient,
    products,
)
from suites.compute.kernels import Launch
from tests.suites.stand_in_card import stand_in
from tests.suites.test_suites_on_a_card import Node, Taken

pytestmark = pytest.mark.usefixtures("one_thread")
CPU = torch.device("cpu")
SMALL = {
    "linear": linear(64, 32, 48),
    "convolution": convolution(4, 6, 3, 10, batch=6),
    "attention": attention(2, 24, 8, causal=True, batch=3),
    "layer norm": layer_norm(32, 40),
    "products": products(12, 16, 10, batch=20),
    "transposed products": products(12, 16, 10, batch=20, transposed=True),
    "channels last": convolution(4, 6, 3, 10, batch=6, channels_last=True),
    "gradient of rows": linear_gradient("data", 64, 32, 48),
    "gradient of pictures": convolution_gradient("data", 4, 6, 3, 10, batch=6, channels_last=True),
}
SUMMED = {
    "gradient of weights": linear_gradient("weights", 64, 32, 1030),
    "gradient of filters": convolution_gradient("weights", 4, 6, 3, 10, batch=6),
    "gradient of filters, channels last": convolution_gradient(
        "weights", 4, 6, 3, 10, batch=6, channels_last=True
    ),
}
"""Of more examples than are checked at a time."""

ALL = {**SMALL, **SUMMED}


def spoiled(function: Function, spoil: Callable[[torch.Tensor], object]) -> Apply:
    def apply(*inputs: torch.Tensor) -> torch.Tensor:
        found = function.apply(*inputs)
        spoil(found)
        return found

    return apply


@pytest.mark.parametrize("name", list(ALL))
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_healthy_hardware_is_right(name: str, dtype: str) -> None:
    with stand_in(), single_precision():  # sums of halves in single precision, as on a card
        call = FunctionCall(ALL[name], dtype, torch.device("cuda", 0))
        call.run()
        assert call.wrong_elements() == 0


@pytest.mark.parametrize("name", list(ALL))
@pytest.mark.parametrize("place", [0, -1])
def test_one_wrong_element_anywhere_is_counted(name: str, place: int) -> None:
    def another_sign(found: torch.Tensor) -> None:
        where = (place,) * found.dim()
        found[where] = -found[where] - found.std()

    function = ALL[name]
    call = FunctionCall(function, "float32", CPU, apply=spoiled(function, another_sign))
    call.run()
    assert call.wrong_elements() == 1
    nothing = FunctionCall(function, "float32", CPU, apply=spoiled(function, torch.Tensor.zero_))
    nothing.run()
    assert nothing.wrong_elements() > nothing._out.numel() // 2


def test_blind_device_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = [FunctionCall(ALL[name], "float32", CPU) for name in ("linear", "gradient of filters")]
    for call in calls:
        call.run()
    monkeypatch.setattr(torch, "count_nonzero", lambda _: torch.tensor(0))
    for call in calls:
        assert call.wrong_elements() == call._out.numel()


def test_twice_the_examples_are_twice_the_result() -> None:
    for function in SMALL.values():
        sizes = []
        for examples in (2, 4):
            call = FunctionCall(function, "float32", CPU, examples=examples)
            call.run()
            sizes.append(call._out.numel())
        assert sizes[1] == 2 * sizes[0]


@pytest.mark.parametrize("name", list(SUMMED))
def test_sum_over_twice_the_examples_has_the_terms_of_both_halves(name: str) -> None:
    function = SUMMED[name]
    whole = FunctionCall(function, "float64", CPU)
    whole.run()
    half = function.examples // 2
    parts = [
        function.apply(*(batch[part] for batch in whole._batches), *whole._weights)
        for part in (slice(0, half), slice(half, None))
    ]
    assert not torch.allclose(whole._out, parts[0])
    torch.testing.assert_close(whole._out, parts[0] + parts[1])


@pytest.mark.parametrize("name", [name for name in SUMMED if "filters" in name])
def test_gradients_are_those_that_training_computes(name: str) -> None:
    function = SUMMED[name]
    call = FunctionCall(function, "float64", CPU)
    call.run()
    pictures, gradients = call._batches
    (filters,) = call._weights
    filters.requires_grad_()
    made = torch.nn.functional.conv2d(pictures, filters, padding=1)
    (expected,) = torch.autograd.grad(made, filters, gradients)
    torch.testing.assert_close(call._out, expected)


def test_layout_is_the_one_that_the_name_says() -> None:
    for name, function in FUNCTIONS.items():
        assert function.channels_last == ("nhwc" in name)
    calls = {
        name: FunctionCall(ALL[name], "float32", CPU) for name in ("convolution", "channels last")
    }
    for name, call in calls.items():
        call.run()
        for made in (*call._batches, *call._weights, call._out):
            last = made.is_contiguous(memory_format=torch.channels_last)
            assert last == (name == "channels last")
    assert calls["convolution"].wrong_elements() == calls["channels last"].wrong_elements() == 0


def test_every_function_is_listed_and_is_the_models_shape() -> None:
    assert set(test_functions.NAMES) == set(FUNCTIONS)
    assert FUNCTIONS["resnet50-first"].weights == ((64, 3, 7, 7),)
    assert FUNCTIONS["llama-8b-attention"].example == ((4096, 128),) * 3


@pytest.mark.parametrize("name", ["small", "wrong"])
def test_function_is_timed_and_checked_on_a_card(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    function = SMALL["linear"]
    monkeypatch.setitem(FUNCTIONS, "small", function)
    calls = 0

    def later(found: torch.Tensor) -> None:
        nonlocal calls
        calls += 1
        if (
            calls == 3 and found.dtype is torch.bfloat16
        ):  # the last that is timed, not the reference
            found[2, 3] = 77.0

    wrong = Function(spoiled(function, later), function.example, function.weights, 64, 48, 1024)
    monkeypatch.setitem(FUNCTIONS, "wrong", wrong)
    taken = Taken()
    with stand_in():
        if name == "wrong":
            with pytest.raises(AssertionError, match="wrong: 1 elements"):
                test_functions.test_function(taken, Device("cuda:0"), name)
        else:
            test_functions.test_function(taken, Device("cuda:0"), name)
    assert list(taken.asked) == ["function_time"]


def test_every_launch_of_a_graph_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(test_dispatch, "IN_A_GRAPH", 20)
    taken = Taken()
    with stand_in(rounded=False) as card:
        test_dispatch.test_graph(taken, Device("cuda:0"))
        assert card.graphs[0].replays == 3 + test_dispatch.REPLAYS
    assert list(taken.asked) == ["graph_time"]


def test_graph_that_loses_a_launch_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(test_dispatch, "IN_A_GRAPH", 20)
    monkeypatch.setattr(Launch, "counted", lambda *_: 199)
    with stand_in(rounded=False), pytest.raises(AssertionError, match="the device counted 199"):
        test_dispatch.test_graph(Taken(), Device("cuda:0"))


def test_cold_start_is_that_of_another_process_and_its_result_is_right() -> None:
    assert 0 < test_dispatch.cold_start("cpu") < 60_000


def test_wrong_first_result_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    assert cold.start({"device": "cpu"})["wrong"] == 0
    ones = torch.ones

    def faulty(*shape: int, **given: Any) -> torch.Tensor:
        made = ones(*shape, **given)
        made[0, 0] = 2
        return made

    monkeypatch.setattr(torch, "ones", faulty)
    assert cold.start({"device": "cpu"})["wrong"] > 0
    monkeypatch.setattr(test_dispatch, "MODULE", "this")  # ends at once, and is not waited for
    monkeypatch.setattr(
        "pytest_anubis.benchmarking.children.Child.ask",
        lambda *_, **__: {"wrong": 3, "seconds": 1.0},
    )
    with pytest.raises(AssertionError, match="3 elements of the first product"):
        test_dispatch.cold_start("cpu")


def test_card_for_one_process_has_no_second_start(monkeypatch: pytest.MonkeyPatch) -> None:
    modes = {"0000:1b:00.0": "exclusive-process"}
    monkeypatch.setattr(test_dispatch, "compute_mode", modes.get)
    with pytest.raises(pytest.skip.Exception, match="compute mode exclusive-process"):
        test_dispatch.test_cold_start(Taken(), Device("cuda:0", pci="0000:1b:00.0"), Node())
    slot = SimpleNamespace(pci_domain_id=0, pci_bus_id=0x1B, pci_device_id=0)
    with stand_in(rounded=False, cards=8), pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.cuda, "get_device_properties", lambda _: slot)
        with pytest.raises(pytest.skip.Exception, match="compute mode exclusive-process"):
            test_dispatch.test_first_start(Taken(), Node())


def test_starts_of_a_card_are_collected(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[str] = []

    def start(device: str) -> float:
        started.append(device)
        return 250.0

    monkeypatch.setattr(test_dispatch, "cold_start", start)
    taken = Taken()
    with stand_in(rounded=False):
        test_dispatch.test_cold_start(taken, Device("cuda:0"), Node())
    assert started == ["cuda:0"] * 3
    assert taken.asked["cold_start"]["rounds"] == test_dispatch.STARTS["smoke"]
    first = Taken()
    with stand_in(rounded=False, cards=8):
        test_dispatch.test_first_start(first, Node())
    assert started == ["cuda:0"] * 6
    assert first.asked["cold_start"] == taken.asked["cold_start"]
