"""``anubis doctor``: this machine's inventory, and what a full validation of it lacks.

It can record the inventory for a replay elsewhere, and names benchmarks that took longer than declared.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_anubis.cli.learning.next_commands import first_command
from pytest_anubis.cli.learning.true_costs import cost_lines
from pytest_anubis.cli.shared.arguments import (
    add_baseline,
    add_json,
    add_profile,
    add_store,
    baseline_place,
    explain,
)
from pytest_anubis.cli.shared.command_error import of_file
from pytest_anubis.cli.shared.printing import say, write_file
from pytest_anubis.core.inventory import FindingKind
from pytest_anubis.distributed.dispatch.certificates import CertificateError, load_certificates
from pytest_anubis.hardware.gate.inventory_gate import check_inventory
from pytest_anubis.hardware.gate.preflight import preflight
from pytest_anubis.hardware.gate.software_environment import read_software_environment
from pytest_anubis.hardware.inventory.hardware_classes import hardware_class
from pytest_anubis.hardware.inventory.inventory_reading import (
    inventory_to_plain,
    read_inventory,
    redact,
)
from pytest_anubis.hardware.inventory.visible_devices import visible
from pytest_anubis.hardware.telemetry.kernel_log import KernelLog
from pytest_anubis.hardware.telemetry.recorded_node import (
    Recorded,
    RecordingError,
    recording_text,
    replay,
)
from pytest_anubis.hardware.telemetry.telemetry_sampler import default_sources, take_readings
from pytest_anubis.report.text.numbers import reading_text
from pytest_anubis.store.baselines.baseline_files import BaselineError, find_baseline, load_baseline
from pytest_anubis.store.journal.journal_heads import newest_first

if TYPE_CHECKING:
    from pytest_anubis.core.inventory import Inventory

MAX_RUNS = 5
"""Latest runs of the store that show how long benchmarks take here: one slow run moves no median of five."""

_PARTS = {"accelerators": "accelerator", "disks": "disk", "nics": "nic"}
"""Lists of parts in an inventory -> name of one part."""

TOOLS = {
    "fio": "disk benchmarks do not run; install it, e.g. apt install fio",
    "smartctl": "wear of NVMe disks is not read; install it, e.g. apt install smartmontools",
    "cc": "the memory latency benchmark does not run; install a C compiler, e.g. apt install gcc",
}


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    explain(
        parser,
        "Show this machine's inventory, its hardware class, what is missing for a full validation of it, and "
        "which benchmarks took more than twice their declared cost in its latest runs.",
        "Exit codes: 0 done, also where something is missing; 2 wrong usage or input.",
    )
    add_json(parser, "the inventory", bare=True)
    parser.add_argument("--record", type=Path, metavar="FILE",
                        help="record the inventory with telemetry, to replay it elsewhere")  # fmt: skip
    parser.add_argument("--inventory", type=Path, metavar="FILE", help="show a recorded one")
    parser.add_argument("--redact", action="store_true", help="leave out serial numbers, addresses")
    add_profile(parser)
    add_baseline(parser)
    add_store(parser)


def run(options: argparse.Namespace) -> int:
    """Print the inventory and what is missing, which is no error."""
    place = baseline_place(options)
    inventory = _recorded(options.inventory) if options.inventory else read_inventory()
    if options.redact:
        inventory = redact(inventory)
    if options.record is not None:
        _record(options.record, inventory)
    plain = inventory_to_plain(inventory)
    if options.json is not None:
        write_file(Path(options.json), json.dumps(plain, indent=2, sort_keys=True) + "\n")
        if options.json == "-":
            return 0
    key, attributes = hardware_class(inventory, options.profile)
    say(f"hardware class: {key}")
    for name, value in attributes.items():
        say(f"  {name}: {value}")
    _print_nested(plain)
    missing = [] if options.inventory else _missing_here(inventory)
    missing += _missing(inventory, key, place)
    say("missing for a full validation:" if missing else "nothing is missing")
    for line in missing:
        say(f"  {line}")
    say(*_untrue_costs(options.store, key))
    return 0


def _recorded(path: Path) -> Inventory:
    try:
        return replay(path).inventory
    except (OSError, RecordingError) as error:
        raise of_file(error) from error


def _record(path: Path, inventory: Inventory) -> None:
    readings = take_readings(default_sources(), 10)
    write_file(path, recording_text(Recorded(inventory=inventory, readings=tuple(readings))))


def _print_nested(data: Mapping[str, Any], indent: str = "") -> None:
    """Print an inventory without what could not be read, and with the kinds of parts that are not there."""
    for name, value in data.items():
        if not indent and name in _PARTS and not value:
            say(f"{name}: none found")
        if _is_empty(value):
            continue
        if isinstance(value, Mapping):
            say(f"{indent}{name}:")
            _print_nested(value, indent + "  ")
        elif isinstance(value, list) and value and isinstance(value[0], Mapping):
            for number, item in enumerate(value, 1):
                # Counted from 1: "disks 0:" reads as a count.
                say(f"{indent}{_PARTS.get(name, name)} {number} of {len(value)}:")
                _print_nested(item, indent + "  ")
        else:
            values = value if isinstance(value, list) else [value]
            text = ", ".join(reading_text(name, one) for one in values)
            say(f"{indent}{name}: {text}")


def _is_empty(value: Any) -> bool:
    """Return whether a value has nothing to print."""
    if isinstance(value, Mapping):
        return all(_is_empty(one) for one in value.values())
    return value in (None, "", [])


def _missing_here(inventory: Inventory) -> list[str]:
    """Return what this machine lacks apart from its inventory, unlike a recorded one."""
    nvme = any(disk.name.startswith("nvme") for disk in inventory.disks)
    wanted = {tool: text for tool, text in TOOLS.items() if tool != "smartctl" or nvme}
    lines = [f"{tool}: {text}" for tool, text in wanted.items() if shutil.which(tool) is None]
    if not Path("/proc/pressure/cpu").exists():
        lines.append("no pressure stall information (/proc/pressure): some disturbances go unseen")
    log = KernelLog()
    if log.unreadable:
        lines.append(f"{log.unreadable}: XIDs and machine checks go unseen; run as root")
    log.close()
    usable = visible(inventory.accelerators, os.environ)
    numbers = (device.partition(":")[2] for device in usable.devices)
    tested = {int(number) for number in numbers if number.isdecimal()}
    obstacles = preflight(inventory, read_software_environment(os.environ), tested)
    if usable.refused:
        obstacles = [one for one in obstacles if one.kind is not FindingKind.VISIBILITY]
    return [
        *lines,
        *usable.notes,
        *usable.refused,
        *(f"{one.text}: {one.action}" for one in obstacles),
    ]


def _untrue_costs(store: Path, key: str) -> list[str]:
    """Return lines on benchmarks that took much longer than they declare in the latest runs of a class."""
    from pytest_anubis.store.collected_runs import read_runs

    paths = [path for path, _ in newest_first(store, {"hardware_class": key})[:MAX_RUNS]]
    return cost_lines(read_runs(paths).runs) if paths else []


def _missing(inventory: Inventory, key: str, baselines: Path) -> list[str]:
    lines = []
    if not inventory.accelerators:
        lines.append("no accelerator found: device copy and launch latency do not apply")
    path = find_baseline(baselines, key)
    if path is None:
        lines.append(
            f"no baseline for this class in {baselines}: learn one, '{first_command('learn')}'"
        )
    else:
        try:
            load_baseline(path, hardware_class=key)
        except (OSError, BaselineError) as error:
            lines.append(f"the baseline cannot be used: {error}")
    try:
        if not load_certificates(baselines, key):
            lines.append(
                "no certificates for this class: host benchmarks never overlap; "
                f"'{first_command('certify')}'"
            )
    except CertificateError as error:
        lines.append(f"certificates: {error}")
    lines += [f"inventory: {finding.text}" for finding in check_inventory(inventory)]
    return lines
