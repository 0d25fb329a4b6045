"""All hosts to one: the ports' rate is read back, a slow one and a changed byte show, and it runs."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
import pytest

from pytest_anubis.benchmarking.hosts import pair_group
from pytest_anubis.benchmarking.hosts.pair_group import PairGroup
from pytest_anubis.benchmarking.hosts.simulated_hosts import SimulatedHosts
from pytest_anubis.fleet.links.fan_rates import FanRates, fan_rates
from pytest_anubis.store.journal.journal_reading import read_journal
from tests.benchmarking.hosts.connected_hosts import connected_hosts
from tests.quiet import OPTIONS
from tests.suites.work_probe import doubles

HOSTS, RATE, SIZE = 3, 10e6, 1 << 19

SUITE = """
import pytest

from suites.network.test_fan_in import test_fan_in
from tests.benchmarking.hosts.test_pair_group import HostsOfOneName

@pytest.fixture
def anubis_hosts():
    return HostsOfOneName(3)
"""


@pytest.fixture(scope="module")
def network() -> Iterator[tuple[SimulatedHosts, PairGroup]]:
    """Hosts whose ports have a known rate, and their processes, which all tests share."""
    with connected_hosts(HOSTS, RATE) as found:
        yield found


def fans(group: PairGroup) -> FanRates:
    found = group.measure_fans(size=SIZE, repeats=1)
    return fan_rates(found.rates, found.together)


@pytest.mark.alone
def test_rate_of_the_ports_is_read_back_and_a_slow_one_shows(
    network: tuple[SimulatedHosts, PairGroup],
) -> None:
    hosts, group = network
    hosts.reset()
    assert max(_best(fans(group))) < 1.2 * RATE  # a shaper's bucket is let through at once
    hosts.shape(1, receive=RATE / 4)
    into, out = _best(fans(group), 1)
    assert into < 1.2 * RATE / 4
    assert out > 1.2 * RATE / 4


@pytest.mark.alone
def test_twice_the_bytes_take_about_twice_as_long(
    network: tuple[SimulatedHosts, PairGroup],
) -> None:
    hosts, group = network
    hosts.reset()

    def taken(size: int) -> float:
        begin = time.perf_counter()
        group.measure_fans(size=size, repeats=1)
        return time.perf_counter() - begin

    doubles(lambda times: taken(times * SIZE))


def _best(found: FanRates, host: int = 0) -> tuple[float, float]:
    """Return the best rates of a host: of receiving and sending."""
    return float(np.max(found.receiving[:, host])), float(np.max(found.sending[:, host]))


@pytest.fixture
def whole_run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A folder with the benchmark and hosts that are this machine."""
    monkeypatch.setenv("PYTEST_ADDOPTS", f"{OPTIONS} --anubis-in-process")
    pytester.makeini("[pytest]\n")
    pytester.makepyfile(test_suite=SUITE)
    return pytester


@pytest.mark.usefixtures("quick_processes")
def test_it_runs_whole_and_every_host_has_both_rates(whole_run: pytest.Pytester) -> None:
    whole_run.runpytest_inprocess("--anubis", "--anubis-profile=standard")
    (path,) = whole_run.path.glob(".anubis/runs/*/journal.jsonl")
    record = read_journal(path)
    assert {(one.device, one.metric.name, one.metric.unit) for one in record.measurements} == {
        (f"twin#{host}", name, "GB/s")
        for host in range(3)
        for name in ("fan_in_rate", "fan_out_rate")
    }
    assert all(len(one.values) >= 3 and min(one.values) > 0 for one in record.measurements)


@pytest.mark.usefixtures("quick_processes")
def test_flipped_byte_fails_it(whole_run: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pair_group, "MODULE", "tests.benchmarking.hosts.corrupt_pair_rank")
    suite = (
        SUITE
        + """
from tests.benchmarking.hosts.corrupt_pair_rank import SPOILED

@pytest.mark.anubis(component="network.fan", metrics=["fan_in_rate"])
def test_spoiled(anubis_pairs):
    anubis_pairs.fan_in(size=SPOILED, repeats=1)
"""
    )
    whole_run.makepyfile(test_suite=suite)
    result = whole_run.runpytest_inprocess("--anubis", "-k", "spoiled")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*bytes arrived changed from twin#1 -> twin#0, twin#1 -> twin#2*"])
