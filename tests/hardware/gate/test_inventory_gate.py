"""The gate on a made-up node with eight GPUs: every fault is found and named, a clean node is clean."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from pytest_anubis.core.inventory import Disk, FindingKind, GateFinding, Inventory, Nic
from pytest_anubis.hardware.gate import card_checks as gate_cards
from pytest_anubis.hardware.gate.inventory_gate import check_inventory
from pytest_anubis.hardware.inventory.golden_inventory import golden_inventory
from tests.hardware.make_recorded_8gpu import node

NODE = node()
NODE = replace(
    NODE,
    accelerators=tuple(
        replace(card, nvlink_speed=26562, clock_limited=False) for card in NODE.accelerators
    ),
)
GOLDEN = golden_inventory([NODE])
SLOT = "GPU 3 (0000:5d:00.0)"

Change = Callable[[Inventory], Inventory]


def card(**changes: Any) -> Change:
    """Change the fourth card."""

    def change(inventory: Inventory) -> Inventory:
        cards = list(inventory.accelerators)
        cards[3] = replace(cards[3], **changes)
        return replace(inventory, accelerators=tuple(cards))

    return change


def without_card(inventory: Inventory) -> Inventory:
    cards = inventory.accelerators
    return replace(inventory, accelerators=(*cards[:3], *cards[4:]))


def nic(**changes: Any) -> Change:
    def change(inventory: Inventory) -> Inventory:
        first, *rest = inventory.nics
        return replace(inventory, nics=(replace(first, **changes), *rest))

    return change


def disk(**changes: Any) -> Change:
    def change(inventory: Inventory) -> Inventory:
        first, *rest = inventory.disks
        return replace(inventory, disks=(replace(first, **changes), *rest))

    return change


def memory(**changes: Any) -> Change:
    return lambda i: replace(i, memory=replace(i.memory, **changes))


def cpu(**changes: Any) -> Change:
    return lambda i: replace(i, processor=replace(i.processor, **changes))


FAULTS: dict[str, tuple[Change, str, str]] = {
    "card gone": (without_card, "FAIL",
     "0000:5d:00.0: number of accelerators is 7 (the bus shows it, its driver does not), expected 8"),
    "card gone from the bus": (
     lambda i: replace(without_card(i), on_bus=tuple(a for a in i.on_bus or () if ":5d:" not in a)), "FAIL",
     "0000:5d:00.0: number of accelerators is 7, expected 8"),
    "narrow link": (card(link_width=8), "FAIL", f"{SLOT}: PCIe link width is 8, expected 16"),
    "old slot": (card(link_generation_max=4, link_generation=4), "FAIL",
     f"{SLOT}: highest PCIe generation is 4, expected 5"),
    "slow link under load": (card(link_generation=3), "FAIL",
     f"{SLOT}: PCIe generation is 3, expected 5"),
    "VBIOS": (card(vbios="96.00.74.00.01"), "FAIL",
     f"{SLOT}: VBIOS version is 96.00.74.00.01, expected 96.00.89.00.01"),
    "firmware": (card(firmware="G1"), "FAIL",
     f"{SLOT}: firmware version is G1, expected G520.0200.00.05"),
    "other model": (card(name="NVIDIA H100 PCIe"), "FAIL",
     f"{SLOT}: model is NVIDIA H100 PCIe, expected NVIDIA H100 80GB HBM3"),
    "less device memory": (card(memory=70_000_000_000), "FAIL",
     f"{SLOT}: memory is 65.2 GiB, expected 79.6 GiB"),
    "ECC off": (card(ecc=False), "INCONCLUSIVE", f"{SLOT}: error correction (ECC) is off, expected on"),
    "partitioned": (card(mig=True), "INCONCLUSIVE", f"{SLOT}: partitioning (MIG) is on, expected off"),
    "ECC error": (card(ecc_uncorrected=1), "INCONCLUSIVE",
     f"{SLOT}: number of uncorrected ECC errors is 1 since the driver was loaded, expected 0"),
    "SRAM errors": (card(sram_threshold=True), "FAIL",
     f"{SLOT}: the vendor's limit of SRAM errors is exceeded, expected kept"),
    "no spares": (card(spares_none=1, spares_low=3), "FAIL",
     f"{SLOT}: number of memory banks without spare rows is 1, expected 0"),
    "few spares": (card(spares_none=0, spares_low=3), "NOTE",
     f"{SLOT}: number of memory banks with few spare rows is 3, expected 0"),
    "no program allowed": (card(compute_mode="prohibited"), "INCONCLUSIVE",
     f"{SLOT}: compute mode is prohibited: no program may use the card, expected default"),
    "recovery": (card(recovery_action="reset the card"), "INCONCLUSIVE",
     f"{SLOT}: recovery that the driver asks for is waiting: reset the card, expected none"),
    "locked clock": (card(clock_limited=True), "INCONCLUSIVE",
     f"{SLOT}: clock is held down by a setting (locked or application clocks), expected free"),
    "fabric manager": (card(fabric="in progress"), "INCONCLUSIVE",
     f"{SLOT}: NVSwitch fabric is in progress, expected completed"),
    "fabric lost links": (card(fabric="completed", fabric_health="degraded bandwidth"), "FAIL",
     f"{SLOT}: NVSwitch fabric's health is degraded bandwidth, expected healthy"),
    "fabric recovers": (
     card(fabric="completed", fabric_health="route recovery under way"), "INCONCLUSIVE",
     f"{SLOT}: NVSwitch fabric's health is route recovery under way, expected healthy"),
    "no persistence": (card(persistence=False), "NOTE",
     f"{SLOT}: driver persistence is off: error counts vanish with the last program, and every "
     "first call is slow, expected on"),
    "many corrected": (card(ecc_corrected=1001), "NOTE",
     f"{SLOT}: number of corrected ECC errors is 1001, expected at most 1000"),
    "spares used up": (card(remap_failed=True), "FAIL",
     f"{SLOT}: row remapping is failed: the spare rows are used up, expected working"),
    "remap pending": (card(remap_pending=True), "INCONCLUSIVE",
     f"{SLOT}: row remapping is waiting for a reset, expected complete"),
    "NVLink down": (card(nvlinks_active=17), "FAIL",
     f"{SLOT}: number of NVLinks that are up is 17, expected 18"),
    "slow NVLink": (card(nvlink_speed=13281), "FAIL",
     f"{SLOT}: speed of the slowest NVLink (MB/s) is 13281, expected 26562"),
    "power limit": (card(power_limit=500.0), "INCONCLUSIVE",
     f"{SLOT}: power limit (W) is 500, expected 700"),
    "unreadable sensor": (
     card(remapped_uncorrected=None, unreadable=("remapped_uncorrected: Unknown Error",)), "INCONCLUSIVE",
     f"{SLOT}: sensor remapped_uncorrected is unreadable: Unknown Error, expected readable"),
    "failed comparison is named once": (
     card(vbios=None, unreadable=("vbios: Timeout (NVML error 10)",)), "INCONCLUSIVE",
     f"{SLOT}: sensor vbios is unreadable: Timeout (NVML error 10), expected readable"),
    "absent reading": (card(link_width=None), "INCONCLUSIVE",
     f"{SLOT}: PCIe link width is not readable, expected 16"),
    "lost card": (
     card(power_limit=None, vbios=None,
          unreadable=tuple(f"{n}: GPU is lost (NVML error 15)" for n in ("power_limit", "vbios"))), "FAIL",
     f"{SLOT}: each of the sensors power_limit, vbios is unreadable: GPU is lost (NVML error 15), "
     "expected readable"),
    "memory module": (memory(total=(2015 - 64) << 30), "FAIL",
     "main memory is 1951.0 GiB, expected 2015.0 GiB"),
    "memory error": (memory(uncorrected=1), "FAIL",
     "main memory: number of uncorrected errors is 1, expected at most 0"),
    "socket": (cpu(sockets=1), "FAIL", "number of CPU sockets is 1, expected 2"),
    "microcode": (cpu(microcode="0x1"), "INCONCLUSIVE", "CPU microcode is 0x1, expected 0x2b0004d0"),
    "governor": (cpu(governor="powersave"), "INCONCLUSIVE",
     "CPU frequency governor is powersave, expected performance"),
    "BIOS": (lambda i: replace(i, system=replace(i.system, bios="1.0")), "FAIL",
     "BIOS version is 1.0, expected 1.4.2"),
    "disk gone": (lambda i: replace(i, disks=i.disks[:3]), "FAIL",
     "number of disks of the kind Made-up NVMe 3.84T, 3841 GB is 3, expected 4"),
    "disk firmware": (disk(firmware="1.0"), "FAIL", "disk nvme0n1: firmware is 1.0, expected 1.2"),
    "worn disk": (disk(wear=104.0), "FAIL",
     "disk nvme0n1: used endurance (percent) is 104, expected at most 100"),
    "media errors": (disk(media_errors=3), "FAIL",
     "disk nvme0n1: number of media errors is 3, expected at most 0"),
    "port down": (nic(state="down", speed=None), "FAIL",
     "network port mlx5_0/1: link state is down, expected active"),
    "slow port": (nic(speed=200.0), "FAIL",
     "network port mlx5_0/1: link speed (Gbit/s) is 200, expected 400"),
    "adapter gone": (lambda i: replace(i, nics=i.nics[1:]), "FAIL",
     "network port mlx5_0/1: port is missing, expected MT4129"),
    "adapter's slot": (nic(link_width=8), "FAIL",
     "network port mlx5_0/1: PCIe link width is 8, expected 16"),
    "retired pages": (card(retired_pages=61), "FAIL",
     f"{SLOT}: number of retired pages is 61, expected at most 60"),
    "bridge gone": (card(nvlinks=12, nvlinks_active=18), "FAIL",
     f"{SLOT}: number of NVLinks is 12, expected 18"),
    "lower clock": (card(sm_clock_max=1200.0), "INCONCLUSIVE",
     f"{SLOT}: highest clock (MHz) is 1200, expected 1980"),
    "locked memory clock": (card(memory_clock_max=1500.0), "INCONCLUSIVE",
     f"{SLOT}: highest memory clock (MHz) is 1500, expected 2619"),
    "cores": (cpu(cores=100), "FAIL", "number of CPU cores is 100, expected 112"),
    "threads": (cpu(threads=112), "FAIL", "number of CPU threads is 112, expected 224"),
    "NUMA": (cpu(numa_nodes=1), "FAIL", "number of NUMA nodes is 1, expected 2"),
    "memory about to fail": (memory(corrected=1001), "FAIL",
     "main memory: number of corrected errors is 1001, expected at most 1000"),
    "disk's slot": (disk(link_width=2), "FAIL", "disk nvme0n1: PCIe link width is 2, expected 4"),
    "adapter's firmware": (nic(firmware="1.0"), "FAIL",
     "network port mlx5_0/1: firmware is 1.0, expected 28.39.1002"),
    "vendor library": (
     lambda i: replace(i, unreadable=("nvml: Driver/library version mismatch",)), "INCONCLUSIVE",
     "sensor nvml is unreadable: Driver/library version mismatch, expected readable"),
}  # fmt: skip


def test_clean_node_is_clean() -> None:
    assert check_inventory(NODE, GOLDEN) == []
    assert check_inventory(NODE) == []


@pytest.mark.parametrize("name", list(FAULTS))
def test_fault_is_found_and_named(name: str) -> None:
    change, severity, text = FAULTS[name]
    (finding,) = check_inventory(change(NODE), GOLDEN)
    assert (finding.severity, finding.text) == (severity, text)
    assert text.isprintable()
    assert finding.action or finding.component != "network"


@pytest.mark.parametrize(
    ("change", "command"),
    [
        ({"ecc": False}, "nvidia-smi -i 3 -e 1, then a reset or reboot"),
        ({"power_limit": 500.0}, "nvidia-smi -i 3 -pl 700"),
        ({"sm_clock_max": 1200.0}, "nvidia-smi -i 3 -rgc"),
        ({"memory_clock_max": 1500.0}, "nvidia-smi -i 3 -rmc"),
    ],
)
def test_changed_setting_is_inconclusive(change: dict[str, Any], command: str) -> None:
    (finding,) = check_inventory(card(**change)(NODE), GOLDEN)
    assert finding.severity == "INCONCLUSIVE"
    assert f"set it as on the other nodes ({command}), then test again" in finding.action


def test_every_comparison_of_a_card_has_a_fault_here() -> None:
    texts = [text for _, _, text in FAULTS.values()]
    for _, words, *_ in (*gate_cards._EQUAL, *gate_cards._AT_LEAST, *gate_cards._SETTINGS):
        assert any(f" {words} is " in text for text in texts), words


@pytest.mark.parametrize(
    "change",
    [
        card(performance_state=8, link_generation=1),  # an idle card lowers its link
        card(ecc_corrected=1000, remapped_corrected=10),
        card(remapped_corrected=4, remapped_uncorrected=7),  # that is what spare rows are for
        card(ecc_uncorrected_lifetime=3),
        card(serial="other", uuid="GPU-other", unreadable=("serial: Insufficient Permissions",)),
        card(power_limit=750.0),
        memory(total=2010 << 30),
        disk(serial="other", wear=100.0),
        nic(address="other"),
        lambda i: replace(i, node="n2", kernel="6.9", drivers={"nvidia": "550.90", "cuda": "12.4"}),
        lambda i: replace(i, disks=(*i.disks, Disk(name="sda", model="Stick", size=1))),
    ],
    ids=[
        "idle",
        "at limits",
        "remapped",
        "long ago",
        "identity",
        "more power",
        "reserved",
        "disk",
        "nic",
        "kernel",
        "extra",
    ],
)
def test_what_is_normal_is_no_finding(change: Change) -> None:
    assert check_inventory(change(NODE), GOLDEN) == []


def test_limited_clock_is_a_note_without_golden_card() -> None:
    held = card(clock_limited=True)(NODE)
    assert [finding.severity for finding in check_inventory(held)] == ["NOTE"]
    everywhere = replace(
        NODE, accelerators=tuple(replace(c, clock_limited=True) for c in NODE.accelerators)
    )
    assert check_inventory(everywhere, golden_inventory([everywhere])) == []


def test_failures_come_first() -> None:
    broken = card(remap_failed=True, unreadable=("vbios: Timeout",), vbios=None)(NODE)
    assert [f.severity for f in check_inventory(broken, GOLDEN)] == ["FAIL", "INCONCLUSIVE"]


@pytest.mark.parametrize(
    ("change", "slot"),
    [(card(link_width=8), "GPU 3 (0000:5d:00.0)"), (without_card, "0000:5d:00.0")],
    ids=["narrow link", "card without driver"],
)
def test_doubt_without_golden_is_inconclusive(change: Change, slot: str) -> None:
    (finding,) = check_inventory(change(NODE))
    assert (finding.severity, finding.slot) == ("INCONCLUSIVE", slot)


def test_cards_of_a_hanging_library_are_inconclusive() -> None:
    silent = replace(without_card(NODE), unreadable=("nvml: did not answer within 30 s",))
    found = check_inventory(silent, GOLDEN)
    assert [f.severity for f in found] == ["INCONCLUSIVE"] * 2
    assert [f.kind for f in found] == [FindingKind.OTHER, FindingKind.NO_ANSWER]
    blind = replace(silent, on_bus=None)  # as in a container: not seen is not gone
    assert {f.severity for f in check_inventory(blind, GOLDEN)} == {"INCONCLUSIVE"}
    gone = replace(silent, on_bus=tuple(str(c.pci) for c in silent.accelerators))
    assert check_inventory(gone, GOLDEN)[0].severity == "FAIL"


@pytest.mark.parametrize(
    ("error", "state", "action"),
    [("15", "lost", "power-cycle"), ("16", "needs a reset", "reset it or reboot the node")],
)
def test_a_card_that_needs_a_reset_is_not_lost(error: str, state: str, action: str) -> None:
    note = f"GPU 3: cannot be reached (NVML error {error})"
    found = check_inventory(replace(without_card(NODE), unreadable=(note,)))
    (finding,) = (one for one in found if one.what == "card" and "NVML error" in one.found)
    assert finding.found.startswith(state)
    assert (finding.severity, action in finding.action) == ("FAIL", True)


def test_no_visible_disks_or_ports_is_inconclusive() -> None:
    for blind in (replace(NODE, disks=()), replace(NODE, nics=())):
        found = check_inventory(blind, GOLDEN)
        assert {one.severity for one in found} == {"INCONCLUSIVE"}


def test_cards_withheld_by_slurm_are_not_missing() -> None:
    note = "GPU 3: Insufficient Permissions (NVML error 4)"
    node = replace(without_card(NODE), unreadable=(note,))
    count, withheld = check_inventory(node, GOLDEN)
    assert (count.severity, withheld.severity) == ("INCONCLUSIVE", "INCONCLUSIVE")
    assert withheld.text.startswith("GPU 3: card is withheld from this process: no permission")
    assert "Slurm: --exclusive, or --gres=gpu:8" in withheld.action
    assert count.action == withheld.action
    # One that is gone as well is missing.
    gone = replace(node, accelerators=node.accelerators[1:])
    assert "FAIL" in [one.severity for one in check_inventory(gone, GOLDEN)]


def test_more_cards_than_expected_are_a_question() -> None:
    (finding,) = check_inventory(NODE, golden_inventory([without_card(NODE)]))
    assert (finding.severity, finding.found) == ("INCONCLUSIVE", "8")


def test_cards_with_other_slots_are_matched_by_number() -> None:
    cards = tuple(replace(c, pci=f"0001:{i:02x}:00.0") for i, c in enumerate(NODE.accelerators))
    moved = replace(NODE, accelerators=cards, on_bus=tuple(str(c.pci) for c in cards))
    assert check_inventory(moved, GOLDEN) == []
    (finding,) = check_inventory(card(vbios="x")(moved), GOLDEN)
    assert finding.slot == "GPU 3 (0001:03:00.0)"


def test_majority_makes_the_golden_inventory() -> None:
    faults = [FAULTS[n][0](NODE) for n in ("VBIOS", "narrow link", "card gone", "disk gone")]
    golden = golden_inventory([*faults, NODE, NODE, NODE, NODE, NODE])
    assert golden == GOLDEN
    for name in ("VBIOS", "narrow link", "card gone", "disk gone"):
        assert check_inventory(FAULTS[name][0](NODE), golden), name


def test_golden_inventory_has_no_serials_or_counters() -> None:
    for like in GOLDEN.accelerators:
        assert (like.serial, like.uuid, like.ecc_uncorrected, like.remapped_corrected) == (
            None,
        ) * 4
    assert [d.serial for d in GOLDEN.disks] == [None] * 4
    assert GOLDEN.memory.uncorrected is None


def test_without_a_majority_nothing_is_expected() -> None:
    golden = golden_inventory([NODE, card(vbios="other")(NODE)])
    assert golden.accelerators[3].vbios is None
    assert check_inventory(NODE, golden) == []


def test_minority_values_are_not_expected() -> None:
    extra = replace(
        NODE,
        nics=(*NODE.nics, Nic(name="eth9", state="up")),
        disks=(*NODE.disks, Disk(name="sda", model="Stick", size=1)),
    )
    assert check_inventory(NODE, golden_inventory([NODE, extra, NODE])) == []


def test_port_named_by_its_address_is_not_expected() -> None:
    named = Nic(name="enx0a1b2c3d4e5f", state="up", address="0a:1b:2c:3d:4e:5f")
    learned = replace(NODE, nics=(*NODE.nics, named))
    assert check_inventory(NODE, golden_inventory([learned])) == []


def test_memory_of_a_fleet_is_its_median() -> None:
    sizes = [2010, 2014, 2015, 2016, 1500]
    golden = golden_inventory([memory(total=s << 30)(NODE) for s in sizes])
    assert golden.memory.total == 2014 << 30


@pytest.mark.parametrize(("virtual", "severity"), [(True, "NOTE"), (False, "FAIL"), (None, "FAIL")])
def test_memory_that_a_hypervisor_took_back_is_noted(virtual: bool | None, severity: str) -> None:
    here = replace(NODE, system=replace(NODE.system, virtual=virtual))
    (finding,) = check_inventory(memory(total=1500 << 30)(here), GOLDEN)
    assert (finding.what, finding.severity) == ("main memory", severity)


@pytest.mark.parametrize("state", ["not started", "in progress", "failed (NVML error 15)"])
@pytest.mark.parametrize("count", [1, 8])
def test_incomplete_fabric_blocks_only_if_needed(state: str, count: int) -> None:
    def severity(nvlinks: int, **fabric: Any) -> str:
        first, *others = NODE.accelerators
        cards = (replace(first, nvlinks_active=nvlinks, **fabric), *others)[:count]
        found = check_inventory(replace(NODE, accelerators=cards, on_bus=None))
        (severity,) = [one.severity for one in found if one.what.startswith("NVSwitch fabric")]
        return severity

    works = count == 1 and state in gate_cards.UNDER_WAY
    assert severity(18, fabric=state) == ("NOTE" if works else "INCONCLUSIVE")
    # No link is up, as hypervisors give a single card away: the fabric is not its concern.
    assert severity(0, fabric=state) == ("NOTE" if count == 1 else "INCONCLUSIVE")
    health = {"fabric": "completed", "fabric_health": "degraded bandwidth"}
    assert severity(18, **health) == "FAIL"
    assert severity(0, **health) == ("NOTE" if count == 1 else "FAIL")


def test_slot_slower_than_the_card_is_no_fault() -> None:
    slower = card(link_generation=4)(NODE)
    golden = golden_inventory([slower])
    assert check_inventory(slower, golden) == []
    assert check_inventory(card(link_generation=3)(NODE), golden)


@pytest.mark.parametrize(
    ("virtual", "severities"), [(True, {"NOTE"}), (False, {"FAIL", "INCONCLUSIVE"})]
)
def test_changed_host_firmware_of_a_vm_is_a_note(virtual: bool, severities: set[str]) -> None:
    here = replace(
        NODE,
        system=replace(NODE.system, virtual=virtual, bios="of another host"),
        processor=replace(NODE.processor, microcode="0xffff"),
    )
    assert {one.severity for one in check_inventory(here, GOLDEN)} == severities


def test_foreign_cards_known_from_learning_are_notes() -> None:
    bus = NODE.on_bus or ()
    withheld = tuple(
        f"GPU {number}: Insufficient Permissions (NVML error 4)" for number in range(1, 8)
    )
    for notes in ((), withheld):  # as a container shows one card of eight, and as Slurm does
        mine = replace(NODE, accelerators=NODE.accelerators[:1], unreadable=notes)
        golden = golden_inventory([mine])
        assert {one.severity for one in check_inventory(mine)} == {"INCONCLUSIVE"}
        assert {one.severity for one in check_inventory(mine, golden)} == {"NOTE"}
    # One that is new on the bus only is a question, and one that is missing a fault.
    fewer = replace(golden, on_bus=bus[:7])
    assert "INCONCLUSIVE" in {one.severity for one in check_inventory(mine, fewer)}
    none = replace(mine, accelerators=(), unreadable=())
    assert "FAIL" in {one.severity for one in check_inventory(none, golden)}


def test_golden_inventory_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        golden_inventory([])


def test_finding_of_the_whole_node_needs_no_place() -> None:
    finding = GateFinding(what="A", expected="b", found="c", severity="FAIL")
    assert finding.text == "A is c, expected b"
