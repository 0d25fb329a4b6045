"""The TCP benchmark sends what it says, shows a slow link, and notices a changed byte."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import pytest

from pytest_anubis.benchmarking.children import ChildError
from suites.network.loopback import Loopback
from tests.suites.relay import Relay

Costs = Callable[..., list[float]]
MIB = 1 << 20


@pytest.mark.alone
def test_more_bytes_and_messages_cost_more(costs: Costs) -> None:
    with Loopback() as link:
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
        free = max(link.rate(4 * MIB) for _ in range(5))
        quick = min(link.round_trip(20) for _ in range(5))
        relay.delay = 0.02
        assert link.rate(4 * MIB) < free / 2
        assert link.round_trip(20) > 2 * quick


def test_changed_bytes_are_noticed() -> None:
    with Relay() as relay, Loopback(through=relay.before) as link:
        assert link.intact(MIB)
        assert link.round_trip(10) > 0
        relay.flip = True
        assert not link.intact(MIB)
        with pytest.raises(RuntimeError, match="10 of 10 messages came back changed"):
            link.round_trip(10)


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
        with pytest.raises(ChildError, match="TCP send process"):
            link.rate(MIB)
