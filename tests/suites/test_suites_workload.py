"""The networks have the sizes of their references, cost by their work, and a flipped bit is caught."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from pytest_anubis.benchmarking.shaped_link import INTERFACE, NotPossible, ShapedLink
from pytest_anubis.benchmarking.verification import flip_bit
from suites.training.step import TrainingStep
from suites.training.test_step import learned
from suites.workload import test_data_parallel as parallel
from suites.workload import test_inference as inference
from suites.workload import test_same_bits as bits
from suites.workload import test_training_steps as training
from suites.workload.catalogue import BY_NAME, CATALOGUE, Sizes, Workload, runs
from suites.workload.data_parallel import TrainingGroup
from suites.workload.models.language import LanguageModel
from suites.workload.running import draw, forward_error, loss_of, network, training_step
from suites.workload.serving import Serving
from suites.workload.trajectory import NotDeterministicError, deterministic, follow, follow_exactly
from tests.suites.test_suites_on_a_card import Taken

pytestmark = pytest.mark.usefixtures("one_thread", "quick_processes")
CPU, META = torch.device("cpu"), torch.device("meta")

TINY = {
    "llama": {"width": 32, "layers": 2, "heads": 4, "kept": 2, "inner": 48, "vocabulary": 64},
    "decoder": {"width": 32, "layers": 2, "heads": 4, "vocabulary": 64},
    "encoder": {"width": 32, "layers": 2, "heads": 4, "vocabulary": 64, "classes": 10},
    "recurrent": {"inputs": 8, "width": 16, "layers": 2, "classes": 10},
    "recommendation": {"width": 8, "most_rows": 50},
    "cosmoflow": {"channels": 4, "width": 2, "outputs": 4},
    "climate": {"channels": 4, "width": 4, "stages": 3},
    "hep": {"width": 8, "layers": 3, "classes": 2},
}
SMALL = Sizes(batch=4, length=16)
SIZES = {
    "dlrm": Sizes(batch=64, length=1),
    "cosmoflow": Sizes(batch=4, length=32),
    "climate": Sizes(batch=4, length=32),
}
RATE = 100e6
"""Bytes a second of the link between two ranks: more than their exchange asks of it."""


def tiny(name: str) -> Workload:
    """Return a row with a network of the same architecture that takes milliseconds."""
    workload = BY_NAME[name]
    mixture = {k: v for k, v in workload.shape.items() if k == "experts"}
    sizes = SIZES.get(name, SMALL)
    return replace(workload, shape={**TINY[workload.family], **mixture}, cpu=sizes)


def sizes_of(name: str) -> Sizes:
    """Return the batch of such a network."""
    sizes = tiny(name).cpu
    assert sizes is not None
    return sizes


tiny_ones = pytest.mark.parametrize(
    "name",
    [
        "llama-small", "experts-small", "gpt2", "bert-base", "lstm",
        "dlrm", "cosmoflow", "climate", "hep",
    ],
)  # fmt: skip
languages = pytest.mark.parametrize("name", ["llama-small", "experts-small", "gpt2"])


def count(model: torch.nn.Module) -> int:
    """Return the parameters, without a head that the reference does not have."""
    return sum(p.numel() for name, p in model.named_parameters() if not name.startswith("head."))


@pytest.mark.parametrize("workload", CATALOGUE, ids=repr)
def test_network_has_the_parameters_of_its_reference(workload: Workload) -> None:
    assert count(network(workload, META)) == workload.parameters


@pytest.mark.parametrize(
    ("shape", "parameters"),
    [
        ({"width": 8192, "layers": 80, "heads": 64, "kept": 8, "inner": 28672}, 68_976_648_192),
        (
            {"width": 4096, "layers": 32, "heads": 32, "kept": 8, "inner": 14336, "experts": 8},
            46_702_792_704,
        ),
    ],
    ids=["Llama 2 70B, heads that share keys", "Mixtral 8x7B, experts"],
)
def test_architecture_is_that_of_the_large_ones(shape: dict[str, int], parameters: int) -> None:
    assert count(network(replace(BY_NAME["llama2-7b"], shape=shape), META)) == parameters


def operations(workload: Workload, sizes: Sizes) -> int:
    """Return the operations of products of a training step, counted without computing any."""
    model = network(workload, META)
    inputs, targets = draw(workload, sizes, META)
    with FlopCounterMode(display=False) as counter:
        loss_of(workload)(model(inputs), targets).backward()  # type: ignore[no-untyped-call]
    return int(counter.get_total_flops())


@pytest.mark.parametrize(
    "name", ["vgg11", "bert-base", "gpt2", "llama-1b", "dlrm", "climate", "hep"]
)
def test_twice_the_batch_is_twice_the_work(name: str) -> None:
    workload = BY_NAME[name]
    if "layers" in workload.shape and workload.task != "pictures":
        workload = replace(workload, shape={**workload.shape, "layers": 2})
    one = operations(workload, Sizes(batch=1, length=64))
    assert operations(workload, Sizes(batch=2, length=64)) == 2 * one > 0


@pytest.mark.parametrize("name", ["bert-base", "gpt2", "llama2-7b"])
def test_layers_more_are_as_much_work_more(name: str) -> None:
    workload, sizes = BY_NAME[name], Sizes(batch=1, length=64)
    works = [
        operations(replace(workload, shape={**workload.shape, "layers": layers}), sizes)
        for layers in (1, 2, 3)
    ]
    assert works[2] - works[1] == works[1] - works[0] > 0


def test_work_of_a_picture_is_that_of_the_paper() -> None:
    # 4.1e9 multiply-adds forward (He et al. 2015: 3.8e9, with the stride one convolution earlier); twice as
    # many on the way back, less the first layer's, which needs no gradient of the picture.
    found = operations(BY_NAME["resnet50"], Sizes(batch=1, length=224))
    assert found == pytest.approx(2 * 4.09e9 * 3, rel=0.02)


def forward_operations(name: str, length: int) -> int:
    """Return the operations of products of one example forward, as its layers' shapes say by hand."""
    if name == "dlrm":
        bottom, top = (13, 512, 256, 64, 16), (367, 512, 256, 1)
        layers = sum(a * b for widths in (bottom, top) for a, b in pairwise(widths))
        return 2 * (layers + 27 * 27 * 16)
    work, into = 0, {"cosmoflow": 4, "climate": 16, "hep": 3}[name]
    if name == "climate":
        for stage in range(5):
            out, side = 64 << stage, length >> (stage + 1)
            work += out * into * 25 * side**2
            # A transposed convolution takes every place of the small map to its kernel's places.
            work += out * (into if stage else 64) * 25 * side**2
            into = out
        return 2 * (work + (64 * 16 * 9 + 64 * 64 * 9 + 64 * 3) * length**2)
    for stage in range(5):
        out = 32 << stage if name == "cosmoflow" else 128
        axes, kernel = (3, 27) if name == "cosmoflow" else (2, 9)
        work += out * into * kernel * (length >> stage) ** axes
        into = out
    full = 512 * 4**3 * 128 + 128 * 64 + 64 * 4 if name == "cosmoflow" else 128 * 2
    return 2 * (work + full)


@pytest.mark.parametrize(
    ("name", "length"), [("dlrm", 1), ("cosmoflow", 128), ("climate", 768), ("hep", 224)]
)
def test_work_of_an_example_is_as_counted_by_hand(name: str, length: int) -> None:
    workload = BY_NAME[name]
    model = network(workload, META)
    inputs = draw(workload, Sizes(batch=2, length=length), META)[0]
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(inputs)
    counted = counter.get_total_flops() / 2
    assert counted == pytest.approx(forward_operations(name, length), rel=0.01)


@tiny_ones
def test_step_learns_and_its_gradient_is_right(name: str) -> None:
    step = training_step(tiny(name), sizes_of(name), CPU, "float32")
    assert step.gradient_errors(False)[0] < training.GRADIENT_TOLERANCE["float32"] / 3
    for _ in range(6):
        step.run()
    learned(step)


@tiny_ones
def test_same_bits_twice_and_losses_of_double_precision(name: str) -> None:
    steps = [training_step(tiny(name), sizes_of(name), CPU, "float32") for _ in range(3)]
    once, again = follow(steps[0]), follow(steps[1])
    assert once == again
    assert once.bits == again.bits < 1 << 48
    bits.check_losses(once.losses, follow_exactly(steps[2]), "float32")


def flipped(step: TrainingStep, bit: int) -> None:
    """Flip one bit of the largest weight of the last layer: an update rounds away those of a small one."""
    weights = [one for one in step.model.parameters() if one.ndim > 1][-1].data
    flip_bit(weights, int(weights.abs().argmax()), bit)


@tiny_ones
def test_low_bit_of_one_weight_changes_the_fingerprint(name: str) -> None:
    healthy, sick = (training_step(tiny(name), sizes_of(name), CPU, "float32") for _ in range(2))
    flipped(sick, 3)  # the last one may be rounded away by the first update
    assert follow(healthy).bits != follow(sick).bits


@tiny_ones
def test_high_bit_of_one_weight_is_seen_in_the_losses(name: str) -> None:
    exact = follow_exactly(training_step(tiny(name), sizes_of(name), CPU, "float32"))
    sick = training_step(tiny(name), sizes_of(name), CPU, "float32")
    flipped(sick, 30)
    with pytest.raises(AssertionError, match="first loss in float32"):
        bits.check_losses(follow(sick).losses, exact, "float32")


class OnCpu:
    """Stands for ``anubis_device``."""

    kind, torch = "cpu", CPU


def ignore(_name: str, _value: object) -> None:
    pass


def test_gradient_with_a_flipped_bit_fails_the_second_run_of_the_same_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    workload = tiny("llama-small")
    monkeypatch.setattr(bits, "ON_CPU", SMALL)
    recorded: Any = Taken()
    cpu: Any = OnCpu()
    bits.test_same_bits(recorded, cpu, ignore, workload, "float32")
    assert float(recorded.values["training_bits"]).is_integer()
    plain = TrainingStep._backward
    calls = []

    def flip_once(self: TrainingStep, *arguments: Any) -> torch.Tensor:
        found = plain(self, *arguments)
        calls.append(1)
        if len(calls) == 4:  # the first step of the second run
            gradient = next(self.model.parameters()).grad
            assert gradient is not None
            flip_bit(gradient, int(gradient.flatten().abs().argmax()), 20)
        return found

    monkeypatch.setattr(TrainingStep, "_backward", flip_once)
    with pytest.raises(AssertionError, match="gave other bits"):
        bits.test_same_bits(recorded, cpu, ignore, workload, "float32")


def test_what_torch_calls_not_deterministic_does_not_apply() -> None:
    with (
        pytest.raises(NotDeterministicError, match="put_ does not have a deterministic"),
        deterministic(),
    ):
        torch.zeros(4).put_(torch.tensor([1]), torch.tensor([2.0]))
    assert not torch.are_deterministic_algorithms_enabled()
    with deterministic():
        torch.ones(3).cumsum(0)


@languages
@pytest.mark.parametrize("step", ["prefill", "decode"])
def test_inference_is_right_and_a_weight_with_a_flipped_bit_is_caught(name: str, step: Any) -> None:
    serving = Serving(tiny(name), SMALL, CPU, "float32", step)
    inference.right_scores(serving, "float32")
    with inference.steady(serving):
        serving.run()
    weights = list(serving.model.parameters())[-1]

    def read_wrongly(run: Callable[[], None]) -> None:
        with inference.steady(serving):
            flip_bit(weights.data, 3, 0)
            serving.run = run  # type: ignore[method-assign]

    with pytest.raises(AssertionError, match="changed"):
        read_wrongly(serving.run)
    with pytest.raises(AssertionError, match="a weight changed in memory"):  # though no score tells
        read_wrongly(lambda: None)


@languages
def test_token_after_a_prompt_is_what_the_whole_text_says(name: str) -> None:
    workload = tiny(name)
    model: Any = network(workload, CPU).eval()
    tokens = draw(workload, Sizes(batch=2, length=12), CPU)[0]
    kept = model.room_for(2, 12, next(model.parameters()))
    with torch.no_grad():
        model(tokens[:, :11], kept)
        torch.testing.assert_close(model(tokens[:, 11:], kept, 11)[:, 0], model(tokens)[:, 11])


def wrong_once(module: Any, inputs: Any, output: torch.Tensor) -> torch.Tensor:
    """Be wrong in one row, but in double precision, as a kernel may be."""
    if output.dtype is torch.float64:
        return output
    output = output.clone()
    output[0, -1] *= 1.5
    return output


@tiny_ones
def test_scores_of_a_wrong_kernel_are_caught(name: str) -> None:
    workload = tiny(name)
    step: Any = "prefill" if workload.task == "language" else "inference"
    serving = Serving(workload, sizes_of(name), CPU, "float32", step)
    last = [
        m
        for m in serving.model.modules()
        if isinstance(m, torch.nn.Linear | torch.nn.LayerNorm | torch.nn.Conv2d)
    ]
    last[-1].register_forward_hook(wrong_once)
    with pytest.raises(AssertionError, match="off by"):
        inference.right_scores(serving, "float32")


def far_off(module: Any, inputs: Any, output: torch.Tensor) -> None:
    """Flip a high bit of one token's largest score, but in double precision."""
    if output.dtype is not torch.float64:
        flip_bit(output, int(output[0, 0].argmax()), 14)


def test_loss_of_a_network_that_fills_a_card_is_checked_layer_by_layer() -> None:
    workload = replace(tiny("llama-small"), light=True)
    step = training_step(workload, SMALL, CPU, "bfloat16")
    kinds = {p.dtype for p in step.model.parameters()}
    assert forward_error(step.model, workload, CPU) < training.LOSS_TOLERANCE
    assert kinds == {p.dtype for p in step.model.parameters()} == {torch.bfloat16}
    last = [module for module in step.model.modules() if isinstance(module, torch.nn.Linear)][-1]
    last.register_forward_hook(far_off)
    assert not forward_error(step.model, workload, CPU) < training.LOSS_TOLERANCE


def test_smoke_of_accelerators_holds_one_decode_step() -> None:
    steps: list[Any] = ["training", "bits", "inference", "prefill", "decode", "token", "parallel"]
    smoke = {
        f"{step} {one.id}"
        for step in steps
        for one in runs(step, cost="1s", cards="1s")
        if isinstance(profiles := one.marks[0].kwargs["profiles"], dict)
        and "smoke" in profiles["accelerator"]
    }
    assert smoke == {"token llama-small-float32"}


@pytest.mark.alone
def test_ranks_learn_the_same_and_a_flipped_bit_on_one_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault = tmp_path / "fault"
    fault.write_text("")
    monkeypatch.setenv("ANUBIS_TEST_FAULT", str(fault))
    workload = BY_NAME["llama-small"]
    monkeypatch.setitem(parallel.LOADED, "cpu", 0.0)
    with ExitStack() as stack:
        given: dict[str, Any] = {}
        link = None
        with suppress(NotPossible):
            link = stack.enter_context(ShapedLink(RATE))
            given["environment"] = {"GLOO_SOCKET_IFNAME": INTERFACE}
            given["within"] = [link.command(end) for end in range(2)]
        ranks = stack.enter_context(
            TrainingGroup(0, 2, module="tests.suites.faulty_training_rank", **given)
        )
        recorded: Any = Taken()
        parallel.measure(recorded, ignore, ranks, workload, "float32")
        assert list(recorded.asked) == ["training_rate", "exchange_stretch", "waiting_stretch"]
        if link is not None:  # where nobody may make one, the other faults are still tried
            free = min(ranks.step().together for _ in range(3))
            link.shape(RATE / 20)
            slow = min((ranks.step() for _ in range(3)), key=lambda step: step.together)
            assert slow.together > 3 * free
            assert slow.stretch > 3
            link.shape(RATE)
        fault.write_text("gradient")
        with pytest.raises(AssertionError, match="exchanged gradient is off"):
            parallel.right_exchange(ranks, workload)
        fault.write_text("weight")
        with pytest.raises(AssertionError, match=r"rank \d ended with other weights"):
            parallel.same_weights(ranks)


def test_every_family_has_a_step_of_all_cards_in_the_standard_profile() -> None:
    together = {
        one.values[0].name
        for one in runs("parallel", cost="1s", cards="1s")
        if "standard" in one.marks[0].kwargs["profiles"]["accelerator"]
    }
    families = {(one.family, "experts" in one.shape) for one in CATALOGUE}
    families -= {(name, False) for name in ("recommendation", "cosmoflow", "climate", "hep")}
    assert {(BY_NAME[n].family, "experts" in BY_NAME[n].shape) for n in together} == families
    assert len(families) == 8


def test_ranks_of_every_family_exchange_gradients_and_a_flipped_bit_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.suites.faulty_training_rank import small_ones

    fault = tmp_path / "fault"
    monkeypatch.setenv("ANUBIS_TEST_FAULT", str(fault))
    missed = []
    with TrainingGroup(0, 2, module="tests.suites.faulty_training_rank") as ranks:
        for name, workload in small_ones().items():
            fault.write_text("")
            parallel.right_exchange(ranks, workload)
            assert ranks.prepare(name, "float32", ranks.fitting(name)) == 2 * ranks.world
            ranks.step(3)
            parallel.same_weights(ranks)
            fault.write_text("weight")
            with suppress(AssertionError):
                parallel.same_weights(ranks)
                missed.append(f"{name}: a weight")
            fault.write_text("gradient")
            with suppress(AssertionError):
                parallel.right_exchange(ranks, workload)
                missed.append(f"{name}: an exchanged gradient")
            ranks.rest()
    assert missed == []


def test_language_model_says_how_places_enter_and_what_is_made_of_vectors() -> None:
    with pytest.raises(TypeError, match=r"abstract methods '?_begin'?,? (and )?'?_scores"):
        LanguageModel()  # type: ignore[abstract]
