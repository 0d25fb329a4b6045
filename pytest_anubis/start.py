"""Start of a run with ``--anubis``: inventory, hardware class and baseline, then the rooms' plugins.

A worker is told all this and starts in ``start_worker.py``.
"""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_anubis.codec.moments import moment
from pytest_anubis.core.asking.typed_tests import SHIPPED, learning
from pytest_anubis.core.events import MACHINE
from pytest_anubis.core.history import CLOCKS_DIFFER
from pytest_anubis.core.identity.machine_marks import another_machine, identity_marks
from pytest_anubis.core.waivers.waiving import concerns
from pytest_anubis.distributed.containment.crash_evidence import Evidence, card_addresses
from pytest_anubis.distributed.containment.hang_reports import HangReports
from pytest_anubis.distributed.containment.leftovers import Leftovers
from pytest_anubis.distributed.dispatch.tasks import NODE, Lane
from pytest_anubis.distributed.workers import controller
from pytest_anubis.distributed.workers.device_binding import device_order
from pytest_anubis.distributed.workers.lane_allotment import side_by_side
from pytest_anubis.distributed.workers.lane_places import LanePlaces
from pytest_anubis.distributed.workers.process_cores import NearCard
from pytest_anubis.hardware.gate.surroundings import Surroundings, read_surroundings
from pytest_anubis.hardware.inventory.hardware_classes import (
    ALONE,
    SIDE_BY_SIDE,
    extended_key,
    hardware_class,
    slug,
    split_by,
)
from pytest_anubis.hardware.inventory.inventory_reading import (
    inventory_to_plain,
    read_inventory,
    redact,
)
from pytest_anubis.hardware.inventory.node_attributes import node_facts
from pytest_anubis.hardware.inventory.node_name import NodeNameError, node_name
from pytest_anubis.hardware.inventory.visible_devices import visible
from pytest_anubis.hardware.telemetry.recorded_node import RecordingError, replay
from pytest_anubis.report.export.junit_export import JUnitDecision
from pytest_anubis.report.pytest_html import HtmlReport
from pytest_anubis.session.collecting.neighbour_plugins import refused_option
from pytest_anubis.session.collecting.required_names import check_required
from pytest_anubis.session.context import (
    RunContext,
    add_part,
    context_key,
    new_run_id,
    sink_key,
)
from pytest_anubis.session.history_warning import warn
from pytest_anubis.session.measuring.call_phase import Judge
from pytest_anubis.session.measuring.visits import Visits
from pytest_anubis.session.measuring.watching import watch_tests
from pytest_anubis.session.running.gate_plugin import Gate, golden_of
from pytest_anubis.session.running.hardware_watch import HardwareWatch
from pytest_anubis.session.running.late_end import LateEnd
from pytest_anubis.session.running.live_progress import LiveProgress
from pytest_anubis.session.running.live_run import Run
from pytest_anubis.session.running.resume import SkipDone, compared, find_earlier
from pytest_anubis.session.running.terminal_plugin import Terminal
from pytest_anubis.session.selecting.pruning import Pruning, conflicting_option
from pytest_anubis.session.selecting.run_choice import Selection, read_choice_inputs
from pytest_anubis.settings import DEFAULT_BASELINES, Settings
from pytest_anubis.store.baselines.baseline_files import BaselineError, find_baseline, load_baseline
from pytest_anubis.store.baselines.pinned_files import verified
from pytest_anubis.store.waiver_files import WaiverError, read_waivers, today

if TYPE_CHECKING:
    from pytest_anubis.core.baseline import Baseline
    from pytest_anubis.core.inventory import Inventory
    from pytest_anubis.core.verdict import Waiver
    from pytest_anubis.session.running.resume import Earlier


def start(config: pytest.Config, settings: Settings) -> None:
    """Find out what this run is about and register what carries it out.

    Raises:
        pytest.UsageError: An option of another plugin makes copies of every benchmark, the baseline or a
            recorded inventory cannot be used, or what is required is in no baseline; one line says which.
    """
    if refused := refused_option(config):
        raise pytest.UsageError(refused)
    context = prepare(config, settings)
    check_required(context)
    earlier = None
    if settings.resume:
        earlier = find_earlier(settings)
        earlier = compared(earlier, context)
        context = replace(context, run_id=earlier.state.record().run, done=earlier.done)
    config.stash[context_key] = context

    run = Run(config, context, earlier)
    config.stash[sink_key] = run.sink
    if config.getoption("xmlpath", None):  # before the run, which goes first at the end
        add_part(config, JUnitDecision(), "anubis-junit")
    add_part(config, run, "anubis-run")
    add_part(config, LateEnd(config, run), "anubis-end")
    if settings.select:
        _select(config, run, earlier)
    if earlier is not None:  # after the choice, which must see all tests
        add_part(config, SkipDone(), "anubis-resume")
    gate = None
    if context.refused and (not context.judging or settings.gate == "off"):
        raise pytest.UsageError("; ".join(context.refused))
    if context.own_inventory:
        run.looked_at = (MACHINE,)
    # Before the gate: at the end it looks first, while the watch still keeps the driver loaded.
    if settings.inventory is None:  # a recorded node's cards are not here
        watch = HardwareWatch(context, run.state, run.sink)
        run.looked_at = watch.places
        add_part(config, watch, "anubis-hardware")
    if context.judging:
        gate = Gate(context, run.sink, golden_of(context), _surroundings(config, settings))
        run.looked_at += gate.looks_at
        add_part(config, gate, "anubis-gate")
    add_part(config, Terminal(config, run), "anubis-terminal")
    workers = in_workers(config, settings, context.devices)
    add_part(config, LiveProgress(config, run, workers=workers), "anubis-progress")
    add_part(config, Judge(config, context), "anubis-judge")
    add_part(config, Visits(config, context), "anubis-visits")
    if config.pluginmanager.has_plugin("html") and config.getoption("htmlpath", None):
        add_part(config, HtmlReport(run), "anubis-html")
    if gate is not None and gate.stops:  # nobody will run a test: no worker is started for it
        config.option.dist, config.option.tx, config.option.numprocesses = "no", [], None
    elif workers:
        controller.register(config, context, run.state, run.sink, run.selection)
    else:
        _count_by_slot(config, context)
        watch_tests(config, worker=False)
        add_part(config, Leftovers(config, run.sink), "anubis-leftovers")
        lane = Lane(NODE, context.devices)
        places = LanePlaces(context, [lane], card_addresses(context), sink=run.sink)
        add_part(config, places, "anubis-lanes")
        add_part(config, NearCard(places.near(NODE)), "anubis-near-card")
        if config.pluginmanager.has_plugin("timeout"):
            evidence = Evidence(card_addresses(context))
            config.add_cleanup(evidence.close)
            hangs = HangReports(context.node, run.state, run.sink, evidence)
            add_part(config, hangs, "anubis-hangs")


def _count_by_slot(config: pytest.Config, context: RunContext) -> None:
    """Let CUDA count cards as the inventory does, in this process and whatever it starts."""
    for name, value in device_order(context.bindings).items():
        before = {name: os.environ[name]} if name in os.environ else {}
        os.environ[name] = value
        config.add_cleanup(partial(_put_back, name, before))


def _put_back(name: str, before: Mapping[str, str]) -> None:
    os.environ.pop(name, None)
    os.environ.update(before)


def _surroundings(config: pytest.Config, settings: Settings) -> Surroundings | None:
    """Return what lies around the hardware; a recorded node's is not here."""
    if settings.inventory is not None:
        return None
    return read_surroundings(os.environ, processes=len(config.getoption("tx", None) or ()) or 1)


def _select(config: pytest.Config, run: Run, earlier: Earlier | None) -> None:
    """Freeze what the choice of benchmarks rests on, and let it be made once they are collected."""
    if conflicting_option(config):
        return  # the terminal says so
    before = earlier.choice if earlier is not None else None
    inputs = read_choice_inputs(run.context)
    if inputs.unreadable:
        warn(
            config,
            f"--anubis-select: the history cannot be read: {inputs.unreadable}; nothing is left out",
        )
    run.selection = Selection(run.context, inputs, run.sink, before)
    add_part(config, Pruning(run.selection.answer), "anubis-pruning")


def in_workers(config: pytest.Config, settings: Settings, devices: Sequence[str]) -> bool:
    """Say whether the tests run in worker processes, where a hang or a crash costs one test only.

    Wherever xdist is there they do: without ``-n``, as with ``-n0``, in one worker after the other's death.
    They stay in this process with ``--anubis-in-process``; and with ``-s``, ``--trace`` and
    ``--setup-show``, which are to be watched, unless workers, a deadline or accelerators ask for one.
    """
    if not config.pluginmanager.has_plugin("xdist") or settings.in_process:
        return False
    # Options of plugins that somebody switched off (-p no:capture) are not there.
    asked = config.getoption("numprocesses", None) is not None or bool(config.getoption("tx", ()))
    if asked or settings.timeout is not None or tuple(devices) != ("cpu",):
        return True
    watched = any(config.getoption(name, False) for name in ("trace", "setupshow", "setuponly"))
    return not watched and config.getoption("capture", "") != "no"


def prepare(config: pytest.Config, settings: Settings) -> RunContext:
    """Read the inventory, name the hardware class and find its baseline.

    Raises:
        pytest.UsageError: A file that was named cannot be used.
    """
    inventory = _inventory(settings)
    # Before redaction: workers are bound by what it hides, and a machine is known by it.
    own = settings.inventory is not None and _is_own(inventory)
    usable = visible(inventory.accelerators, os.environ)
    if settings.redact:
        inventory = redact(inventory)
    workers = in_workers(config, settings, usable.devices)
    lanes = SIDE_BY_SIDE if workers and side_by_side(config, usable.devices) else ALONE
    attributes = hardware_class(inventory, settings.profile, lanes=lanes)[1]
    added = _added(config, attributes)
    split = [name for name in settings.split if name not in attributes | added]
    added |= split_by(split, node_facts(inventory))
    key = extended_key(attributes, added)
    baseline, note, source = None, "", ""
    tests = _typed_tests(config)
    if settings.mode == "judge":
        source = _source(settings)
        named = tests or "TESTS"
        baseline, note = find(settings, key, named)
        other = ALONE if lanes == SIDE_BY_SIDE else SIDE_BY_SIDE
        if baseline is None and attributes.get("lanes"):
            other_key = extended_key(attributes | {"lanes": other}, added)
            note = note_of_way(settings, other_key, named) or note
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
        behind=_behind(baseline),
    )


def _node(settings: Settings, inventory: Inventory) -> str:
    """Return the node's name; a recorded inventory has that of its node, unless one is named."""
    try:
        if settings.inventory is not None and not settings.node:
            return inventory.node
        return node_name(os.environ, settings.node, where="--anubis-node")
    except NodeNameError as error:
        raise pytest.UsageError(str(error)) from error


def _behind(baseline: Baseline | None) -> float:
    """Return by how many seconds this clock is behind its baseline; 0 for what clocks may differ by."""
    learned = moment(baseline.created) if baseline else None
    behind = (learned or 0.0) - time.time()
    return behind if behind > CLOCKS_DIFFER else 0.0


def _waivers(settings: Settings) -> tuple[Waiver, ...]:
    if settings.waivers is None:
        return ()
    try:
        return read_waivers(settings.waivers, today())
    except WaiverError as error:
        raise pytest.UsageError(f"--anubis-waivers: {error}") from error


def _inventory(settings: Settings) -> Inventory:
    return read_inventory() if settings.inventory is None else _recorded(settings.inventory)


def _is_own(recorded: Inventory) -> bool:
    """Return whether a recorded inventory is known to be one of this machine."""
    then = identity_marks(inventory_to_plain(recorded))
    if not then:
        return False
    here = identity_marks(inventory_to_plain(read_inventory()))
    return bool(then & here) and not another_machine(then, here)


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


def _added(config: pytest.Config, attributes: dict[str, str]) -> dict[str, str]:
    """Return what users' hooks add to the attributes of the class.

    Raises:
        pytest.UsageError: One of them returned something else.
    """
    answers = config.hook.pytest_anubis_attributes(config=config, attributes=dict(attributes))
    added: dict[str, str] = {}
    for answer in answers:
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
    """Return the tests of a run as they are typed for another command; empty where there is no path."""
    if config.option.pyargs and config.args == [SHIPPED.split()[1]]:
        return SHIPPED
    args = ["." if Path(one) == config.invocation_params.dir else one for one in config.args]
    there = all(Path(one.partition("::")[0]).exists() for one in args)
    return shlex.join(args) if args and there else ""


def note_of_way(settings: Settings, other: str, tests: str) -> str:
    """Say so where there is a baseline, but for the other way of running; empty if there is none.

    Args:
        settings: The settings of the run.
        other: Key of this node's class as it is when it runs the other way.
        tests: Those of the run, as they are typed.
    """
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


def _source(settings: Settings) -> str:
    """Check baselines and certificates by the digests that are named for them, before any is used."""
    try:
        return verified(settings.baselines, settings.baseline_pin)
    except BaselineError as error:
        raise pytest.UsageError(f"--anubis-baseline: {error}") from error


def find(settings: Settings, key: str, tests: str) -> tuple[Baseline | None, str]:
    """Find and load the class's baseline.

    Args:
        settings: The settings of the run.
        key: The class.
        tests: Those of the run, as they are typed.

    Returns:
        The baseline and an empty note, or None and one sentence that says what to do next.

    Raises:
        pytest.UsageError: The file cannot be used; nothing is judged against half a baseline.
    """
    # The folder that nobody named may be missing; there is no baseline then.
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
