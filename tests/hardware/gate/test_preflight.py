"""Test the findings about obstacles to a test of healthy cards; none of them rejects a node."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pytest_anubis.core.inventory import FindingKind, Inventory
from pytest_anubis.hardware.gate.preflight import preflight
from pytest_anubis.hardware.gate.software_environment import (
    SoftwareEnvironment,
    Torch,
    read_software_environment,
    torch_build,
)
from tests.hardware.gate.test_inventory_gate import card
from tests.hardware.make_recorded_8gpu import node

NODE = node()
NODE = replace(
    NODE,
    accelerators=tuple(
        replace(one, memory_free=85_000_000_000, compute_mode="default")
        for one in NODE.accelerators
    ),
)
CUDA = Torch(version="2.13.0+cu126", cuda="12.6")
FINE = SoftwareEnvironment(torch=CUDA, shared_memory=1 << 30)
SLOT = "GPU 3 (0000:5d:00.0)"
AMD = replace(
    NODE,
    accelerators=tuple(
        replace(one, vendor="amd", uuid=f"amd-{one.index}") for one in NODE.accelerators
    ),
    drivers={"amdgpu": "6.12.12"},
)
ROCM = Torch(version="2.13.0+rocm6.4", hip="6.4.43482")


def around(**changes: Any) -> SoftwareEnvironment:
    return replace(FINE, **changes)


def by(**variables: str) -> SoftwareEnvironment:
    return around(visibility=variables)


UUIDS = ",".join(str(one.uuid) for one in NODE.accelerators)

# Node, environment, severity, the sentence, a word of the next step.
OBSTACLES: dict[str, tuple[Inventory, SoftwareEnvironment, str, str, str]] = {
    "CPU build": (
        NODE,
        around(torch=Torch(version="2.13.0+cpu")),
        "INCONCLUSIVE",
        "torch is 2.13.0+cpu, a build without CUDA, expected a build for CUDA",
        "install torch's build for CUDA",
    ),
    "ROCm build": (
        NODE,
        around(torch=ROCM),
        "INCONCLUSIVE",
        "torch is 2.13.0+rocm6.4, a build without CUDA, expected a build for CUDA",
        "install",
    ),
    "CUDA build on AMD": (
        AMD,
        FINE,
        "INCONCLUSIVE",
        "torch is 2.13.0+cu126, a build without ROCm, expected a build for ROCm",
        "install",
    ),
    "old driver": (
        NODE,
        around(torch=Torch(version="2.13.0+cu130", cuda="13.0")),
        "INCONCLUSIVE",
        "driver is 550.54.15 for CUDA 12.4, expected one for CUDA 13, for which torch 2.13.0+cu130 was built",
        "torch's build for CUDA 12",
    ),
    "memory held": (
        card(memory_free=42_000_000_000)(NODE),
        FINE,
        "INCONCLUSIVE",
        f"{SLOT}: free memory is 39.1 GiB, expected at least 90 % of 79.6 GiB",
        "end the programs",
    ),
    "a little memory held": (
        card(memory_free=60_000_000_000)(NODE),
        FINE,
        "NOTE",
        f"{SLOT}: free memory is 55.9 GiB, expected at least 90 % of 79.6 GiB",
        "end the programs",
    ),
    "exclusive, one process": (
        card(compute_mode="exclusive-process")(NODE),
        FINE,
        "INCONCLUSIVE",
        f"{SLOT}: compute mode is exclusive-process, and one process tests all cards, expected default",
        "-n auto",
    ),
    "exclusive, a process for each": (
        card(compute_mode="exclusive-process")(NODE),
        around(processes=9),
        "NOTE",
        f"{SLOT}: compute mode is exclusive-process, one process at a time, expected default",
        "-c DEFAULT",
    ),
    "Docker's /dev/shm": (
        replace(NODE, accelerators=tuple(replace(c, nvlinks_active=None) for c in NODE.accelerators)),
        around(shared_memory=64 << 20),
        "INCONCLUSIVE",
        "shared memory (/dev/shm) is 64 MiB, expected at least 256 MiB for 8 ranks",
        "--shm-size=1g",
    ),
    "Docker's /dev/shm, with NVLink": (
        NODE,
        around(shared_memory=64 << 20),
        "NOTE",
        "shared memory (/dev/shm) is 64 MiB, expected at least 256 MiB for 8 ranks",
        "--shm-size=1g",
    ),
    "slice": (
        NODE,
        by(CUDA_VISIBLE_DEVICES="MIG-5a000000-0000-0000-0000-000000000000"),
        "INCONCLUSIVE",
        "CUDA_VISIBLE_DEVICES is a slice of a card (MIG), expected whole cards",
        "nvidia-smi -mig 0",
    ),
    "twice": (
        NODE,
        by(CUDA_VISIBLE_DEVICES="1,1"),
        "INCONCLUSIVE",
        "CUDA_VISIBLE_DEVICES is naming a card twice, and then none is shown, expected each card once",
        "name each card once",
    ),
    "no such number": (
        NODE,
        by(CUDA_VISIBLE_DEVICES="0,1,8,2"),
        "INCONCLUSIVE",
        "entry 3 of CUDA_VISIBLE_DEVICES is none of them (8): it and what follows are hidden, "
        "expected one of the node's 8 cards",
        "nvidia-smi -L",
    ),
    "no such card": (
        NODE,
        by(CUDA_VISIBLE_DEVICES="GPU-ffffffff"),
        "INCONCLUSIVE",
        "entry 1 of CUDA_VISIBLE_DEVICES is none of them: it and what follows are hidden, "
        "expected one of the node's 8 cards",
        "unset it",
    ),
    "no such number on AMD": (
        AMD,
        around(torch=ROCM, visibility={"ROCR_VISIBLE_DEVICES": "0,9"}),
        "INCONCLUSIVE",
        "entry 2 of ROCR_VISIBLE_DEVICES is none of them (9): it and what follows are hidden, "
        "expected one of the node's 8 cards",
        "amd-smi list",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", list(OBSTACLES))
def test_obstacle_is_named_with_what_to_mend(name: str) -> None:
    inventory, environment, severity, text, action = OBSTACLES[name]
    (finding,) = preflight(inventory, environment)
    assert (finding.severity, finding.text) == (severity, text)
    assert (finding.kind is FindingKind.VISIBILITY) == ("_VISIBLE_DEVICES is" in text)
    assert action in finding.action
    assert finding.text.isprintable()


@pytest.mark.parametrize(
    ("inventory", "environment"),
    [
        (NODE, FINE),
        (AMD, around(torch=ROCM)),
        (NODE, around(torch=None, shared_memory=None)),
        (NODE, around(torch=Torch(version="2.7.0", cuda="12.8"))),  # a newer minor version
        (NODE, by(CUDA_VISIBLE_DEVICES="3,1")),
        (NODE, by(CUDA_VISIBLE_DEVICES=UUIDS)),
        (NODE, by(HIP_VISIBLE_DEVICES="17", ROCR_VISIBLE_DEVICES="GPU-1")),  # not these cards'
        (AMD, around(torch=ROCM, visibility={"HIP_VISIBLE_DEVICES": "GPU-5aff74a1"})),
        (replace(NODE, accelerators=()), around(torch=Torch(version="2.13.0+cpu"))),
        (replace(NODE, accelerators=NODE.accelerators[:1]), around(shared_memory=64 << 20)),
    ],
    ids=["fine", "AMD", "unknown", "minor", "numbers", "UUIDs", "others", "AMD id", "CPU", "one"],
)
def test_fine_environments_have_no_findings(
    inventory: Inventory, environment: SoftwareEnvironment
) -> None:
    assert preflight(inventory, environment) == []


def test_cards_hidden_on_purpose_are_no_finding() -> None:
    busy = card(memory_free=0, compute_mode="exclusive-process")(NODE)
    assert preflight(busy, FINE, {0, 1, 2}) == []
    assert len(preflight(busy, FINE, {3, 4})) == 2
    cpu = around(torch=Torch(version="2.13.0+cpu"), visibility={"CUDA_VISIBLE_DEVICES": "None"})
    assert preflight(NODE, cpu, set()) == []
    (finding,) = preflight(NODE, by(CUDA_VISIBLE_DEVICES="0"), set())
    assert finding.text == "CUDA_VISIBLE_DEVICES is hiding all cards, expected cards that are shown"


def test_single_card_in_exclusive_mode_is_a_note() -> None:
    alone = card(compute_mode="exclusive-process")(NODE)
    (finding,) = preflight(alone, FINE, {3})
    assert finding.severity == "NOTE"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "from typing import Optional\n__version__ = '2.13.0+cpu'\ncuda: Optional[str] = None\n"
            "hip: Optional[str] = None\n",
            Torch(version="2.13.0+cpu"),
        ),
        (
            "__version__ = '2.7.1+cu126'\ndebug = False\ncuda: Optional[str] = '12.6'\nhip = None\n",
            Torch(version="2.7.1+cu126", cuda="12.6"),
        ),
        (
            '__version__ = "2.6.0+rocm6.4"\ncuda = None\nhip: Optional[str] = "6.4.43482"\n',
            Torch(version="2.6.0+rocm6.4", hip="6.4.43482"),
        ),
        ("raise SystemExit\n", None),
        ("", None),
    ],
)
def test_a_build_of_torch_is_read_as_text(text: str, expected: Torch | None) -> None:
    assert torch_build(text) == expected


def test_this_machines_software_environment() -> None:
    found = read_software_environment({"CUDA_VISIBLE_DEVICES": "3", "HOME": "/"}, processes=2)
    assert (found.visibility, found.processes) == ({"CUDA_VISIBLE_DEVICES": "3"}, 2)
    assert found.torch is not None
    assert found.torch.version.startswith("2.")
    assert found.shared_memory is None or found.shared_memory > 0
