"""Read the versions of Python, frameworks and their libraries, without importing any of them.

`inventory_reading` and `software_environment` use it.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import platform
import re
from collections.abc import Mapping
from pathlib import Path

from pytest_anubis.hardware.text_files import Files

# Distributions whose version may change a measurement.
_DISTRIBUTIONS = (
    "torch", "numpy", "triton", "jax", "tensorflow", "nvidia-nccl-cu12", "nvidia-nccl-cu13",
    "nvidia-cublas-cu12", "nvidia-cublas", "nvidia-cudnn-cu12", "nvidia-cudnn-cu13", "nvidia-ml-py",
    "pytest-anubis",
)  # fmt: skip

_HEADERS = {
    "nccl": ("/usr/include/nccl.h", "/usr/local/cuda/include/nccl.h"),
    "rccl": ("/opt/rocm/include/rccl/rccl.h",),
}
"""Headers with the version of a collectives library that no Python distribution contains."""


def read_software(
    files: Files, environ: Mapping[str, str], torch: Path | None = None
) -> dict[str, str]:
    """Return name -> version.

    Besides distributions there are ``cuda`` or ``rocm``, for which torch was built, and ``nccl`` or ``rccl``
    if torch has no such library of its own: from the container's variable ``NCCL_VERSION``, else from the
    library's header.

    Args:
        files: Reads the headers.
        environ: The environment variables.
        torch: Torch's folder; default that of the installed torch.
    """
    found = {"python": platform.python_version()}
    for name in _DISTRIBUTIONS:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    built = _built_for(torch_version_text(torch))
    found |= built
    if "cuda" in built and not any(name.startswith("nvidia-nccl-") for name in found):
        version = environ.get("NCCL_VERSION") or _header(files, "nccl")
        found |= {"nccl": version} if version else {}
    if "rocm" in built:
        version = _header(files, "rccl")
        found |= {"rccl": version} if version else {}
    return found


def torch_version_text(folder: Path | None = None) -> str:
    """Return the text of torch's ``version.py`` without importing torch; empty if there is none.

    Args:
        folder: Torch's folder; default that of the installed torch.
    """
    if folder is None:
        try:
            found = importlib.util.find_spec("torch")
        except (ImportError, ValueError):  # an incomplete installation
            return ""
        if found is None or not found.origin:
            return ""
        folder = Path(found.origin).parent
    try:
        return (folder / "version.py").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _built_for(text: str) -> dict[str, str]:
    """Return the version of CUDA or ROCm that torch was built for, from its ``version.py``."""
    named = re.findall(r"^(cuda|hip)\b[^=\n]{0,40}=\s*['\"]([\w.]+)", text, flags=re.MULTILINE)
    return {"rocm" if name == "hip" else name: version for name, version in named}


def _header(files: Files, name: str) -> str:
    """Return the version in a header of NCCL or RCCL; empty without a header."""
    for place in _HEADERS[name]:
        text = files.quick(place)
        parts = [
            re.search(rf"^#define\s+NCCL_{part}\s+(\d+)", text, flags=re.MULTILINE)
            for part in ("MAJOR", "MINOR", "PATCH")
        ]
        numbers = [part[1] for part in parts if part is not None]
        if len(numbers) == len(parts):
            return ".".join(numbers)
    return ""
