"""One flipped bit at a random place, in each kind of buffer: does the benchmark's own check see it?

Each function returns whether the check complained, with the fault or without.
"""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

from benchmarks.suites.faults import card_bits
from benchmarks.suites.faults.flips import Try, flip

SIZE = 192  # rows of the matrices: small, since a bit is a bit
ELEMENTS = 1 << 20
FOOTPRINT = 1 << 20
PIECE = 1 << 16  # bytes of memory that are checked at once
WORD = 8  # bytes, as the patterns count places


def product(dtype: str) -> Try:
    """A bit of the result of a product of whole numbers."""

    def attempt(draw: random.Random, faulty: bool) -> bool:
        import torch

        from suites.compute.kernels import Gemm, multiply

        def spoilt(a: Any, b: Any, out: Any) -> None:
            multiply(a, b, out)
            flip(out, draw)

        gemm = Gemm(SIZE, dtype, torch.device("cpu"), product=spoilt if faulty else multiply)
        return gemm.wrong_rows() > 0

    return attempt


def stream(operation: str, buffer: str) -> Try:
    """A bit of an array that is streamed: of what was written, or of the source while it is read."""

    def attempt(draw: random.Random, faulty: bool) -> bool:
        import torch

        from suites.memory.stream import OPERATIONS, Stream

        plain = OPERATIONS[operation][1]

        def spoilt(x: Any, y: Any, out: Any) -> None:
            if buffer == "source":
                flip(x, draw)
            plain(x, y, out)
            if buffer == "result":
                flip(out, draw)

        kernel = Stream(operation, ELEMENTS, torch.device("cpu"), apply=spoilt if faulty else None)
        kernel.run()
        return kernel.wrong_elements() > 0

    return attempt


def chain(draw: random.Random, faulty: bool) -> bool:
    """A bit of a line of the pointer chase."""
    from suites.memory import chase, native

    compiler = native.find_compiler()
    if compiler is None:
        raise FileNotFoundError("no C compiler")
    library = native.load(chase.SOURCE, compiler, native.cache_folder())
    with chase.Chase(library, FOOTPRINT) as kernel:
        if faulty:
            kernel.flip(draw.randrange(kernel.lines), draw.randrange(64))
        return kernel.wrong_links() > 0


def wire(draw: random.Random, faulty: bool) -> bool:
    """A bit of every block that crosses a TCP connection."""
    from suites.network.loopback import Loopback
    from tests.suites.relay import Relay

    with Relay() as relay, Loopback(through=relay.before) as link:
        relay.flip = faulty
        return not link.intact(1 << 20)


def platter(draw: random.Random, faulty: bool) -> bool:
    """A bit of a file on the disk, between its writing and its reading."""
    from suites.storage.fio import CHECKED, DiskFile, FioError

    program = shutil.which("fio")
    if program is None:
        raise FileNotFoundError("fio not found")
    with DiskFile(Path(tempfile.gettempdir()), CHECKED, program) as file:
        file.write_checked()
        if faulty:
            with file.path.open("r+b") as data:
                place = draw.randrange(CHECKED)
                data.seek(place)
                old = data.read(1)[0]
                data.seek(place)
                data.write(bytes([old ^ 1 << draw.randrange(8)]))
                os.fsync(data.fileno())
        with suppress(FioError):
            file.read_checked()
            return False
        return True


def gradient(draw: random.Random, faulty: bool) -> bool:
    """An exponent's bit of one weight of a small network, before its gradient is checked."""
    import torch

    from suites.training.resnet import ResNetShape, resnet_step
    from suites.training.test_step import GRADIENT_TOLERANCE

    step = resnet_step(
        ResNetShape(width=8, stages=1, blocks=1, picture=8, batch=4), torch.device("cpu")
    )
    if faulty:

        def spoilt(_module: Any, _inputs: Any, output: Any) -> Any:
            if output.dtype is not torch.float32:  # the reference, in double precision, is right
                return output
            changed = output.detach().clone().view(-1)
            place = int(changed.abs().argmax())
            changed.view(torch.int32)[place] ^= 1 << draw.choice((26, 27, 28))
            return output + (changed.view_as(output) - output.detach())

        next(step.model.children()).register_forward_hook(spoilt)
    return not step.gradient_errors(False)[0] < GRADIENT_TOLERANCE[False]


def cell(draw: random.Random, faulty: bool) -> bool:
    """A bit of a word of memory, between its writing and its reading."""
    import torch

    from pytest_anubis.benchmarking.verification import Pattern
    from suites.memory.patterns import Memory

    memory = Memory(FOOTPRINT, torch.device("cpu"), PIECE)
    pattern = Pattern("random", draw.randrange(1 << 20))
    memory.write(pattern)
    if faulty:
        memory.flip(draw.randrange(FOOTPRINT // WORD) * WORD, draw.randrange(8 * WORD))
    return memory.check("random", pattern).wrong > 0


def register(draw: random.Random, faulty: bool) -> bool:
    """A low bit, which every kind of number has, of a register of one core under load."""
    from suites.compute.units import SOURCE, UNITS, Cores, cpus_for
    from suites.memory import native

    compiler = native.find_compiler()
    if compiler is None:
        raise FileNotFoundError("no C compiler")
    library = native.load(SOURCE, compiler, native.cache_folder())
    (cpu,) = cpus_for(1)
    faults = {cpu: 1 << draw.randrange(12)} if faulty else {}
    cores = Cores(library, [cpu], [draw.choice(list(UNITS))], faults=faults)
    cores.load(0.0, turns=1)
    return cores.wrong[cpu] > 0


def arrival(draw: random.Random, faulty: bool) -> bool:
    """A bit of what a rank got from the others."""
    import torch

    from suites.collective.operations import Exchange

    def alone(_operation: str, _sent: Any, due: Any) -> None:
        if faulty:  # else nothing: what one rank alone sends to all is there already
            flip(due, draw)

    return Exchange("broadcast", ELEMENTS, 0, 1, torch.device("cpu"), alone).wrong_elements() > 0


def row(draw: random.Random, faulty: bool) -> bool:
    """A bit of a row of a table, between two of its updates."""
    import torch

    from suites.recommendation.tables import Shape, Tables

    tables = Tables(Shape(rows=1 << 10, width=16, samples=1, pooling=(1, 1)), torch.device("cpu"))
    if faulty:
        flip(tables.weights, draw)
    return bool(tables.wrong_rows())


def weight(draw: random.Random, faulty: bool) -> bool:
    """A bit of a weight that inference only reads."""
    import torch

    from suites.workload.catalogue import BY_NAME, Sizes
    from suites.workload.serving import Serving
    from suites.workload.test_inference import steady

    sizes = Sizes(batch=1, length=16)
    serving = Serving(BY_NAME["llama-small"], sizes, torch.device("cpu"), "float32", "decode")
    with suppress(AssertionError):
        with steady(serving):
            if faulty:
                flip(draw.choice(list(serving.model.parameters())).data, draw)
        return False
    return True


BUFFERS: dict[str, tuple[str, Try]] = {
    **{
        f"bit in a {kind} product": ("gemm", product(kind))
        for kind in ("float32", "float64", "bfloat16")
    },
    **{
        f"bit in the {buffer} of {one}": (f"stream {one}", stream(one, buffer))
        for one in ("copy", "scale", "add", "triad", "read")
        for buffer in ("source", "result")
        if (one, buffer) != ("read", "result")
    },
    "bit in a line of the chase": ("load latency", chain),
    "bit on the wire": ("tcp", wire),
    "bit on the disk": ("disk", platter),
    "bit in an activation": ("training", gradient),
    "bit in a word of memory": ("patterns", cell),
    "bit in a register": ("units of a CPU", register),
    "bit in what a rank got": ("collective operations", arrival),
    "bit in a weight": ("inference", weight),
    "bit in a row of a table": ("tables", row),
    **card_bits.BUFFERS,
}
"""Kind of buffer -> the benchmark whose check has to see it, and how it is tried."""


def tried(name: str, trials: int) -> tuple[str, int, int, int]:
    """Return the benchmark, in how many trials it saw the bit, how many there were, and false alarms."""
    finder, attempt = BUFFERS[name]
    draw = random.Random(name)
    found = sum(attempt(draw, True) for _ in range(trials))
    return finder, found, trials, sum(attempt(draw, False) for _ in range(trials))
