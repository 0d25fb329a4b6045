"""Precision: which arithmetic a product really uses, and how far off its result may be."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

TF32_VARIABLES = ("NVIDIA_TF32_OVERRIDE", "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE")
"""What switches TF32 on or off behind a program's back: NVIDIA's containers set the second one."""

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
"""Half the distance from 1 to the next number of a type, by torch's name of it (``tf32``: `float32` whose
factors have 10 bits); sums of products of whole numbers are exact."""

SAFETY = 4.0
"""How many times the expected rounding error a result may be off: a healthy library that splits a sum into
parts of the shorter type rounds three times instead of once; a wrong element is off by whole units."""


def tolerance(dtype: str, *, terms: int = 1) -> float:
    """Return how large the error of a result may be, relative to the result, both in the 2-norm.

    A result is rounded once to its own type, and a sum of random terms in the type that it is added up in:
    the units add up sums of short types in single precision. Errors of random sign grow with the root of
    their number.

    Args:
        dtype: A key of `UNIT_ROUNDOFF`: the type of factors and result.
        terms: How many products each element of the result is the sum of.

    Raises:
        KeyError: The type is not known here.
    """
    own = UNIT_ROUNDOFF[dtype]
    if own == 0.0:
        return 0.0
    summing = min(own, UNIT_ROUNDOFF["float32"])
    return SAFETY * (own + math.sqrt(terms) * summing)


def drop_tf32_variables() -> tuple[str, ...]:
    """Take the variables out of this process and its children; return those that were set.

    Has to happen before the CUDA libraries are loaded: they read them once.
    """
    return tuple(name for name in TF32_VARIABLES if os.environ.pop(name, None) is not None)


@contextmanager
def single_precision(*, tf32: bool = False) -> Iterator[None]:
    """Compute ``float32`` in true single precision, or in TF32, whatever the environment says.

    Args:
        tf32: Let products and convolutions round their factors to 10 bits.
    """
    import torch

    backends: Any = torch.backends
    parts: list[Any] = []
    # From torch 2.9 on each part has a setting of its own, which counts before the older ones.
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
    of_parts: list[Callable[[], object]] = [
        partial(setattr, part, "fp32_precision", part.fp32_precision) for part in parts
    ]
    put_back: list[Callable[[], object]] = []
    # Both are set, alike: torch refuses to tell the older ones where they contradict the others.
    for get, put, value in older:
        with suppress(RuntimeError):
            put_back.append(partial(put, get()))
        put(value)
    for part in parts:
        part.fp32_precision = "tf32" if tf32 else "ieee"
    try:
        yield
    finally:
        for again in (*put_back, *of_parts):
            again()
