"""Resolve the facts of a run with ``--anubis``: inventory, hardware class, baseline, node name and waivers.

`start.start` calls it before it registers any part. `in_workers` decides whether tests run in workers.
"""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_anubis.codec.moments import moment
from pytest_anubis.core.asking.next_step import SHIPPED, learning
from pytest_anubis.core.history import CLOCK_TOLERANCE
from pytest_anubis.core.machine_marks import another_machine, identity_marks
from pytest_anubis.core.waiving import concerns
from pytest_anubis.distributed.workers.lane_allotment import side_by_side
from pytest_anubis.hardware.inventory.hardware_classes import (
    ALONE,
    SIDE_BY_SIDE,
    extended_key,
    hardware_class,
    node_facts,
    slug,
    split_by,
)
from pytest_anubis.hardware.inventory.inventory_reading import (
    inventory_to_plain,
    read_inventory,
    redact,
)
from pytest_anubis.hardware.inventory.node_name import NodeNameError, node_name
from pytest_anubis.hardware.inventory.visible_devices import visible
from pytest_anubis.hardware.telemetry.recorded_node import RecordingError, replay
from pytest_anubis.options import DEFAULT_BASELINES
from pytest_anubis.session.context import (
    RunContext,
    new_run_id,
)
from pytest_anubis.settings import Settings
from pytest_anubis.store.baselines.baseline_files import BaselineError, find_baseline, load_baseline
from pytest_anubis.store.baselines.pinned_files import verified
from pytest_anubis.store.waiver_files import WaiverError, read_waivers, today
from pytest_anubis.validator.deciding.requirement import Requirement

if TYPE_CHECKING:
    from pytest_anubis.core.baseline import Baseline
    from pytest_anubis.core.inventory import Inventory
    from pytest_anubis.core.verdict import Waiver


def resolve_context(config: pytest.Config, settings: Settings) -> RunContext:
    """Read the inventory, name the hardware class and find its baseline.

    Raises:
        pytest.UsageError: A file that was named cannot be used, or the baseline lacks what is required.
    """
    inventory = read_inventory() if settings.inventory is None else _recorded(settings.inventory)
    # Before redaction, which hides what workers are bound by and machines are recognised by.
    own = settings.inventory is not None and _is_of_this_machine(inventory)
    usable = visible(inventory.accelerators, os.environ)
    if settings.redact:
        inventory = redact(inventory)
    workers = in_workers(config, settings, usable.devices)
    lanes = SIDE_BY_SIDE if workers and side_by_side(config, usable.devices) else ALONE
    attributes = hardware_class(inventory, settings.profile, lanes=lanes)[1]
    added = _attributes_of_hooks(config, attributes)
    split = [name for name in settings.split if name not in attributes | added]
    added |= split_by(split, node_facts(inventory))
    key = extended_key(attributes, added)
    tests = _typed_tests(config)
    baseline, note, source = None, "", ""
    if settings.mode == "judge":
        source = _verified_source(settings)
        named = tests or "TESTS"
        baseline, note = _class_baseline(settings, key, named)
        if baseline is None and attributes.get("lanes"):
            other = ALONE if lanes == SIDE_BY_SIDE else SIDE_BY_SIDE
            other_key = extended_key(attributes | {"lanes": other}, added)
            note = _other_lanes_note(settings, other_key, named) or note
    if baseline is not None:
        _check_required(settings, baseline)
    node = _node(settings, inventory)
    typed_in = config.invocation_params.dir
    return RunContext(
        settings=settings,
        run_id=settings.run_id or new_run_id(node),
        campaign=config.getoption("anubis_campaign"),
        node=node,
        inventory=inventory_to_plain(inventory),
        hardware_class=key,
        attributes=attributes | added,
        devices=usable.devices,
        tests=tests,
        root="" if config.rootpath == typed_in else os.path.relpath(config.rootpath, typed_in),
        bindings=usable.bindings,
        hidden=usable.notes,
        refused=usable.refused,
        baseline=baseline,
        baseline_source=source,
        baseline_note=note,
        own_inventory=own,
        waivers=tuple(one for one in _waivers(settings) if concerns(one, node)),
        behind=_seconds_behind(baseline),
    )


def in_workers(config: pytest.Config, settings: Settings, devices: Sequence[str]) -> bool:
    """Return whether the tests run in worker processes, where a hang or a crash costs one test only.

    With xdist they do; without ``-n``, as with ``-n0``, one worker at a time runs them all. They stay in this
    process with ``--anubis-in-process``. With ``-s``, ``--trace`` and ``--setup-show``, whose output people
    watch, they stay too, unless ``-n``, a deadline or accelerators require workers.
    """
    if not config.pluginmanager.has_plugin("xdist") or settings.in_process:
        return False
    # Defaults for options that are missing because their plugin is switched off (-p no:capture).
    asked = config.getoption("numprocesses", None) is not None or bool(config.getoption("tx", ()))
    if asked or settings.timeout is not None or tuple(devices) != ("cpu",):
        return True
    watched = any(config.getoption(name, False) for name in ("trace", "setupshow", "setuponly"))
    return not watched and config.getoption("capture", "") != "no"


def _recorded(path: Path) -> Inventory:
    try:
        return replay(path).inventory
    except OSError as error:
        raise pytest.UsageError(
            f"--anubis-inventory: {path}: cannot be read ({error.strerror}); record one with "
            "'anubis doctor --record FILE'"
        ) from error
    except RecordingError as error:
        raise pytest.UsageError(f"--anubis-inventory: {error}") from error


def _is_of_this_machine(recorded: Inventory) -> bool:
    """Return whether serial numbers and addresses show that an inventory was recorded on this machine."""
    then = identity_marks(inventory_to_plain(recorded))
    if not then:
        return False
    here = identity_marks(inventory_to_plain(read_inventory()))
    return bool(then & here) and not another_machine(then, here)


def _attributes_of_hooks(config: pytest.Config, attributes: dict[str, str]) -> dict[str, str]:
    """Return the attributes that users' hooks add to the hardware class.

    Raises:
        pytest.UsageError: A hook returned something other than a mapping of text to text.
    """
    added: dict[str, str] = {}
    for answer in config.hook.pytest_anubis_attributes(config=config, attributes=dict(attributes)):
        if answer is None:
            continue
        if not isinstance(answer, Mapping) or not all(
            isinstance(k, str) and isinstance(v, str) for k, v in answer.items()
        ):
            raise pytest.UsageError(
                f"hook pytest_anubis_attributes returned {answer!r}; return a mapping of text to text"
            )
        added.update(answer)
    return added


def _typed_tests(config: pytest.Config) -> str:
    """Return the run's tests, quoted for another command; empty if one of them is not a path."""
    if config.option.pyargs and config.args == [SHIPPED.split()[1]]:
        return SHIPPED
    args = ["." if Path(one) == config.invocation_params.dir else one for one in config.args]
    there = all(Path(one.partition("::")[0]).exists() for one in args)
    return shlex.join(args) if args and there else ""


def _verified_source(settings: Settings) -> str:
    """Check baselines and certificates against the named digests, before any of them is used."""
    try:
        return verified(settings.baselines, settings.baseline_pin)
    except BaselineError as error:
        raise pytest.UsageError(f"--anubis-baseline: {error}") from error


def _class_baseline(settings: Settings, key: str, tests: str) -> tuple[Baseline | None, str]:
    """Load the baseline of a hardware class.

    Returns:
        The baseline and an empty note, or None and one sentence that says what to do next.

    Raises:
        pytest.UsageError: The file or folder cannot be used.
    """
    # Only the default folder may be missing.
    if settings.baselines.name != DEFAULT_BASELINES and not settings.baselines.exists():
        raise pytest.UsageError(
            f"--anubis-baseline: {settings.baselines}: no such file or folder; name one that is there"
        )
    try:
        path = find_baseline(settings.baselines, key)
        if path is not None:
            return load_baseline(path, hardware_class=key), ""
    except (OSError, BaselineError) as error:
        raise pytest.UsageError(str(error)) from error
    profile = "" if settings.profile == "smoke" else f" --profile {settings.profile}"
    return None, (
        f"no baseline for hardware class {key} in {settings.baselines}: learn one with "
        f"'{learning(tests)}{profile}' on machines known to be good, then run again"
    )


def _other_lanes_note(settings: Settings, other: str, tests: str) -> str:
    """Return a note if a baseline exists, but for accelerators measured side by side instead of alone."""
    try:
        if find_baseline(settings.baselines, other) is None:
            return ""
    except (OSError, BaselineError):
        return ""
    ways = {SIDE_BY_SIDE: "run with -n auto", ALONE: "run without -n"}
    learned, here = (SIDE_BY_SIDE, ALONE) if slug(SIDE_BY_SIDE) in other else (ALONE, SIDE_BY_SIDE)
    more = " --pytest-args=-nauto" if here == SIDE_BY_SIDE else ""
    return (
        f"no baseline for this way of running: that of {other} was learned with the accelerators {learned}, "
        f"and here they are measured {here}; {ways[learned]}, or learn this way with '"
        f"{learning(tests)}{more}'"
    )


def _check_required(settings: Settings, baseline: Baseline) -> None:
    """Refuse a name in ``--anubis-require`` that the baseline lacks: no run could be accepted.

    Raises:
        pytest.UsageError: A name is unknown; the message lists those that are known.
    """
    unknown = Requirement(settings.require).unknown(baseline.criteria, baseline)
    if settings.require and unknown:
        lines = (f"--anubis-require {one.benchmark}: {one.cause}" for one in unknown)
        raise pytest.UsageError("; ".join(lines))


def _node(settings: Settings, inventory: Inventory) -> str:
    """Return ``--anubis-node``, else the name in a recorded inventory, else this machine's name."""
    try:
        if settings.inventory is not None and not settings.node:
            return inventory.node
        return node_name(os.environ, settings.node, where="--anubis-node")
    except NodeNameError as error:
        raise pytest.UsageError(str(error)) from error


def _seconds_behind(baseline: Baseline | None) -> float:
    """Return by how many seconds this clock is behind its baseline; 0 within what clocks may differ by."""
    learned = moment(baseline.created) if baseline else None
    behind = (learned or 0.0) - time.time()
    return behind if behind > CLOCK_TOLERANCE else 0.0


def _waivers(settings: Settings) -> tuple[Waiver, ...]:
    if settings.waivers is None:
        return ()
    try:
        return read_waivers(settings.waivers, today())
    except WaiverError as error:
        raise pytest.UsageError(f"--anubis-waivers: {error}") from error
