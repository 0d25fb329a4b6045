"""Everything that may go wrong around a run, tried on purpose: nothing bad may be accepted, nothing be lost.

Prints one row an area for docs/reliability.md: how often it was tried, how often the run came out right, and
the defects, which are listed below with what repeats them (``--only AREA --seed N --number K --keep DIR``).
Run: ``python benchmarks/reliability/chaos [--quick] [--only AREA] [--seed 1] [--workers 2]``.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))  # this checkout's packages

from benchmarks.reliability.chaos.broken_runs import power_cuts, signals
from benchmarks.reliability.chaos.full_disks import full_disks
from benchmarks.reliability.chaos.histories import mute_servers, racing_writers
from benchmarks.reliability.chaos.silent_acceptance import silent_acceptance
from benchmarks.reliability.chaos.toy_node import Area, Campaign
from benchmarks.reliability.chaos.uploads import uploads

AREAS: dict[str, Callable[[Campaign], Area]] = {
    "silent": silent_acceptance,
    "cuts": power_cuts,
    "signals": signals,
    "disks": full_disks,
    "race": racing_writers,
    "servers": mute_servers,
    "uploads": uploads,
}


def main() -> int:
    """Try everything and print the table; return 1 if there was a defect."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a minute, a sample of every area")
    parser.add_argument("--only", choices=AREAS, action="append", help="these areas alone")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, help="how many of each area")
    parser.add_argument("--number", type=int, action="append", help="only the K-th of an area")
    parser.add_argument("--workers", type=int, default=2, help="runs at a time")
    parser.add_argument("--minutes", type=float, default=60, help="longest time for an area")
    parser.add_argument("--keep", type=Path, help="keep the folders of defects here")
    options = parser.parse_args()
    for name in ("SIGQUIT", "SIGHUP"):  # background jobs of shells may ignore them
        signal.signal(getattr(signal, name), signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    print("| area | tried | survived | defects |\n|---|---|---|---|", flush=True)
    defects: list[str] = []
    with (
        tempfile.TemporaryDirectory(prefix="chaos-") as name,
        ThreadPoolExecutor(options.workers) as pool,
    ):
        place = options.keep or Path(name)
        for area, attempt in AREAS.items():
            if options.only and area not in options.only:
                continue
            begin = time.monotonic()
            campaign = Campaign(
                Path(name), place, options.seed, options.quick, options.count,
                tuple(options.number or ()), options.keep is not None,
                begin + 60 * options.minutes, pool,
            )  # fmt: skip
            found = attempt(campaign)
            survived = found.tried - len(found.defects)
            print(
                f"| {found.name} | {found.tried} | {survived} | {len(found.defects)} |", flush=True
            )
            took = time.monotonic() - begin
            defects += [f"{area} {line}" for line in found.defects]
            defects += [f"({area}: {line})" for line in (*found.notes, f"{took:.0f} s")]
    print("", *defects, sep="\n")
    return int(any(not line.startswith("(") for line in defects))


if __name__ == "__main__":
    raise SystemExit(main())
