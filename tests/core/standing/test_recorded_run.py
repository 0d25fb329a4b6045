"""What a run says of its node."""

from __future__ import annotations

import pytest

from pytest_anubis.core.run import RunRecord
from pytest_anubis.core.standing.recorded_run import said_of_node


@pytest.mark.parametrize(("campaign", "said"), [("", ""), ("night", "UNDECIDED")])
def test_a_killed_cycle_of_a_soak_leaves_its_node_undecided(campaign: str, said: str) -> None:
    killed = RunRecord(run="r1", node="n1", started="2026-01-01T00:00:00+00:00", campaign=campaign)
    assert said_of_node(killed) == said
