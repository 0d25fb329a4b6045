"""Disturbances name the processes that cause them, as far as they can be seen."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pytest_anubis.hardware.load import process_load
from pytest_anubis.hardware.load.process_load import (
    KERNEL_THREAD,
    OtherProcess,
    ProcessReader,
    ProcessTime,
    Snapshot,
    is_allowed,
    named,
    other_processes,
)
from pytest_anubis.hardware.text_files import Files
from tests.hardware.fake_files import lay_out


def stat(pid: int, name: str, ticks: int, *, parent: int = 1, flags: int = 0) -> dict[str, str]:
    times = f"{ticks} 0 0 0"
    text = f"{pid} ({name}) S {parent} 1 1 0 -1 {flags} 1 1 1 1 {times} 20 0 1 0 7 0 0"
    return {f"/proc/{pid}/stat": text}


def test_snapshot_excludes_own_and_kernel_processes(tmp_path: Path) -> None:
    files = {
        **stat(11, "dcgm-exporter", 300),
        **stat(12, "a (b) \x1b[31mc", 5),
        **stat(13, "kworker/0:1", 900, flags=KERNEL_THREAD),
        **stat(14, "pytest", 900),
        "/proc/15/stat": "",  # it has just ended
        "/proc/self/stat": "1 (no) S",
    }
    found = ProcessReader(Files(lay_out(tmp_path, files)), 0.01).read({14: process(9.0)})
    assert {pid: (one.name, one.own) for pid, one in found.processes.items()} == {
        11: ("dcgm-exporter", 3.0),
        12: ("a (b) ?[31mc", 0.05),
    }
    assert list(found.ours) == [14]
    # What ended before its turn may stand in the time of one who was read before it.
    assert not found.complete


def test_snapshot_of_a_full_node_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {key: text for pid in range(1, 40) for key, text in stat(pid, "idle", 1).items()}
    root = lay_out(tmp_path, files)
    reader = ProcessReader(Files(root), 0.01)
    assert reader.read({}).complete
    lay_out(root, stat(3, "idle", 500))
    reader.read({})  # now it is known to be busy
    monkeypatch.setattr(process_load, "BUDGET", -1.0)
    cut = reader.read({})
    assert (list(cut.processes), cut.complete) == ([3], False)


def look(when: float, *, complete: bool = True, **used: ProcessTime) -> Snapshot:
    return Snapshot(when, {int(key[1:]): one for key, one in used.items()}, complete)


def process(
    own: float, *, children: float = 0.0, parent: int = 1, started: float = 5.0
) -> ProcessTime:
    return ProcessTime("make", parent, started, own, children)


def test_ended_process_is_charged_once_to_its_parent() -> None:
    begin = look(100.0, p7=process(1.0), p8=process(30.0, parent=7))
    end = look(102.0, p7=process(1.2, children=31.0), p9=process(0.5, started=101.0))
    found = other_processes(begin, end)
    assert [(one.pid, round(one.cpus, 6)) for one in found] == [(7, 0.6), (9, 0.25)]


def test_earlier_time_of_a_family_is_not_counted() -> None:
    begin = look(
        100.0,
        p7=process(1.0),
        p8=process(0.0, parent=7),
        p9=process(90.0, parent=8),
    )
    end = look(102.0, p7=process(1.0, children=91.0))
    (found,) = other_processes(begin, end)
    assert (found.pid, round(found.cpus, 6)) == (7, 0.5)
    cut = replace(begin, processes={7: begin.processes[7]}, complete=False)
    assert other_processes(cut, end) == ()


@pytest.mark.parametrize("adopting", [1, 4], ids=["init", "a subreaper"])
def test_earlier_time_of_orphans_is_not_counted(adopting: int) -> None:
    """A helper whose parent has ended is waited for by process 1, which was shown with 23.8 of 2 cores."""
    family = {7: process(1.0), 8: process(0.0, parent=7), 9: process(46.8, parent=8)}
    begin = Snapshot(100.0, {adopting: process(2.0, children=10.0, parent=0), **family})
    now = {adopting: process(2.2, children=57.6, parent=0), 7: family[7]}
    (found,) = other_processes(begin, Snapshot(102.0, now))
    assert (found.pid, round(found.cpus, 6)) == (adopting, 0.5)


def test_earlier_time_of_our_orphans_is_not_counted() -> None:
    begin = look(100.0, p1=process(2.0, parent=0))
    ours = {50: process(3.0, parent=1), 51: process(1.0, parent=50), 52: process(40.0, parent=51)}
    begin = replace(begin, ours=ours)
    end = replace(look(102.0, p1=process(2.2, children=40.0, parent=0)), ours={50: ours[50]})
    (found,) = other_processes(begin, end)
    assert (found.pid, round(found.cpus, 6)) == (1, 0.1)


def test_share_is_of_the_time_between_the_snapshots() -> None:
    """A reading that was held up for ten seconds before it looked at the processes."""
    begin = look(100.0, p7=process(1.0))
    (found,) = other_processes(begin, look(112.0, p7=process(13.0)))
    assert found.cpus == pytest.approx(1.0)


def test_of_who_was_not_seen_at_first_nothing_is_said() -> None:
    end = look(102.0, p9=process(500.0), p7=process(9.0, started=90.0))
    assert other_processes(look(100.0, complete=False, p7=process(2.0)), end) == ()


def test_who_is_named_and_what_cannot_be_seen_is_told() -> None:
    found = [
        OtherProcess(pid, "burn", cpus) for pid, cpus in ((1, 0.9), (2, 0.5), (3, 0.3), (4, 0.2))
    ]
    assert named([*found, OtherProcess(5, "sshd", 0.01)], 1.95) == (
        "burn (pid 1) 0.9, burn (pid 2) 0.5, burn (pid 3) 0.3, 1 more 0.2"
    )
    assert named([], 1.0) == "processes that cannot be seen from here 1.0"  # of another container
    assert named(found[:1], 1.6).endswith("0.9, processes that cannot be seen from here 0.7")


def test_allowed_patterns_match_truncated_names() -> None:
    patterns = ("dcgm-*", "kubelet", "containerd-shim-runc-v2")
    assert is_allowed("dcgm-exporter", patterns)
    assert is_allowed("containerd-shim", patterns)
    assert not is_allowed("kubelet2", patterns)
    assert not is_allowed("burn", patterns)
