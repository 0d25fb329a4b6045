"""Replay a recorded step: allocate what existed before it, then run its operations in order.

Values are drawn from a fixed seed, so that every step computes the same; shapes, types, strides and the time
at which memory is freed are those of the job. Autograd is off, since its operations are in the trace.
"""

from __future__ import annotations

import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pytest_anubis.benchmarking.replay.operation_calls import (
    CannotReplayError,
    OperationCall,
)
from pytest_anubis.benchmarking.replay.step_checks import (
    check_indices,
    check_sizes,
    contiguous,
    dtype_of,
    peak_bytes,
    tensors_in,
    written_places,
)
from pytest_anubis.benchmarking.sizes import NEEDED, give_back, host_memory, memory_of
from pytest_anubis.benchmarking.verification import fingerprint, hashed
from pytest_anubis.codec.codec_error import shown
from pytest_anubis.traces.execution_trace import ExecutionTrace, Operation, TensorUse, tensors_of
from pytest_anubis.traces.operation_kinds import (
    ANY_ORDER,
    FREE_OF_WORK,
    Kind,
    kind_of,
    operation_name,
    plain_name,
)
from pytest_anubis.traces.step_plan import (
    WHOLE,
    Key,
    Memory,
    Place,
    key_of,
    place_of,
    planned,
)

if TYPE_CHECKING:
    import torch

SEED = 20240616
KEPT_BITS = 48
"""Bits of a fingerprint that are kept, of the 53 that a number of a measurement holds."""

Tensors = dict[Key, "torch.Tensor"]


class ReplayedStep:
    """One recorded step on one device.

    Attributes:
        collectives: How often each collective operation was recorded; none is replayed.
        kinds: Kinds of the operations that take the device's time.

    Args:
        trace: What was recorded.
        device: Where it runs.

    Raises:
        CannotReplayError: An operation cannot be run here, or the step needs more memory than is free.
    """

    def __init__(self, trace: ExecutionTrace, device: torch.device) -> None:
        self._device = device
        self.collectives: Counter[str] = Counter()
        missing: Counter[str] = Counter()
        calls: list[OperationCall] = []
        for operation in trace.operations:
            _, name, _ = operation_name(operation.schema)
            if kind_of(operation.schema) is Kind.COLLECTIVE:
                self.collectives[operation.name] += 1
            elif name not in FREE_OF_WORK:
                try:
                    calls.append(OperationCall(operation, device))
                except CannotReplayError as error:
                    missing[str(error)] += 1
        if missing:
            raise CannotReplayError(_missing_text(missing))
        if not calls:
            raise CannotReplayError("the trace has no operation that can be replayed")
        self._calls = calls
        self._plan = planned([call.operation for call in calls])
        self.kinds = tuple(kind for kind in Kind if any(call.kind is kind for call in calls))
        check_sizes(calls)
        check_indices(calls)
        self._running = calls[0].operation
        self._given: Tensors = {}
        self._memory: dict[Place, torch.Tensor] = {}
        self._fresh: dict[Place, torch.Tensor] = {}

    @property
    def count(self) -> int:
        """Number of operations that are replayed."""
        return len(self._calls)

    def prepare(self) -> None:
        """Allocate and fill what existed before the step, and run it once.

        Raises:
            CannotReplayError: The memory is not free, or an operation refuses its arguments.
        """
        import torch

        changed = self._changed()
        peak = peak_bytes(self._calls, self._plan)
        wanted = self._plan.bytes + sum(self._plan.memory[place].bytes for place in changed) + peak
        give_back(self._device)
        known = memory_of(self._device) if self._device.type != "cpu" else host_memory()
        if known is not None and wanted > NEEDED * known[0]:
            raise CannotReplayError(
                f"the step takes {wanted / 1e9:.1f} GB, {self._device} has {known[0] / 1e9:.1f} GB free"
            )
        self._memory = {
            place: _filled(memory, number, self._device)
            for number, (place, memory) in enumerate(self._plan.memory.items())
        }
        self._fresh = {place: self._memory[place].clone() for place in changed}
        for key, (place, begin) in self._plan.given.items():
            shape, strides = key[5], key[6]
            flat = self._memory[place]
            steps = strides if strides is not None else contiguous(shape)
            self._given[key] = torch.as_strided(flat, shape, steps, begin)
        self._rehearse()

    def _rehearse(self) -> None:
        """Run the step once, where an error is one of the trace; later ones are the device's.

        An accelerator's own errors are `RuntimeError` and pass: they are evidence.
        """
        of_trace = (TypeError, ValueError, LookupError, NotImplementedError)
        try:
            self.run()
        except Exception as error:
            if self._device.type != "cpu" and not isinstance(error, of_trace):
                raise
            text = shown(str(error).partition("\n")[0])
            at = self._running
            raise CannotReplayError(f"{shown(at.name)} (node {at.id}): {text}") from None
        self.restore()

    def restore(self) -> None:
        """Give what a step changes the values from before it."""
        for place, fresh in self._fresh.items():
            self._memory[place].copy_(fresh)

    def run(self) -> None:
        """Run the step once; does not wait for the device."""
        for _ in self._results():
            pass

    def seconds_by_kind(self, synchronize: Callable[[], object]) -> dict[Kind, float]:
        """Run the step once and return the seconds that the operations of each kind took.

        `Kind.BETWEEN` has the operations without work on the device, and what the host did besides.

        Args:
            synchronize: Waits for the device.
        """
        found = dict.fromkeys(self.kinds, 0.0)
        found[Kind.BETWEEN] = 0.0
        begin = time.perf_counter()
        for operation, seconds in self.seconds_by_operation(synchronize):
            found[kind_of(operation.schema) or Kind.BETWEEN] += seconds
        found[Kind.BETWEEN] += max(0.0, time.perf_counter() - begin - sum(found.values()))
        return found

    def seconds_by_operation(
        self, synchronize: Callable[[], object]
    ) -> Iterator[tuple[Operation, float]]:
        """Run the step once, and yield every operation with the seconds that it took, waited for.

        Args:
            synchronize: Waits for the device.
        """
        begin = 0.0

        def before() -> None:
            nonlocal begin
            begin = time.perf_counter()

        synchronize()
        for call, _ in self._results(before):
            synchronize()
            yield call.operation, time.perf_counter() - begin

    def bits(self) -> int:
        """Return the fingerprint of the step's results in `KEPT_BITS` bits, equal on all healthy devices.

        Left out are the results of operations that sum in any order, and what was computed from these.
        """
        import torch

        total = 0
        unsure: set[Place] = set()
        self.restore()
        with _deterministic(self._device), torch.random.fork_rng(devices=[]):
            torch.manual_seed(SEED)
            for number, (call, result) in enumerate(self._results()):
                operation = call.operation
                name = plain_name(operation_name(operation.schema)[1])
                used = {place_of(use) for use in tensors_of(operation.inputs)}
                if name in ANY_ORDER or not unsure.isdisjoint(used):
                    changed = tuple(operation.inputs[place] for place in call.writes)
                    unsure.update(map(place_of, tensors_of((*operation.outputs, *changed))))
                    continue
                for place, tensor in enumerate(tensors_in(result)):
                    if tensor.device.type == self._device.type and tensor.layout is torch.strided:
                        value = fingerprint(_plain(tensor))
                        mixed = int(
                            hashed(torch.tensor([number * 64 + place], dtype=torch.int64))[0]
                        )
                        total = (total + (value ^ (mixed % (1 << 64)))) % (1 << 64)
        return total >> (64 - KEPT_BITS)

    def _results(
        self, before: Callable[[], object] = lambda: None
    ) -> Iterator[tuple[OperationCall, Any]]:
        """Run the operations in order and yield each with its result, which is kept while it is used.

        Args:
            before: Called just before each operation.
        """
        import torch

        live: Tensors = {}

        def tensor_of(use: TensorUse) -> torch.Tensor:
            key = key_of(use)
            found = live.get(key)
            return found if found is not None else self._given[key]

        with torch.no_grad():
            for call, freed in zip(self._calls, self._plan.freed, strict=True):
                self._running = call.operation
                before()
                result = call.run(tensor_of)
                outputs = tensors_of(call.operation.outputs)
                for use, tensor in zip(outputs, tensors_in(result), strict=False):
                    live[key_of(use)] = tensor
                yield call, result
                for key in freed:
                    live.pop(key, None)

    def _changed(self) -> list[Place]:
        """Return the memory from before the step that the step changes in place."""
        return [place for place in written_places(self._calls) if place in self._plan.memory]


def _missing_text(missing: Counter[str]) -> str:
    named = ", ".join(f"{shown(name)} ({times} times)" for name, times in missing.most_common(6))
    more = f" and {len(missing) - 6} more" if len(missing) > 6 else ""
    return f"no replay here of {named}{more}"


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    import torch

    tensor = torch.view_as_real(tensor) if tensor.is_complex() else tensor
    return tensor.resolve_conj().resolve_neg().contiguous()


def _filled(memory: Memory, number: int, device: torch.device) -> torch.Tensor:
    """Return memory with values that are the same in every process, and right for what uses them."""
    import torch

    dtype = dtype_of(memory.element)
    generator = torch.Generator(device=device).manual_seed(SEED + number)
    size = (memory.elements,)
    if memory.element in WHOLE:
        if memory.rising:
            rising = torch.arange(memory.elements, device=device)
            return (rising * (memory.bound - 1) // max(1, memory.elements)).to(dtype)
        bound = min(memory.bound, 2 if dtype is torch.bool else torch.iinfo(dtype).max)
        return torch.randint(0, bound, size, generator=generator, device=device, dtype=dtype)
    low, high = (0.5, 1.5) if memory.positive else (-memory.scale, memory.scale)
    kind = dtype if dtype in (torch.float32, torch.float64) else torch.float32
    drawn = torch.empty(size, dtype=kind, device=device).uniform_(low, high, generator=generator)
    return drawn.to(dtype)


@contextmanager
def _deterministic(device: torch.device) -> Iterator[None]:
    """Let torch take the operations that give the same bits every time, where it has them."""
    import torch

    before = torch.get_deterministic_debug_mode()
    threads = torch.get_num_threads()
    torch.set_deterministic_debug_mode("warn")
    if device.type == "cpu":
        torch.set_num_threads(
            1
        )  # in how many parts a sum is taken must not depend on the machine's quota
    try:
        with warnings.catch_warnings(
            action="ignore"
        ):  # of what has no deterministic form: ANY_ORDER
            yield
    finally:
        torch.set_num_threads(threads)
        torch.set_deterministic_debug_mode(before)
