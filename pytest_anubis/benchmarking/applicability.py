"""Find out whether a benchmark applies: instructions for an element type, compute mode, NVSwitches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_anubis.hardware.inventory.inventory_reading import read_inventory
from pytest_anubis.hardware.text_files import Files

if TYPE_CHECKING:
    import torch

DTYPES = (
    "float64",
    "float32",
    "tf32",
    "float16",
    "bfloat16",
    "int8",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
)
"""Element types by torch's names. ``tf32`` is `float32` with factors of 10 bits; ``float8_e4m3fnuz`` is the
8-bit type of AMD's MI300, with another bias and a single zero."""

# By the kernel's names of the features of x86, then of ARM. Conversions alone (F16C, AVX-NE-CONVERT) do not
# count: without products a CPU takes thousands of times as long as in single precision.
_CPU_FLAGS = {
    "bfloat16": {"avx512_bf16", "amx_bf16", "bf16"},
    "float16": {"avx512_fp16", "amx_fp16", "asimdhp"},
    "int8": {"avx512_vnni", "avx_vnni", "amx_int8", "i8mm", "asimddp"},
    "float8_e4m3fn": {"amx_fp8"},
}

# NVIDIA's first compute capability with arithmetic for a type: CUDA's table of throughputs.
_CAPABILITIES = {
    "float64": (1, 3),
    "float32": (1, 0),
    "tf32": (8, 0),
    "float16": (5, 3),
    "bfloat16": (8, 0),
    "int8": (6, 1),
    "float8_e4m3fn": (8, 9),
}

# AMD's matrix units by architecture; those of MI300 (gfx94x) have FP8 with another bias.
_AMD = {
    "bfloat16": ("gfx908", "gfx90a", "gfx942", "gfx950", "gfx11", "gfx12"),
    "int8": ("gfx906", "gfx908", "gfx90a", "gfx942", "gfx950", "gfx10", "gfx11", "gfx12"),
    "float8_e4m3fn": ("gfx950", "gfx12"),
    "float8_e4m3fnuz": ("gfx940", "gfx941", "gfx942"),
    "tf32": (),
}

# Apple's devices have no double precision and no shorter types.
_APPLE = {"float32", "float16", "bfloat16"}


def supports(device: torch.device, dtype: str, *, files: Files | None = None) -> bool:
    """Return whether a device's hardware has instructions for products of an element type.

    The answer is yes if it is unknown: trying a benchmark is better than skipping it.

    Args:
        device: The CPU or an accelerator that is present.
        dtype: One of `DTYPES`.
        files: Reads the CPU's features.

    Raises:
        ValueError: The type is not one of `DTYPES`.
    """
    if dtype not in DTYPES:
        raise ValueError(f"element type {dtype!r} is none of {', '.join(DTYPES)}")
    if device.type == "cpu":
        return _cpu_supports(dtype, cpu_flags(files or Files()))
    if device.type == "cuda":
        return _card_supports(dtype, device)
    if device.type == "mps":
        return dtype in _APPLE
    return not dtype.startswith("float8")


def require(device: torch.device, dtype: str, *, files: Files | None = None) -> None:
    """Skip the test as not applicable if the hardware has no instructions for a type.

    Raises:
        ValueError: The type is not one of `DTYPES`.
    """
    if not supports(device, dtype, files=files):
        what = "this CPU" if device.type == "cpu" else "this accelerator"
        pytest.skip(f"not applicable: {what} has no instructions for {dtype}")


def compute_mode(pci: str) -> str | None:
    """Return the compute mode of a slot's card, such as ``default`` or ``prohibited``; None if unknown."""
    modes = {card.pci: card.compute_mode for card in read_inventory().accelerators}
    return modes.get(pci) if pci else None


def has_switches() -> bool:
    """Return whether this node's cards belong to an NVSwitch fabric, whatever its state."""
    return any(card.fabric is not None for card in read_inventory().accelerators)


def cpu_flags(files: Files) -> frozenset[str]:
    """Return the features of the first CPU by the kernel's names; empty if it does not list them."""
    for line in (files.text("/proc/cpuinfo") or "").splitlines():
        name, _, rest = line.partition(":")
        if name.strip() in ("flags", "Features"):
            return frozenset(rest.split())
    return frozenset()


def _cpu_supports(dtype: str, flags: frozenset[str]) -> bool:
    if dtype in ("tf32", "float8_e4m3fnuz"):
        return False
    wanted = _CPU_FLAGS.get(dtype)
    return wanted is None or not flags or bool(wanted & flags)


def _card_supports(dtype: str, device: torch.device) -> bool:
    import torch

    if torch.version.hip is None:
        minimum = _CAPABILITIES.get(dtype)
        return minimum is not None and torch.cuda.get_device_capability(device) >= minimum
    properties: Any = torch.cuda.get_device_properties(device)
    architecture = str(getattr(properties, "gcnArchName", ""))
    known = _AMD.get(dtype)
    return known is None or architecture.startswith(known)
