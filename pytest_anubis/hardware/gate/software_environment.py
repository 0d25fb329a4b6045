"""What lies around the hardware and decides whether it can be tested: read here, checked in ``preflight``."""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

VISIBILITY = (
    "CUDA_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
)
"""Variables by which users hide cards from programs."""

_SHARED_MEMORY = "/dev/shm"  # noqa: S108 - the kernel's, of which only the size is asked
_VERSION_BYTES = 1 << 16  # torch/version.py has a dozen lines


@dataclass(frozen=True, slots=True, kw_only=True)
class Torch:
    """An installed torch.

    Attributes:
        version: Its version.
        cuda: Version of CUDA that it was built for; None without.
        hip: Version of ROCm's HIP that it was built for; None without.
    """

    version: str
    cuda: str | None = None
    hip: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SoftwareEnvironment:
    """What lies around the hardware.

    Attributes:
        visibility: Variables of `VISIBILITY` that are set, and their values.
        torch: What would be imported as ``torch``; None when there is none or its build is not told.
        shared_memory: Size of /dev/shm in bytes; None where there is none.
        processes: How many processes run tests.
    """

    visibility: Mapping[str, str] = field(default_factory=dict)
    torch: Torch | None = None
    shared_memory: int | None = None
    processes: int = 1


def read_software_environment(
    environ: Mapping[str, str], *, processes: int = 1
) -> SoftwareEnvironment:
    """Read what lies around this machine's hardware, without importing torch.

    Args:
        environ: The environment.
        processes: How many processes will run tests.
    """
    return SoftwareEnvironment(
        visibility={name: environ[name] for name in VISIBILITY if name in environ},
        torch=_torch(),
        shared_memory=_size(_SHARED_MEMORY),
        processes=processes,
    )


def _size(folder: str) -> int | None:
    try:
        found = os.statvfs(folder)
    except OSError:
        return None
    return found.f_blocks * found.f_frsize


def _torch() -> Torch | None:
    """Read the build of torch from its file of versions, as text."""
    try:
        spec = importlib.util.find_spec("torch")
    except (ImportError, ValueError):
        return None
    if spec is None or not spec.origin:
        return None
    try:
        with Path(spec.origin).with_name("version.py").open(encoding="utf-8") as file:
            return torch_build(file.read(_VERSION_BYTES))
    except (OSError, UnicodeDecodeError):
        return None


def torch_build(text: str) -> Torch | None:
    """Return what a ``torch/version.py`` says; None when it says nothing of its build.

    Args:
        text: The file's text, lines such as ``cuda: Optional[str] = '12.6'``.
    """
    found = dict(re.findall(r"^(\w+)\b[^=\n]*=[ \t]*(.+?)[ \t]*$", text, re.MULTILINE))
    if "__version__" not in found or "cuda" not in found:
        return None
    values = {name: value.strip("'\"") for name, value in found.items() if value != "None"}
    return Torch(
        version=values.get("__version__", ""), cuda=values.get("cuda"), hip=values.get("hip")
    )
