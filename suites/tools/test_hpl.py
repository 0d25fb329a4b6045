"""HPL: one large system of equations on all cores, with its own check of the solution."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from pytest_anubis import MetricFixture, NodeFixture
from pytest_anubis.benchmarking.placement import physical_cores
from pytest_anubis.benchmarking.tools import ToolOutput, find_tool, note_tool, run_tool
from pytest_anubis.tool_outputs.hpl import HplRun, read_hpl

BLOCK = 192
"""Columns that are eliminated at once: good on every processor of the last ten years."""

GIB = 1 << 30
SHARE = 0.5
"""Of the memory, at most."""

A_CORE = 20e9
"""FLOP/s of one core, about: the size is chosen by it, never by a measurement, so that the nodes of a class
solve the same system."""

SECONDS = {"smoke": 5, "standard": 60, "soak": 600}
LATE = 20
"""Times of that which a run may take: a slow node is to be measured, not to be called hung."""


def order(cores: int, memory: int, seconds: float) -> int:
    """Return the order of a system that takes some seconds and fits, in whole blocks.

    Args:
        cores: That compute.
        memory: Bytes of the node.
        seconds: That it is to take at `A_CORE`.
    """
    by_time = (1.5 * seconds * cores * A_CORE) ** (1 / 3)
    by_memory = math.sqrt(SHARE * memory / 8)
    return max(BLOCK, int(min(by_time, by_memory)) // BLOCK * BLOCK)


def grid(ranks: int) -> tuple[int, int]:
    """Return rows and columns of processes, as square as can be, no more rows than columns."""
    rows = next(n for n in range(math.isqrt(ranks), 0, -1) if ranks % n == 0)
    return rows, ranks // rows


def input_file(size: int, rows: int, columns: int) -> str:
    """Return the text of ``HPL.dat`` for one system, solved once."""
    values = (
        ("HPL.out", "output file name (if any)"), ("6", "device out (6=stdout,7=stderr,file)"),
        ("1", "# of problems sizes (N)"), (f"{size}", "Ns"), ("1", "# of NBs"), (f"{BLOCK}", "NBs"),
        ("0", "PMAP process mapping (0=Row-,1=Column-major)"), ("1", "# of process grids (P x Q)"),
        (f"{rows}", "Ps"), (f"{columns}", "Qs"), ("16.0", "threshold"),
        ("1", "# of panel fact"), ("2", "PFACTs (0=left, 1=Crout, 2=Right)"),
        ("1", "# of recursive stopping criterium"), ("4", "NBMINs (>= 1)"),
        ("1", "# of panels in recursion"), ("2", "NDIVs"),
        ("1", "# of recursive panel fact."), ("1", "RFACTs (0=left, 1=Crout, 2=Right)"),
        ("1", "# of broadcast"), ("1", "BCASTs (0=1rg,1=1rM,2=2rg,3=2rM,4=Lng,5=LnM)"),
        ("1", "# of lookahead depth"), ("1", "DEPTHs (>=0)"),
        ("2", "SWAP (0=bin-exch,1=long,2=mix)"), ("64", "swapping threshold"),
        ("0", "L1 in (0=transposed,1=no-transposed) form"),
        ("0", "U  in (0=transposed,1=no-transposed) form"),
        ("1", "Equilibration (0=no,1=yes)"), ("8", "memory alignment in double (> 0)"),
    )  # fmt: skip
    lines = [f"{value:<12} {name}" for value, name in values]
    return "\n".join(["HPLinpack benchmark input file", "pytest-anubis", *lines, ""])


def checked(done: ToolOutput) -> HplRun:
    """Return what was solved.

    Raises:
        AssertionError: A residual is too large.
    """
    run = done.read(read_hpl)
    wrong = [f"{one.variant}: residual {one.residual:g}" for one in run.solved if not one.passed]
    assert not wrong, f"HPL's check FAILED: {'; '.join(wrong)}"
    done.check()
    return run


@pytest.mark.anubis(
    component="compute.linpack",
    scope="node",
    cost="32min",
    deadline="11h",  # more than the three runs of `soak` at LATE times SECONDS
    profiles=["soak"],
    metrics=["hpl_rate"],
    resources=["cpu"],
    goal="All cores together compute at the rate of their class, and rightly",
    question="How many FLOP a second does HPL reach on all cores, and does the solution hold?",
    action="A failed residual is a fault of a core or of a memory module: test each alone; a low rate: "
    "clocks under vector load, power limit, memory channels, NUMA placement",
)
def test_hpl(
    anubis_metric: MetricFixture,
    anubis_node: NodeFixture,
    record_property: Callable[[str, object], None],
) -> None:
    """The system is solved at the class's rate, and its residual is small."""
    from suites.memory.caches import memory_size

    tool = find_tool("xhpl", hint="build netlib.org/benchmark/hpl, or install your vendor's")
    launcher = find_tool("mpirun", "mpiexec", hint="apt install openmpi-bin")
    # Two threads of a core share its arithmetic units, and Open MPI has a slot for a core.
    cores = physical_cores(anubis_node.cores)
    seconds = anubis_node.pick(**SECONDS)
    rows, columns = grid(cores)
    folder = anubis_node.scratch
    memory = (
        max(1, round(memory_size() / GIB)) * GIB
    )  # kernels of one class leave a little more or less
    text = input_file(order(cores, memory, seconds), rows, columns)
    (folder / "HPL.dat").write_text(text, encoding="ascii")
    threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    # Open MPI refuses root without both; the others do not know them.
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    command = [launcher, "-np", str(cores), tool]
    rates = []
    for _ in range(anubis_node.pick(smoke=1, standard=3, soak=3)):
        done = run_tool(
            command,
            timeout=LATE * seconds,
            cwd=folder,
            environment={**threads, **root},
            accept=None,
        )
        run = checked(done)
        rates += [one.rate for one in run.solved]
    note_tool(tool, run.version, record_property)
    anubis_metric.record("hpl_rate", rates, unit="GFLOP/s", better="higher")
