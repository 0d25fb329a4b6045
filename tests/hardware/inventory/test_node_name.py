"""A node is called what was set, else what Slurm or Kubernetes call it, else its host name."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from pytest_anubis.hardware.inventory.inventory_reading import (
    inventory_to_plain,
    read_inventory,
    redact,
)
from pytest_anubis.hardware.inventory.node_name import NodeNameError, machine_id, node_name
from pytest_anubis.hardware.text_files import Files

POD = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "NODE_NAME": "k8s-7"}


def test_the_first_that_is_known_names_the_node() -> None:
    slurm = {**POD, "SLURMD_NODENAME": "n17"}
    assert node_name({**slurm, "PYTEST_ANUBIS_NODE": "rack3-n17"}, "given") == "given"
    assert node_name({**slurm, "PYTEST_ANUBIS_NODE": "rack3-n17"}) == "rack3-n17"
    assert node_name(slurm) == "n17"
    assert node_name(POD) == "k8s-7"
    assert node_name({}) == platform.node()


def test_node_name_variable_is_ignored_outside_a_pod() -> None:
    assert node_name({"NODE_NAME": "built-in"}) == platform.node()  # as Jenkins sets it


@pytest.mark.parametrize("name", ["a b", "-n", "../x", "n\n", "x" * 254, ".hidden"])
def test_what_is_no_name_is_refused_with_its_place(name: str) -> None:
    with pytest.raises(NodeNameError, match=r"^SLURMD_NODENAME is ") as caught:
        node_name({"SLURMD_NODENAME": name})
    assert "\n" not in str(caught.value)


def test_machine_id_is_a_digest_and_is_redacted(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    file = tmp_path / "etc" / "machine-id"
    file.write_text("0123456789abcdef0123456789abcdef\n")
    inventory = read_inventory(tmp_path)
    assert inventory.machine is not None
    assert "0123456789abcdef" not in str(inventory_to_plain(inventory))
    assert redact(inventory).machine == "redacted"
    for nothing in ("", "uninitialized\n"):
        file.write_text(nothing)
        assert machine_id(Files(tmp_path)) is None


ROOT_DISK = "27 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw\n"
CONTAINER = "27 1 0:50 / / rw,relatime - overlay overlay rw,lowerdir=/l\n"
HOSTS_FILE = (
    "90 27 254:1 /etc/machine-id /etc/machine-id ro,relatime - xfs /dev/vda1 rw\n"
    "91 27 254:1 /a /etc/machine-id\\040old ro - tmpfs t rw\n"
)


@pytest.mark.parametrize(
    ("mounts", "lasting"),
    [
        (ROOT_DISK, True),
        ("", True),  # unknown
        (CONTAINER, False),  # the image's, or made at each start
        (CONTAINER + HOSTS_FILE, True),  # the host's, mounted
        (
            ROOT_DISK + "80 27 0:22 /machine-id /etc/machine-id ro - tmpfs tmpfs rw\n",
            False,
        ),  # of systemd
        (ROOT_DISK + "80 27 0:9 / /etc rw - overlay none rw\nshort - \n", False),
        (ROOT_DISK + "80 27 0:9 / /et rw - overlay none rw\n", True),
    ],
)
def test_transient_machine_id_is_ignored(mounts: str, lasting: bool, tmp_path: Path) -> None:
    for name, text in (("etc/machine-id", "0123456789abcdef" * 2), ("proc/self/mountinfo", mounts)):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(text)
    assert (machine_id(Files(tmp_path)) is not None) is lasting
    assert (read_inventory(tmp_path).machine is not None) is lasting
