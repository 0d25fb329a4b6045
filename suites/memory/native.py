"""Compiling a C file at first use and keeping the result."""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path

FLAGS = ("-O2", "-shared", "-fPIC")
COMPILERS = ("cc", "gcc", "clang")
TIMEOUT = 60.0
"""Seconds that a compiler may take."""


class CompilerError(RuntimeError):
    """The source could not be compiled; the message holds the compiler's own."""


def find_compiler() -> str | None:
    """Return the path of a C compiler, or None."""
    return next((path for path in map(shutil.which, COMPILERS) if path), None)


def cache_folder(fallback: Path) -> Path:
    """Return the user's cache folder for compiled files, or `fallback` where that is not writable."""
    base = os.environ.get("XDG_CACHE_HOME")
    folder = (Path(base) if base else Path("~/.cache").expanduser()) / "pytest-anubis"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):
        return fallback
    return folder if os.access(folder, os.W_OK) else fallback


def load(source: Path, compiler: str, folder: Path) -> ctypes.CDLL:
    """Return the compiled `source`, compiling it unless `folder` holds it already.

    The file is named after everything that makes it what it is, and moved into place in one step, so
    processes that compile at the same time do not see each other's halves.

    Raises:
        CompilerError: The compiler failed or took too long.
    """
    text = source.read_bytes()
    what = "\0".join((compiler, platform.machine(), platform.libc_ver()[1], *FLAGS)).encode()
    digest = hashlib.sha256(text + what).hexdigest()[:16]
    target = folder / f"{source.stem}-{digest}.so"
    if not target.exists():
        _compile(source, compiler, target)
    return ctypes.CDLL(str(target))


def _compile(source: Path, compiler: str, target: Path) -> None:
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        built = Path(folder) / target.name
        command = [compiler, *FLAGS, "-o", str(built), str(source)]
        try:
            subprocess.run(command, check=True, capture_output=True, text=True, timeout=TIMEOUT)
        except subprocess.CalledProcessError as error:
            raise CompilerError(f"{compiler} failed on {source}: {error.stderr.strip()}") from error
        except (subprocess.TimeoutExpired, OSError) as error:
            raise CompilerError(f"{compiler} on {source}: {error}") from error
        built.replace(target)
