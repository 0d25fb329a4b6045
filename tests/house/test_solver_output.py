"""The solver's line is left out of the output; everything else comes through."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

SCRIPT = """
import ctypes, os, sys
from pytest_anubis.solver_output import suppress_solver_output
c = ctypes.CDLL(None)
print("before")
with suppress_solver_output():
    c.printf(b"HighsMipSolverData::transformNewIntegerFeasibleSolution tmpSolver.run();\\n")
    os.write(1, b"from another thread\\n")
    os.write(1, b"without an end")
print("after")
"""


@pytest.mark.parametrize("unbuffered", ["", "1"])  # C's output comes late, or at once
def test_only_the_solvers_line_is_left_out(unbuffered: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
    )
    assert done.stdout == "before\nfrom another thread\nwithout an endafter\n"
    assert done.stderr == ""


def test_an_error_passes_through_and_the_output_is_whole_again() -> None:
    script = (
        "from pytest_anubis.solver_output import suppress_solver_output\n"
        "try:\n    with suppress_solver_output():\n        raise ValueError('no')\n"
        "except ValueError as error:\n    print('said', error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout == "said no\n"


def test_without_a_standard_output_nothing_breaks() -> None:
    script = (
        "import os\nos.close(1)\nfrom pytest_anubis.solver_output import suppress_solver_output\n"
        "with suppress_solver_output():\n    pass\nos.write(2, b'done')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.stderr.startswith("done")
