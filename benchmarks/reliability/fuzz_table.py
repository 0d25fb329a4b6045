"""Mutated files against every reader: the table of ``docs/reliability.md``.

Run: ``python benchmarks/reliability/fuzz_table.py --inputs 28000 --processes 2``. The same seed makes
the same files.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout's packages

from tests.fuzz.campaign import run_campaign
from tests.fuzz.readers import READERS


def main() -> None:
    """Run a campaign and print its table and its defects."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--inputs", type=int, default=28_000, help="in all (default: 28000)")
    parser.add_argument("--seed", type=int, default=0, help="of all of them (default: 0)")
    parser.add_argument("--processes", type=int, default=1, help="at the same time (default: 1)")
    parser.add_argument("--reader", action="append", choices=tuple(READERS), help="only these")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the inputs that are defects")
    options = parser.parse_args()
    campaign = run_campaign(
        options.inputs,
        seed=options.seed,
        readers=options.reader or tuple(READERS),
        processes=options.processes,
        keep=options.keep,
    )
    print(campaign.table())
    for one in campaign.found:
        print(f"- {one}")


if __name__ == "__main__":
    main()
