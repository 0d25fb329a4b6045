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
    assert not left_behind() & set(link.spaces)


def test_what_a_killed_process_left_is_swept(link: ShapedLink) -> None:
    with link:
        child = subprocess.Popen(["true"])
        child.wait()
        here, me = shaped_link._namespace(), os.getpid()
        begun = int(shaped_link._started(me))
        gone = f"{shaped_link.PREFIX}{here}-{child.pid}-{begun}-1-a"
        used_again = f"{shaped_link.PREFIX}{here}-{me}-{begun - 1}-1-a"
        elsewhere = f"{shaped_link.PREFIX}{int(here) + 1}-{child.pid}-{begun}-1-a"
        for name in (gone, used_again, elsewhere):
            subprocess.run(["ip", "netns", "add", name], check=True)
        try:
            sweep()
            left = left_behind()
        finally:
            subprocess.run(["ip", "netns", "del", elsewhere], check=True)
        assert not {gone, used_again} & left
        assert {elsewhere, *link.spaces} <= left


def test_hanging_ip_leaves_no_end_and_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []

    def hang(argv: list[str], **_: object) -> None:
        asked.append(argv)
        raise subprocess.TimeoutExpired(argv, 20.0)

    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(shaped_link, "trusted", lambda tool: f"/sbin/{tool}")
    monkeypatch.setattr(subprocess, "run", hang)
    with pytest.raises(NotPossible, match=r"^/sbin/ip netns add anubis-\S+-a: did not end within"):
        ShapedLink(1e6)
    assert [argv[2:] for argv in asked[-2:]] == [["del", asked[0][3][:-1] + end] for end in "ba"]


def test_root_runs_no_program_writable_by_others(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tool = tmp_path / "ip"
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o777)
    monkeypatch.setenv("PATH", str(tmp_path))
    if os.geteuid() != 0:
        pytest.skip("only root is asked so far")
    with pytest.raises(NotPossible, match="ip is not run: everybody can write"):
        ShapedLink(1e6)


def test_why_it_is_not_possible_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(NotPossible, match="need root"):
        ShapedLink(1e6)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(NotPossible, match="ip not found: apt install iproute2"):
        ShapedLink(1e6)
