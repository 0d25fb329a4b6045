"""Simulated hosts: each port, and each way of a link, has the rate that it was given, and nothing is left."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_anubis.benchmarking.hosts.simulated_hosts import SimulatedHosts, simulated_hosts
from pytest_anubis.benchmarking.shaped_link import NotPossible, sweep
from pytest_anubis.hardware.telemetry.network_counters import resent_segments
from pytest_anubis.hardware.text_files import Files
from tests.benchmarking.test_shaped_link import SEND, TAKE

RATE = 20e6
SIZE = 1_000_000

MAKE_AND_WAIT = """
import sys, time
from pytest_anubis.benchmarking.hosts.simulated_hosts import simulated_hosts
hosts = simulated_hosts(2, rate=1e6)
print(*hosts.command(0), *hosts.command(1), flush=True)
time.sleep(60)
"""


@pytest.fixture
def hosts() -> Iterator[SimulatedHosts]:
    try:
        made = simulated_hosts(3, rate=RATE)
    except NotPossible as why:
        if not re.search("need root|not found|not permitted|denied|unknown", str(why)):
            raise
        pytest.skip(str(why))
    with made:
        yield made


def spaces(hosts: SimulatedHosts) -> set[str]:
    return {hosts.command(host)[3] for host in range(len(hosts))}


def left_behind() -> set[str]:
    return {place.name for place in Path("/run/netns").iterdir()}


def carried(hosts: SimulatedHosts, sender: int, receiver: int) -> float:
    """Return the bytes a second that arrive from one host at another."""
    address = hosts.addresses[sender]
    send = [sys.executable, "-c", SEND, address, str(SIZE)]
    with subprocess.Popen(
        hosts.command(sender, send), stdout=subprocess.PIPE, text=True
    ) as sending:
        assert sending.stdout is not None
        assert sending.stdout.readline() == "ready\n"
        take = hosts.command(receiver, [sys.executable, "-c", TAKE, address])
        done = subprocess.run(take, capture_output=True, text=True, check=True, timeout=60)
    return float(done.stdout)


def test_ports_and_directions_have_their_rates(hosts: SimulatedHosts) -> None:
    # A shaper is never quicker than its rate, but for its bucket; how much slower is the machine's affair.
    most = 1.25
    with hosts:
        hosts.shape(0, send=4e6)
        hosts.shape(1, receive=5e6)
        assert carried(hosts, 0, 2) < 4e6 * most
        assert carried(hosts, 2, 1) < 5e6 * most
        hosts.reset()
        hosts.shape_way(0, 1, 3e6)
        assert carried(hosts, 0, 1) < 3e6 * most
        assert 3e6 * most < carried(hosts, 0, 2) < RATE * most
        assert carried(hosts, 1, 0) > 3e6 * most
        hosts.shape_way(0, 1, None)
        assert carried(hosts, 0, 1) > 3e6 * most
        with pytest.raises(ValueError, match="no way to itself"):
            hosts.shape_way(1, 1, 1e6)
        mine = spaces(hosts)
        assert mine <= left_behind()
    assert not mine & left_behind()


def test_short_queue_drops_what_other_queues_keep(hosts: SimulatedHosts, tmp_path: Path) -> None:
    with hosts:
        hosts.shape(1, receive=5e6, queue=20_000)
        assert resent_in(hosts, 2, 1, tmp_path) > 0
        assert resent_in(hosts, 2, 0, tmp_path) == 0
        hosts.reset()
        assert resent_in(hosts, 2, 1, tmp_path) == 0


def resent_in(hosts: SimulatedHosts, sender: int, receiver: int, root: Path) -> float:
    """Return how many segments a host sends again while it sends to another one."""
    counts = []
    for moment in range(2):
        if moment:
            carried(hosts, sender, receiver)
        read = hosts.command(sender, ["cat", "/proc/self/net/snmp"])
        place = root / "proc/self/net/snmp"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(subprocess.run(read, capture_output=True, check=True).stdout)
        counts.append(resent_segments(Files(root)))
    return counts[1] - counts[0]


def test_what_a_killed_process_left_is_swept(hosts: SimulatedHosts) -> None:
    command = [sys.executable, "-c", MAKE_AND_WAIT]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        words = child.stdout.readline().split()
        child.kill()
    theirs = {words[3], words[3].removesuffix("h0") + "hub", words[7]}
    assert theirs <= left_behind()
    sweep()
    assert not theirs & left_behind()
    assert spaces(hosts) <= left_behind()


def test_why_it_is_not_possible_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(NotPossible, match="need root"):
        simulated_hosts(2)
    with pytest.raises(ValueError, match="1 to 250 can be made"):
        simulated_hosts(251)
