"""Reading inventories from made-up machines, and keeping them as plain data."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pytest_anubis.core.inventory import Accelerator, Disk, Inventory, Memory, Nic, System
from pytest_anubis.hardware.cgroup import ControlGroup, Throttling, own_quota, threads_within
from pytest_anubis.hardware.inventory import inventory_reading
from pytest_anubis.hardware.inventory.golden_inventory import golden_inventory
from pytest_anubis.hardware.inventory.hardware_classes import hardware_class, node_facts
from pytest_anubis.hardware.inventory.host_inventory import (
    bus_accelerators,
    edac_counts,
    generation,
    pci_link,
    pci_place,
    read_processor,
)
from pytest_anubis.hardware.inventory.inventory_reading import (
    InventoryError,
    inventory_from_plain,
    inventory_to_plain,
    read_inventory,
    redact,
)
from pytest_anubis.hardware.inventory.nvidia_inventory import NvidiaReading
from pytest_anubis.hardware.inventory.periphery import read_disks, read_nics, smart_health
from pytest_anubis.hardware.telemetry.recorded_node import replay
from pytest_anubis.hardware.text_files import Files
from tests.hardware.fake_files import lay_out
from tests.hardware.mapped_node import mapped
from tests.places import RECORDED

V1 = {
    "/proc/self/cgroup": "4:memory:/box\n2:cpu,cpuacct:/box/inner\n0::/\n",
    "/proc/self/mountinfo": (
        "30 20 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
        "31 20 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
        "32 20 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
        "33 20 0:29 / /tmp rw - tmpfs tmpfs rw\n"
    ),
    "/sys/fs/cgroup/unified/cgroup.procs": "",
    "/sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1",
    "/sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000",
    "/sys/fs/cgroup/cpu/cpu.stat": "nr_periods 0\nnr_throttled 0\nthrottled_time 0\n",
    "/sys/fs/cgroup/cpu/box/cpu.cfs_quota_us": "150000",
    "/sys/fs/cgroup/cpu/box/cpu.cfs_period_us": "100000",
    "/sys/fs/cgroup/cpu/box/cpu.stat": "nr_periods 9\nnr_throttled 2\nthrottled_time 500000000\n",
    "/sys/fs/cgroup/cpu/box/inner/cpu.cfs_quota_us": "400000",
    "/sys/fs/cgroup/cpu/box/inner/cpu.cfs_period_us": "100000",
    "/sys/fs/cgroup/cpu/box/inner/cpu.stat": "nr_periods 9\nnr_throttled 1\nthrottled_time 250000000\n",
    "/sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712",
    "/sys/fs/cgroup/memory/box/memory.limit_in_bytes": "1073741824",
}
V2 = {
    "/proc/self/cgroup": "0::/kubepods/pod1\n",
    # A container: the hierarchy is mounted from its own group downwards.
    "/proc/self/mountinfo": "30 20 0:26 /kubepods/pod1 /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
    "/sys/fs/cgroup/cpu.max": "50000 100000\n",
    "/sys/fs/cgroup/cpu.stat": "usage_usec 12\nnr_periods 4\nnr_throttled 3\nthrottled_usec 750000\n",
    "/sys/fs/cgroup/memory.max": "max\n",
}


def test_tightest_limit_of_all_groups_applies_in_v1(tmp_path: Path) -> None:
    group = ControlGroup(Files(lay_out(tmp_path, V1)))
    assert group.quota() == 1.5
    assert group.throttling() == Throttling(3, 0.75)
    assert group.memory_limit() == 1 << 30


def test_version_2_group_mounted_inside_a_container(tmp_path: Path) -> None:
    group = ControlGroup(Files(lay_out(tmp_path, V2)))
    assert group.quota() == 0.5
    assert group.throttling() == Throttling(3, 0.75)
    assert group.memory_limit() is None


def test_machine_without_control_groups_has_no_limits(tmp_path: Path) -> None:
    group = ControlGroup(Files(tmp_path))
    assert (group.quota(), group.throttling(), group.memory_limit()) == (None, None, None)


def test_threads_follow_the_quota_and_a_workers_share(tmp_path: Path) -> None:
    files = Files(lay_out(tmp_path, V2))
    quota = ControlGroup(files).quota()
    assert quota is not None
    assert own_quota(files, {}) == quota
    assert own_quota(files, {"PYTEST_ANUBIS_CPU_QUOTA": "2.5"}) == 2.5
    assert own_quota(files, {"PYTEST_ANUBIS_CPU_QUOTA": "many"}) == quota
    assert [threads_within(16, one) for one in (None, 20.0, 4.0, 2.5, 0.5)] == [16, 16, 4, 2, 1]


def test_offline_cpus_are_not_counted(tmp_path: Path) -> None:
    files = {"/proc/cpuinfo": "processor : 0\nmodel name : Some  CPU 42\n\nprocessor : 1\n"}
    for cpu, (package, core) in enumerate([(0, 0), (0, 1), (1, 0), (1, 1), (0, 0), (1, 1)]):
        base = f"/sys/devices/system/cpu/cpu{cpu}"
        files[f"{base}/topology/physical_package_id"] = str(package)
        files[f"{base}/topology/core_id"] = str(core)
        files[f"{base}/online"] = "0" if cpu == 5 else "1"
    files["/sys/devices/system/node/node0/meminfo"] = ""
    files["/sys/devices/system/node/node1/meminfo"] = ""
    files["/sys/devices/system/node/possible"] = "0-1"
    found = read_processor(Files(lay_out(tmp_path, files)))
    assert (found.model, found.sockets, found.cores, found.threads) == ("Some CPU 42", 2, 4, 5)
    assert found.numa_nodes == 2


def test_memory_errors_are_summed_over_controllers(tmp_path: Path) -> None:
    assert edac_counts(Files(tmp_path)) == (None, None)
    base = "/sys/devices/system/edac/mc"
    lay_out(
        tmp_path,
        {
            f"{base}/mc0/ce_count": "3",
            f"{base}/mc0/ue_count": "0",
            f"{base}/mc1/ce_count": "4",
            f"{base}/power": "",
        },
    )
    assert edac_counts(Files(tmp_path)) == (7, 0)


def test_broken_sensor_is_noted_and_not_absent(tmp_path: Path) -> None:
    files = Files(lay_out(tmp_path, {"/sys/a": "twelve"}))
    assert files.integer("/sys/a", "errors") is None
    assert files.integer("/sys/b", "other") is None
    assert files.unreadable == ["errors: 'twelve' is not a whole number"]


def test_accelerators_are_found_without_drivers(tmp_path: Path) -> None:
    def device(address: str, vendor: str, kind: str) -> dict[str, str]:
        base = f"/sys/bus/pci/devices/{address}"
        return {f"{base}/vendor": vendor, f"{base}/class": kind}

    assert bus_accelerators(Files(tmp_path)) is None
    lay_out(
        tmp_path,
        {
            **device("0000:18:00.0", "0x10de", "0x030200"),
            **device("0000:19:00.0", "0x10de", "0x068000"),  # an NVSwitch is a bridge
            **device("0000:00:02.0", "0x8086", "0x030000"),  # the chipset's graphics
            **device("0000:3a:00.0", "0x1002", "0x120000"),
            **device("0000:01:00.0", "0x144d", "0x010802"),
        },
    )
    assert bus_accelerators(Files(tmp_path)) == ("0000:18:00.0", "0000:3a:00.0")


def test_disk_sizes_are_bytes_without_virtual_disks(tmp_path: Path) -> None:
    pci = "/sys/devices/pci0000:00/0000:5e:00.0"
    lay_out(
        tmp_path,
        {
            "/sys/block/loop0/size": "100",
            "/sys/block/zram0/size": "100",
            "/sys/block/nvme0n1/size": "2000",
            "/sys/block/nvme0n1/queue/rotational": "0",
            f"{pci}/nvme/nvme0/model": "Fast Disk 9",
            f"{pci}/nvme/nvme0/serial": "S1",
            f"{pci}/nvme/nvme0/transport": "pcie",
            f"/sys/block/nvme0n1/device -> {pci}/nvme/nvme0": "",
            "/sys/bus/pci/devices/0000:5e:00.0/current_link_width": "2",
            "/sys/bus/pci/devices/0000:5e:00.0/max_link_width": "4",
        },
    )
    (disk,) = read_disks(Files(tmp_path))
    assert disk == Disk(
        name="nvme0n1",
        model="Fast Disk 9",
        serial="S1",
        size=1_024_000,
        rotational=False,
        transport="pcie",
        pci="0000:5e:00.0",
        link_width=2,
        link_width_max=4,
    )


def test_wear_comes_from_valid_smartctl_output() -> None:
    log = {"percentage_used": 7, "media_errors": 2, "other": "x"}
    assert smart_health({"nvme_smart_health_information_log": log}) == {
        "percentage_used": 7.0,
        "media_errors": 2,
    }
    many = {"nvme_smart_health_information_log": {"media_errors": "many"}}
    answers: tuple[Any, ...] = ([], {}, None, many)
    assert [smart_health(answer) for answer in answers] == [{}, {}, {}, {}]


def test_port_that_is_down_has_no_speed(tmp_path: Path) -> None:
    def port(adapter: str, state: str, rate: str) -> dict[str, str]:
        base = f"/sys/class/infiniband/{adapter}"
        return {
            f"{base}/hca_type": "MT4129",
            f"{base}/fw_ver": "28.39.1002",
            f"{base}/ports/1/state": state,
            f"{base}/ports/1/rate": rate,
            f"{base}/ports/1/link_layer": "InfiniBand",
        }

    lay_out(
        tmp_path,
        {
            **port("mlx5_0", "4: ACTIVE", "400 Gb/sec (4X NDR)"),
            **port("mlx5_1", "1: DOWN", "10 Gb/sec (4X SDR)"),
            "/sys/class/net/lo/operstate": "unknown",
        },
    )
    up, down = read_nics(Files(tmp_path))
    assert (up.name, up.kind, up.speed, up.state) == ("mlx5_0/1", "infiniband", 400.0, "active")
    assert (down.speed, down.state) == (None, "down")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("32.0 GT/s PCIe", 5),
        ("2.5 GT/s PCIe", 1),
        ("Unknown", None),
        (None, None),
        ("7 GT/s", None),
    ],
)
def test_link_speed_tells_the_generation(text: str | None, expected: int | None) -> None:
    assert generation(text) == expected


def test_link_that_does_not_answer_has_no_width(tmp_path: Path) -> None:
    base = "/sys/bus/pci/devices/0000:5e:00.0"
    files = {f"{base}/current_link_width": "255", f"{base}/max_link_width": "0"}
    found = pci_link(Files(lay_out(tmp_path, files)), "0000:5E:00.0")
    assert (found["link_width"], found["link_width_max"]) == (None, None)
    assert pci_link(Files(tmp_path), None) == {}


def test_narrower_or_older_slot_limits_what_a_link_could_do(tmp_path: Path) -> None:
    base, real = "/sys/bus/pci/devices", "/sys/devices/pci0000:5d/0000:5d:01.0/0000:5e:00.0"
    files = {
        f"{real}/max_link_width": "16",
        f"{real}/max_link_speed": "32.0 GT/s PCIe",
        f"{real}/net/eth0/operstate": "up",
        f"{real}/net/eth0/device -> {real}": "",
        f"/sys/class/net/eth0 -> {real}/net/eth0": "",
        f"{base}/0000:5e:00.0 -> {real}": "",
        f"{base}/0000:5d:01.0/max_link_width": "8",
        f"{base}/0000:5d:01.0/max_link_speed": "16.0 GT/s PCIe",
    }
    (port,) = read_nics(Files(lay_out(tmp_path, files)))
    assert (port.link_width_max, port.link_generation_max) == (8, 4)


def test_this_machine_can_be_read_and_survives_json() -> None:
    inventory = read_inventory()
    assert inventory.node
    assert inventory.processor.usable
    assert inventory.software["torch"]
    text = json.dumps(inventory_to_plain(inventory), allow_nan=False)
    assert inventory_from_plain(json.loads(text)) == inventory


def test_reading_imports_neither_torch_nor_numpy() -> None:
    code = (
        "import sys; from pytest_anubis.hardware.inventory import inventory_reading as i; i.read_inventory();"
        "sys.exit(','.join(m for m in ('torch', 'numpy', 'scipy') if m in sys.modules) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema": 2}, "inventory: the inventory's schema is 2, this version reads 1"),
        ({"node": 3}, "inventory.node: expected text, found 3"),
        (
            {"memory": {"total": "much"}},
            'inventory.memory.total: expected a whole number, found "much"',
        ),
        ({"memory": {"total": True}}, "expected a whole number, found true"),
        ({"accelerators": [{"index": 0}]}, "inventory.accelerators[0].vendor: is missing"),
        ({"accelerators": {}}, "inventory.accelerators: expected a list, found an object"),
        ({"nonsense": 1}, "inventory.nonsense: unknown field"),
        (
            {"processor": {"quota": float("nan")}},
            "inventory.processor.quota: expected a finite number",
        ),
        ({"drivers": ["a"]}, "inventory.drivers: expected an object, found a list"),
        ({"drivers": {"cuda": 12}}, "inventory.drivers.cuda: expected text, found 12"),
    ],
)
def test_wrong_plain_data_is_named(change: dict[str, Any], message: str) -> None:
    data = {**inventory_to_plain(Inventory(node="n")), **change}
    with pytest.raises(InventoryError) as caught:
        inventory_from_plain(data)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("data", [None, [], "text", 3])
def test_what_is_no_object_is_refused(data: Any) -> None:
    with pytest.raises(InventoryError, match="expected an object"):
        inventory_from_plain(data)


def test_redacted_inventory_has_no_identifiers() -> None:
    secrets = ("SERIAL-1", "GPU-abc", "SERIAL-2", "SERIAL-3", "02:fc:00:00:00:01")
    inventory = Inventory(
        node="n",
        system=System(serial=secrets[0]),
        accelerators=(
            Accelerator(index=0, vendor="nvidia", name="X", uuid=secrets[1], serial=secrets[2]),
        ),
        disks=(Disk(name="sda", serial=secrets[3]),),
        nics=(Nic(name="eth0", address=secrets[4]), Nic(name="eth1")),
        memory=Memory(total=5),
    )
    text = json.dumps(inventory_to_plain(redact(inventory)))
    assert not [secret for secret in secrets if secret in text]
    assert redact(inventory).nics[1].address is None
    assert redact(inventory).memory == inventory.memory


_TREE = "/sys/devices/pci0000:30/0000:30:01.0/0000:31:00.0"
"""A root port, and the upstream port of a switch below it."""


def behind_a_switch() -> dict[str, str]:
    """Return a card, an NVMe disk and a network port behind one switch, each on its own port of it."""
    homes = {
        "0000:33:00.0": f"{_TREE}/0000:32:00.0/0000:33:00.0",
        "0000:34:00.0": f"{_TREE}/0000:32:01.0/0000:34:00.0",
        "0000:35:00.0": f"{_TREE}/0000:32:02.0/0000:35:00.0",
    }
    files = {f"{home}/numa_node": "1\n" for home in homes.values()}
    files |= {f"/sys/bus/pci/devices/{one} -> {home}": "" for one, home in homes.items()}
    return files | {
        f"{homes['0000:34:00.0']}/nvme/nvme0/model": "Fast Disk 9",
        f"/sys/block/nvme0n1/device -> {homes['0000:34:00.0']}/nvme/nvme0": "",
        "/sys/block/nvme0n1/size": "8",
        f"/sys/class/net/eth0/device -> {homes['0000:35:00.0']}": "",
        "/sys/class/net/eth0/operstate": "up",
    }


def test_devices_know_numa_node_and_bridges(tmp_path: Path) -> None:
    files = Files(lay_out(tmp_path, behind_a_switch()))
    above = ("0000:31:00.0", "0000:30:01.0")
    card = pci_place(files, "0000:33:00.0")
    assert card == {"numa_node": 1, "bridges": ("0000:32:00.0", *above)}
    (disk,) = read_disks(files)
    assert (disk.pci, disk.numa_node) == ("0000:34:00.0", 1)
    assert disk.bridges == ("0000:32:01.0", *above)
    (nic,) = read_nics(files)
    assert (nic.pci, nic.numa_node) == ("0000:35:00.0", 1)
    assert nic.bridges == ("0000:32:02.0", *above)


def test_device_without_a_known_place_has_none(tmp_path: Path) -> None:
    alone = "/sys/bus/pci/devices/0000:05:00.0"
    files = Files(lay_out(tmp_path, {f"{alone}/numa_node": "-1"}))
    assert pci_place(files, "0000:05:00.0") == {"numa_node": None, "bridges": ()}
    assert pci_place(files, "0000:06:00.0") == {"numa_node": None, "bridges": ()}
    assert pci_place(files, None) == {}


def test_cards_of_any_vendor_have_a_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cards = [
        Accelerator(index=n, vendor=vendor, name=vendor, pci="0000:33:00.0")
        for n, vendor in enumerate(("nvidia", "amd"))
    ]
    monkeypatch.setattr(NvidiaReading, "read", lambda _: (cards[:1], {}, ()))
    monkeypatch.setattr(inventory_reading, "read_amd", lambda _: (cards[1:], {}, ()))
    found = read_inventory(lay_out(tmp_path, behind_a_switch()))
    assert [(one.vendor, one.numa_node, len(one.bridges)) for one in found.accelerators] == [
        ("nvidia", 1, 3),
        ("amd", 1, 3),
    ]
    assert inventory_from_plain(
        json.loads(json.dumps(inventory_to_plain(redact(found))))
    ) == redact(found)
    assert redact(found).accelerators == found.accelerators


def test_the_map_changes_neither_class_nor_older_files() -> None:
    before = replay(RECORDED).inventory
    after = mapped(before)
    assert hardware_class(after, "smoke") == hardware_class(before, "smoke")
    assert node_facts(after) == node_facts(before)
    assert golden_inventory([after] * 3) == golden_inventory([before] * 3)
    plain = inventory_to_plain(before)
    assert not any("bridges" in card or "numa_node" in card for card in plain["accelerators"])
    assert inventory_from_plain(inventory_to_plain(after)) == after
