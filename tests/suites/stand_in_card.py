"""A stand-in for an accelerator: torch code that says ``cuda`` runs on the CPU, rounded as a card would.

For tests only. What is asked of ``cuda`` is done on the CPU; products and convolutions of halves accumulate
in single precision and round once, those of single precision round their factors to TF32 where torch's
settings allow it.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

CARD = torch.device("cuda", 0)
CPU = torch.device("cpu")
PRODUCTS = {"mm", "addmm", "bmm", "baddbmm", "addmv", "mv", "dot"}
CONVOLUTIONS = {"convolution", "convolution_backward"}
ATTENTION = {
    "_scaled_dot_product_flash_attention_for_cpu",
    "_scaled_dot_product_flash_attention_for_cpu_backward",
}
HALVES = (torch.bfloat16, torch.float16)


def on_host(value: Any) -> Any:
    """Return the CPU in place of an accelerator, everything else as it is."""
    if isinstance(value, torch.device) and value.type == "cuda":
        return CPU
    if isinstance(value, str) and value.partition(":")[0] == "cuda":
        return CPU
    return value


class OnTheHost(TorchFunctionMode):
    """Does on the CPU what is asked of a card."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Call `func` with the CPU in place of the card, and nothing page-locked."""
        if func is torch.device:  # is only a name
            return func(*args, **(kwargs or {}))
        given = {name: on_host(value) for name, value in (kwargs or {}).items()}
        if func is torch.Tensor.pin_memory:
            return args[0].clone()
        if "pin_memory" in given:
            given["pin_memory"] = False
        return func(*map(on_host, args), **given)


class RoundedLikeACard(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Rounds the factors and results of products, convolutions and attention as matrix units do."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Compute in single precision; round factors to TF32 where it is allowed, halves once at the end."""
        name = func._schema.name.partition("::")[2]
        given = dict(kwargs or {})
        if name not in PRODUCTS | CONVOLUTIONS | ATTENTION:
            return func(*args, **given)
        tensors = [one for one in args if isinstance(one, torch.Tensor)]
        kind = tensors[-1].dtype
        if kind in HALVES:
            out = given.pop("out", None)
            wide = [_wide(one) for one in args]
            if out is not None:
                found = func.overloadpacket.default(*wide, **given)
                return out.copy_(found)
            return _narrow(func(*wide, **given), kind)
        if kind is torch.float32 and _tf32(name):
            args = tuple(_rounded(one) for one in args)
        return func(*args, **given)


def _wide(value: Any) -> Any:
    return value.float() if isinstance(value, torch.Tensor) and value.dtype in HALVES else value


def _narrow(value: Any, kind: torch.dtype) -> Any:
    if isinstance(value, torch.Tensor):
        return value.to(kind) if value.dtype is torch.float32 else value
    if isinstance(value, tuple | list):
        return tuple(_narrow(one, kind) for one in value)
    return value


def _tf32(name: str) -> bool:
    if name in CONVOLUTIONS:
        return bool(torch.backends.cudnn.allow_tf32)
    return name in PRODUCTS and torch.get_float32_matmul_precision() != "highest"


def _rounded(value: Any) -> Any:
    """Round to 10 bits of mantissa, to the nearest."""
    if not isinstance(value, torch.Tensor) or value.dtype is not torch.float32:
        return value
    bits = value.contiguous().view(torch.int32)
    return ((bits + 0x1000) & ~0x1FFF).view(torch.float32)


def right_eight_bits(patch: pytest.MonkeyPatch) -> None:
    """Let any CPU multiply eight bits as a card does, without rounding and without an end of range.

    oneDNN, which torch asks first, adds two products up in 16 bits where a CPU has no instruction (VNNI) that
    does it in 32: more than 16 bits hold becomes the largest number that they hold.
    """

    def by_torch_itself(product: Callable[..., Any]) -> Callable[..., Any]:
        def multiply(*args: Any, **given: Any) -> Any:
            before = torch._C._get_mkldnn_enabled()
            torch._C._set_mkldnn_enabled(False)
            try:
                return product(*args, **given)
            finally:
                torch._C._set_mkldnn_enabled(before)

        return multiply

    for name in ("_int_mm", "_scaled_mm"):
        patch.setattr(torch, name, by_torch_itself(getattr(torch, name)))


class HostEvent:
    """An event that is over when it is recorded: the CPU has done what it was told."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self.when = 0.0

    def record(self, *_: Any) -> None:
        self.when = time.perf_counter()

    def synchronize(self) -> None:
        pass

    def elapsed_time(self, other: HostEvent) -> float:
        return (other.when - self.when) * 1e3


class Graph(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A captured graph: replaying it does every operation again, on the same tensors, and nothing else."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.replays = 0
        self._done: list[tuple[Any, tuple[Any, ...], dict[str, Any], Any]] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Do and remember; what the host would have to wait for cannot be captured."""
        if func is torch.ops.aten._local_scalar_dense.default:
            raise RuntimeError("operation not permitted when stream is capturing")
        out = func(*args, **(kwargs or {}))
        self._done.append((func, args, kwargs or {}, out))
        return out

    def replay(self) -> None:
        """Do it again; what an operation made anew goes where the capture had it."""
        self.replays += 1
        with torch.no_grad():
            for func, args, kwargs, out in self._done:
                again = func(*args, **kwargs)
                pairs = zip(_tensors(out), _tensors(again), strict=True)
                for old, new in pairs:
                    if old.data_ptr() != new.data_ptr():  # neither a view nor in place
                        old.copy_(new)


def _tensors(value: Any) -> list[torch.Tensor]:
    found = value if isinstance(value, tuple | list) else [value]
    return [one for one in found if isinstance(one, torch.Tensor)]


@contextmanager
def stand_in(
    *, memory: int = 80 << 30, rounded: bool = True, captures: bool = True, cards: int = 1
) -> Iterator[Any]:
    """Let this machine have an accelerator, or several, for as long as the block lasts.

    Args:
        memory: Bytes that are free on it.
        rounded: Round as matrix units do; costs time.
        captures: Graphs can be captured on it.
        cards: How many there are; all of them are the CPU.
        cards: How many there are; all of them are the CPU.

    Yields:
        A namespace with ``graphs``, the graphs that were captured.
    """
    card = SimpleNamespace(graphs=[], memory=memory, capturing=False)
    plain_autocast, plain_generator = torch.autocast, torch.Generator

    def autocast(kind: str, *arguments: Any, **given: Any) -> Any:
        return plain_autocast("cpu" if kind == "cuda" else kind, *arguments, **given)

    class Generator:  # a class: others write it in annotations
        def __new__(cls, device: Any = CPU) -> Any:
            return plain_generator(on_host(device))

    class Stream:
        def wait_stream(self, _: Any) -> None:
            pass

        def is_capturing(self) -> bool:
            return bool(card.capturing)

    @contextmanager
    def block(*_: Any, **__: Any) -> Iterator[None]:
        yield

    @contextmanager
    def capture(graph: Graph, **_: Any) -> Iterator[None]:
        if not captures:
            raise RuntimeError("operation not permitted when stream is capturing\nmore")
        card.graphs.append(graph)
        card.capturing = True
        try:
            with graph:
                yield
        finally:
            card.capturing = False

    with ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setattr(torch, "autocast", autocast)
        patch.setattr(torch, "Generator", Generator)
        patch.setattr(torch, "Event", HostEvent)
        right_eight_bits(patch)
        for name in ("set_device_index", "synchronize"):
            patch.setattr(torch.accelerator, name, lambda *_: None)
        patch.setattr(torch.accelerator, "device_count", lambda: cards)
        patch.setattr(torch.accelerator, "current_accelerator", lambda **_: torch.device("cuda"))
        patch.setattr(torch.accelerator, "current_stream", lambda *_: Stream())
        patch.setattr(torch.cuda, "mem_get_info", lambda *_: (card.memory, card.memory))
        patch.setattr(torch.cuda, "Stream", lambda *_: Stream())
        patch.setattr(torch.cuda, "current_stream", lambda *_: Stream())
        patch.setattr(torch.cuda, "stream", block)
        patch.setattr(torch.cuda, "device", block)
        patch.setattr(torch.cuda, "CUDAGraph", Graph)
        adam = importlib.import_module("torch.optim.adam")
        patch.setattr(adam, "_get_capturable_supported_devices", lambda *_: ["cpu"])
        patch.setattr(torch.cuda, "graph", capture)
        patch.setattr(torch.cuda, "get_device_capability", lambda *_: (9, 0))
        patch.setattr(torch.cuda, "can_device_access_peer", lambda *_: True)
        patch.setattr(torch.cuda, "synchronize", lambda *_: None)
        patch.setattr(torch.cuda, "get_device_properties", lambda *_: SimpleNamespace())
        if rounded:
            stack.enter_context(RoundedLikeACard())  # type: ignore[no-untyped-call]
        stack.enter_context(OnTheHost())
        yield card
