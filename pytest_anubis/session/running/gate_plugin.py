"""The inventory gate as a plugin: reports wrong hardware or software in seconds, before any benchmark runs.

At the end it checks the hardware again. The checks themselves are in ``hardware/gate``.

`start` uses it.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from pytest_anubis.core.events import INVENTORY, BlockerFound, InventoryChanged, Judged
from pytest_anubis.core.inventory import FindingKind, GateFinding
from pytest_anubis.core.machine_marks import another_machine, identity_marks
from pytest_anubis.core.measurement import GATE_STOPPED
from pytest_anubis.core.verdict import MetricVerdict, Outcome, Reason, Reference
from pytest_anubis.core.waiving import with_waiver
from pytest_anubis.hardware.gate.gate_comparison import (
    JUDGED_BY_RATE,
    check_again,
    gone_since,
    since,
)
from pytest_anubis.hardware.gate.inventory_gate import check_inventory
from pytest_anubis.hardware.gate.preflight import preflight
from pytest_anubis.hardware.gate.software_environment import SoftwareEnvironment
from pytest_anubis.hardware.inventory.hardware_classes import closest_class
from pytest_anubis.hardware.inventory.inventory_reading import (
    InventoryError,
    inventory_from_plain,
    inventory_to_plain,
    read_inventory,
    redact,
)
from pytest_anubis.report.text.safe_text import printable
from pytest_anubis.session.context import RunContext, Sink
from pytest_anubis.store.baselines.baseline_files import BaselineError, load_baselines

if TYPE_CHECKING:
    from pytest_anubis.core.inventory import Inventory

BENCHMARK = "inventory"
"""Benchmark id of the gate's verdicts."""

END_DEADLINE = 15.0
"""Seconds in which a vendor's library must answer at the end of the run, when the cards are awake."""


class Gate:
    """Plugin that compares the inventory with the class's golden one and stops a run on a failed node.

    Args:
        golden: Inventory of the class's nodes; None: only checks without a comparison are made.
        environment: Settings around the hardware; None for a recorded node.

    Attributes:
        findings: Findings against the node at the start, failures first.
    """

    def __init__(
        self,
        context: RunContext,
        sink: Sink,
        golden: Inventory | None,
        environment: SoftwareEnvironment | None = None,
    ) -> None:
        self._context = context
        self._sink = sink
        self._golden = golden
        self._printed = False
        self.findings: list[GateFinding] = []
        refused: list[GateFinding] = []
        if context.settings.gate != "off":
            inventory = inventory_from_plain(context.inventory)
            self.findings = check_inventory(inventory, golden)
            if environment is not None:
                self.findings += preflight(inventory, environment, _tested(context))
                self.findings += _since_the_last_run(context, inventory)
            if context.refused:
                refused = [one for one in self.findings if one.kind is FindingKind.VISIBILITY]
                if not refused:  # else a finding says it
                    refused = list(map(_refused, context.refused))
                    self.findings += refused
        self._stopping = [
            finding
            for finding in self.findings
            if with_waiver(self._verdict(finding), context.waivers).outcome is Outcome.FAIL
        ]
        if context.settings.gate != "stop":
            self._stopping.clear()
        self._stopping += refused  # no test could run at all

    @property
    def stops(self) -> bool:
        """True if no benchmark may run on this node."""
        return bool(self._stopping)

    @property
    def looks_at(self) -> tuple[str, ...]:
        """The inventory if it is compared with a golden one, and parts whose error counters are readable."""
        settings = self._context.settings
        if settings.gate == "off" or settings.inventory is not None:
            return ()
        inventory = inventory_from_plain(self._context.inventory)
        read = [f"disk {one.name}" for one in inventory.disks if one.media_errors is not None]
        read += ["main memory"] if inventory.memory.uncorrected is not None else []
        return (*([INVENTORY] if self._golden is not None else []), *read)

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Write the findings to the journal, which is open now."""
        if session.config.option.collectonly:
            return
        for finding in self.findings:
            if finding.severity != "NOTE":
                self._sink(Judged(verdict=self._verdict(finding)))
        if self.stops:  # a resumed run checks again
            self._sink(BlockerFound(text=GATE_STOPPED, found_anew=True))

    def pytest_report_collectionfinish(self) -> list[str]:
        """Print the findings."""
        self._printed = True
        return [
            printable(
                f"anubis gate: {f.severity}: {f.text}"
                + (f"; next step: {f.action}" if f.action else "")
            )
            for f in self.findings
        ]

    # First, before any other loop.
    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """Run no benchmark on a failed node, and report each finding as a failed test.

        Otherwise readers of the JUnit file would take a node without tests for a good one.
        """
        reporter = session.config.pluginmanager.get_plugin("terminalreporter")
        if not self._printed and reporter is not None:  # with workers there is no collection here
            reporter.ensure_newline()
            for line in self.pytest_report_collectionfinish():
                reporter.write_line(line)
        if not self.stops or session.config.option.collectonly:
            return None
        for number, finding in enumerate(self._stopping):
            what = f"{BENCHMARK}::{finding.what}" + (f" [{number}]" if number else "")
            report = pytest.TestReport(
                nodeid=what,
                location=(BENCHMARK, None, finding.what),
                keywords={},
                outcome="failed",
                longrepr=finding.text
                + (f"\nnext step: {finding.action}" if finding.action else ""),
                when="call",
            )
            session.config.hook.pytest_runtest_logreport(report=report)
        return True

    # Before the run decides, and after all workers have ended and released their memory.
    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Check again for changes of the hardware during the run."""
        settings = self._context.settings
        recorded = settings.inventory is not None  # a recorded node does not change
        if session.config.option.collectonly or settings.gate == "off" or recorded or self.stops:
            return
        if any(finding.kind is FindingKind.NO_ANSWER for finding in self.findings):
            return  # a driver hung at the start, so there is nothing to compare with
        after = read_inventory(deadline=END_DEADLINE)
        before = inventory_from_plain(self._context.inventory)
        if settings.redact:
            after = redact(after)
        if replace(after, taken=before.taken) != before:
            self._sink(InventoryChanged(inventory=inventory_to_plain(after)))
        found = check_again(before, after, self._golden)
        known = {(one.slot, one.what, one.severity) for one in self.findings}
        for finding in found:
            key = (finding.slot, finding.what, finding.severity)
            if (
                finding.severity != "NOTE"
                and finding.what not in JUDGED_BY_RATE
                and key not in known
            ):
                verdict = self._verdict(finding)
                self._sink(
                    Judged(verdict=replace(verdict, text=f"at the end of the run: {verdict.text}"))
                )

    def _verdict(self, finding: GateFinding) -> MetricVerdict:
        failed, known = finding.severity == "FAIL", self._context.baseline
        golden = known.reference if known else Reference.FLEET
        return MetricVerdict(
            outcome=Outcome.FAIL if failed else Outcome.INCONCLUSIVE,
            reason=Reason.BEYOND if failed else Reason.INVALID,
            # Only a rejection has a headline with the next step.
            text=finding.text
            if failed or not finding.action
            else f"{finding.text}; {finding.action}",
            benchmark=BENCHMARK,
            metric=finding.what,
            component=finding.component,
            node=self._context.node,
            device=finding.slot,
            reference=golden if self._golden is not None else Reference.NONE,
            baseline=known.digest if known else "",
            action=finding.action,
        )


def _refused(text: str) -> GateFinding:
    """Return the finding about a wrong choice of accelerators, given as ``problem: fix``."""
    problem, _, fix = text.partition(": ")
    return GateFinding(
        what="the choice of accelerators",
        expected="whole cards of this node, each once",
        found=f"none that can be tested ({problem})",
        severity="INCONCLUSIVE",
        action=fix,
    )


def _since_the_last_run(context: RunContext, inventory: Inventory) -> list[GateFinding]:
    """Return the changes of the node's cards since its last runs; none if these cannot be read."""
    from pytest_anubis.store.earlier_runs import earlier_inventories

    place, marks = context.settings.store, identity_marks(context.inventory)
    earlier = []
    for plain in earlier_inventories(place, node=context.node, before=context.run_id):
        with contextlib.suppress(InventoryError):
            if not another_machine(identity_marks(plain), marks):
                earlier.append(inventory_from_plain(plain))
    gone = next(filter(None, (gone_since(one, inventory) for one in earlier)), [])
    return [*gone, *(since(earlier[0], inventory) if earlier else [])]


def _tested(context: RunContext) -> set[int]:
    """Return the positions of the accelerators that are tested; devices are numbered over the node."""
    numbers = (device.partition(":")[2] for device in context.devices)
    return {int(number) for number in numbers if number.isdecimal()}


def golden_of(context: RunContext) -> Inventory | None:
    """Return the golden inventory of the node's class, or else of the most similar class.

    A node that lost an accelerator has a different class than its healthy siblings, and that class has no
    baseline.
    """
    baseline = context.baseline
    if baseline is None:
        try:
            known = load_baselines(context.settings.baselines)
        except (OSError, BaselineError):
            return None
        closest = closest_class(context.attributes, {k: b.attributes for k, b in known.items()})
        baseline = known.get(closest) if closest is not None else None
    if baseline is None or not baseline.inventory:
        return None
    try:
        return inventory_from_plain(baseline.inventory, where=f"baseline {baseline.digest}")
    except InventoryError as error:
        raise pytest.UsageError(f"golden inventory: {error}") from error
