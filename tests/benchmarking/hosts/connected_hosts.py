"""Simulated hosts and their processes, forked and connected, which the tests of a module share.

PYTEST_DONT_REWRITE: it holds no assertion.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from pytest_anubis.benchmarking.hosts.pair_group import PairGroup
from pytest_anubis.benchmarking.hosts.simulated_hosts import SimulatedHosts, simulated_hosts
from pytest_anubis.benchmarking.shaped_link import NotPossible
from tests import forked


@contextmanager
def connected_hosts(count: int, rate: float) -> Iterator[tuple[SimulatedHosts, PairGroup]]:
    """Start hosts whose ports have a rate, and their processes."""
    try:
        hosts = simulated_hosts(count, rate=rate)
    except NotPossible as why:
        if not re.search("need root|not found|not permitted|denied|unknown", str(why)):
            raise
        pytest.skip(str(why))
    with hosts:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(subprocess, "Popen", forked.Quick)
            group = PairGroup(hosts)
        with group:
            group.join()
            yield hosts, group
