"""A disk that takes no more at the n-th event of a run, for every n, in three ways; or only for a while."""

from __future__ import annotations

import random
import re
from functools import partial
from pathlib import Path

from benchmarks.reliability.chaos.toy_node import (
    Area,
    Campaign,
    Ran,
    command,
    copy_of,
    journals,
    run,
)

_CONFTEST = """
import errno
_write, _sync, _seen = os.write, os.fdatasync, [0]

def _is_journal(descriptor):
    try:
        return os.readlink(f'/proc/self/fd/{descriptor}').endswith('journal.jsonl')
    except OSError:
        return False

def _full(descriptor, data):
    if _is_journal(descriptor):
        _seen[0] += 1
        if FROM <= _seen[0] <= TO:
            if HOW == 'part':
                return _write(descriptor, data[:len(data) // 2])
            raise OSError(errno.ENOSPC, 'No space left on device')
    return _write(descriptor, data)

def _failing(descriptor):
    if _is_journal(descriptor) and HOW == 'sync' and _seen[0] >= FROM:
        raise OSError(errno.EIO, 'Input/output error')
    return _sync(descriptor)

os.fdatasync = _failing
if HOW != 'sync':
    os.write = _full
else:
    def _counted(descriptor, data):
        _seen[0] += _is_journal(descriptor)
        return _write(descriptor, data)
    os.write = _counted
"""

_NEVER = 10**6
_NAME = "the disk fails at an event"
WAYS = ("full", "part", "sync", "for three events")


def full_disks(campaign: Campaign) -> Area:
    """Fill the disk at every event, in workers and in process."""
    cases: list[tuple[str, int, int, list[str]]] = []
    for mode in (["-q"], ["-q", "--anubis-in-process"]):
        folder = campaign.place / f"whole{len(mode)}"
        ran = run(_project(campaign, folder, _NEVER, "full"), mode)
        (path,) = journals(folder)
        events = len(path.read_bytes().splitlines())
        if ran.status != 0:
            return Area(_NAME, 1, [f"0: healthy run: {ran.status}"])
        cases += [(way, n, events, mode) for way in WAYS for n in range(1, events + 1)]
    if campaign.quick:
        cases = cases[:: len(cases) // 3]
    if campaign.count:
        cases = random.Random(campaign.seed).sample(cases, min(campaign.count, len(cases)))
    tried, defects = campaign.each("disk", len(cases), partial(_attempt, campaign, cases))
    return Area(_NAME, tried, defects)


def _project(campaign: Campaign, folder: Path, first: int, way: str) -> Path:
    last = first + 2 if way == "for three events" else _NEVER + 1
    text = _CONFTEST.replace("FROM", str(first)).replace("TO", str(last))
    return copy_of(campaign.template("host"), folder, conftest=text.replace("HOW", repr(way)))


def _attempt(
    campaign: Campaign, cases: list[tuple[str, int, int, list[str]]], number: int, folder: Path
) -> str:
    way, first, events, mode = cases[number]
    ran = run(_project(campaign, folder, first, way), mode)
    wrong = _wrong(ran, folder, way, first, events)
    return f"{way} from event {first} of {events} {mode}: {', '.join(wrong)}" if wrong else ""


def _wrong(ran: Ran, folder: Path, way: str, first: int, events: int) -> list[str]:
    recovers = way == "for three events" and first + 2 < events
    wrong = []
    (path,) = journals(folder)
    _, report = command("report", str(path))
    judged, _ = command("judge", str(path), f"--baseline={folder / 'baselines'}")
    whole = recovers and len(path.read_bytes().splitlines()) >= events
    if ran.status == 0 and not whole:
        wrong.append("exit status 0")
    if "Traceback" in ran.said + report:
        wrong.append("traceback")
    if way == "sync":  # all is written, but perhaps not permanently
        said = "may not have kept" in ran.said
        return wrong if said else [*wrong, "the error of the disk is not said"]
    if not whole and ("ACCEPTED" in report.replace("UNACCEPTED", "") or judged == 0):
        wrong.append(f"report or judge accepts (judge: {judged})")
    numbers = re.findall(r"events missing in this run's journal: (\d+)", ran.said)
    missing = max(map(int, numbers), default=0)  # the first is said before the run has ended
    kept = sum(line.endswith(b"}") for line in path.read_bytes().splitlines())
    if not whole and not missing:
        wrong.append("the number of missing events is not said")
    elif not whole and kept + missing < events:
        wrong.append(f"{events} events, {kept} kept, {missing} said to be missing")
    return wrong
