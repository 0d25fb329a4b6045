"""Do the benchmarks' own checks hold on healthy accelerators? Their shapes, emulated on a CPU.

Everything that says ``cuda`` runs on the CPU: halves are multiplied with accumulation in single precision and
rounded once, TF32 has factors of 10 bits. Prints the error of each check against its reference, its tolerance
and how many times the error fits into it. Takes some minutes and 8 GB.

    python benchmarks/accelerators/shapes.py
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout's packages

from pytest_anubis.benchmarking.precision import single_precision
from suites.compute.kernels import Gemm
from suites.compute.test_gemm import SIZES
from suites.link.test_transfer import SIZES as COPIED
from suites.link.transfer import Transfer
from suites.memory.stream import OPERATIONS, Stream
from suites.memory.test_bandwidth import BYTES, ELEMENT
from suites.training.gpt import GptShape, gpt_step
from suites.training.resnet import ResNetShape, resnet_step
from suites.training.step import TrainingStep
from suites.training.test_step import GPT, GRADIENT_TOLERANCE, RESNET
from tests.suites.stand_in_card import CARD, stand_in

EXAMPLES = 4
"""The check of a gradient uses so many examples of a batch; those of the benchmarks would take hours here."""

Row = tuple[str, str, float, float]


def products() -> Iterator[Row]:
    """The error of random products, and wrong rows of exact ones."""
    for dtype in ("bfloat16", "tf32", "float32", "float64"):
        size = SIZES["accelerator"]["smoke"] // (2 if dtype == "float64" else 1)
        with single_precision(tf32=dtype == "tf32"):
            gemm = Gemm(size, dtype, CARD)
            gemm.run()
            yield f"gemm {dtype}", f"{size} x {size}", gemm.relative_error(), gemm.tolerance
            yield f"gemm {dtype}, exact", f"{size} x {size}", gemm.wrong_rows(), 0


def streams() -> Iterator[Row]:
    """Wrong elements of streams."""
    elements = BYTES["smoke"] // ELEMENT
    for operation in OPERATIONS:
        stream = Stream(operation, elements, CARD)
        stream.run()
        yield f"stream {operation}", f"{elements} doubles", stream.wrong_elements(), 0


def copies() -> Iterator[Row]:
    """Wrong bytes of copies."""
    size = COPIED["smoke"]
    yield (
        "copy there and back",
        f"{size >> 20} MiB",
        Transfer(size, CARD).wrong_bytes(lambda: None),
        0,
    )


def gradients() -> Iterator[Row]:
    """Errors of gradients, in single precision and in bfloat16."""
    shapes: dict[str, Callable[[], TrainingStep]] = {
        f"resnet {RESNET}": lambda: resnet_step(
            ResNetShape(**RESNET, batch=EXAMPLES), CARD, half=True
        ),
        f"gpt {GPT}": lambda: gpt_step(GptShape(**GPT, batch=EXAMPLES), CARD, half=True),
    }
    for name, make in shapes.items():
        step = make()
        kind, _, shape = name.partition(" ")
        errors = step.gradient_errors(*GRADIENT_TOLERANCE)
        for (half, tolerance), error in zip(GRADIENT_TOLERANCE.items(), errors, strict=True):
            precision = "bfloat16" if half else "float32"
            yield f"{kind} gradient {precision}", shape, error, tolerance


def main() -> None:
    """Print the table."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    print(f"{'check':<28} {'error':>9} {'tolerance':>9} {'margin':>7} {'seconds':>8}  shape")
    with stand_in(), single_precision():
        for part in (products, streams, copies, gradients):
            begin = time.monotonic()
            for name, shape, error, tolerance in part():
                margin = f"{tolerance / error:.0f} x" if error else "exact"
                if error > tolerance:
                    margin = "FAILS"
                seconds = time.monotonic() - begin
                print(
                    f"{name:<28} {error:9.2g} {tolerance:9.0g} {margin:>7} {seconds:8.1f}  {shape}",
                    flush=True,
                )
                begin = time.monotonic()


if __name__ == "__main__":
    main()
