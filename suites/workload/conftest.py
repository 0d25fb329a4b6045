"""What the workloads need before they begin."""

from __future__ import annotations

from suites.training.conftest import optimizers as optimizers
