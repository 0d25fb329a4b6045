"""Hardware acceptance testing as a pytest plugin.

The names below are the public API: types of the fixtures for the annotations of benchmarks, and what hooks in
a conftest.py are given.

PYTEST_DONT_REWRITE
"""

from pytest_anubis.core.blocker import Blocker, Hindrance
from pytest_anubis.core.measurement import Measurement
from pytest_anubis.core.metric import Metric
from pytest_anubis.core.verdict import (
    Decision,
    MetricVerdict,
    NodeVerdict,
    Outcome,
    Reason,
    Reference,
)
from pytest_anubis.fixture_types import (
    DeviceFixture,
    MetricFixture,
    NodeFixture,
    PairFixture,
    PairsFixture,
)

__version__ = "0.2.0"

__all__ = [
    "Blocker",
    "Decision",
    "DeviceFixture",
    "Hindrance",
    "Measurement",
    "Metric",
    "MetricFixture",
    "MetricVerdict",
    "NodeFixture",
    "NodeVerdict",
    "Outcome",
    "PairFixture",
    "PairsFixture",
    "Reason",
    "Reference",
    "__version__",
]
