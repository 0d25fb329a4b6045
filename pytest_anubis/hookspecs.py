"""Hooks by which a user's conftest or plugin adds to a node's class, judges a measurement, uses the verdict.

Write them as ordinary functions in a conftest.py at the root of the tests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_anubis.core.measurement import Measurement
    from pytest_anubis.core.verdict import MetricVerdict, NodeVerdict


@pytest.hookspec
def pytest_anubis_attributes(
    config: pytest.Config, attributes: Mapping[str, str]
) -> Mapping[str, str] | None:
    """Add attributes to this node's hardware class, before its baseline is looked up.

    Return a mapping of additional attributes (text to text), or None. Nodes that differ in one of them
    are different classes and are never compared. Example: racks with rear-door coolers run warmer::

        def pytest_anubis_attributes(config, attributes):
            return {"cooling": Path("/etc/rack-cooling").read_text().strip()}
    """


@pytest.hookspec(firstresult=True)
def pytest_anubis_judge(config: pytest.Config, measurement: Measurement) -> MetricVerdict | None:
    """Judge one measurement in place of the Validator, in the process that measured it.

    The first answer that is not None counts. `anubis judge` keeps a hook's FAIL, MARGINAL or
    INCONCLUSIVE and judges a PASS again by the baseline.

    Example: a contract states a floor, whatever the fleet does::

        def pytest_anubis_judge(config, measurement):
            if measurement.metric.name != "h2d_rate":
                return None
            worst = min(measurement.values)
            return MetricVerdict(
                outcome=Outcome.PASS if worst >= 50 else Outcome.FAIL,
                reason=Reason.WITHIN if worst >= 50 else Reason.BEYOND,
                text=f"slowest copy {worst:.1f} GB/s, contract floor 50 GB/s",
                benchmark=measurement.benchmark,
                metric=measurement.metric.name,
            )
    """


@pytest.hookspec
def pytest_anubis_verdict(
    config: pytest.Config, verdict: NodeVerdict, verdicts: Sequence[MetricVerdict]
) -> None:
    """Use the finished verdict; called on the controller, after the verdict is in the journal.

    Metrics that xfail marks or waivers cover have the verdict NOT_TESTED.

    Example: open a ticket for a rejected node::

        def pytest_anubis_verdict(config, verdict, verdicts):
            if verdict.decision == "REJECTED":
                tickets.open(verdict.node, verdict.headline)
    """
