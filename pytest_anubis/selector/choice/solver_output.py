"""Keep a line that the solver's C++ library prints out of our standard output; for `milp`."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import tempfile
from collections.abc import Iterator

_STDOUT = 1  # file descriptor
_SOLVER_LINE = b"HighsMipSolverData::"


@contextlib.contextmanager
def suppress_solver_output() -> Iterator[None]:
    """Leave out what HiGHS prints on file descriptor 1 although its output is switched off.

    Its repair of a fractional solution prints a line whatever its options (jump-dev/HiGHS.jl #312), which
    would damage the ids or the JSON of ``anubis select``. All other output of this time, also that of
    other threads, appears afterwards.
    """
    try:
        sys.stdout.flush()
        stdout = os.dup(_STDOUT)
    except (OSError, ValueError):  # there is no standard output
        yield
        return
    with tempfile.TemporaryFile() as caught:
        _flush_c()
        os.dup2(caught.fileno(), _STDOUT)
        try:
            yield
        finally:
            _flush_c()
            os.dup2(stdout, _STDOUT)
            os.close(stdout)
            caught.seek(0)
            for line in caught:
                # C flushes its buffer late, so the solver's line may follow the beginning of another one.
                before, found, _ = line.partition(_SOLVER_LINE)
                _write(before if found else line)


def _flush_c() -> None:
    """Flush C's standard output, whose buffer Python does not know."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).fflush(None)


def _write(line: bytes) -> None:
    with contextlib.suppress(BrokenPipeError):  # the reader has closed the pipe
        while line:
            line = line[os.write(_STDOUT, line) :]
