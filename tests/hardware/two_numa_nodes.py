"""A faked topology: two NUMA nodes, 16 physical cores of two threads each, four cards on either node."""

from __future__ import annotations

from pathlib import Path

from pytest_anubis.hardware.text_files import Files
from tests.hardware.fake_files import lay_out

CARDS = tuple(f"0000:{number:02x}:00.0" for number in range(1, 9))
"""PCI addresses of ``cuda:0`` to ``cuda:7``: the first four are on NUMA node 0."""

CPUS = tuple(range(32))


def two_numa_nodes(root: Path, homes: dict[str, str] | None = None) -> Files:
    """Lay the topology out below a folder and return a reader of it.

    Args:
        root: An empty folder.
        homes: PCI address -> what its ``numa_node`` says, in place of the usual.
    """
    files = {
        "sys/devices/system/node/node0/cpulist": "0-7,16-23\n",
        "sys/devices/system/node/node1/cpulist": "8-15,24-31\n",
    }
    for cpu in CPUS:
        core = cpu % 16
        place = f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"
        files[place] = f"{core},{core + 16}\n"
    for number, address in enumerate(CARDS):
        files[f"sys/bus/pci/devices/{address}/numa_node"] = f"{number // 4}\n"
    files |= {f"sys/bus/pci/devices/{one}/numa_node": text for one, text in (homes or {}).items()}
    return Files(lay_out(root, files))
