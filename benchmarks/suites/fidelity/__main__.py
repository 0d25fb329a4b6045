"""How close to the limit do the benchmarks measure? Each beside another program that does the same work.

STREAM triad beside C with OpenMP, matrix products beside numpy's OpenBLAS and oneDNN, load latency beside
pointers in C, disk beside fio by hand, TCP beside iperf3, all-reduce and copies over TCP beside the rate
that a link was given. Ours and theirs take turns, the first of a round being each in turn, in one process
where that is possible; the ratio is taken round by round. What is wanted stands beside it. A peer that is
not installed is named. The general tools (torch.utils.benchmark, pytest-benchmark, sysbench, stress-ng) stand
beside ours for the same quantity too; of these no ratio is wanted, and ``benchmarks/figures/benchmarks.md`` says
why theirs is another. The spread is the distance between the quartiles over the median.

Run: ``python benchmarks/suites/fidelity [--rounds 30] [--only triad gemm latency disk tcp link timers
sysbench stress-ng]``. Needs a C compiler with OpenMP; uses fio, iperf3, oneDNN (``libdnnl``), sysbench,
stress-ng and, for the link, root and iproute2.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))  # this checkout's packages

from benchmarks.suites.fidelity.table import main

if __name__ == "__main__":
    raise SystemExit(main(__doc__ or ""))
