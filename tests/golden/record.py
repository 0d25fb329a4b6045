"""Makes the recordings anew. Run it by hand, from the root of the repository.

    python -m tests.golden.record            # recordings/: runs, a table, baselines
    GOLDEN_WRITE=1 pytest tests/golden       # expected/: what this version decides about them

Every number that a toy records comes from a seed. Times are set to fixed dates afterwards, and folders of
this machine are replaced.
"""

from __future__ import annotations

import datetime as dt
import os
import random
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from pytest_anubis.store.journal.journal_lines import line_of, parse_line, text_of
from tests.golden.asking import ask
from tests.golden.runs import (
    BASELINES,
    EVERY,
    LEARNED,
    RECORDINGS,
    RUNS,
    SOURCES,
    Run,
    journal_of,
    prepare,
    start,
)
from tests.places import ROOT

FIRST = dt.datetime(2026, 5, 1, 8, 0, tzinfo=dt.UTC)
"""When the first run begins; each further one begins an hour later."""

FIXED = {"pid": 4711, "seconds": 0.01, "around": 0.01, "start": 0.0, "end": 0.01}
"""Fields of events that differ from one making to the next -> what is recorded."""


def record(run: Run, number: int, folder: Path, target: Path) -> None:
    """Make one run and put its journal among the recordings."""
    project = folder / run.name
    prepare(run, project)
    done = start(run, project)
    if done.returncode != run.code:
        raise SystemExit(f"{run.name}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    text = retimed(
        journal_of(run, project).read_bytes(), FIRST + dt.timedelta(hours=number), folder
    )
    assert f'"{os.uname().nodename}"'.encode() not in text, f"{run.name}: names this machine"
    path = target / run.name / "journal.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes(text)
    sys.stdout.write(f"{run.name}: {done.returncode}\n")


def retimed(journal: bytes, begin: dt.datetime, folder: Path) -> bytes:
    """Return a journal as if its node were real, with times from `begin` and no folder of this machine."""
    replaced = (
        (folder, "/recorded"),
        (ROOT, "/recorded/pytest-anubis"),
        (Path(pytest.__file__).parents[1], "/recorded/site-packages"),
    )
    for place, word in replaced:
        journal = journal.replace(str(place).encode(), word.encode())
    lines = []
    for number, line in enumerate(_unsealed(journal), start=1):
        now = begin + dt.timedelta(seconds=number / 100)
        line["at"] = round(now.timestamp(), 3)
        if isinstance(settings := line.get("settings"), dict):
            settings["inventory"] = None  # else the run says nothing about its node
        line |= {key: value for key, value in FIXED.items() if key in line}
        for key in ("started", "ended"):
            if key in line:
                line[key] = now.isoformat(timespec="milliseconds")
        lines.append(line_of(text_of(line), number))
    return b"".join(lines)


def _unsealed(journal: bytes) -> list[dict[str, Any]]:
    """Return the events of a journal whose checksums need not hold any more."""
    return [parse_line(line[: line.rindex(b',"seq":')] + b"}") for line in journal.splitlines()]


BAD = {(3, 1, "copy"): 0.8, (5, 0, "launch"): 1.25, (2, 0, "copy"): 0.97}
"""Node, device and benchmark of a unit -> its loss: two fail, one is unusual."""


def fleet_table(*, seed: int, bad: bool = False) -> str:
    """Return a table of 16 nodes with two cards and three metrics each.

    Args:
        seed: Seed of the noise; what belongs to a node is the same whatever the seed.
        bad: Some units are slow, have failed or are missing, and some rows cannot be read.
    """
    rows = ["node,device,benchmark,metric,unit,better,value,class,component,return_code"]
    chance = random.Random(seed)
    for node in range(16):
        own = 1 + 0.004 * random.Random(f"node {node}").gauss(0, 1)
        for device in range(2):
            head = f"m{node:02d},cuda:{device}"
            for name, rest, centre in (
                ("copy", "GB/s,higher", 400.0 * own),
                ("launch", "us,lower", 5.0 / own),
            ):
                factor = BAD.get((node, device, name), 1.0) if bad else 1.0
                for _ in range(2):
                    value = centre * factor * (1 + 0.003 * chance.gauss(0, 1))
                    rows.append(f"{head},{name},rate,{rest},{value:.3f},fleet,accelerator.{name},")
            errors = 3 if bad and (node, device) == (7, 0) else 0
            rows.append(f"{head},ecc,errors,errors,equal,{errors},fleet,memory.ecc,")
    if bad:
        rows = [row for row in rows if not row.startswith(("m09,cuda:1,copy", "m10,cuda:0,ecc"))]
        rows += [
            "m12,cuda:1,launch,rate,us,lower,,fleet,accelerator.launch,139",
            "m13,cuda:1,launch,rate,us,lower,nan,fleet,accelerator.launch,",
            "m14,cuda:1,launch,rate,ms,lower,0.005,fleet,accelerator.launch,",
            "m15,cuda:0,copy,rate,GB/s,higher,,fleet,accelerator.copy,",
        ]
    return "\n".join(rows) + "\n"


def main() -> None:
    """Make everything."""
    shutil.rmtree(RECORDINGS, ignore_errors=True)
    RECORDINGS.mkdir()
    (RECORDINGS / "fleet.csv").write_text(fleet_table(seed=1))
    (RECORDINGS / "fleet-new.csv").write_text(fleet_table(seed=2, bad=True))
    with tempfile.TemporaryDirectory(prefix="golden-") as place:
        folder = Path(place).resolve()
        for number, run in enumerate(SOURCES):
            record(run, number, folder, LEARNED)
        said = ask(["learn", str(LEARNED), "-o", str(BASELINES), "--error-rate=none"], folder)
        assert said.code == 0, said
        table = str(RECORDINGS / "fleet.csv")
        said = ask(["learn", table, "-o", str(BASELINES), "--accept-rate"], folder)
        assert said.code == 0, said
        for number, run in enumerate(EVERY, start=len(SOURCES)):
            record(run, number, folder, RUNS)


if __name__ == "__main__":
    main()
