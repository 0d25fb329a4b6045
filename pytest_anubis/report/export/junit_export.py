"""JUnit: verdicts as properties, so that other tools can read the numbers, and the node's decision."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from pytest_anubis.core.verdict import Decision, MetricVerdict, NodeVerdict
from pytest_anubis.report.text.headlines import after_decision
from pytest_anubis.report.text.numbers import certainty_text, lost_text, similarity_text, value_text


def properties(verdicts: Iterable[MetricVerdict]) -> list[tuple[str, str]]:
    """Return (name, value) pairs: ``anubis.<metric>`` and what was concluded about it."""
    pairs: list[tuple[str, str]] = []
    for verdict in verdicts:
        name = f"anubis.{verdict.metric or 'benchmark'}"
        pairs.append((name, value_text(verdict.value, verdict.unit)))
        pairs.append((f"{name}.verdict", verdict.outcome.value))
        if verdict.similarity is not None:
            pairs.append((f"{name}.similarity", similarity_text(verdict.similarity)))
            pairs.append((f"{name}.threshold", similarity_text(verdict.threshold)))
        if verdict.triage:
            pairs.append((f"{name}.triage", verdict.triage.value))
            if verdict.loss is not None:
                pairs.append((f"{name}.loss", lost_text(verdict)))
            if verdict.certainty is not None:
                pairs.append((f"{name}.certainty", certainty_text(verdict.certainty)))
        if verdict.outcome.value != "PASS":
            pairs.append((f"{name}.reason", verdict.text))
    return pairs


class JUnitDecision:
    """Puts the decision about the node into the JUnit file.

    A node can be rejected by what no single test could know: its inventory, its devices beside each other,
    its own past; and it can be neither accepted nor rejected, though every test has passed or was skipped. A
    CI server that reads nothing but the file would see green; so the decision becomes a failed test case of
    its own.
    """

    CASE = "anubis::acceptance"

    def __init__(self) -> None:
        self._failed = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take note that some test case says it already."""
        self._failed = self._failed or report.failed

    def pytest_anubis_verdict(self, config: pytest.Config, verdict: NodeVerdict) -> None:
        """Write what was decided; pytest's plugin writes the file after this."""
        for plugin in config.pluginmanager.get_plugins():
            if hasattr(plugin, "add_global_property"):  # pytest's own, which has no public name
                plugin.add_global_property("anubis.decision", verdict.decision.value)
                plugin.add_global_property("anubis.headline", verdict.headline)
                if verdict.decision is not Decision.ACCEPTED and not self._failed:
                    self._add_case(plugin, f"{verdict.decision.value}: {after_decision(verdict)}")

    # After the run, which is registered later, has said how it ends; before pytest writes the file.
    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Leave no file green of a run that ended otherwise: one that was refused has no decision at all."""
        status = int(session.exitstatus)
        if session.config.option.collectonly:  # which is no acceptance, whatever pytest says of it
            status = status or Decision.UNDECIDED.exit_code
        if status == 0 or self._failed:
            return
        for plugin in session.config.pluginmanager.get_plugins():
            if hasattr(plugin, "add_global_property"):
                self._add_case(
                    plugin,
                    f"{Decision.UNDECIDED.value}: pytest ended with exit status {status}, and nothing was "
                    "decided; its output says why",
                )

    def _add_case(self, plugin: Any, headline: str) -> None:
        self._failed = True
        location = ("anubis", None, "acceptance")
        for when, outcome in (("call", "failed"), ("teardown", "passed")):
            plugin.pytest_runtest_logreport(
                pytest.TestReport(
                    nodeid=self.CASE,
                    location=location,
                    keywords={},
                    outcome=outcome,  # type: ignore[arg-type]  # one of its literals
                    longrepr=headline if outcome == "failed" else None,
                    when=when,  # type: ignore[arg-type]
                )
            )
