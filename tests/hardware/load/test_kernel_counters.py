"""Test the kernel's counters of other processes with real processes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pytest_anubis.hardware.load.host_load import LoadReader
from pytest_anubis.hardware.load.kernel_counters import KernelCounters, in_container
from pytest_anubis.hardware.text_files import Files


class Ours(Files):
    """Kernel files that show only a few processes, whatever else runs here."""

    def __init__(self, *processes: int) -> None:
        super().__init__()
        self._processes = [str(pid) for pid in processes]

    def entries(self, path: str) -> list[str]:
        return self._processes if path == "/proc" else super().entries(path)


BURN = "import time\nprint(flush=True)\nend = time.monotonic() + 60\nwhile time.monotonic() < end: pass"


@contextmanager
def burning() -> Iterator[int]:
    with subprocess.Popen([sys.executable, "-c", BURN], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield process.pid
        finally:
            process.kill()


def used_within(counters: KernelCounters, least: float, patience: float) -> float:
    """Return what others used until it is so much, or for so long."""
    begin, until = counters.read().others, time.monotonic() + patience
    while (used := counters.read().others - begin) < least and time.monotonic() < until:
        time.sleep(0.01)
    return used


def test_cpu_time_of_another_process_is_counted() -> None:
    with burning() as pid:
        counters = KernelCounters(list, files=Ours(pid))
        counters.renew()
        assert used_within(counters, 0.05, 30.0) >= 0.05


@pytest.mark.skipif(in_container(Files()), reason="a container may not use what the kernel counts")
def test_unlisted_process_is_counted_as_unseen() -> None:
    counters = KernelCounters(lambda: [str(os.getpid())], files=Ours(os.getpid()))
    counters.renew()
    begin, until = counters.read().unseen, time.monotonic() + 30
    with burning():
        while (found := counters.read().unseen - begin) < 0.1 and time.monotonic() < until:
            time.sleep(0.01)
    assert found >= 0.1


class Container(Ours):
    """Kernel files of a container whose control group counts its CPU time."""

    used = 0.0

    def quick(self, path: str, limit: int = 1 << 20) -> str:
        if path == "/proc/2/comm":
            return ""
        if path == "/sys/fs/cgroup/cpu.stat":
            return f"usage_usec {int(self.used * 1e6)}\nuser_usec 0\n"
        return super().quick(path, limit)

    def text(self, path: str | Path, field: str = "") -> str | None:
        if path == "/proc/self/mountinfo":
            return "31 24 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw"
        return "0::/" if path == "/proc/self/cgroup" else super().text(path, field)

    def exists(self, path: str | Path) -> bool:
        return str(path).startswith("/sys/fs/cgroup") or super().exists(path)


def test_container_uses_its_control_group_for_unseen() -> None:
    files = Container(os.getpid())
    counters = KernelCounters(lambda: [str(os.getpid())], files=files)
    counters.renew()
    begin = counters.read().unseen
    files.used = 5.0
    assert 4.0 < counters.read().unseen - begin <= 5.0


def test_own_child_is_not_counted_as_other() -> None:
    with burning() as pid:
        counters = KernelCounters(LoadReader(root=os.getpid()).tree, files=Ours(os.getpid(), pid))
        counters.renew()
        assert used_within(counters, 0.05, 0.3) == 0


def test_allowed_processes_are_not_counted() -> None:
    with burning() as pid:
        name = Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip()
        own = [str(os.getpid())]
        files = Container(os.getpid(), pid)
        counters = KernelCounters(lambda: own, [f"{name[:4]}*"], files)
        counters.renew()
        begin = counters.read().unseen
        assert used_within(counters, 0.05, 0.3) == 0
        files.used = 0.1  # of which the allowed process has used more than a half
        assert counters.read().unseen - begin < 0.05


def test_short_process_is_counted_from_start_to_end() -> None:
    files = Ours(os.getpid())
    counters = KernelCounters(list, files=files)
    counters.renew()
    begin = counters.read().others
    with burning() as pid:
        time.sleep(0.1)
        files._processes.append(str(pid))
        burnt = counters.read().others - begin
        assert burnt > 0.01  # it was started before it was listed
        time.sleep(0.1)
    assert counters.read().others - begin >= burnt + 0.1


def test_waiting_and_stolen_time_never_decrease() -> None:
    counters = KernelCounters(LoadReader(root=os.getpid()).tree)
    counters.renew()
    first, second = counters.read(), counters.read()
    assert first.waited <= second.waited
    assert first.stolen <= second.stolen
