"""A link of a known rate: it holds its rate each way, and nothing of it is left."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_anubis.benchmarking import shaped_link
from pytest_anubis.benchmarking.shaped_link import NotPossible, ShapedLink, sweep

SEND = """
import socket, sys, time
server = socket.create_server((sys.argv[1], 7070))
print("ready", flush=True)
peer = server.accept()[0]
peer.sendall(bytes(int(sys.argv[2])))
"""
TAKE = """
import socket, sys, time
with socket.create_connection((sys.argv[1], 7070)) as end:
    begin, count = None, 0
    while block := end.recv(1 << 16):
        begin = begin or time.perf_counter()
        count += len(block)
    print(count / (time.perf_counter() - begin))
"""


@pytest.fixture
def link() -> Iterator[ShapedLink]:
    try:
        made = ShapedLink(20e6, back=5e6)
    except NotPossible as why:
        if not re.search("need root|not found|not permitted|denied", str(why)):
            raise
        pytest.skip(str(why))
    with made:
        yield made


def left_behind() -> set[str]:
    return {place.name for place in Path("/run/netns").iterdir()}


def carried(link: ShapedLink, sender: int, size: int) -> float:
    """Return the bytes a second that arrive from one end at the other."""
    address = link.addresses[sender]
    send = [sys.executable, "-c", SEND, address, str(size)]
    with subprocess.Popen(link.command(sender, send), stdout=subprocess.PIPE, text=True) as sending:
        assert sending.stdout is not None
        assert sending.stdout.readline() == "ready\n"
        take = link.command(1 - sender, [sys.executable, "-c", TAKE, address])
        done = subprocess.run(take, capture_output=True, text=True, check=True, timeout=60)
    return float(done.stdout)


def test_link_has_its_rate_each_way_and_leaves_nothing(link: ShapedLink) -> None:
    with link:
        assert carried(link, 0, 6_000_000) < 21e6
        assert carried(link, 1, 2_000_000) < 5.3e6
        link.shape(None)
        assert carried(link, 1, 20_000_000) > 21e6
    assert not left_behind() & set(link.names)


def test_what_a_killed_process_left_is_swept(link: ShapedLink) -> None:
    with link:
        child = subprocess.Popen(["true"])
        child.wait()
        stale = f"{shaped_link.PREFIX}{child.pid}-1-a"
        subprocess.run(["ip", "netns", "add", stale], check=True)
        sweep()
        left = left_behind()
        assert stale not in left
        assert set(link.names) <= set(left)


def test_why_it_is_not_possible_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(NotPossible, match="need root"):
        ShapedLink(1e6)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(NotPossible, match="ip not found: apt install iproute2"):
        ShapedLink(1e6)
