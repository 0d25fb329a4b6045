"""A conftest for the folders in which tests run pytest: what else runs on this machine is no disturbance."""

QUIET = """
import pytest

@pytest.fixture(autouse=True, scope="session")
def _quiet_machine():
    from pytest_anubis.hardware.load.test_disturbance import Ambient

    before, Ambient.since = Ambient.since, lambda self, begin: ()
    yield
    Ambient.since = before
"""
