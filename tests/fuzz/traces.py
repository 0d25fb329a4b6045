"""Execution traces: mutated as files, and where a file is still read, in the arguments of an operation.

Most changes of a file are refused by its reader, which checks that shapes and counts fit. What fits and makes
no sense is made here.
"""

from __future__ import annotations

import gzip
import json
import math
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest_anubis.benchmarking.replay.operation_calls import ELEMENTS, CannotReplayError
from pytest_anubis.benchmarking.replay.replayed_step import ReplayedStep
from pytest_anubis.traces.execution_trace import Argument, ExecutionTrace, Opaque, TensorUse
from pytest_anubis.traces.step_plan import planned
from pytest_anubis.traces.trace_reading import LARGEST_ID, read_trace
from tests.fuzz.healthy_files import Seed
from tests.fuzz.outcome import Defect, anubis
from tests.traces.made_traces import node, recorded_step, two_products

SMALL = 1 << 24
"""Bytes of a step whose memory is made too: it must be no more than the trace says."""

TIMES = 5
"""Changed arguments that one file is tried with."""

SIZES = (0, 1, 2, 3, 8, 64, 10**6, 2**31, 2**40, LARGEST_ID)
OTHERS: tuple[Argument, ...] = (
    *(None, True, 0, 1, -1, 7, 2**31, -(2**63), 2**64, 10**40, 0.5, -1e308, math.inf, math.nan),
    *("", "mean", "cuda:0", "x\n\x1b[31m", (), (1,), (-1, 0), (2**40, 2**40), ((),), Opaque("Generator")),
)  # fmt: skip


def traces(scratch: Path) -> list[Seed]:
    """Return a small trace in both forms, one with every type, and a recorded one, plain and packed."""
    step, data = recorded_step().encode(), two_products()
    given: tuple[Any, ...] = (
        (7, [], "Int"), (0.3, [], "Double"), ("floor", [], "String"), ("<G>", [], "Generator"),
        ([[1], True], [[[]], []], "GenericList[GenericList[Int],Bool]"),
    )  # fmt: skip
    data["nodes"] += [node(5, "mine::op", "mine::op(Tensor[] a) -> Tensor[]", given, given)]
    data["nodes"][2]["attrs"] += [{"name": "tensor_range", "value": '{"0": [0, 7]}'}]
    return [
        Seed(name="types.trace.json", content=json.dumps(data).encode()),
        Seed(name="nested.trace.json", content=json.dumps(two_products()).encode()),
        Seed(name="flat.trace.json", content=json.dumps(two_products(flat=True)).encode()),
        Seed(name="step.trace.json", content=step),
        Seed(name="packed.trace.json.gz", content=gzip.compress(step, mtime=0)),
    ]


def read_mutated_trace(seed: Seed, path: Path, damaged: bool, rng: random.Random) -> None:
    """Show a trace, pass it on, and prepare its replay; then that of it or of its healthy file, changed.

    Raises:
        Defect: It was refused in several lines, or what was passed on cannot be read.
    """
    if anubis("trace", "info", str(path), "--json=-", document=True).code:
        path.write_bytes(seed.content)
    else:
        _build(read_trace(path))
        passed = path.with_name("passed.trace.json.gz")
        anubis("trace", "export", str(path), "-o", str(path.with_suffix(".et")))
        anubis("trace", "obfuscate", str(path), "-o", str(passed))
        if anubis("trace", "info", str(passed)).code:
            raise Defect("what obfuscate wrote cannot be read")
    trace = read_trace(path)
    for _ in range(TIMES):
        _build(_changed(trace, rng))


def _build(trace: ExecutionTrace) -> None:
    import torch

    try:
        step = ReplayedStep(trace, torch.device("cpu"))
        if planned(trace.operations).bytes < SMALL:
            step.prepare()
    except CannotReplayError as error:
        if not str(error).isprintable():
            raise Defect(f"not one line: {str(error)[:200]!r}") from None


def _changed(trace: ExecutionTrace, rng: random.Random) -> ExecutionTrace:
    """Return a trace in one operation of which something else is given, or another operation called."""
    if not trace.operations:
        return trace
    one, other = rng.choice(trace.operations), rng.choice(trace.operations)
    draw = rng.random()
    if draw < 0.2:
        new = replace(one, schema=other.schema)
    elif draw < 0.3:
        new = replace(one, inputs=rng.choice((one.inputs[:-1], (*one.inputs, *other.inputs))))
    elif draw < 0.5:
        new = replace(one, outputs=_other(one.outputs, rng))
    else:
        new = replace(one, inputs=_other(one.inputs, rng))
    nodes = tuple(new if node is one else node for node in trace.nodes)
    return ExecutionTrace(schema=trace.schema, digest=trace.digest, nodes=nodes)


def _other(given: tuple[Argument, ...], rng: random.Random) -> tuple[Argument, ...]:
    """Return arguments of which one differs."""
    if not given:
        return (rng.choice(OTHERS),)
    place = rng.randrange(len(given))
    old = given[place]
    new = rng.choice(OTHERS)
    if isinstance(old, tuple) and rng.random() < 0.7:
        new = _other(old, rng)
    elif isinstance(old, TensorUse) and rng.random() < 0.7:
        new = _resized(old, rng)
    elif type(old) is int and rng.random() < 0.5:
        new = rng.choice(SIZES)
    return (*given[:place], new, *given[place + 1 :])


def _resized(use: TensorUse, rng: random.Random) -> TensorUse:
    shape = tuple(rng.choice((size, rng.choice(SIZES))) for size in use.shape)
    shape = rng.choice((shape, shape[1:], (*shape, 1), use.shape))
    strides = rng.choice((use.strides, None, tuple(rng.choice(SIZES) for _ in shape)))
    return replace(
        use,
        shape=shape,
        count=math.prod(shape),
        strides=strides if strides is None or len(strides) == len(shape) else None,
        offset=rng.choice((use.offset, *SIZES)),
        element_bytes=rng.choice((use.element_bytes, *SIZES)),
        element=rng.choice((use.element, *ELEMENTS, "x" * 60)),
    )
