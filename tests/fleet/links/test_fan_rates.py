"""Rates of each host with all others at once: from single ways, how even they are, and who is slow."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from pytest_anubis.fleet.links.attribution import Accusation, Part
from pytest_anubis.fleet.links.fan_rates import FanRates, fan_rates, slowed_by

RATE = 10e9
NAMES = [f"n{number}" for number in range(8)]


def measured(
    seed: int,
    *,
    count: int = 8,
    send: dict[int, float] | None = None,
    receive: dict[int, float] | None = None,
    noise: float = 0.01,
    repeats: int = 3,
) -> FanRates:
    """Return the rates of fans whose blocks share a port evenly.

    Hosts send and receive at a share of the rate; the noise is the mean relative loss of a fan.
    """
    rng = np.random.default_rng(seed)
    out = [RATE * (send or {}).get(host, 1.0) for host in range(count)]
    into = [RATE * (receive or {}).get(host, 1.0) for host in range(count)]
    found = []
    for _ in range(repeats):
        inward, outward = np.full((2, count, count), np.nan)
        for a in range(count):
            for b in range(count):
                if a != b:
                    inward[a, b] = min(out[a], into[b] / (count - 1))
                    outward[a, b] = min(out[a] / (count - 1), into[b])
        inward *= np.exp(-rng.exponential(noise, count))
        outward *= np.exp(-rng.exponential(noise, (count, 1)))
        found += [inward, outward]
    return rates_of(found)


def rates_of(tables: list[npt.NDArray[np.float64]]) -> FanRates:
    """Return the rates of fans, each of which takes as long as its slowest way."""
    others = len(tables[0]) - 1
    slowest = [np.nanmin(table, axis=number % 2) for number, table in enumerate(tables)]
    return fan_rates(
        [table.tolist() for table in tables], [(others * one).tolist() for one in slowest]
    )


def parts(accusations: list[Accusation]) -> list[Part]:
    return [one.part for one in accusations]


def test_fairness_is_one_for_equal_senders_and_a_share_for_one_that_gets_everything() -> None:
    rates = np.full((8, 8), 1e9)
    rates[2:, 1] = 1e3  # only n0 gets through to n1
    rates[2:5, 3] = 0.5e9
    np.fill_diagonal(rates, np.nan)
    fairness = rates_of([rates, rates]).fairness
    assert fairness[0] == pytest.approx(1.0)
    assert fairness[1] == pytest.approx(1 / 7, rel=1e-3)
    # Five senders of n3 at the whole rate, two at half of it: (5 + 2/2)^2 / (7 (5 + 2/4)).
    assert fairness[3] == pytest.approx(36 / (7 * 5.5))


@pytest.mark.parametrize("count", [3, 4, 8, 32])
def test_slow_direction_is_named_whatever_its_loss(count: int) -> None:
    for seed, kept in enumerate((0.7, 0.5, 0.2, 0.03)):
        slow = measured(seed, count=count, receive={1: kept})
        assert parts(slow.guilty()) == [Part("receive", (1,))]
        slow = measured(seed, count=count, send={2: kept})
        assert parts(slow.guilty()) == [Part("send", (2,))]
        assert slow.guilty()[0].text(NAMES).startswith("sending of n2: ")


def test_slow_host_is_named_as_one_part() -> None:
    found = measured(1, send={5: 0.5}, receive={5: 0.6}).guilty()
    assert parts(found) == [Part("node", (5,))]
    assert found[0].losses == pytest.approx((0.5, 0.4), abs=0.03)


@pytest.mark.parametrize(("count", "slow"), [(5, 2), (6, 2), (8, 3), (16, 4)])
def test_several_slow_hosts_do_not_hide_each_other(count: int, slow: int) -> None:
    for seed in range(5):
        kept = dict.fromkeys(range(slow), 0.5)
        found = measured(seed, count=count, send=kept, receive=kept).guilty()
        assert {one.part.nodes[0] for one in found} == set(kept)
        assert not any(rival.nodes[0] in kept for one in found for rival, _ in one.rivals)
        found = measured(seed, count=count, receive=kept).guilty()
        assert set(parts(found)) == {Part("receive", (host,)) for host in kept}


def test_none_is_named_for_noise_or_what_all_have() -> None:
    assert not any(measured(seed, noise=0.02).guilty() for seed in range(200))
    assert not measured(1, send=dict.fromkeys(range(8), 0.4)).guilty()
    assert not measured(1, receive={4: 0.97}, noise=0.001).guilty()


def test_others_wait_only_for_one_that_is_slower_than_its_share() -> None:
    (half,) = measured(1, send={2: 0.5}).guilty()
    assert not slowed_by(half, 8)
    (tenth,) = measured(1, send={2: 0.1}).guilty()
    assert slowed_by(tenth, 8)
    assert not slowed_by(tenth, 32)
    for seed in range(20):
        accused = measured(seed, send={2: 0.1}, receive={2: 0.1}).guilty()
        assert accused
        assert all(slowed_by(one, 8) for one in accused)


def test_dead_sender_accuses_no_receiver() -> None:
    table = np.full((8, 8), RATE / 7)
    table[3] = RATE / 1e6  # every fan into another host waits for n3
    np.fill_diagonal(table, np.nan)
    assert parts(rates_of([table, table]).guilty()) == [Part("send", (3,))]


def test_hosts_with_slower_ports_by_design_are_compared_among_themselves() -> None:
    ports = [25.0] * 5 + [10.0] * 3
    slower = dict.fromkeys((5, 6, 7), 0.4)
    for seed in range(20):
        fans = measured(seed, send=slower, receive=slower)
        assert not fans.guilty(ports)
        fans = measured(seed, send=slower, receive=slower | {6: 0.2})
        assert parts(fans.guilty(ports)) == [Part("receive", (6,))]


def test_port_that_negotiated_down_is_accused() -> None:
    for seed in range(20):
        fans = measured(seed, send={7: 0.4}, receive={7: 0.4})
        accused = {node for part in parts(fans.guilty([25.0] * 7 + [10.0])) for node in part.nodes}
        assert accused == {7}
