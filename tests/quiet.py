"""What runs inside tests are given: this plugin, and no plugins that they do not use.

PYTEST_DONT_REWRITE: it holds no assertion, and is loaded before the runs that name it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

OPTIONS = "-p no:hypothesispytest -p no:benchmark -p no:timeout -p tests.quiet"
"""For PYTEST_ADDOPTS. What is left out takes a second to import, in every process."""

FEW_COLLECTIONS = (100_000, 20, 100)
"""For gc.set_threshold: a run inside a test makes few cycles, and looking for them took a fifteenth of it."""

NEVER_ENDING = """
from xdist.workermanage import NodeManager
NodeManager.EXIT_TIMEOUT = 0.2
"""
"""A conftest for runs whose worker never ends, which xdist waits for and then kills."""

QUIET = Path(__file__).read_text(encoding="utf-8")
"""A conftest for folders in which pytest starts without these options."""


@pytest.fixture(autouse=True, scope="session")
def quiet_machine() -> Iterator[None]:
    """Whatever else this machine does, such as the neighbouring worker, disturbs no measurement."""
    from pytest_anubis.hardware.load.ambient_load import AmbientLoad
    from pytest_anubis.hardware.load.disturbance import HostWatch
    from pytest_anubis.session.measuring.conditions import ConditionsWatch

    with pytest.MonkeyPatch.context() as patch:
        # Whoever has put a busy machine in their place wants that one.
        if getattr(AmbientLoad.since, "__name__", "") == "since":  # beside values that are recorded
            patch.setattr(AmbientLoad, "since", lambda self, begin: ())
        if isinstance(getattr(HostWatch, "disturbance", None), property):  # around what is measured
            patch.setattr(HostWatch, "disturbance", ())
        if getattr(ConditionsWatch.rounds, "__name__", "") == "rounds":  # all values count
            patch.setattr(ConditionsWatch, "rounds", lambda self, name="": None)
        yield
