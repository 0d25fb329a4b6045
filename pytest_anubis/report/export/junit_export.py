"""Additions to pytest's JUnit file: verdicts as properties, and the node's decision as a test case.

`call_phase` and `start` use it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from pytest_anubis.core.verdict import Decision, MetricVerdict, NodeVerdict
from pytest_anubis.report.text.numbers import certainty_text, lost_text, similarity_text, value_text
from pytest_anubis.report.text.shared_lines import after_decision


def properties(verdicts: Iterable[MetricVerdict]) -> list[tuple[str, str]]:
    """Return (name, value) pairs: ``anubis.<metric>`` with its value, then its verdict and reason."""
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
    """Plugin that adds the decision to the JUnit file, as a failed test case too if the node is not accepted.

    A node can be rejected, or left undecided, although every test passed or was skipped: by its inventory,
    by a comparison of its devices, or by its own past. A CI server that reads only the file would see green.
    """

    CASE = "anubis::acceptance"

    def __init__(self) -> None:
        self._failed = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note that the file already has a failed test case."""
        self._failed = self._failed or report.failed

    def pytest_anubis_verdict(self, config: pytest.Config, verdict: NodeVerdict) -> None:
        """Add the decision to the file, which pytest's plugin writes after this."""
        for plugin in _junit_plugins(config):
            plugin.add_global_property("anubis.decision", verdict.decision.value)
            plugin.add_global_property("anubis.headline", verdict.headline)
        if verdict.decision is not Decision.ACCEPTED:
            self._add_case(config, f"{verdict.decision.value}: {after_decision(verdict)}")

    # Runs after the run's plugin, which is registered later and sets the exit status, and before the file is
    # written.
    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Add a failed test case if pytest ended with an error but without a decision."""
        status = int(session.exitstatus)
        if session.config.option.collectonly:  # accepts nothing, though pytest's status is 0
            status = status or Decision.UNDECIDED.exit_code
        if status != 0:
            self._add_case(
                session.config,
                f"{Decision.UNDECIDED.value}: pytest ended with exit status {status}, and nothing was "
                "decided; its output says why",
            )

    def _add_case(self, config: pytest.Config, headline: str) -> None:
        """Add a failed test case, unless the file has one."""
        for plugin in [] if self._failed else _junit_plugins(config):
            self._failed = True
            for when, outcome in (("call", "failed"), ("teardown", "passed")):
                plugin.pytest_runtest_logreport(
                    pytest.TestReport(
                        nodeid=self.CASE,
                        location=("anubis", None, "acceptance"),
                        keywords={},
                        outcome=outcome,  # type: ignore[arg-type]  # one of its literals
                        longrepr=headline if outcome == "failed" else None,
                        when=when,  # type: ignore[arg-type]
                    )
                )


def _junit_plugins(config: pytest.Config) -> list[Any]:
    """Return pytest's JUnit plugin, which has no public name, if it writes a file."""
    return [
        one for one in config.pluginmanager.get_plugins() if hasattr(one, "add_global_property")
    ]
