"""A row of the catalogue as something that runs: network, batch, training step, and its share of a memory."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import cast

import torch
from torch import nn
from torch.autograd.graph import saved_tensors_hooks
from torch.nn import functional

from pytest_anubis.benchmarking.placement import checking_device
from pytest_anubis.benchmarking.sizes import FREE_SHARE, fitting, memory_of, require_free
from suites.training.optimizers import AdamW, Optimizer, Sgd
from suites.training.step import Loss, TrainingStep
from suites.workload.catalogue import Sizes, Workload

SEED = 20240224
CLASSES = 1000
"""Kinds of pictures; ``sequences`` and ``texts`` have those of their shape."""

RATES = {
    "pictures": 1e-3,
    "sequences": 1e-3,
    "texts": 2e-5,
    "language": 1e-4,
    "clicks": 0.1,
    "volumes": 1e-3,
    "maps": 1e-4,
    "events": 1e-4,
}
"""Learning rates: small enough that no network leaves the way down on one batch, for as long as it is
measured."""

MOMENTUM = {"pictures": 0.9, "volumes": 0.9, "clicks": 0.0}
"""Of what is trained without Adam, as in the references."""

LIGHT_RATE = 1e-2
MOST_COUNTED = 1000
"""What the numbers of `clicks` stay below."""

ALIKE = 32
"""Length of the squares of a map in which all places are alike."""

CHECKED_TOKENS = 512
"""Tokens of the one text whose loss is computed in double precision too."""

STATE = {False: 16, True: 4}
"""Bytes of a parameter in training: single precision with its gradient and Adam's two moments; `light`
(True): a half with its gradient."""

CHECKED_STATE = 52
"""Bytes of a parameter while its gradient is compared with that in double precision."""

COUNTED = 8
"""Elements of a sequence for which is counted what a network keeps."""


class NoRoomError(RuntimeError):
    """A device has too little memory for a network."""


def network(
    workload: Workload, device: torch.device, dtype: torch.dtype = torch.float32
) -> nn.Module:
    """Return the network on a device, its weights drawn there: the same on every device of a kind.

    On the device ``meta`` it has shapes and no numbers.
    """
    module = importlib.import_module(f"suites.workload.models.{workload.family}")
    with _drawing(device, dtype):
        return cast(nn.Module, module.build(**workload.shape))


def draw(
    workload: Workload, sizes: Sizes, device: torch.device, *, part: int = 0
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a batch and what the network should say to it, drawn on the device.

    Args:
        workload: Says what it is made of.
        sizes: How much.
        device: Where.
        part: Another number gives another batch: that of another rank.
    """
    count, length = sizes.batch, sizes.length
    with _drawing(device, torch.float32, SEED + 1 + part):
        if workload.task == "language":
            text = torch.randint(0, _vocabulary(workload), (count, length + 1))
            return text[:, :-1].contiguous(), text[:, 1:].contiguous()
        if workload.task in _FIELDS:
            return _FIELDS[workload.task](workload, sizes)
        classes = workload.shape.get("classes", CLASSES)
        kinds = torch.randint(0, classes, (count,))
        if workload.task == "texts":
            return torch.randint(0, _vocabulary(workload), (count, length)), kinds
        if workload.task == "sequences":
            return torch.randn(count, length, workload.shape["inputs"]), kinds
        return torch.randn(count, 3, length, length), kinds


def training_step(
    workload: Workload, sizes: Sizes, device: torch.device, dtype: str, *, part: int = 0
) -> TrainingStep:
    """Return a training step on one batch; the same weights and batch on every device of a kind.

    Args:
        workload: What is trained.
        sizes: Its batch.
        device: Where.
        dtype: Type of the products: with a short one torch chooses what is computed in it, and weights
            stay in single precision, but for a network that is `light`.
        part: Another number gives another batch.
    """
    kind = cast(torch.dtype, getattr(torch, dtype))
    model = network(workload, device, kind if workload.light else torch.float32)
    inputs, targets = draw(workload, sizes, device, part=part)
    return TrainingStep(
        model,
        inputs,
        targets,
        loss=loss_of(workload),
        optimizer=lambda parameters: optimizer(workload, parameters),
        device=device,
        half=kind is not torch.float32 and not workload.light,
        kind=kind if kind is not torch.float32 else torch.bfloat16,
    )


def optimizer(workload: Workload, parameters: Iterable[nn.Parameter]) -> Optimizer:
    """Return what a network is trained with, as its reference is: with momentum or Adam."""
    rate = RATES[workload.task]
    if workload.light:
        return Sgd(parameters, LIGHT_RATE)
    if workload.task in MOMENTUM:
        return Sgd(parameters, rate, momentum=MOMENTUM[workload.task])
    return AdamW(parameters, rate)


def loss(scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Return the cross-entropy, in single precision or better, of classes or of every next token."""
    exact = scores.to(torch.promote_types(scores.dtype, torch.float32))
    return functional.cross_entropy(exact.flatten(0, -2), targets.flatten())


def loss_of(workload: Workload) -> Loss:
    """Return the loss that a network is trained with: takes its outputs and the targets."""
    return {"volumes": _regression, "maps": _map_loss}.get(workload.task, loss)


def _regression(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    exact = outputs.to(torch.promote_types(outputs.dtype, torch.float32))
    return functional.mse_loss(exact, targets.to(exact.dtype))


def _map_loss(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Return the error of the maps made anew plus that of the kind of every place, the last of `targets`."""
    maps = targets.shape[1] - 1
    # As classes of many places: accelerators add up the two-dimensional form in any order.
    kinds = loss(outputs[:, maps:].movedim(1, -1), targets[:, maps].long())
    return _regression(outputs[:, :maps], targets[:, :maps]) + kinds


def fitting_batch(workload: Workload, sizes: Sizes, device: torch.device) -> Sizes:
    """Return the batch that an accelerator has room for, halved until it fits; a CPU's as it is.

    Raises:
        NoRoomError: Weights, gradients and the optimiser's state alone are too much.
        MemoryTakenError: What cards of this size take is not free.
    """
    known = memory_of(device)
    if known is None:
        return sizes
    state = STATE[workload.light] * workload.parameters
    one = bytes_of_example(workload, sizes)
    least = state + one
    if not workload.light and checking_device(device) == device:
        least = max(least, CHECKED_STATE * workload.parameters)
    if least > FREE_SHARE * known[1]:
        raise NoRoomError(
            f"training {workload.name} takes {least / 1e9:.0f} GB, of which this card "
            f"has {known[1] / 1e9:.0f}"
        )
    batch = max(1, fitting(sizes.batch * one, device) // one)
    while batch > 1 and state + batch * one > FREE_SHARE * known[1]:
        batch //= 2
    require_free(state + batch * one, device)
    return Sizes(batch=batch, length=sizes.length)


def fitting_served(workload: Workload, sizes: Sizes, device: torch.device, dtype: str) -> Sizes:
    """Return the batch of inference that a device has room for, halved until it fits.

    Raises:
        NoRoomError: The weights alone are too much.
        MemoryTakenError: What cards of this size take is not free.
    """
    known = memory_of(device)
    if known is None:
        return sizes
    kind = cast(torch.dtype, getattr(torch, dtype))
    weights = workload.parameters * kind.itemsize
    # More than inference keeps at any moment.
    one = bytes_of_example(workload, sizes) * kind.itemsize // 4
    if weights + one > FREE_SHARE * known[1]:
        raise NoRoomError(
            f"{workload.name} in {dtype} takes {(weights + one) / 1e9:.0f} GB, of which this "
            f"card has {known[1] / 1e9:.0f}"
        )
    batch = max(1, fitting(sizes.batch * one, device) // one)
    require_free(weights + one, device)
    return Sizes(batch=batch, length=sizes.length)


def forward_error(model: nn.Module, workload: Workload, device: torch.device) -> float:
    """Return the relative error of the loss on one text, against double precision with the same weights."""
    sizes = Sizes(batch=1, length=CHECKED_TOKENS)
    inputs, targets = draw(workload, sizes, device)
    with torch.no_grad():
        found = float(loss(model(inputs), targets))
        with double_precision(model):
            exact = float(loss(model(inputs), targets))
    return abs(found - exact) / abs(exact)


def bytes_of_example(workload: Workload, sizes: Sizes) -> int:
    """Return the bytes that one example of a batch keeps for the way back, in single precision.

    Counted on the device ``meta``, where nothing is computed. Scores of attention are not counted: no card
    keeps them.
    """
    meta = torch.device("meta")
    seen: dict[int, int] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        square = tensor.shape[-2:] == (sizes.length, sizes.length)
        if not (square and workload.task in ("texts", "language")):
            seen[tensor.untyped_storage()._cdata] = tensor.untyped_storage().nbytes()
        return tensor

    # What a recurrent network keeps grows with its length, and so does the time to count it.
    length = min(sizes.length, COUNTED) if workload.task == "sequences" else sizes.length
    model = network(workload, meta)
    weights = {p.untyped_storage()._cdata for p in model.parameters()}
    inputs, targets = draw(workload, Sizes(batch=1, length=length), meta)
    with saved_tensors_hooks(pack, lambda tensor: tensor):
        loss_of(workload)(model(inputs), targets)
    kept = sum(size for storage, size in seen.items() if storage not in weights)
    return kept * sizes.length // length


@contextmanager
def double_precision(model: nn.Module) -> Iterator[None]:
    """Let a network compute in double precision with the weights that it has, one layer at a time.

    Each layer's weights are widened before its turn and narrowed after, which changes no bit of them: a
    network that fills a card with its weights can be checked there. Without gradients; its inputs have to
    be double or whole.
    """
    hooks = []
    for module in model.modules():
        own = [*module.parameters(recurse=False), *module.buffers(recurse=False)]
        floats = [tensor.dtype for tensor in own if tensor.is_floating_point()]
        if floats:
            hooks += [
                module.register_forward_pre_hook(lambda layer, _: _to(layer, torch.float64)),
                module.register_forward_hook(_narrowing(floats[0])),
            ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _to(layer: nn.Module, dtype: torch.dtype) -> None:
    layer.to(dtype)


def _narrowing(dtype: torch.dtype) -> Callable[[nn.Module, object, object], None]:
    return lambda layer, _inputs, _output: _to(layer, dtype)


@contextmanager
def _drawing(device: torch.device, dtype: torch.dtype, seed: int = SEED) -> Iterator[None]:
    """Make tensors on a device and in a type, and random numbers from a private seed."""
    before = torch.get_default_dtype()
    # The host's generator is put back; a card's begins anew with every drawing.
    with torch.random.fork_rng(devices=[]), device:
        torch.manual_seed(seed)
        torch.set_default_dtype(dtype)
        try:
            yield
        finally:
            torch.set_default_dtype(before)


def _clicks(workload: Workload, sizes: Sizes) -> tuple[torch.Tensor, torch.Tensor]:
    """Return examples (batch, 39) of whole numbers; a large first count means a click."""
    from suites.workload.models.recommendation import COUNTS, rows_of

    counts = torch.randint(0, MOST_COUNTED, (sizes.batch, COUNTS))
    rows = [torch.randint(0, n, (sizes.batch,)) for n in rows_of(workload.shape["most_rows"])]
    return torch.cat([counts, torch.stack(rows, 1)], 1), (counts[:, 0] > MOST_COUNTED // 2).long()


def _volumes(workload: Workload, sizes: Sizes) -> tuple[torch.Tensor, torch.Tensor]:
    """Return volumes (batch, channels, n, n, n) and the parameters that each channel's spread follows."""
    channels, outputs = workload.shape["channels"], workload.shape["outputs"]
    parameters = 2 * torch.rand(sizes.batch, outputs) - 1
    spreads = parameters[:, [number % outputs for number in range(channels)]].exp()
    noise = torch.randn(sizes.batch, channels, *(3 * (sizes.length,)))
    return noise * spreads[..., None, None, None], parameters


def _maps(workload: Workload, sizes: Sizes) -> tuple[torch.Tensor, torch.Tensor]:
    """Return maps (batch, channels, n, n), and these again with the kind of every place behind them.

    The kind follows the first channel, of which large parts are alike, as in weather.
    """
    coarse = max(1, sizes.length // ALIKE)
    maps = torch.randn(sizes.batch, workload.shape["channels"], coarse, coarse)
    maps = functional.interpolate(maps, size=(sizes.length, sizes.length), mode="nearest")
    kinds = (maps[:, :1] > 0).to(maps.dtype) + (maps[:, :1] > 1).to(maps.dtype)
    return maps, torch.cat([maps, kinds], 1)


def _events(workload: Workload, sizes: Sizes) -> tuple[torch.Tensor, torch.Tensor]:
    """Return pictures (batch, 3, n, n) of a detector, mostly dark, and their kind: signals are brighter."""
    kinds = torch.randint(0, workload.shape["classes"], (sizes.batch,))
    noise = torch.randn(sizes.batch, 3, sizes.length, sizes.length)
    return (noise - 1).relu() * (1 + kinds)[:, None, None, None], kinds


_FIELDS: dict[str, Callable[[Workload, Sizes], tuple[torch.Tensor, torch.Tensor]]] = {
    "clicks": _clicks,
    "volumes": _volumes,
    "maps": _maps,
    "events": _events,
}


def _vocabulary(workload: Workload) -> int:
    known = {"encoder": 30522, "decoder": 50257, "llama": 32000}
    return workload.shape.get("vocabulary", known[workload.family])
