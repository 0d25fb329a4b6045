"""The receiving port that loses segments of its senders is named; a sender or a lost segment is not."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from pytest_anubis.fleet.links.retransmissions import ResendingPort, resending_ports

NAMES = [f"n{number}" for number in range(6)]


def quiet(repeats: int = 3, count: int = 6) -> npt.NDArray[np.float64]:
    table = np.zeros((repeats, count, count))
    table[:, np.arange(count), np.arange(count)] = np.nan
    return table


def test_port_that_loses_segments_of_most_senders_is_named() -> None:
    table = quiet()
    table[:, [0, 1, 3, 4], 2] = 5
    table[0, 5, 2] = 9  # once is not most of the repeats
    (port,) = resending_ports(table.tolist())
    assert port == ResendingPort(node=2, ways=4, measured=5, segments=69)
    assert port.text(NAMES) == ("receiving of n2: TCP sent 69 segments again on 4 of 5 ways to it")


def test_two_ports_are_named_the_worse_one_first() -> None:
    table = quiet()
    table[:, [0, 2, 3, 4, 5], 1] = 1
    table[:, [0, 1, 2, 3, 5], 4] = 7
    assert [port.node for port in resending_ports(table.tolist())] == [4, 1]


@pytest.mark.parametrize("seed", range(20))
def test_segments_lost_now_and_then_name_no_port(seed: int) -> None:
    table = quiet(repeats=5)
    table += np.random.default_rng(seed).random(table.shape) < 0.1
    assert resending_ports(table.tolist()) == ()


def test_sender_that_loses_segments_to_all_names_no_port() -> None:
    table = quiet()
    table[:, 3, [0, 1, 2, 4, 5]] = 40
    assert resending_ports(table.tolist()) == ()


def test_where_nothing_was_counted_nothing_is_named() -> None:
    assert resending_ports(()) == ()
    assert resending_ports(np.full((3, 6, 6), np.nan).tolist()) == ()
    # Of one pair the sender may be the cause as well.
    table = quiet(count=2)
    table[:, 0, 1] = 40
    assert resending_ports(table.tolist()) == ()
    # A quick scan: one way to each of the new nodes, two to the good ones.
    table = np.full((3, 6, 6), np.nan)
    table[:, 0, [2, 3]] = table[:, [2, 3], 0] = 40
    assert [port.node for port in resending_ports(table.tolist())] == [0]


def test_several_senders_that_lose_segments_name_no_receiver() -> None:
    table = quiet()
    table[:, [0, 1, 2, 3]] = 40  # four of each port's five senders
    table[:, range(6), range(6)] = np.nan
    assert resending_ports(table.tolist()) == ()
