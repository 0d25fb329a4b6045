"""Whose hosts a launcher's variables speak of."""

from __future__ import annotations

import pytest

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
    assert "GLOO_SOCKET_IFNAME" not in own.places()[0].environment  # the user's stays


def test_step_of_slurm_has_its_first_node_as_master() -> None:
    found = launched_hosts(SLURM, "n0")
    assert found is not None
    assert (found.count, found.number, found.master) == (9, 0, "localhost")
    nodes = {"SLURM_STEP_NODELIST": "rack[1-2]n[03,05-09],x", "GLOO_SOCKET_IFNAME": "ib0"}
    other = launched_hosts({**SLURM, **nodes}, "n0")
    assert other is not None
    assert other.master == "rack1n03"


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


def test_host_that_nobody_knows_has_no_interface() -> None:
    assert interface_to("no.such.host.invalid", 1) == ""
