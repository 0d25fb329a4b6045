"""How often does a healthy virtual machine lose more disk rate than its own six runs allow?

`tests/data/virtual_disk.json` has the medians of runs of ``smoke``: sixteen times a baseline was learned on
virtual machines of one kind, over two days, and some runs were judged. Each of the baselines is held against
all runs of the others, without further looks: by the spread of its six runs alone, with what a virtual
machine's disk may lose (`machine_thresholds.MODES`), and by that loss alone.

Usage: python benchmarks/validator/tables/disk_modes.py
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))  # this checkout's packages

import numpy as np

from benchmarks import ROOT
from pytest_anubis.core.baseline import ALPHA
from pytest_anubis.validator.learning.machine_thresholds import (
    MODES,
    RunSpread,
    beyond_modes,
    machine_thresholds,
)

RUNS = 6
OTHERS = [RunSpread(0.01 + 0.0015 * i, RUNS, 0.0) for i in range(20)]
"""The machine's other metrics, 1 to 4 % from run to run, with which a disk shares the error rate."""


def main() -> int:
    """Print the table."""
    found = json.loads((ROOT / "tests/data/virtual_disk.json").read_text(encoding="utf-8"))
    metrics = sorted({name for one in found for run in one["learned"] for name in run} - {"minute"})
    print(
        f"{'metric':22} runs judged   by spread   with modes   beyond {100 * MODES:.0f} %   coarse (with)"
    )
    for metric in metrics:
        beyond, coarse = np.zeros((0, 3), dtype=bool), []
        for place, one in enumerate(found):
            learned = [run[metric] for run in one["learned"][:RUNS] if metric in run]
            if len(learned) < RUNS:
                continue
            deviation = float(np.std(learned, ddof=1) / np.mean(learned))
            threshold = machine_thresholds([*OTHERS, RunSpread(deviation, RUNS, 0.0)])[-1]
            limits = [min(ALPHA, threshold.confirmed), beyond_modes(threshold).confirmed, 1 - MODES]
            coarse.append([limit < 0.5 for limit in limits[:2]])
            rates = [
                run[metric] / np.median(learned)
                for other, another in enumerate(found)
                for run in (*another["learned"], *another["judged"])
                if other != place and metric in run
            ]
            beyond = np.vstack([beyond, np.less.outer(rates, limits)])
        shares = "".join(f"{100 * share:11.1f} %" for share in beyond.mean(axis=0))
        without, with_modes = np.sum(coarse, axis=0)
        print(f"{metric:22}{len(beyond):12}{shares}   {without} ({with_modes}) of {len(coarse)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
