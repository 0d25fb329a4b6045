"""Hardware acceptance testing as a pytest plugin.

The names below are the public API for hooks in a conftest.py; benchmarks need only the fixtures.

PYTEST_DONT_REWRITE
"""

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

__version__ = "0.1.0"

__all__ = [
    "Decision",
    "Measurement",
    "Metric",
    "MetricVerdict",
    "NodeVerdict",
    "Outcome",
    "Reason",
    "Reference",
    "__version__",
]
