"""Replay a recorded step: allocate what existed before it, then run its operations in order.

The test of a trace file times it and compares its bits. Values are drawn from a fixed seed, so that every
step computes the same; shapes, types, strides and the time at which memory is freed are those of the job.
Autograd is off, since its operations are in the trace.
"""

from __future__ import annotations

import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pytest_anubis.benchmarking.precision import single_precision
from pytest_anubis.benchmarking.replay.operation_calls import (
    CannotReplayError,
    OperationCall,
)
from pytest_anubis.benchmarking.replay.step_checks import (
    check_index_values,
    check_indices,
    check_made,
    check_sizes,
    contiguous,
    dtype_of,
    written_places,
)
from pytest_anubis.benchmarking.replay.step_memory import peak_bytes, tensors_in
from pytest_anubis.benchmarking.sizes import NEEDED, give_back, host_memory, memory_of
from pytest_anubis.benchmarking.verification import fingerprint, hashed
from pytest_anubis.codec.codec_error import shown
from pytest_anubis.traces.chosen_masks import with_chosen_masks
from pytest_anubis.traces.execution_trace import ExecutionTrace, TensorUse, tensors_of
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
    with_saved_results,
)

if TYPE_CHECKING:
    import torch

SEED = 20240616
KEPT_BITS = 48
"""Bits of a fingerprint that are kept, of the 53 that a number of a measurement holds."""

Tensors = list["torch.Tensor | None"]
"""The tensors of a step by the number of their slot; None while there is none."""


class ReplayedStep:
    """One recorded step on one device.

    Attributes:
        collectives: How often each collective operation was recorded; none is replayed.
        kinds: Kinds of the operations that take the device's time.
        blind: After `bits`: how many operations gave infinities or no numbers, which hide a wrong bit.
        uncompared: After `bits`: how many operations it left out.
        bits_at_first: After `prepare`: what `bits` gave then.

    Args:
        trace: What was recorded.
        device: Where it runs.

    Raises:
        CannotReplayError: An operation cannot be run here, or the step needs more memory than is free.
    """

    def __init__(self, trace: ExecutionTrace, device: torch.device) -> None:
        self._device = device
        self._slots: dict[Key, int] = {}
        self.collectives: Counter[str] = Counter()
        missing: Counter[str] = Counter()
        calls: list[OperationCall] = []
        for operation in with_chosen_masks(with_saved_results(trace.operations)):
            _, name, _ = operation_name(operation.schema)
            if kind_of(operation.schema) is Kind.COLLECTIVE:
                self.collectives[operation.name] += 1
            elif name not in FREE_OF_WORK:
                try:
                    calls.append(OperationCall(operation, device, self._slot_of))
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
        self._running = calls[0]
        made = [
            [self._slot_of(use) for use in tensors_of(call.operation.outputs)] for call in calls
        ]
        # A translated operation may leave out some inputs of the recorded one; they have places all the same.
        freed = [[self._slot(key) for key in keys] for keys in self._plan.freed]
        for key in self._plan.given:
            self._slot(key)
        self._order = list(zip(calls, made, freed, strict=True))
        self._given: list[torch.Tensor | None] = [None] * len(self._slots)
        # In place they change how a tensor is seen, which the next step must not find.
        self._turned = {
            self._slot_of(use)
            for call in calls
            if call.kind is Kind.BETWEEN and call.writes
            for use in tensors_of(call.operation.inputs[:1])
        }
        self._memory: dict[Place, torch.Tensor] = {}
        self._changed: list[tuple[Place, int, Memory]] = []
        self.blind = self.uncompared = self.bits_at_first = 0

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

        peak = peak_bytes(self._calls, self._plan, on_cpu=self._device.type == "cpu")
        copy = max(
            (one.bytes for one in self._plan.memory.values()), default=0
        )  # while it is filled
        wanted = self._plan.bytes + max(peak, copy)
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
        for key, (place, begin) in self._plan.given.items():
            shape, strides = key[5], key[6]
            flat = self._memory[place]
            steps = strides if strides is not None else contiguous(shape)
            try:
                self._given[self._slot(key)] = torch.as_strided(flat, shape, steps, begin)
            except (RuntimeError, TypeError, ValueError) as error:
                raise CannotReplayError(shown(str(error).partition("\n")[0])) from None
        self._rehearse()

    def _rehearse(self) -> None:
        """Run the step, where an error is one of the trace; later ones are the device's.

        An accelerator's own errors pass: they are evidence. What the operations have changed in place is what
        a step has to restore: more than their schemas say, since a copy to the same device is none.
        """
        import torch

        of_device = (
            torch.OutOfMemoryError,
            getattr(torch, "AcceleratorError", torch.OutOfMemoryError),
        )
        before = {place: one._version for place, one in self._memory.items()}

        def run(call: OperationCall, tensors: Tensors) -> Any:
            check_index_values(call, lambda use: tensors[self._slot_of(use)])
            result = call.run(tensors)
            check_made(call.operation, result)
            return result

        try:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(SEED)
                self._each(run)
            written = set(written_places(self._calls))
            self._changed = [
                (place, number, memory)
                for number, (place, memory) in enumerate(self._plan.memory.items())
                if place in written or self._memory[place]._version != before[place]
            ]
            self.bits_at_first = self.bits()
        except CannotReplayError:
            raise
        except Exception as error:
            if self._device.type != "cpu" and isinstance(error, of_device):
                raise
            text = shown(str(error).partition("\n")[0])
            at = self._running.operation
            raise CannotReplayError(f"{shown(at.name)} (node {at.id}): {text}") from None
        self.restore()

    def restore(self) -> None:
        """Give what a step changes, such as weights, the values from before it."""
        for place, number, memory in self._changed:
            self._memory[place].copy_(_filled(memory, number, self._device))

    def ready(self) -> None:
        """Bring what the last step changed back into its range; called before a step that is timed.

        Else weights grow from step to step until no number is finite, for what a trace does not hold, such as
        the losses of a batch, does not fit them. It leaves the caches as an optimizer does, which ends a step
        with the same memory; to restore the values fills them with others.
        """
        for place, _, memory in self._changed:
            _keep_in_range(self._memory[place], memory)

    def run(self) -> None:
        """Run the step once; does not wait for the device."""
        self._each(lambda call, tensors: call.run(tensors))

    def seconds_by_kind(self, synchronize: Callable[[], object]) -> dict[Kind, float]:
        """Run the step once and return the seconds that the operations of each kind took.

        `Kind.BETWEEN` has the operations without work on the device, and what the host did besides.

        Args:
            synchronize: Waits for the device.
        """
        found = dict.fromkeys((*self.kinds, Kind.BETWEEN), 0.0)

        def add(call: OperationCall, seconds: float) -> None:
            found[call.kind] += seconds

        begin = time.perf_counter()
        self.time_operations(synchronize, add)
        found[Kind.BETWEEN] += max(0.0, time.perf_counter() - begin - sum(found.values()))
        return found

    def time_operations(
        self, synchronize: Callable[[], object], timed: Callable[[OperationCall, float], object]
    ) -> None:
        """Run the step once and wait after each operation.

        Args:
            synchronize: Waits for the device.
            timed: Called with every operation and the seconds that it took.
        """

        def run(call: OperationCall, tensors: Tensors) -> Any:
            begin = time.perf_counter()
            result = call.run(tensors)
            synchronize()
            timed(call, time.perf_counter() - begin)
            return result

        synchronize()
        self._each(run)

    def bits(self) -> int:
        """Return the fingerprint of the step's results in `KEPT_BITS` bits, equal on all healthy devices.

        Left out are, on accelerators, the results of operations that sum in any order, and what was computed
        from these.
        """
        import torch

        total = number = self.blind = self.uncompared = 0
        unsure: set[Place] = set()
        any_order = self._device.type != "cpu"  # on a CPU one thread sums in one order

        def run(call: OperationCall, tensors: Tensors) -> Any:
            nonlocal total, number
            result = call.run(tensors)
            operation, number = call.operation, number + 1
            name = plain_name(operation_name(operation.schema)[1])
            used = {place_of(use) for use in tensors_of(operation.inputs)}
            if any_order and (name in ANY_ORDER or not unsure.isdisjoint(used)):
                self.uncompared += 1
                changed = tuple(operation.inputs[place] for place in call.writes)
                unsure.update(map(place_of, tensors_of((*operation.outputs, *changed))))
                return result
            results = list(tensors_in(result))
            for use in tensors_of(tuple(operation.inputs[place] for place in call.writes)):
                written = tensors[self._slot_of(use)]
                if written is not None and all(written is not one for one in results):
                    results.append(written)
            results = [one for one in results if one.layout is torch.strided]
            if call.kind is not Kind.BETWEEN:  # memory that nothing has written yet
                self.blind += not all(map(_finite, results))
            for place, tensor in enumerate(results):
                if tensor.device.type == self._device.type:
                    value = fingerprint(_plain(tensor))
                    mixed = int(hashed(torch.tensor([number * 64 + place], dtype=torch.int64))[0])
                    total = (total + (value ^ (mixed % (1 << 64)))) % (1 << 64)
            return result

        self.restore()
        with _deterministic(self._device), torch.random.fork_rng(devices=[]):
            torch.manual_seed(SEED)
            self._each(run)
        return total >> (64 - KEPT_BITS)

    def _each(self, run: Callable[[OperationCall, Tensors], Any]) -> None:
        """Run the operations in order; each result is kept until its last use.

        Args:
            run: Runs an operation on the tensors in their slots, and returns its result.
        """
        import torch

        live = self._given.copy()
        for slot in self._turned:
            if (given := live[slot]) is not None:
                live[slot] = given.detach()
        with torch.no_grad():
            for call, made, freed in self._order:
                self._running = call
                result = run(call, live)
                if type(result) is torch.Tensor:
                    if made:
                        live[made[0]] = result
                else:
                    for slot, tensor in zip(made, tensors_in(result), strict=False):
                        live[slot] = tensor
                result = None  # else it lives on until the next operation has its own
                for slot in freed:
                    live[slot] = None

    def _slot(self, key: Key) -> int:
        return self._slots.setdefault(key, len(self._slots))

    def _slot_of(self, use: TensorUse) -> int:
        return self._slot(key_of(use))


def _missing_text(missing: Counter[str]) -> str:
    named = ", ".join(f"{shown(name)} ({times} times)" for name, times in missing.most_common(6))
    more = f" and {len(missing) - 6} more" if len(missing) > 6 else ""
    return f"no replay here of {named}{more}"


def _finite(tensor: torch.Tensor) -> bool:
    import torch

    return tensor.itemsize < 2 or bool(
        torch.isfinite(tensor).all()
    )  # torch asks none of eight bits


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    import torch

    span = 1 + sum((n - 1) * step for n, step in zip(tensor.shape, tensor.stride(), strict=True))
    if tensor.numel() > span:
        # A view that sees its elements several times, such as an expanded one.
        tensor = tensor.as_strided((span,), (1,))
    tensor = tensor.resolve_conj().resolve_neg()
    return (torch.view_as_real(tensor) if tensor.is_complex() else tensor).contiguous()


def _filled(memory: Memory, number: int, device: torch.device) -> torch.Tensor:
    """Return memory with values that are the same in every process, and right for what uses them."""
    import torch

    dtype = dtype_of(memory.element)
    generator = torch.Generator(device=device).manual_seed(SEED + number)
    size = (memory.elements,)
    if memory.count is not None:
        marked = torch.zeros(size, dtype=dtype, device=device)
        step = memory.elements // max(1, memory.count)
        marked[: memory.count * step : max(1, step)] = 1
        return marked
    if memory.one:
        return torch.ones(size, dtype=dtype, device=device)
    if memory.element in WHOLE:
        if memory.rising:
            rising = torch.arange(memory.elements, device=device)
            return (rising * (memory.bound - 1) // max(1, memory.elements)).to(dtype)
        bound = min(memory.bound, 2 if dtype is torch.bool else torch.iinfo(dtype).max)
        return torch.randint(0, bound, size, generator=generator, device=device, dtype=dtype)
    low, high = memory.limits
    kind = dtype if dtype.is_floating_point and dtype.itemsize > 1 else torch.float32
    drawn = torch.empty(size, dtype=kind, device=device).uniform_(low, high, generator=generator)
    return drawn.to(dtype)


def _keep_in_range(values: torch.Tensor, memory: Memory) -> None:
    """Change values in place that are outside of what they are filled with."""
    low, high = memory.limits
    if (
        values.is_floating_point() and values.itemsize > 1
    ):  # torch has no such operation for eight bits
        values.nan_to_num_(nan=high, posinf=high, neginf=low).clamp_(low, high)
    elif not values.is_floating_point() and not values.is_complex() and values.dtype.is_signed:
        values.clamp_(int(low), int(high))


@contextmanager
def _deterministic(device: torch.device) -> Iterator[None]:
    """Let torch take the operations that give the same bits every time, where it has them."""
    import torch

    before = torch.get_deterministic_debug_mode()
    memory: Any = torch.utils.deterministic
    filled = memory.fill_uninitialized_memory
    memory.fill_uninitialized_memory = True
    threads = torch.get_num_threads()
    torch.set_deterministic_debug_mode("warn")
    if device.type == "cpu":
        torch.set_num_threads(
            1
        )  # in how many parts a sum is taken must not depend on the machine's quota
    try:
        # It warns of what has no deterministic form: ANY_ORDER.
        with single_precision(), warnings.catch_warnings(action="ignore"):
            yield
    finally:
        torch.set_num_threads(threads)
        memory.fill_uninitialized_memory = filled
        torch.set_deterministic_debug_mode(before)
