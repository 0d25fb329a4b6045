"""Compare the benchmarks with other programs that do the same work: how close to the limit do they measure?

The pairs are STREAM triad and C with OpenMP, matrix products and numpy's OpenBLAS or oneDNN, load latency
and pointers in C, disk and fio by hand, TCP and iperf3, all-reduce and copies over TCP and the rate that
the link was given. Both sides take turns, each first in every other round, in one process where possible;
the ratio is taken round by round and printed with the wanted range. A program that is not installed is
named. The spread is the distance between the quartiles over the median.

Run: ``python benchmarks/suites/fidelity [--rounds 30] [--only triad gemm timer latency disk tcp link]``.
Needs a C compiler with OpenMP; uses fio, iperf3, oneDNN (``libdnnl``) and, for the link, root and iproute2.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))  # this checkout's packages

from benchmarks.suites.fidelity.table import main

if __name__ == "__main__":
    raise SystemExit(main(__doc__ or ""))
