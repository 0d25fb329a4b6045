"""Test the hosts found from the variables of torchrun and Slurm."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pytest_anubis.benchmarking.hosts import launched_hosts as launching
from pytest_anubis.benchmarking.hosts.launched_hosts import (
    HostsError,
    interface_to,
    launched_hosts,
)

TORCHRUN = {"RANK": "2", "WORLD_SIZE": "4", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "4711"}
SLURM = {
    "SLURM_STEP_NUM_TASKS": "9",
    "SLURM_STEP_NUM_NODES": "9",
    "SLURM_PROCID": "0",
    "SLURM_STEP_NODELIST": "localhost,rack[1-2]n[03,05-09]",
}


def test_torchrun_tells_all() -> None:
    found = launched_hosts(TORCHRUN, "n2")
    assert found is not None
    assert len(found) == 4
    (place,) = found.places()
    assert (place.number, place.name) == (2, "n2")
    assert place.environment == {**TORCHRUN, "GLOO_SOCKET_IFNAME": "lo"}
    own = launched_hosts({**TORCHRUN, "GLOO_SOCKET_IFNAME": "ib0"}, "n2")
    assert own is not None
    assert own.interface == "ib0"  # of which the rate is looked up


def slurm_says(folder: Path, patch: pytest.MonkeyPatch, address: str) -> None:
    """Put a scontrol on PATH that knows the address of each node."""
    program = folder / "scontrol"
    program.write_text(
        f"#!/bin/sh\n[ $1$2$3 = --onelinershownode ] && echo NodeName=$4 {address}\n"
    )
    program.chmod(0o755)
    patch.setenv("PATH", f"{folder}{os.pathsep}/bin")


def test_step_of_slurm_has_its_first_node_as_master(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = launched_hosts(SLURM, "n0")
    assert found is not None
    assert (found.count, found.number, found.master) == (9, 0, "localhost")
    # A name that only Slurm knows.
    nodes = {"SLURM_STEP_NODELIST": "rack[1-2]n[03,05-09].invalid,x", "GLOO_SOCKET_IFNAME": "ib0"}
    slurm_says(tmp_path, monkeypatch, "NodeAddr=127.0.0.7 NodeHostName=h")
    other = launched_hosts({**SLURM, **nodes}, "n0")
    assert other is not None
    assert other.master == "127.0.0.7"
    given = launched_hosts({**SLURM, **nodes, "MASTER_ADDR": "127.0.0.8"}, "n0")
    assert given is not None
    assert given.master == "127.0.0.8"


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("NodeAddr=n03.invalid", "to Slurm it is n03.invalid"),
        ("State=IDLE", "no address of node rack1n03.invalid"),
        ("; exit 1", "scontrol ended with 1"),
    ],
)
def test_unknown_first_node_is_a_one_line_error(
    address: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slurm_says(tmp_path, monkeypatch, address)
    with pytest.raises(HostsError, match=says) as found:
        launched_hosts({**SLURM, "SLURM_STEP_NODELIST": "rack1n[03,05].invalid"}, "n0")
    assert "set MASTER_ADDR" in str(found.value)
    assert "\n" not in str(found.value)


def test_one_host_has_no_pairs() -> None:
    assert launched_hosts({}, "n") is None
    assert launched_hosts({"WORLD_SIZE": "1"}, "n") is None
    assert launched_hosts({"SLURM_NTASKS": "8", "SLURM_PROCID": "0"}, "n") is None  # no step


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"RANK": "4"}, "does not say which this is"),
        ({"RANK": ""}, "does not say which this is"),
        ({"MASTER_ADDR": ""}, "MASTER_ADDR"),
        ({"WORLD_SIZE": "many"}, "WORLD_SIZE is no number: 'many'"),
        ({"LOCAL_WORLD_SIZE": "8"}, "--nproc-per-node 1"),
    ],
)
def test_variables_that_make_no_sense_are_one_line(changed: dict[str, str], says: str) -> None:
    with pytest.raises(HostsError, match=says):
        launched_hosts({**TORCHRUN, **changed}, "n")


def test_several_processes_of_slurm_on_a_host() -> None:
    with pytest.raises(HostsError, match="ntasks-per-node 1"):
        launched_hosts({**SLURM, "SLURM_STEP_NUM_NODES": "3"}, "n")


def test_master_with_loopback_name_uses_real_route(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = {"192.0.2.1": "eth0"}
    monkeypatch.setattr(launching, "_interface_to", lambda to, _: asked.get(to, "lo"))
    monkeypatch.setattr(launching, "_resolved", lambda name: "127.0.1.1")  # /etc/hosts of Debian
    assert interface_to("n03", 1) == "eth0"
    assert interface_to("127.0.1.1", 1) == interface_to("localhost", 1) == "lo"
    asked["192.0.2.1"] = ""  # no way to anywhere
    assert interface_to("n03", 1) == "lo"


def test_host_that_nobody_knows_has_no_interface() -> None:
    assert interface_to("no.such.host.invalid", 1) == ""
