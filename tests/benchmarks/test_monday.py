"""An operator's day with 500 nodes: every planted fact is found, and few nodes are left undecided."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "fleet" / "monday.py"


def test_every_planted_fact_is_found_and_empty_cells_leave_few_nodes_undecided() -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--no-history"],
        capture_output=True,
        text=True,
        check=False,
        env=dict(os.environ),  # readline may have set COLUMNS behind Python's back
    )
    assert done.returncode == 0, done.stdout + done.stderr
