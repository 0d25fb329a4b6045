"""Compiling a C file at first use, and keeping the result where no other user can replace it.

A loaded file runs with the rights of the user who runs the tests. So it is taken only from a folder that this
user alone can write, and only if this user owns it.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shutil
import stat
import subprocess
import tempfile
from pathlib import Path

import pytest

FLAGS = ("-O2", "-shared", "-fPIC")
COMPILERS = ("cc", "gcc", "clang")
TIMEOUT = 60.0
"""Seconds that a compiler may take: the files have a page of C, one second is usual."""

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


class CompilerError(RuntimeError):
    """The source could not be compiled; the message holds the compiler's own."""


def find_compiler() -> str | None:
    """Return the path of a C compiler, or None."""
    return next((path for path in map(shutil.which, COMPILERS) if path), None)


def cache_folder() -> Path | None:
    """Return the user's cache folder for compiled files, made if need be.

    None where there is none that this user alone can write: under a ``XDG_CACHE_HOME`` that is shared, or
    for root in the home of somebody else.
    """
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        folder = (Path(base) if base else Path("~/.cache").expanduser()) / "pytest-anubis"
        above = folder.parent
        while not above.exists():
            above = above.parent
        if not _only_ours(above):
            return None
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return folder if _only_ours(folder) else None
    except (OSError, RuntimeError):  # no home, no room, read-only
        return None


def compiled(source: Path) -> ctypes.CDLL:
    """Return the compiled `source`; without a compiler the test is left out, as not tested."""
    compiler = find_compiler()
    if compiler is None:
        pytest.skip("no C compiler found: install one, e.g. apt install gcc")
    return load(source, compiler, cache_folder())


def load(source: Path, compiler: str, folder: Path | None) -> ctypes.CDLL:
    """Return the compiled `source`, compiling it unless `folder` holds it already.

    The file is named after everything that makes it what it is, and moved into place in one step, so
    processes that compile at the same time do not see each other's halves.

    Args:
        source: The C file.
        compiler: What `find_compiler` found.
        folder: What `cache_folder` returned; without one the file lives in a private temporary folder
            until it is loaded.

    Raises:
        CompilerError: The compiler failed or took too long, or others can write where it was to compile.
    """
    if folder is not None:
        return _loaded(source, compiler, folder)
    with tempfile.TemporaryDirectory(prefix="anubis-") as private:
        return _loaded(source, compiler, Path(private))


def _loaded(source: Path, compiler: str, folder: Path) -> ctypes.CDLL:
    if not _only_ours(folder):
        raise CompilerError(
            f"{folder}: others can write there, so nothing is loaded from it; point TMPDIR at a folder "
            "that only this user can write"
        )
    text = source.read_bytes()
    what = "\0".join((compiler, platform.machine(), platform.libc_ver()[1], *FLAGS)).encode()
    digest = hashlib.sha256(text + what).hexdigest()[:16]
    target = folder.resolve() / f"{source.stem}-{digest}.so"
    if not _own_file(target):
        _compile(source, compiler, target)
    return ctypes.CDLL(str(target))  # no other user can change this path between the check and here


def _only_ours(folder: Path) -> bool:
    """Say whether this user alone decides what lies under a folder's path.

    The folder is this user's and no other user can write it; those above are his or root's, and who can
    write them cannot move what is not his own (the sticky bit of ``/tmp``).
    """
    me = os.geteuid()
    whole = folder.resolve()
    own = whole.lstat()
    if not stat.S_ISDIR(own.st_mode) or own.st_uid != me or own.st_mode & _OTHERS_WRITE:
        return False
    return all(
        found.st_uid in (0, me)
        and (not found.st_mode & _OTHERS_WRITE or found.st_mode & stat.S_ISVTX)
        for found in map(Path.lstat, whole.parents)
    )


def _own_file(path: Path) -> bool:
    """Say whether a path is a plain file of this user's that no other user can write."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        found = os.fstat(descriptor)
    finally:
        os.close(descriptor)
    plain = stat.S_ISREG(found.st_mode) and found.st_nlink == 1
    return plain and found.st_uid == os.geteuid() and not found.st_mode & _OTHERS_WRITE


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
        built.chmod(0o700)  # whatever the umask says
        built.replace(target)
