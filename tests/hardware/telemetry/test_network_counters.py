"""The network's counters are read from /proc and sysfs, and one that rises is evidence."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import pytest

from pytest_anubis.hardware.telemetry.host_sensors import HOST, HostSource, Source
from pytest_anubis.hardware.telemetry.network_counters import NetworkSource, resent_segments
from pytest_anubis.hardware.telemetry.telemetry_sampler import (
    Telemetry,
    default_sources,
    take_readings,
)
from pytest_anubis.hardware.text_files import Files

SNMP = """\
Ip: Forwarding DefaultTTL InReceives
Ip: 1 64 5000
Tcp: RtoAlgorithm ActiveOpens RetransSegs InErrs
Tcp: 1 12 345 0
Udp: InDatagrams NoPorts
Udp: 7 0
"""
PORT = "/sys/class/infiniband/mlx5_0/ports/1"
NODE = {
    "/proc/self/net/snmp": SNMP,
    "/sys/class/net/eth0/device/vendor": "0x15b3\n",
    "/sys/class/net/eth0/carrier_changes": "2\n",
    "/sys/class/net/eth0/statistics/rx_errors": "3\n",
    "/sys/class/net/eth0/statistics/tx_errors": "0\n",
    "/sys/class/net/eth0/statistics/rx_missed_errors": "40\n",
    "/sys/class/net/eth0/statistics/tx_dropped": "1\n",
    "/sys/class/net/eth0/statistics/rx_dropped": "77\n",
    "/sys/class/net/docker0/statistics/rx_errors": "9\n",
    f"{PORT}/counters/symbol_error": "6\n",
    f"{PORT}/counters/port_xmit_wait": "123456\n",
    f"{PORT}/hw_counters/out_of_sequence": "8\n",
    f"{PORT}/hw_counters/np_cnp_sent": "what?\n",
    "/sys/class/infiniband/mlx5_0/ports/2/counters/link_downed": "1\n",
}
COUNTED = {
    "eth0 carrier changes": 2,
    "eth0 receive errors": 3,
    "eth0 send errors": 0,
    "eth0 receive discards": 40,
    "eth0 send discards": 1,
    "mlx5_0 port 1 symbol errors": 6,
    "mlx5_0 port 1 packets out of sequence": 8,
    "mlx5_0 port 2 link failures": 1,
    "TCP segments sent again": 345,
}


def lay_out(root: Path, files: Mapping[str, str]) -> Files:
    for name, text in files.items():
        path = root / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return Files(root)


def opened(files: Files) -> NetworkSource:
    source = NetworkSource(files)
    source.open()
    return source


def test_errors_discards_and_congestion_are_counters_of_the_host(tmp_path: Path) -> None:
    source = opened(lay_out(tmp_path, NODE))
    assert source.read(counters=True).counters == {HOST: COUNTED}
    assert source.read([HOST]).counters == {HOST: COUNTED}


def test_nothing_is_read_where_only_cards_are_asked_for(tmp_path: Path) -> None:
    source = opened(lay_out(tmp_path, NODE))
    assert source.read(counters=False).counters == source.read(["GPU 0"]).counters == {}


def test_counter_that_rises_is_evidence_as_those_of_the_host_are(tmp_path: Path) -> None:
    memory = "/sys/devices/system/edac/mc/mc0/ce_count"
    files = lay_out(tmp_path, {**NODE, memory: "7"})
    risen = {f"{PORT}/hw_counters/out_of_sequence": "20\n", memory: "8"}
    risen["/proc/self/net/snmp"] = SNMP.replace(" 345 ", " 357 ")
    sources: list[Source] = [HostSource(files), NetworkSource(files)]
    with Telemetry(sources, log=None) as telemetry, telemetry.around() as around:
        lay_out(tmp_path, risen)
    assert set(around.envelope.evidence) == {
        "host: corrected memory errors +1",
        "host: mlx5_0 port 1 packets out of sequence +12",
        "host: TCP segments sent again +12",
    }
    assert {change.part for change in around.envelope.changes} == {HOST}


def test_port_that_goes_meanwhile_is_left_out(tmp_path: Path) -> None:
    source = opened(lay_out(tmp_path, NODE))
    (tmp_path / f"{PORT}/counters/symbol_error".lstrip("/")).unlink()
    found = source.read(counters=True)
    assert found.counters[HOST].keys() == COUNTED.keys() - {"mlx5_0 port 1 symbol errors"}
    assert found.lost == ()


@pytest.mark.parametrize(
    "text",
    ["", "Tcp: RetransSegs\n", "Tcp: InSegs\nTcp: 5\n", "Tcp: InSegs RetransSegs\nTcp: 5\n"],
)
def test_host_without_the_counter_of_tcp_has_none(tmp_path: Path, text: str) -> None:
    files = lay_out(tmp_path, {"/proc/self/net/snmp": text} if text else {})
    assert math.isnan(resent_segments(files))
    assert opened(files).read(counters=True).counters == {}


def test_every_run_watches_the_network() -> None:
    for sources in (default_sources(), default_sources({"GPU-1"})):
        assert sum(isinstance(one, NetworkSource) for one in sources) == 1
    assert len(take_readings([NetworkSource()], 2, 0.0)) == 2
