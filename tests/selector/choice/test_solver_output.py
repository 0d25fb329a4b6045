"""The solver's line is left out of the output; everything else comes through."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

IMPORT = "from pytest_anubis.selector.choice.solver_output import suppress_solver_output\n"
PRINTED = """
import ctypes, os
c = ctypes.CDLL(None)
print("before")
with suppress_solver_output():
    c.printf(b"HighsMipSolverData::transformNewIntegerFeasibleSolution tmpSolver.run();\\n")
    os.write(1, b"from another thread\\n")
    os.write(1, b"without an end")
print("after")
"""
RAISED = """
try:
    with suppress_solver_output():
        raise ValueError('no')
except ValueError as error:
    print('said', error)
"""
CLOSED = """
import os
os.close(1)
with suppress_solver_output():
    pass
os.write(2, b'done')
"""


def run(script: str, **environment: str) -> tuple[str, str]:
    done = subprocess.run(
        [sys.executable, "-c", IMPORT + script],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )
    return done.stdout, done.stderr


@pytest.mark.parametrize("unbuffered", ["", "1"])  # C's output comes late, or at once
def test_only_the_solvers_line_is_left_out(unbuffered: str) -> None:
    found = run(PRINTED, PYTHONUNBUFFERED=unbuffered)
    assert found == ("before\nfrom another thread\nwithout an endafter\n", "")


def test_an_error_passes_and_output_is_restored() -> None:
    assert run(RAISED) == ("said no\n", "")


def test_closed_standard_output_breaks_nothing() -> None:
    assert run(CLOSED)[1].startswith("done")
