"""Keeps the line that the solver's C++ library prints out of our standard output."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import tempfile
from collections.abc import Iterator

_STDOUT = 1
_CHATTER = b"HighsMipSolverData::"


@contextlib.contextmanager
def suppress_solver_output() -> Iterator[None]:
    """Leave out what HiGHS prints on file descriptor 1 though it was told to be silent.

    Its repair of a fractional solution prints a line whatever its options say (jump-dev/HiGHS.jl #312);
    among the ids or the JSON of ``anubis select`` it would break whoever reads them. Whatever else is
    printed meanwhile, by other threads too, appears afterwards.
    """
    try:
        sys.stdout.flush()
        kept = os.dup(_STDOUT)
    except (OSError, ValueError):  # there is no standard output
        yield
        return
    with tempfile.TemporaryFile() as aside:
        _flush_c()
        os.dup2(aside.fileno(), _STDOUT)
        try:
            yield
        finally:
            _flush_c()
            os.dup2(kept, _STDOUT)
            os.close(kept)
            aside.seek(0)
            for line in aside:
                # C's buffer is emptied late, so that it may follow the beginning of somebody else's line.
                before, chatter, _ = line.partition(_CHATTER)
                _write(before if chatter else line)


def _flush_c() -> None:
    """Empty the buffers of C's standard output, which Python does not know."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).fflush(None)


def _write(line: bytes) -> None:
    with contextlib.suppress(BrokenPipeError):  # nobody reads it any more
        while line:
            line = line[os.write(_STDOUT, line) :]
