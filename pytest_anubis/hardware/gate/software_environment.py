"""Read the software environment of the hardware tests, which ``preflight`` checks."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from pytest_anubis.hardware.inventory.frameworks import torch_version_text

VISIBILITY = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
"""Variables that hide cards from programs."""

_SHARED_MEMORY = "/dev/shm"  # noqa: S108 - only its size is read


@dataclass(frozen=True, slots=True, kw_only=True)
class Torch:
    """The version and build of an installed torch."""

    version: str  # its version
    cuda: str | None = None  # version of CUDA that it was built for; None for a build without CUDA
    # Version of ROCm's HIP that it was built for; None for a build without ROCm
    hip: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SoftwareEnvironment:
    """The variables, libraries and limits under which a node's cards are tested."""

    # Variables of `VISIBILITY` that are set, and their values
    visibility: Mapping[str, str] = field(default_factory=dict)
    torch: Torch | None = None  # the installed torch; None if there is none or its build is unknown
    shared_memory: int | None = None  # size of /dev/shm in bytes; None if it does not exist
    processes: int = 1  # number of processes that run tests


def read_software_environment(
    environ: Mapping[str, str], *, processes: int = 1
) -> SoftwareEnvironment:
    """Read this machine's software environment without importing torch.

    Args:
        environ: The environment variables.
        processes: Number of processes that will run tests.
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
    return torch_build(torch_version_text())


def torch_build(text: str) -> Torch | None:
    """Return the version and build that a ``torch/version.py`` names; None if it names no build.

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
