"""Values of a fleet that is larger than the memory come back from files as they were."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pytest_anubis.store.samples.spilled_values import SpilledValues


@pytest.mark.parametrize("parts", [[[]], [[], []], [[], [1.0, 2.0]], [[1.0], [], [2.0]]], ids=str)
def test_an_empty_array_beyond_the_budget_is_not_filed(
    parts: list[list[float]], tmp_path: Path
) -> None:
    with SpilledValues(budget=-1, parent=tmp_path) as storage:
        for part in parts:
            storage.append("m", np.array(part))
        assert storage.pop("m").tolist() == [value for part in parts for value in part]
        assert storage.keep([np.empty(0), np.empty(0)]).tolist() == []
