"""Runs that are killed or signalled at any moment: nothing is lost or repeated, and the verdict is right.

Tests write to the file ``ran`` when they begin and end, on a way of their own, against which the journal can
be held.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from functools import partial
from pathlib import Path

from benchmarks.reliability.chaos.node_faults import GOOD, SLOW
from benchmarks.reliability.chaos.toy_node import (
    Area,
    Campaign,
    Ran,
    command,
    copy_of,
    end,
    outcome,
    run,
    start,
    suite,
)

_LOGGED = """\
def note(word):
    with open('ran', 'a') as file:
        file.write(word + '\\n')

@pytest.fixture(autouse=True)
def noted(request):
    note('begin ' + request.node.name)
    yield
    note('end ' + request.node.name)
"""

_BODY = "time.sleep(0.1)\n{}\ntime.sleep(0.1)"  # long enough that a cut meets each test
_TESTS = "abcde"

SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGSTOP")
TARGETS = ("started", "child", "worker")


def _begin(campaign: Campaign, folder: Path, *, bad: str) -> subprocess.Popen[bytes]:
    """Start a run whose tests take a while; `bad` names the slow one, empty for a healthy node."""
    bodies = {name: _BODY.format(SLOW if name == bad else GOOD) for name in _TESTS}
    bodies["p"] = "time.sleep(0.2)"
    copy_of(campaign.template("host"), folder, suite("host", bodies, {}, _LOGGED))
    return start(folder, ["--anubis-run-id=r", "-v"])


def _children(pid: int) -> list[int]:
    try:
        return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _targets(process: subprocess.Popen[bytes]) -> dict[str, int]:
    """Return the processes of a run as far as they are there: what was started, its child, the worker."""
    found = {"started": process.pid}
    for name in ("child", "worker"):
        below = _children(list(found.values())[-1])
        if not below:
            break
        found[name] = below[0]
    return found


def _wait_a_while(process: subprocess.Popen[bytes], folder: Path, draw: random.Random) -> None:
    """Wait until some test has begun or ended, or for a moment of the start or the end."""
    ran, lines = folder / "ran", draw.randint(0, 12)  # twelve lines are all
    deadline = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < deadline:
        if lines == 0 or (ran.exists() and ran.read_text().count("\n") >= lines):
            break
        time.sleep(0.01)
    time.sleep(draw.uniform(0, 1.5) if lines in (0, 12) else draw.uniform(0, 0.15))


def _ended(folder: Path) -> list[str]:
    ran = folder / "ran"
    lines = ran.read_text().splitlines() if ran.exists() else []
    return [line.removeprefix("end ") for line in lines if line.startswith("end ")]


def _claims(ran: Ran, folder: Path, *, good: bool) -> list[str]:
    """Return what a broken run claims although it must not."""
    whole = good and ran.accepted and all(not one.broken_off for one in ran.records)
    wrong = []
    if ran.status == 0 and not whole:
        wrong.append("exit status 0")
    if ran.accepted and not whole:
        wrong.append("journal ACCEPTED")
    path = folder / ".anubis" / "runs" / "r"
    if (path / "journal.jsonl").exists():
        code, said = command("report", str(path))
        if not whole and "ACCEPTED" in said:
            wrong.append("report ACCEPTED")
        if "Traceback" in said:
            wrong.append(f"report fails ({code})")
        code, said = command("judge", str(path), f"--baseline={folder / 'baselines'}")
        if code == 0 and not whole:
            wrong.append("judge accepts")
    if "Traceback (most recent call last)" in ran.said and "INTERNALERROR" in ran.said:
        wrong.append("internal error")
    return wrong


def _lost(ran: Ran, folder: Path) -> list[str]:
    """Return what tests had measured to their end and the journal does not have; one may be in flight."""
    known = {m.test.split("::")[-1] for one in ran.records for m in one.measurements}
    ended = [name for name in _ended(folder) if name != "test_p"]
    lost = [name for name in ended if name not in known]
    return [f"lost: {', '.join(lost)}"] if len(lost) > 1 else []


def power_cuts(campaign: Campaign) -> Area:
    """Kill the group, the controller or the worker; report; resume; compare."""
    total = campaign.size(100, 3)
    tried, defects = campaign.each("cut", total, partial(_cut, campaign))
    return Area("kill -9 of a run, report, resume", tried, defects)


def _cut(campaign: Campaign, number: int, folder: Path) -> str:
    draw = random.Random(f"{campaign.seed} cut {number}")
    whom, bad = draw.choice(("group", "child", "worker")), draw.choice(("", *_TESTS))
    what = f"SIGKILL to the {whom}, slow: {bad or 'none'}"
    process = _begin(campaign, folder, bad=bad)
    _wait_a_while(process, folder, draw)
    targets = _targets(process)
    if whom == "group" or whom not in targets:
        os.killpg(process.pid, signal.SIGKILL)
    else:
        os.kill(targets[whom], signal.SIGKILL)
    ran = outcome(folder, end(process))
    wrong = _claims(ran, folder, good=not bad) + _lost(ran, folder)
    finished = any(one.exit_status is not None for one in ran.records)
    if not wrong and not finished and (folder / ".anubis/runs/r/journal.jsonl").exists():
        wrong = _resumed(ran, folder, bad)
    return f"{what}: {', '.join(wrong)}" if wrong else ""


def _resumed(before: Ran, folder: Path, bad: str) -> list[str]:
    """Go on with a run that was cut off, and return what is wrong with what comes of it."""
    done = {
        r.test.split("::")[-1]
        for one in before.records
        for r in one.results
        if r.outcome == "passed"
    }
    values = {m.test for one in before.records for m in one.measurements}
    after = run(folder, ["--anubis-resume=r", "-v"])
    begun = [
        line.removeprefix("begin ")
        for line in (folder / "ran").read_text().splitlines()
        if line.startswith("begin ")
    ]
    wrong = [f"repeated: {name}" for name in done if begun.count(name) > 1]
    if before.unread and "--anubis-resume" in after.said:  # cut within its first line
        return [] if after.status == 4 else [f"unreadable, resumed with {after.status}"]
    if len(after.records) != 1:
        return [*wrong, f"{len(after.records)} journals after --anubis-resume"]
    (record,) = after.records
    wanted = (1, "REJECTED") if bad else (0, "ACCEPTED")
    decided = record.node_verdict.decision.name if record.node_verdict else "nothing"
    if (after.status, decided) != wanted:
        wrong.append(f"resumed to {after.status}, {decided}; not {wanted}")
    if missing := values - {m.test for m in record.measurements}:
        wrong.append(f"measurements lost by --anubis-resume: {sorted(missing)}")
    if len(record.results) != len(record.planned):
        wrong.append(f"{len(record.results)} of {len(record.planned)} tests ended")
    return wrong


def signals(campaign: Campaign) -> Area:
    """Send a signal to one of the processes; hold the journal against what really happened."""
    total = campaign.size(100, 3)
    tried, defects = campaign.each("signal", total, partial(_signalled, campaign))
    return Area("signals to the command, its child, a worker", tried, defects)


def _signalled(campaign: Campaign, number: int, folder: Path) -> str:
    draw = random.Random(f"{campaign.seed} signal {number}")
    name, whom = SIGNALS[number % len(SIGNALS)], TARGETS[number // len(SIGNALS) % len(TARGETS)]
    bad = draw.choice(("", *_TESTS))
    process = _begin(campaign, folder, bad=bad)
    _wait_a_while(process, folder, draw)
    target = _targets(process).get(whom, process.pid)
    try:
        os.kill(target, getattr(signal, name))
        if name == "SIGSTOP":
            time.sleep(draw.uniform(0.1, 1))
            os.kill(target, signal.SIGCONT)
    except ProcessLookupError:
        pass  # it has ended
    ran = outcome(folder, end(process))
    wrong = _claims(ran, folder, good=not bad) + _lost(ran, folder)
    if ran.status is None:
        wrong.append("no end")
    if name == "SIGSTOP" and ran.status != (1 if bad else 0):
        wrong.append(f"exit status {ran.status} after a pause")
    return f"{name} to the {whom}, slow: {bad or 'none'}: {', '.join(wrong)}" if wrong else ""
