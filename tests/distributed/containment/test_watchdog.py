from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from pytest_anubis.core.inventory import Accelerator
from pytest_anubis.core.measurement import Measurement
from pytest_anubis.core.metric import Metric
from pytest_anubis.distributed.containment import watchdog as containment
from pytest_anubis.distributed.containment.crash_evidence import HardwareEvidence, card_addresses
from pytest_anubis.distributed.containment.crash_report import (
    Crash,
    benchmark_frames,
    crash_text,
    crash_verdict,
)
from pytest_anubis.distributed.containment.processes import (
    Death,
    descendants,
    how_it_died,
    is_gone,
    kill_tree,
    stack_of,
)
from pytest_anubis.distributed.containment.watchdog import Deadline, Overdue, Watchdog, deadline_of
from pytest_anubis.distributed.dispatch.tasks import NODE, Lane, Task
from pytest_anubis.distributed.workers.device_binding import binding
from pytest_anubis.hardware.inventory.visible_devices import visible
from pytest_anubis.hardware.telemetry.kernel_log import KernelLog
from pytest_anubis.session.context import RunContext
from pytest_anubis.settings import Settings


@pytest.mark.parametrize(
    ("cost", "mark", "limit", "profile", "seconds"),
    [
        (1.0, 5.0, 30.0, "smoke", 30.0),  # the command line counts first
        (1.0, 5.0, None, "smoke", 5.0 + containment.GRACE),
        (1.0, None, None, "smoke", containment.MIN_SECONDS),
        (20.0, None, None, "smoke", 200.0),
        (20.0, None, None, "standard", 200.0),  # costs are those of the profile
        (None, None, None, "standard", 11 * containment.DEFAULT_SECONDS),
        (None, None, None, "smoke", containment.DEFAULT_SECONDS),
        (None, 0.0, None, "smoke", containment.DEFAULT_SECONDS),  # pytest-timeout's "no limit"
    ],
)
def test_deadline_comes_from_the_most_explicit_source(
    cost: float | None, mark: float | None, limit: float | None, profile: str, seconds: float
) -> None:
    found = deadline_of(cost=cost, mark=mark, limit=limit, profile=profile)
    assert found.seconds == pytest.approx(seconds)
    assert found.source


def test_a_deadline_says_where_it_comes_from() -> None:
    assert deadline_of(cost=20.0, mark=None, limit=None).source == "10 times its cost"
    least = deadline_of(cost=1.0, mark=None, limit=None)
    assert (least.seconds, least.source) == (60.0, "the shortest deadline; its cost is 1 s")


@pytest.mark.parametrize(
    ("cost", "profile", "seconds"),
    [(5.0, "smoke", 300.0), (50.0, "smoke", 500.0), (5.0, "standard", 300.0)],
)
def test_mark_deadline_only_prolongs(cost: float, profile: str, seconds: float) -> None:
    found = deadline_of(cost=cost, mark=None, limit=None, profile=profile, least=300.0)
    assert found.seconds == pytest.approx(seconds)
    assert deadline_of(cost=cost, mark=None, limit=9.0, least=300.0).seconds == 9.0
    unknown = deadline_of(cost=None, mark=None, limit=None, least=2 * containment.DEFAULT_SECONDS)
    assert unknown.seconds == 2 * containment.DEFAULT_SECONDS


Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def start() -> Iterator[Start]:
    """Start processes that sleep, or run some code, until the test ends."""
    with ExitStack() as stack:

        def started(code: str = "import time; time.sleep(600)") -> subprocess.Popen[bytes]:
            command = [sys.executable, "-c", code]
            process = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE))
            stack.callback(process.kill)
            return process

        yield started


def test_watchdog_kills_who_is_late_and_nobody_else(start: Start) -> None:
    late, early = start(), start()
    given_up: list[str] = []
    watchdog = Watchdog(given_up.append)
    watchdog.process("late", late.pid, None)
    watchdog.process("early", early.pid, None)
    watchdog.begins("early", Deadline(600.0, "its cost"))
    watchdog.begins("late", Deadline(0.2, "its cost"))
    assert late.wait(timeout=30) == -signal.SIGKILL
    assert watchdog.gone("late") == Overdue(deadline=Deadline(0.2, "its cost"))
    assert watchdog.gone("late") is None
    assert watchdog.gone("early") is None
    assert early.poll() is None
    assert not given_up
    watchdog.stop()


def test_watchdog_forgets_a_deadline_that_was_kept() -> None:
    now, killed = [0.0], threading.Event()
    watchdog = Watchdog(lambda _: None, clock=lambda: now[0], kill=lambda _: killed.set())
    watchdog.process("gw0", os.getpid(), None)
    watchdog.begins("gw0", Deadline(0.3, ""))
    watchdog.begins("gw0")
    now[0] = 20.0
    watchdog.begins("gw1")  # lets it look
    assert not killed.wait(0.5)
    watchdog.stop()


def test_next_attempt_has_its_own_deadline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked, killed = threading.Event(), threading.Event()

    def ended_meanwhile(pid: int, file: Path) -> str:
        watchdog.begins("gw0")
        watchdog.begins("gw0", Deadline(600.0, ""))
        asked.set()
        return ""

    monkeypatch.setattr(containment, "stack_of", ended_meanwhile)
    watchdog = Watchdog(lambda _: None, kill=lambda _: killed.set())
    watchdog.process("gw0", os.getpid(), tmp_path)
    watchdog.begins("gw0", Deadline(0.05, ""))
    assert asked.wait(30)
    assert not killed.wait(0.3)
    watchdog.stop()


def test_process_that_cannot_be_killed_is_given_up(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(containment, "KILL_SECONDS", 0.1)
    given_up = threading.Event()
    watchdog = Watchdog(lambda _: given_up.set(), kill=lambda _: None)
    watchdog.process("gw0", start().pid, None)
    watchdog.begins("gw0", Deadline(0.05, ""))
    assert given_up.wait(30)
    overdue = watchdog.gone("gw0")
    assert overdue is not None
    assert overdue.stubborn
    watchdog.stop()


def test_worker_without_a_process_is_given_up() -> None:
    given_up = threading.Event()
    watchdog = Watchdog(lambda _: given_up.set())
    watchdog.begins("far", Deadline(0.05, ""))
    assert given_up.wait(30)
    watchdog.stop()


def test_killing_a_tree_leaves_no_grandchild(start: Start) -> None:
    code = (
        "import subprocess, sys, time\n"
        "sleep = 'import time; time.sleep(600)'\n"
        "child = 'import subprocess, sys; '\\\n"
        "    'p = subprocess.Popen([sys.executable, \"-c\", %r], start_new_session=True); '\\\n"
        "    'print(p.pid, flush=True); p.wait()' % sleep\n"
        "subprocess.run([sys.executable, '-c', child])\n"
    )
    victim = start(code)
    assert victim.stdout is not None
    grandchild = int(victim.stdout.readline())
    assert grandchild in descendants(victim.pid)
    kill_tree(victim.pid)
    victim.wait()
    until = time.monotonic() + 30
    while not is_gone(grandchild) and time.monotonic() < until:
        time.sleep(0.02)
    assert is_gone(grandchild)


@pytest.mark.parametrize(
    ("code", "expected", "text"),
    [
        ("import os; os._exit(3)", Death(status=3), "exit with status 3"),
        ("import os; os.kill(os.getpid(), 11)", Death(signal=11), "segmentation fault (SIGSEGV)"),
        ("import os; os.kill(os.getpid(), 9)", Death(signal=9), "killed (SIGKILL)"),
        ("import os; os.kill(os.getpid(), 40)", Death(signal=40), "signal 40"),
    ],
)
def test_how_a_process_died_is_seen_without_reaping_it(
    start: Start, code: str, expected: Death, text: str
) -> None:
    victim = start(code)
    assert how_it_died(victim.pid, patience=30) == expected
    assert str(expected) == text
    assert how_it_died(victim.pid) == expected  # still there
    victim.wait()
    assert how_it_died(victim.pid) is None


def test_living_process_has_not_died(start: Start) -> None:
    assert how_it_died(start().pid, patience=0.1) is None


def test_stack_is_written_even_when_the_lock_is_held(start: Start, tmp_path: Path) -> None:
    file = tmp_path / "stack.txt"
    victim = start(
        "import ctypes\n"
        "from pytest_anubis.distributed.workers.worker import _prepare_process\n"
        f"_prepare_process({str(file)!r})\n"
        "library, mutex = ctypes.PyDLL(None), ctypes.create_string_buffer(128)\n"
        "library.pthread_mutex_lock(mutex)\n"
        "print('ready', flush=True)\n"
        "library.pthread_mutex_lock(mutex)\n"
    )
    assert victim.stdout is not None
    victim.stdout.readline()
    until = time.monotonic() + 60
    while "line 7 in <module>" not in stack_of(victim.pid, file) and time.monotonic() < until:
        time.sleep(0.1)  # it may not have come to the second lock yet
    assert "line 7 in <module>" in stack_of(victim.pid, file)
    assert victim.poll() is None


def test_unprepared_process_gets_no_signal(start: Start, tmp_path: Path) -> None:
    victim = start()
    assert stack_of(victim.pid, tmp_path / "none") == ""
    assert victim.poll() is None


def test_causes_say_what_happened() -> None:
    late = Overdue(deadline=Deadline(20.0, "its timeout mark"))
    assert Crash(worker="gw0", overdue=late).cause == (
        "hung: no end within 20 s (its timeout mark); the process was killed"
    )
    stubborn = Overdue(deadline=Deadline(5.0, "x"), stubborn=True)
    assert "could not be killed" in Crash(worker="gw0", overdue=stubborn).cause
    killed = Death(signal=9)
    assert "out of memory" in Crash(worker="gw0", death=killed, memory=True).cause
    assert "memory" not in Crash(worker="gw0", death=killed).cause
    assert "memory" not in Crash(worker="gw0", death=Death(signal=11), memory=True).cause
    assert Crash(worker="gw0", said="EOF").cause == "its process was lost (EOF)"


def test_crash_fails_only_with_evidence() -> None:
    crash = Crash(worker="gw0", test="t", death=Death(signal=11))
    task = Task(test="t[cuda:0]", benchmark="t", device="cuda:0")
    kept = Measurement(
        test="t",
        benchmark="t",
        component="c",
        device="cuda:0",
        metric=Metric(name="rate", unit="GB/s", better="higher"),
        values=(1.0, 2.5),
    )
    assert crash_verdict(crash, task, "accelerator.compute", (), node="n") is None
    assert crash_text(crash, [kept], ()).splitlines() == [
        "its process died: segmentation fault (SIGSEGV)",
        "no evidence against the hardware was found: INCONCLUSIVE",
        "measured before: rate, 2 values, last 2.5 GB/s",
        "next step: look at the kernel log, then run it alone again: pytest --anubis t",
    ]
    verdict = crash_verdict(crash, task, "accelerator.compute", ["XID 79"], node="n")
    assert verdict is not None
    assert verdict.outcome == "FAIL"
    assert (verdict.device, verdict.evidence) == ("cuda:0", ("XID 79",))
    assert "run it alone again" in verdict.action
    assert "evidence: XID 79" in crash_text(crash, [], ["XID 79"])
    assert "could not be looked for everywhere: no" in crash_text(crash, [], [], "no")


def test_stack_is_cut_where_the_benchmark_ends() -> None:
    dump = (
        "Thread 0x1 (most recent call first):\n"
        '  File "/x/execnet/gateway_base.py", line 534 in read\n'
        "\n"
        "Current thread 0x2 (most recent call first):\n"
        '  File "/x/test_a.py", line 11 in hang\n'
        '  File "/x/_pytest/python.py", line 187 in pytest_pyfunc_call\n'
        '  File "/x/execnet/gateway_base.py", line 1 in run'
    )
    assert benchmark_frames(dump).splitlines() == [
        "Current thread 0x2 (most recent call first):",
        '  File "/x/test_a.py", line 11 in hang',
    ]
    assert benchmark_frames("") == ""


def kernel(tmp_path: Path, *lines: str) -> KernelLog:
    path = tmp_path / "kmsg"
    path.write_text("")
    log = KernelLog(path)
    path.write_text("".join(f"6,1,1,-;{line}\n" for line in lines))
    return log


def test_evidence_counts_for_the_card_it_speaks_of(tmp_path: Path) -> None:
    bus = tmp_path / "bus"
    for address in ("0000:3b:00.0", "0000:5d:00.0"):
        (bus / address).mkdir(parents=True)
    places = {"cuda:0": "0000:3B:00.0", "cuda:1": "0000:5D:00.0", "cuda:2": "0000:7f:00.0"}
    line = "NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus."
    for device, expected in (("cuda:0", 1), ("cuda:1", 0)):
        evidence = HardwareEvidence(places, log=kernel(tmp_path, line), bus=bus)
        assert len(evidence.against(device)) == expected
        assert evidence.against(device) == ()  # reported once
        evidence.close()
    evidence = HardwareEvidence(places, log=kernel(tmp_path), bus=bus)
    assert evidence.against("cuda:2") == ()  # it was never there: a container may not show it
    (bus / "0000:7f:00.0").mkdir()
    evidence = HardwareEvidence(places, log=kernel(tmp_path), bus=bus)
    (bus / "0000:7f:00.0").rmdir()
    assert evidence.against("cuda:2") == ("cuda:2 at 0000:7f:00.0 is gone from the PCI bus",)
    assert evidence.against(NODE) == ()
    assert evidence.blind == ""
    evidence.close()
    assert "kernel log" in HardwareEvidence({}, log=KernelLog(tmp_path / "none"), bus=bus).blind


def test_two_cards_that_fail_together_both_have_evidence(tmp_path: Path) -> None:
    places = {"cuda:0": "0000:3B:00.0", "cuda:1": "0000:5D:00.0"}
    line = "NVRM: Xid (PCI:0000:{}:00): 79, pid=1, GPU has fallen off the bus."
    log = kernel(tmp_path, line.format("3b"), line.format("5d"))
    evidence = HardwareEvidence(places, log=log, bus=tmp_path)
    assert [len(evidence.against(device)) for device in ("cuda:0", "cuda:1", "cuda:0")] == [1, 1, 0]
    evidence.close()


def test_workers_are_bound_by_uuid() -> None:
    cards = (
        Accelerator(index=0, vendor="nvidia", name="A", uuid="GPU-a", pci="0000:01:00.0"),
        Accelerator(index=1, vendor="nvidia", name="A"),
        Accelerator(index=2, vendor="amd", name="B", uuid="x"),
    )
    inventory = {"accelerators": [{"pci": card.pci} for card in cards]}
    usable = visible(cards, {})
    devices = usable.devices

    def bound(*names: str, hidden: bool = False) -> dict[str, str]:
        found = binding(Lane("lane", names), devices, usable.bindings, hidden=hidden)
        assert found.pop("PYTEST_ANUBIS_LANE") == "lane"
        assert found.pop("CUDA_DEVICE_ORDER") == "PCI_BUS_ID"
        return found

    assert bound("cuda:0") == {"CUDA_VISIBLE_DEVICES": "GPU-a"}
    assert bound("cuda:1") == {}  # not known: better all than the wrong one
    assert bound("cuda:2") == {"HIP_VISIBLE_DEVICES": "0"}  # its number among its own kind
    assert bound() == bound("cuda:0", "cuda:1") == {}
    named = visible(cards[:1] * 2, {})  # what the user left is named for lanes that see all of it
    assert binding(Lane("node"), named.devices, named.bindings, some=True) == {
        "PYTEST_ANUBIS_LANE": "node",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": "GPU-a,GPU-a",
    }
    assert bound("cuda:0", hidden=True) == {"CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": "-1"}
    context = RunContext(settings=Settings(), devices=devices, inventory=inventory)
    assert card_addresses(context)["cuda:0"] == "0000:01:00.0"
