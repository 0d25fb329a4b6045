"""perftest: which ports it is for, how its ends find each other, and how they reach a card."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from pytest_anubis.benchmarking.tools import ToolFailed, ToolRefused
from suites.tools import nics, test_perftest


def test_ports_whose_link_is_up(tmp_path: Path) -> None:
    states = {
        "mlx5_1/ports/1": "4: ACTIVE",
        "mlx5_0/ports/2": "4: ACTIVE",
        "mlx5_0/ports/1": "1: DOWN",
    }
    for name, state in states.items():
        folder = tmp_path / "sys/class/infiniband" / name
        folder.mkdir(parents=True)
        (folder / "state").write_text(state + "\n")
    assert list(map(str, nics.active_ports(tmp_path))) == ["mlx5_0_2", "mlx5_1_1"]
    assert nics.adapters(tmp_path) == ["mlx5_0", "mlx5_1"]
    assert not nics.active_ports(tmp_path / "none")
    assert not nics.adapters(tmp_path / "none")


def adapter(root: Path, name: str, node_type: str, link: str, interface: str = "") -> nics.Port:
    """Lay an adapter with one port whose link is up, as the kernel shows it."""
    port = root / "sys/class/infiniband" / name / "ports/1"
    (port / "gid_attrs/ndevs").mkdir(parents=True)
    (port / "state").write_text("4: ACTIVE\n")
    (port / "link_layer").write_text(link + "\n")
    (port.parents[1] / "node_type").write_text(node_type + "\n")
    if interface:
        (port / "gid_attrs/ndevs/0").write_text(interface + "\n")
    return nics.Port(name, 1)


def test_port_without_reliable_connections_is_told_and_not_failed(tmp_path: Path) -> None:
    ours = adapter(tmp_path, "mlx5_0", "1: CA", "InfiniBand")
    roce = adapter(tmp_path, "mlx5_1", "1: CA", "Ethernet", "lo")
    efa = adapter(tmp_path, "rdmap0s6", "7: unspecified", "Unknown")
    iwarp = adapter(tmp_path, "irdma0", "4: RNIC", "Ethernet", "lo")
    silent = adapter(tmp_path, "irdma1", "4: RNIC", "Ethernet", "no-such-interface")
    nameless = adapter(tmp_path, "irdma2", "4: RNIC", "Ethernet")
    assert nics.transport(iwarp, tmp_path) == nics.IWARP
    assert nics.own_address(iwarp, tmp_path) == "127.0.0.1"
    assert not any(nics.why_not(port, tmp_path) for port in (ours, roce, iwarp))
    assert "rdmap0s6_1 has no reliable connections" in nics.why_not(efa, tmp_path)
    for port in (silent, nameless):
        assert f"{port} is iWARP" in nics.why_not(port, tmp_path)
    assert not nics.why_not(nics.Port("old", 1), tmp_path)  # whose kernel says neither: it is tried


def test_of_ports_without_reliable_connections_only_the_number_counts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    efa = adapter(tmp_path, "rdmap0s6", "7: unspecified", "Unknown")
    monkeypatch.setattr(test_perftest, "adapters", lambda: nics.adapters(tmp_path))
    monkeypatch.setattr(test_perftest, "active_ports", lambda: nics.active_ports(tmp_path))
    monkeypatch.setattr(test_perftest, "why_not", lambda port: nics.why_not(port, tmp_path))
    kept: list[float] = []

    class Metrics:
        def record(self, name: str, value: float, *, unit: str, better: str) -> None:
            kept.append(value)

    fixture: Any = getattr(test_perftest.ports, "__wrapped__")  # noqa: B009 - pytest's own name
    with pytest.raises(pytest.skip.Exception, match=f"^{efa} has no reliable connections"):
        fixture(Metrics())
    other = adapter(tmp_path, "mlx5_0", "1: CA", "InfiniBand")
    assert fixture(Metrics()) == [other]
    assert f"not measured: {efa} has no" in capsys.readouterr().out
    assert kept == [1.0, 2.0]


@pytest.mark.parametrize(
    ("told", "amd", "module", "expected"),
    [
        ("--use_cuda=<id> --use_cuda_dmabuf", False, "", ["--use_cuda=0", "--use_cuda_dmabuf"]),
        ("--use_cuda=<id> --use_cuda_dmabuf", False, "sys/module/nvidia_peermem", ["--use_cuda=0"]),
        ("--use_cuda=<id>", False, "sys/module/nv_peer_mem", ["--use_cuda=0"]),
        ("--use_cuda=<id>", False, "", "nvidia-peermem is not loaded"),
        ("--use_rocm=<id>", False, "", "built without --use_cuda"),
        ("--use_rocm=<id>", True, "sys/kernel/mm/memory_peers/amdkfd", ["--use_rocm=0"]),
        ("--use_rocm=<id> --use_rocm_dmabuf", True, "", ["--use_rocm=0", "--use_rocm_dmabuf"]),
        ("--use_cuda=<id>", True, "", "built without --use_rocm"),
        ("--use_rocm=<id>", True, "", "driver without peer memory"),
    ],
)
def test_way_in_which_an_adapter_reaches_a_card(
    tmp_path: Path, told: str, amd: bool, module: str, expected: list[str] | str
) -> None:
    (tmp_path / module).mkdir(parents=True, exist_ok=True)
    options, why = nics.card_options(told, amd=amd, root=tmp_path)
    if isinstance(expected, str):
        assert not options
        assert expected in why
    else:
        assert (options, why) == (expected, "")


@pytest.mark.parametrize(("adapters", "ports"), [(["mlx5_0"], 0), (["mlx5_0"], 2), ([], 0)])
def test_port_that_is_down_is_counted_and_not_skipped(
    monkeypatch: pytest.MonkeyPatch, adapters: list[str], ports: int
) -> None:
    up = [nics.Port("mlx5_0", number) for number in range(1, ports + 1)]
    monkeypatch.setattr(test_perftest, "adapters", lambda: adapters)
    monkeypatch.setattr(test_perftest, "active_ports", lambda: up)
    kept: list[tuple[object, ...]] = []

    class Metrics:
        def record(self, name: str, value: float, *, unit: str, better: str) -> None:
            kept.append((name, value, unit, better))

    fixture: Any = getattr(test_perftest.ports, "__wrapped__")  # noqa: B009 - pytest's own name
    if adapters:
        assert fixture(Metrics()) == up
        assert kept == [("ports_up", float(ports), "count", "equal")]
    else:
        with pytest.raises(pytest.skip.Exception, match="not applicable: no RDMA adapter"):
            fixture(Metrics())


PERFTEST = """#!/usr/bin/env python3
import socket, sys, time
if sys.argv[1:] == ["--help"]:
    sys.exit(print("--bind_source_ip  Source IP of the interface"))
port = int(sys.argv[sys.argv.index("--port") + 1])
bound = "--bind_source_ip" in sys.argv
if sys.argv[-1] in ("localhost", "127.0.0.1") and not bound:
    with socket.create_connection((sys.argv[-1], port)) as end:
        end.recv(1)
    print(open({golden!r}).read())
else:
    with socket.create_server(("127.0.0.1" if bound else "", port)) as server:
        end, _ = server.accept()
        end.close()
    sys.exit({code})
"""


def test_iwarp_is_connected_by_its_own_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = Path(__file__).parents[1] / "tool_outputs/data/ib_write_lat.txt"
    tool = tmp_path / "ib_write_lat"
    text = PERFTEST.format(golden=str(data), code=0)
    # Both ends are to ask for the kernel's way to connect, and to use the address of the port.
    needs = 'assert "--rdma_cm" in sys.argv\nport = int('
    text = text.replace("port = int(", needs, 1).replace("127.0.0.1", "127.0.0.2")
    tool.write_text(text)
    tool.chmod(stat.S_IRWXU)
    monkeypatch.setattr(nics, "transport", lambda port: nics.IWARP)
    monkeypatch.setattr(nics, "own_address", lambda port: "127.0.0.2")
    port = nics.Port("irdma0", 1)
    for waits in (nics.only_here(nics.help_of(str(tool))), []):
        assert nics.both_ends(str(tool), "4.5", port, [], waits).latency == 0.98


def test_two_ends_of_perftest(tmp_path: Path) -> None:
    data = Path(__file__).parents[1] / "tool_outputs/data/ib_write_lat.txt"
    tool = tmp_path / "ib_write_lat"
    port = nics.Port("mlx5_0", 1)
    for code in (0, 3):
        tool.write_text(PERFTEST.format(golden=str(data), code=code))
        tool.chmod(stat.S_IRWXU)
        if code == 0:
            assert nics.both_ends(str(tool), "4.5", port, ["--size", "2"]).latency == 0.98
            waits = nics.only_here(nics.help_of(str(tool)))
            assert waits == ["--bind_source_ip", "127.0.0.1"]
            assert nics.both_ends(str(tool), "4.5", port, [], waits).latency == 0.98
        else:
            with pytest.raises(ToolFailed, match=r"ib_write_lat 4\.5 ended with status 3"):
                nics.both_ends(str(tool), "4.5", port, [])
    tool.write_text(PERFTEST.format(golden=str(data), code=0))
    # The other end ends first: this one still has to free what it holds after it hung up.
    refuses = 'end.close(); time.sleep(0.5); sys.exit(print("Couldn\'t allocate MR") or 1)'
    tool.write_text(tool.read_text().replace("end.close()", refuses))
    tool.write_text(
        tool.read_text().replace("end.recv(1)", "sys.exit(1) if not end.recv(1) else 0")
    )
    with pytest.raises(ToolRefused, match="Couldn't allocate MR"):
        nics.both_ends(str(tool), "4.5", port, [])
    tool.write_text("#!/bin/sh\necho 'Unable to find the Infiniband/RoCE device' >&2; exit 1\n")
    with pytest.raises(ToolFailed, match="Unable to find the Infiniband"):
        nics.both_ends(str(tool), "4.5", port, [])
    assert os.access(tool, os.X_OK)
