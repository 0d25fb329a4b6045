"""An execution trace as values: which operations a job ran, in which order, on which tensors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

COMPILED = "Torch-Compiled Region"
"""Beginning of the label of what ``torch.compile`` made."""


@dataclass(frozen=True, slots=True)
class TensorUse:
    """A tensor as one operation saw it."""

    tensor: int  # number of the tensor object
    storage: int  # number of the memory that it lies in; views share it. 0 if not recorded
    offset: int  # first element of the view within the storage
    count: int  # elements
    element_bytes: int  # bytes of one element
    device: str  # ``cpu``, ``cuda:0``, ..
    # Type of the elements as torch's C++ side names it: ``float``, ``long int``, ``c10::Half``
    element: str
    shape: tuple[int, ...]  # size of every dimension
    # Elements from one index to the next of every dimension; None before schema 1.1.1, where a
    # tensor counts as contiguous
    strides: tuple[int, ...] | None = None

    @property
    def identity(self) -> tuple[int, int, int, int, str]:
        """What two uses of one tensor share, however it is viewed."""
        return self.tensor, self.storage, self.offset, self.count, self.element

    @property
    def span(self) -> int:
        """Elements between the first and the last that the view reaches."""
        if self.strides is None or not self.count:
            return self.count
        return 1 + sum(
            (size - 1) * step for size, step in zip(self.shape, self.strides, strict=True)
        )


@dataclass(frozen=True, slots=True)
class Opaque:
    """An argument whose value a trace does not hold, such as a process group, a stream or a storage."""

    type: str


Argument = TensorUse | Opaque | None | bool | int | float | str | tuple["Argument", ...]


@dataclass(frozen=True, slots=True)
class Operation:
    """One node of a trace."""

    id: int  # number of the node
    parent: int  # number of the node that called it
    name: str  # such as ``aten::mm``; a label of the user or of autograd has no schema
    schema: str  # the operation's registered schema; empty for a node that is no operation
    # Arguments in the order of the schema; an uninitialised tensor is None
    inputs: tuple[Argument, ...]
    outputs: tuple[Argument, ...]  # results
    thread: int = 0  # number of the thread that ran it
    # Smallest and largest value by the number of an input, where they were recorded
    ranges: tuple[tuple[int, float, float], ...] = ()


@dataclass(frozen=True)
class ExecutionTrace:
    """A recorded trace."""

    schema: str  # version of the file's form, such as ``1.1.1-chakra.0.0.4``
    # The first 16 hexadecimal digits of the SHA-256 of the file's content after decompression
    digest: str
    nodes: tuple[Operation, ...]  # all nodes by rising id

    @cached_property
    def operations(self) -> tuple[Operation, ...]:
        """The operations that no other operation called, in the order in which they began.

        What they call is not listed, because running the caller runs it again. Where the caller called itself
        with tensors of another element type, as under ``torch.autocast``, what it called is listed instead:
        without autocast the caller would not. A compiled part is listed by its label, too: on a CPU it has no
        kernels in the trace.
        """
        # The process is its own parent in what torch writes.
        by_id = {node.id: node for node in self.nodes if node.id != node.parent}
        above: dict[int, Operation | None] = {}  # the nearest operation that called a node
        for node in self.nodes:
            chain = [node.id]
            parent = by_id.get(node.parent)
            while parent is not None and parent.id not in above and not parent.schema:
                chain.append(parent.id)
                parent = by_id.get(parent.parent)
            found = parent
            if parent is not None and not parent.schema:
                found = above[parent.id]
            above.update(dict.fromkeys(chain, found))
        recast = {
            caller.id
            for node in self.nodes
            if (caller := above[node.id]) is not None
            and node.schema == caller.schema
            and _elements(node) != _elements(caller)
        }
        inside: dict[int, bool] = {}
        for node in self.nodes:
            caller = above[node.id]
            inside[node.id] = caller is not None and (
                caller.id not in recast or inside.get(caller.id, True)
            )
        return tuple(
            node
            for node in self.nodes
            if (node.schema or node.name.startswith(COMPILED))
            and not inside[node.id]
            and node.id not in recast
        )


def _elements(operation: Operation) -> list[str]:
    return [use.element for use in tensors_of(operation.inputs)]


def outer_parts(text: str, opening: str, closing: str) -> list[str]:
    """Return the parts of a text that commas outside of brackets separate."""
    if not any(bracket in text for bracket in opening):
        return text.split(",")
    parts, depth, begin = [], 0, 0
    for at, letter in enumerate(text):
        depth += (letter in opening) - (letter in closing)
        if letter == "," and not depth:
            parts.append(text[begin:at])
            begin = at + 1
    return [*parts, text[begin:]]


def tensors_of(arguments: tuple[Argument, ...]) -> Iterator[TensorUse]:
    """Yield the tensors among arguments, those in lists too."""
    for one in arguments:
        if isinstance(one, TensorUse):
            yield one
        elif isinstance(one, tuple):
            yield from tensors_of(one)
