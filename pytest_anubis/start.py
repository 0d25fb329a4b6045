"""Start of a run with ``--anubis``: resolve its facts, then register the plugins that carry it out.

Workers get the facts from the controller and start in ``start_worker.py``.

`plugin` uses it.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from pytest_anubis.core.events import MACHINE
from pytest_anubis.distributed.containment.crash_evidence import HardwareEvidence, card_addresses
from pytest_anubis.distributed.containment.hang_reports import HangReports
from pytest_anubis.distributed.containment.leftovers import Leftovers
from pytest_anubis.distributed.dispatch.tasks import NODE, Lane
from pytest_anubis.distributed.workers import controller
from pytest_anubis.distributed.workers.device_binding import device_order
from pytest_anubis.distributed.workers.lane_places import LanePlaces
from pytest_anubis.distributed.workers.process_cores import NearCard
from pytest_anubis.hardware.gate.software_environment import read_software_environment
from pytest_anubis.report.export.junit_export import JUnitDecision
from pytest_anubis.report.pytest_html import HtmlReport
from pytest_anubis.run_context import in_workers, resolve_context
from pytest_anubis.session.collecting.neighbour_plugins import refused_option
from pytest_anubis.session.context import (
    RunContext,
    add_part,
    context_key,
    sink_key,
    warn,
)
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
from pytest_anubis.settings import Settings

if TYPE_CHECKING:
    from pytest_anubis.session.running.resume import Earlier


def start(config: pytest.Config, settings: Settings) -> None:
    """Resolve the facts of the run and register its parts.

    Raises:
        pytest.UsageError: An option of another plugin copies every benchmark, the baseline or a recorded
            inventory cannot be used, or no baseline has what is required; one line says which.
    """
    if refused := refused_option(config):
        raise pytest.UsageError(refused)
    context = resolve_context(config, settings)
    earlier = None
    if settings.resume:
        earlier = compared(find_earlier(settings), context)
        context = replace(context, run_id=earlier.state.record().run, done=earlier.done)
    config.stash[context_key] = context
    run = Run(config, context, earlier)
    config.stash[sink_key] = run.sink
    _register_recording(config, run, earlier)
    gate = _register_hardware_checks(config, run)
    add_part(config, Terminal(config, run), "anubis-terminal")
    workers = in_workers(config, settings, context.devices)
    add_part(config, LiveProgress(config, run, workers=workers), "anubis-progress")
    add_part(config, Judge(config, context), "anubis-judge")
    add_part(config, Visits(config, context), "anubis-visits")
    if config.pluginmanager.has_plugin("html") and config.getoption("htmlpath", None):
        add_part(config, _html_report(run), "anubis-html")
    if gate is not None and gate.stops:  # no test will run, so no worker starts
        config.option.dist, config.option.tx, config.option.numprocesses = "no", [], None
    elif workers:
        controller.register(config, context, run.state, run.sink, run.selection)
    else:
        _register_tests_in_process(config, run)


def _html_report(run: Run) -> HtmlReport:
    context = run.context
    return HtmlReport(
        run.state,
        node=context.node,
        hardware_class=context.hardware_class,
        inventory=context.inventory,
        baseline=context.baseline,
        baseline_note=context.baseline_note,
        usage_errors=run.usage_errors,
        closed_defects=run.closed_defects,
    )


def _register_recording(config: pytest.Config, run: Run, earlier: Earlier | None) -> None:
    """Register what writes the journal, chooses the tests and skips those that a resumed run has done."""
    context = run.context
    if config.getoption("xmlpath", None):  # before the run, which goes first at the end
        add_part(config, JUnitDecision(), "anubis-junit")
    add_part(config, run, "anubis-run")
    add_part(config, LateEnd(config, run), "anubis-end")
    if context.settings.select:
        _register_selection(config, run, earlier)
    if earlier is not None:  # after the choice, which must see all tests
        add_part(config, SkipDone(), "anubis-resume")


def _register_selection(config: pytest.Config, run: Run, earlier: Earlier | None) -> None:
    """Read what the choice of benchmarks rests on; the choice itself follows their collection."""
    if conflicting_option(config):
        return  # the terminal says so
    inputs = read_choice_inputs(run.context)
    if inputs.unreadable:
        warn(
            config,
            f"--anubis-select: the history cannot be read: {inputs.unreadable}; nothing is left out",
        )
    before = earlier.choice if earlier is not None else None
    run.selection = Selection(run.context, inputs, run.sink, before)
    add_part(config, Pruning(run.selection.answer), "anubis-pruning")


def _register_hardware_checks(config: pytest.Config, run: Run) -> Gate | None:
    """Register the watch over the cards and, where the run judges, the inventory gate; return the gate."""
    context = run.context
    settings = context.settings
    if context.refused and (not context.judging or settings.gate == "off"):
        raise pytest.UsageError("; ".join(context.refused))
    if context.own_inventory:
        run.looked_at = (MACHINE,)
    # Before the gate, which looks first at the end: the watch then still keeps the driver loaded.
    if settings.inventory is None:  # the cards of a recorded inventory may be elsewhere
        watch = HardwareWatch(context, run.state, run.sink)
        run.looked_at = watch.places
        add_part(config, watch, "anubis-hardware")
    if not context.judging:
        return None
    environment = None
    if settings.inventory is None:
        processes = len(config.getoption("tx", None) or ()) or 1
        environment = read_software_environment(os.environ, processes=processes)
    gate = Gate(context, run.sink, golden_of(context), environment)
    run.looked_at += gate.looks_at
    add_part(config, gate, "anubis-gate")
    return gate


def _register_tests_in_process(config: pytest.Config, run: Run) -> None:
    """Register what surrounds tests that run in this process."""
    context = run.context
    _set_device_order(config, context)
    watch_tests(config, worker=False)
    add_part(config, Leftovers(config, run.sink), "anubis-leftovers")
    addresses = card_addresses(context)
    places = LanePlaces(context, [Lane(NODE, context.devices)], addresses, sink=run.sink)
    add_part(config, places, "anubis-lanes")
    add_part(config, NearCard(places.near(NODE)), "anubis-near-card")
    if config.pluginmanager.has_plugin("timeout"):
        evidence = HardwareEvidence(addresses)
        config.add_cleanup(evidence.close)
        hangs = HangReports(context.node, run.state, run.sink, evidence)
        add_part(config, hangs, "anubis-hangs")


def _set_device_order(config: pytest.Config, context: RunContext) -> None:
    """Let CUDA number cards as the inventory does, in this process and its children, until pytest ends."""
    patch = pytest.MonkeyPatch()
    config.add_cleanup(patch.undo)
    for name, value in device_order(context.bindings).items():
        patch.setenv(name, value)
