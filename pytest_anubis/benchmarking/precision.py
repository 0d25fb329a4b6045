"""Set the precision of products (TF32 or single), and compute how large the error of a result may be."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

TF32_VARIABLES = ("NVIDIA_TF32_OVERRIDE", "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE")
"""Variables that switch TF32 on or off without the program's knowledge: NVIDIA's containers set the
second."""

UNIT_ROUNDOFF = {
    "float64": 2.0**-53,
    "float32": 2.0**-24,
    "tf32": 2.0**-11,
    "float16": 2.0**-11,
    "bfloat16": 2.0**-8,
    "float8_e4m3fn": 2.0**-4,
    "float8_e4m3fnuz": 2.0**-4,
    "float8_e5m2": 2.0**-3,
    "int8": 0.0,
}
"""Half the distance from 1 to the next number of a type, by torch's name of it. ``tf32`` is `float32` with
factors of 10 bits; sums of products of integers are exact."""

SAFETY = 4.0
"""Maximum error as a multiple of the expected rounding error: a correct library that splits a sum into parts
of the shorter type rounds three times instead of once, while a wrong element is off by whole units."""


def tolerance(dtype: str, *, terms: int = 1) -> float:
    """Return the maximum error of a result relative to the result, both in the 2-norm.

    The result is rounded once to its own type. Its sum is rounded in the type of the accumulator, which is
    single precision for short types; errors of random sign grow with the square root of their number.

    Args:
        dtype: A key of `UNIT_ROUNDOFF`: the type of factors and result.
        terms: Number of products whose sum is one element of the result.

    Raises:
        KeyError: The type is not in `UNIT_ROUNDOFF`.
    """
    own = UNIT_ROUNDOFF[dtype]
    if own == 0.0:
        return 0.0
    summing = min(own, UNIT_ROUNDOFF["float32"])
    return SAFETY * (own + math.sqrt(terms) * summing)


def drop_tf32_variables() -> tuple[str, ...]:
    """Remove `TF32_VARIABLES` from the environment of this process; return those that were set.

    Call it before the CUDA libraries are loaded, because they read the variables once.
    """
    return tuple(name for name in TF32_VARIABLES if os.environ.pop(name, None) is not None)


@contextmanager
def single_precision(*, tf32: bool = False) -> Iterator[None]:
    """Compute ``float32`` in true single precision, or in TF32, regardless of the environment.

    Args:
        tf32: Let products and convolutions round their factors to 10 bits.
    """
    import torch

    backends: Any = torch.backends
    parts: list[Any] = []
    # From torch 2.9 on each part has its own setting, which overrides the older ones.
    if hasattr(backends.cudnn, "conv"):
        parts = [backends.cuda.matmul, backends.cudnn.conv, backends.cudnn.rnn]
        parts += [backends.mkldnn.matmul, backends.mkldnn.conv]
    older: tuple[tuple[Callable[[], Any], Callable[[Any], object], Any], ...] = (
        (
            torch.get_float32_matmul_precision,
            torch.set_float32_matmul_precision,
            "high" if tf32 else "highest",
        ),
        (
            partial(getattr, backends.cudnn, "allow_tf32"),
            partial(setattr, backends.cudnn, "allow_tf32"),
            tf32,
        ),
    )
    put_back_parts: list[Callable[[], object]] = [
        partial(setattr, part, "fp32_precision", part.fp32_precision) for part in parts
    ]
    put_back: list[Callable[[], object]] = []
    # Both kinds are set alike, because torch refuses to read the older ones if they contradict the others.
    for get, put, value in older:
        with suppress(RuntimeError):
            put_back.append(partial(put, get()))
        put(value)
    for part in parts:
        part.fp32_precision = "tf32" if tf32 else "ieee"
    try:
        yield
    finally:
        for restore in (*put_back, *put_back_parts):
            restore()
