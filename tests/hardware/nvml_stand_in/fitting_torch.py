"""A plugin (``-p tests.hardware.nvml_stand_in.fitting_torch``) for other processes: a torch that fits.

PYTEST_DONT_REWRITE: it holds no assertion, and is loaded before the runs that name it.
"""

from __future__ import annotations

import pytest

from pytest_anubis.hardware.gate import software_environment
from tests.hardware.nvml_stand_in import FITTING


@pytest.hookimpl(tryfirst=True)
def pytest_configure() -> None:
    """Let the gate see a build of torch for the stand-in cards."""
    software_environment._torch = lambda: FITTING
