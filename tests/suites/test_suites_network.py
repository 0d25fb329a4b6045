"""Connections send what they say, show a slow link, and notice a changed byte, with TCP and without."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Callable

import pytest

from pytest_anubis.benchmarking.children import ChildError
from pytest_anubis.benchmarking.shaped_link import NotPossible, ShapedLink, run, shaper, trusted
from suites.network import test_loopback
from suites.network.loopback import Loopback
from suites.network.ring import SLOT, SLOTS, Ring
from tests.suites.relay import Relay
from tests.suites.test_suites_on_a_card import Node, Taken

pytestmark = pytest.mark.usefixtures("quick_processes")
Costs = Callable[..., list[float]]
MIB = 1 << 20
BUCKET = 80 << 10
"""Bytes of a shaper's bucket on the loopback interface: more than its longest packet."""


WAYS = ("tcp", "socket", "ring")


@pytest.mark.alone
@pytest.mark.parametrize("way", WAYS)
def test_more_bytes_and_messages_cost_more(costs: Costs, way: str) -> None:
    with Loopback(way) as link:
        link.rate(MIB)
        least = costs(lambda: link.rate(8 * MIB), lambda: link.rate(32 * MIB))
        assert least[1] > 2 * least[0]
        least = costs(lambda: link.round_trip(200), lambda: link.round_trip(800))
        assert least[1] > 2 * least[0]
        assert link.intact(3 * MIB + 17)


@pytest.mark.alone
def test_rate_is_bytes_over_seconds(costs: Costs) -> None:
    seconds: list[float] = []
    with Loopback() as link:
        link.rate(MIB)
        [outside] = costs(lambda: seconds.append(16 * MIB / link.rate(16 * MIB)))
    # The clock runs in the sender: it cannot show more than what the request took as a whole.
    assert 0 < min(seconds) <= outside


@pytest.mark.alone
def test_throttled_link_shows() -> None:
    with Relay() as relay, Loopback(through=relay.before) as link:
        link.rate(MIB)
        free = max(link.rate(MIB) for _ in range(5))
        quick = min(link.round_trip(10) for _ in range(5))
        relay.delay = 0.02
        assert link.rate(MIB) < free / 2
        assert link.round_trip(10) > 2 * quick


def test_changed_bytes_are_noticed() -> None:
    with Relay() as relay, Loopback(through=relay.before) as link:
        assert link.intact(MIB)
        assert link.round_trip(10) > 0
        relay.flip = True
        assert not link.intact(MIB)
        with pytest.raises(RuntimeError, match="10 of 10 messages came back changed"):
            link.round_trip(10)


@pytest.mark.alone
def test_slow_interface_shows_in_tcp_alone() -> None:
    rate = 25e6
    try:
        namespace = ShapedLink(rate)
    except NotPossible as why:
        pytest.skip(str(why))
    with namespace:
        inside = namespace.command(0)
        limited = [
            trusted("tc"),
            "qdisc",
            "replace",
            "dev",
            "lo",
            "root",
            *shaper(rate, BUCKET).split(),
        ]
        run(namespace.command(0, limited))
        reached = {}
        for way in WAYS:
            with Loopback(way, within=inside) as link:
                link.rate(MIB)
                reached[way] = max(link.rate(8 * MIB) for _ in range(2))
    assert 0.8 * rate < reached["tcp"] < 1.1 * rate  # .85 to 1.0 on a quiet machine
    assert reached["socket"] > 4 * rate
    assert reached["ring"] > 4 * rate


def test_benchmark_records_rates_and_fails_for_changed_bytes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    taken = Taken()
    node = Node()
    monkeypatch.setattr(Node, "pick", lambda *_, **__: 1 << 10)
    monkeypatch.setattr(test_loopback, "MIB", 1 << 10)
    test_loopback.test_without_tcp(taken, node)
    assert list(taken.asked) == ["socket_rate", "socket_round_trip", "ring_rate", "ring_round_trip"]
    monkeypatch.setattr(Loopback, "intact", lambda link, _: link.way != "ring")
    with pytest.raises(AssertionError, match="by ring other bytes arrived"):
        test_loopback.test_without_tcp(taken, node)


def test_ring_passes_on_more_than_it_holds_and_a_flipped_bit() -> None:
    pairs = [socket.socketpair() for _ in range(2)]
    sent = bytes(range(256)) * (SLOT * (SLOTS + 2) // 256)
    with (
        Ring.offered((pairs[0][0], pairs[1][0])) as one,
        Ring.taken((pairs[1][1], pairs[0][1])) as other,
    ):
        writer = threading.Thread(target=one.sendall, args=(sent,))
        writer.start()
        arrived = memoryview(bytearray(len(sent)))
        assert other.recv_into(arrived, 0, socket.MSG_WAITALL) == len(sent)
        writer.join()
        assert arrived == sent
        other.sendall(b"back")
        assert one.recv_into(memoryview(bytearray(9))) == 4
        one.sendall(b"abc")
        other._back._memory[(other._back._slot % SLOTS) * SLOT] ^= 1
        assert other.recv_into(memoryview(arrived)) == 3
        assert bytes(arrived[:3]) == b"`bc"


def test_processes_end_with_the_link_whatever_happens() -> None:
    pids: list[int] = []

    def interrupted() -> None:
        with Loopback() as link:
            pids.extend(child.pid for child in link.processes)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert len(pids) == 2
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_a_dead_end_is_an_error_and_not_a_wait() -> None:
    with Loopback() as link:
        receiver, _sender = link.processes
        os.kill(receiver.pid, signal.SIGKILL)
        with pytest.raises(ChildError, match="tcp send process"):
            link.rate(MIB)
