"""Which tensors a replayed step needs: those from before it with values to fill in, and when each is freed.

Idea from Mystique (ISCA 2023): tensors are distinguished by identity, shape and strides; those that no
operation of the step made exist before it; every other one is freed after its last use, as in the job itself.
`replayed_step` uses it for the replay, `trace_command` for the size of what exists before the step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from pytest_anubis.traces.chosen_masks import mask_of
from pytest_anubis.traces.execution_trace import (
    Argument,
    Operation,
    TensorUse,
    outer_parts,
    tensors_of,
)
from pytest_anubis.traces.operation_kinds import Kind, kind_of, operation_name, plain_name

Key = tuple[int, int, int, int, str, tuple[int, ...], tuple[int, ...] | None]
"""A tensor object with its memory, shape and strides."""

Place = tuple[str, int, str]
"""A piece of memory that exists before the step: ``own`` or ``shared``, number, element type."""

WHOLE = frozenset(
    ("bool", "unsigned char", "signed char", "short", "short int", "int", "long", "long int")
)
"""Element types of which no value but an index or a count makes sense."""

_POSITIVE_ARGUMENTS = frozenset((
    "running_var", "save_var", "save_invstd", "save_variance", "rstd", "var", "total_weight", "exp_avg_sq",
    "exp_avg_sqs", "max_exp_avg_sqs", "state_sums", "logsumexp",
))  # fmt: skip
_POSITIVE_OPERATIONS = frozenset(
    ("sqrt", "rsqrt", "log", "log2", "log10", "_foreach_sqrt", "reciprocal", "multinomial")
)
_DIVISORS = {
    **dict.fromkeys(("div", "true_divide", "floor_divide", "remainder", "fmod"), "other"),
    "addcdiv": "tensor2",
}
"""Operation -> its argument by which it divides."""
_SELECTING = frozenset((
    "gather", "scatter", "scatter_add", "scatter_reduce", "index_select", "index_add", "index_copy",
    "index_fill", "take_along_dim",
))  # fmt: skip
_TARGETS = frozenset((
    "cross_entropy_loss", "nll_loss", "nll_loss_nd", "nll_loss_forward", "nll_loss_backward", "nll_loss2d",
    "nll_loss2d_forward", "nll_loss2d_backward",
))  # fmt: skip
_BAGS = frozenset(("embedding_bag", "_embedding_bag", "_embedding_bag_forward_only"))


@dataclass(frozen=True, slots=True)
class Memory:
    """Memory that exists before the step, in which one or more tensors lie."""

    elements: int  # its size
    element: str  # type of its elements
    element_bytes: int  # bytes of one
    scale: float = 1.0  # largest absolute value of the numbers that it is filled with
    positive: bool = False  # the values must be above zero, such as variances
    one: bool = False  # all values are 1, the best guess of an unknown factor or divisor of the job
    bound: int = 1  # whole numbers are below it
    rising: bool = False  # whole numbers rise evenly, as the offsets of bags do
    count: int | None = None  # how many elements are not zero, of a mask that decides a size

    @property
    def bytes(self) -> int:
        """Its size in bytes."""
        return self.elements * self.element_bytes

    @property
    def limits(self) -> tuple[float, float]:
        """Smallest and largest value that it is filled with."""
        if self.one:
            return 1, 1
        if self.element in WHOLE:
            return 0, self.bound - 1
        return (0.5, 1.5) if self.positive else (-self.scale, self.scale)


@dataclass(frozen=True, slots=True)
class StepPlan:
    """The tensors of a step."""

    memory: dict[Place, Memory]  # what exists before the step, by place
    given: dict[Key, tuple[Place, int]]  # tensors that lie in it: key -> place and first element
    freed: tuple[tuple[Key, ...], ...]  # for each operation, the tensors that nothing uses after it

    @property
    def bytes(self) -> int:
        """Bytes of what exists before the step."""
        return sum(one.bytes for one in self.memory.values())


def key_of(use: TensorUse) -> Key:
    """Return what distinguishes a tensor of a trace from all others."""
    return (*use.identity, use.shape, use.strides)


def planned(operations: Sequence[Operation]) -> StepPlan:
    """Return which tensors a step of these operations needs.

    Args:
        operations: In the order in which they run; without those that are not replayed.
    """
    made: set[Key] = set()
    last: dict[Key, int] = {}
    outside: dict[Key, TensorUse] = {}
    freed: list[list[Key]] = [[] for _ in operations]
    for number, operation in enumerate(operations):
        for use in tensors_of(operation.inputs):
            key = key_of(use)
            last[key] = number
            if key not in made:
                outside.setdefault(key, use)
        for use in tensors_of(operation.outputs):
            key = key_of(use)
            # Torch gives the numbers of a freed tensor to a new one.
            if key in made and last[key] < number and key not in outside:
                freed[last[key]].append(key)
            last[key] = number
            made.add(key)
    for key, number in last.items():
        if key not in outside:
            freed[number].append(key)
    places = {
        key: (place_of(use), use.offset if use.storage else 0) for key, use in outside.items()
    }
    ends: dict[Place, int] = {}
    for key, use in outside.items():
        place, begin = places[key]
        ends[place] = max(ends.get(place, 0), begin + use.span)
    hints = _Hints(operations, {key: place for key, (place, _) in places.items()})
    memory: dict[Place, Memory] = {}
    for key, use in outside.items():
        place = places[key][0]
        if place not in memory:
            memory[place] = Memory(
                elements=ends[place],
                element=use.element,
                element_bytes=use.element_bytes,
                # Sums of products with such weights are as large as what they are of.
                scale=(
                    3 / max(1, hints.fan_in.get(place, use.shape[-1] if len(use.shape) > 1 else 3))
                )
                ** 0.5,
                positive=place in hints.positive,
                one=(place in hints.ones and ends[place] == 1)
                or (place in hints.divisors and hints.bound(place) < 2),
                bound=hints.bound(place),
                rising=place in hints.rising,
                count=hints.counts.get(place),
            )
    return StepPlan(memory=memory, given=places, freed=tuple(map(tuple, freed)))


def with_saved_results(operations: Sequence[Operation]) -> list[Operation]:
    """Return operations in which inputs that autograd had saved are the recorded results again.

    Autograd gives a saved result a new number, which no recorded operation makes. It is the last result that
    lay at the same place, with the same shape and strides.
    """
    made: set[Key] = set()
    saved: dict[Key, TensorUse] = {}
    latest: dict[tuple[Argument, ...], TensorUse] = {}
    given: set[Key] = set()

    def known(use: TensorUse) -> TensorUse:
        key = key_of(use)
        if key in made or key in given or not use.storage:
            return use
        if key not in saved and (found := latest.get(key[1:])) is not None:
            saved[key] = found
        if key not in saved:
            given.add(key)
        return saved.get(key, use)

    found = []
    for operation in operations:
        found.append(
            replace(operation, inputs=tuple(_mapped(one, known) for one in operation.inputs))
        )
        for use in tensors_of(operation.outputs):
            key = key_of(use)
            made.add(key)
            saved.pop(key, None)
            latest[key[1:]] = use
    return found


def _mapped(one: Argument, known: Callable[[TensorUse], TensorUse]) -> Argument:
    if isinstance(one, TensorUse):
        return known(one)
    return tuple(_mapped(part, known) for part in one) if isinstance(one, tuple) else one


def place_of(use: TensorUse) -> Place:
    """Return the memory of a tensor that exists before the step; views share it."""
    if use.storage:
        return "shared", use.storage, use.element
    return "own", use.tensor, use.element


class _Hints:
    """What the values of memory must be for the operations that use it."""

    def __init__(self, operations: Sequence[Operation], places: dict[Key, Place]) -> None:
        self.positive: set[Place] = set()
        self.rising: set[Place] = set()
        self.ones: set[Place] = set()
        self.divisors: set[Place] = set()
        self.fan_in: dict[Place, int] = {}
        self.counts: dict[Place, int] = {}
        self._bounds: dict[Place, int] = {}
        # A view or a copy of indices has the same values: what it is used for binds its origin.
        origin: dict[Key, Place] = dict(places)
        for operation in operations:
            _, name, _ = operation_name(operation.schema)
            name = plain_name(name)
            whole = [use for use in tensors_of(operation.inputs) if use.element in WHOLE]
            taken = name in ("index", "masked_select")
            if whole and (taken or kind_of(operation.schema) in (Kind.BETWEEN, Kind.COPY)):
                first = origin.get(key_of(whole[0]))
                for use in tensors_of(operation.outputs):
                    if first is not None and use.element in WHOLE:
                        origin.setdefault(key_of(use), first)
            if (mask := mask_of(operation)) and mask[1].tensor < 0:
                self.counts[places[key_of(mask[1])]] = mask[2]
            arguments = argument_names(operation.schema)
            for place, argument in enumerate(operation.inputs):
                word = arguments[place] if place < len(arguments) else ""
                limit = _limit(operation, name, word, place)
                for use in tensors_of((argument,)):
                    found = origin.get(key_of(use))
                    if found is None:
                        continue
                    divisor = _DIVISORS.get(name) == word
                    if divisor or name in _POSITIVE_OPERATIONS or word in _POSITIVE_ARGUMENTS:
                        self.positive.add(found)
                    if divisor and use.element in WHOLE:
                        self.divisors.add(found)
                    if not use.shape and use.element not in WHOLE:
                        self.ones.add(found)
                    if word == "weight" and kind_of(operation.schema) is Kind.CONVOLUTION:
                        self.fan_in[found] = max(1, use.count // max(1, use.shape[0]))
                    if use.element in WHOLE and limit:
                        self._bounds[found] = min(limit, self._bounds.get(found, limit))
                        if name in _BAGS and word == "offsets":
                            self.rising.add(found)

    def bound(self, place: Place) -> int:
        """Return the number that all whole numbers of a memory must be below."""
        if place[2] == "bool":
            return 2
        return max(1, self._bounds.get(place, 1))


def argument_names(schema: str) -> list[str]:
    """Return the names of an operation's arguments from its schema, in order."""
    return [one.partition("=")[0].split()[-1] for one in _stated(schema)]


def written_arguments(schema: str) -> list[int]:
    """Return the numbers of the arguments that an operation changes in place: ``Tensor(a!) self``."""
    return [place for place, one in enumerate(_stated(schema)) if "!" in one.partition(" ")[0]]


def _stated(schema: str) -> list[str]:
    """Return the arguments of a schema, each with type, name and default."""
    inside = schema[schema.find("(") + 1 :].rpartition(") ->")[0]
    stripped = (part.strip() for part in outer_parts(inside, "([", ")]"))
    return [one for one in stripped if one.partition("=")[0].strip() not in ("", "*")]


def _limit(operation: Operation, name: str, word: str, place: int) -> int:
    """Return below which number the whole numbers of an argument must be; 0 if any are right."""
    recorded = next((high for number, _, high in operation.ranges if number == place), None)
    most = _structural_limit(operation, name, word)
    # A file may not choose indices beyond the table that they are for.
    return min(most, int(recorded) + 1) if recorded is not None and recorded >= 0 else most


def _structural_limit(operation: Operation, name: str, word: str) -> int:
    inputs = operation.inputs
    first = inputs[0] if inputs and isinstance(inputs[0], TensorUse) else None
    shape = first.shape if first is not None else ()
    if name in ("embedding", *_BAGS) and word in ("indices", "offsets") and shape:
        if word == "indices":
            return shape[0]
        indices = inputs[1] if len(inputs) > 1 else None
        return indices.count + 1 if isinstance(indices, TensorUse) else 0
    if name == "embedding_dense_backward" and word == "indices":
        return _whole(inputs, 2)
    if name in _TARGETS and word == "target":
        scores = inputs[1] if name.endswith("backward") and len(inputs) > 1 else first
        sizes = scores.shape if isinstance(scores, TensorUse) else ()
        return sizes[1] if len(sizes) > 1 else sizes[0] if sizes else 0
    if name in _SELECTING and word == "index" and shape:
        dim = _whole(inputs, 1)
        return shape[dim] if -len(shape) <= dim < len(shape) else 0
    if name in ("index", "index_put", "_index_put_impl", "_unsafe_index") and word == "indices":
        return min(shape, default=0)
    if word == "indices" and "pool" in name:
        source = inputs[1] if len(inputs) > 1 and isinstance(inputs[1], TensorUse) else None
        return source.shape[-1] * source.shape[-2] if source and len(source.shape) > 1 else 0
    if name == "one_hot" and word == "self":
        return max(0, _whole(inputs, 1))
    return 0


def _whole(inputs: tuple[Argument, ...], place: int) -> int:
    value = inputs[place] if place < len(inputs) else 0
    return value if type(value) is int else 0
