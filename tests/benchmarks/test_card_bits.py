"""A flipped bit in what cards move and compute is seen by the check of its benchmark, and none without."""

from __future__ import annotations

import random

import pytest

from benchmarks.suites.faults.card_bits import BUFFERS


@pytest.mark.parametrize("name", BUFFERS)
def test_bit_is_seen_where_there_is_one(name: str) -> None:
    _, attempt = BUFFERS[name]
    draw = random.Random(name)
    assert [attempt(draw, faulty) for faulty in (True, True, False)] == [True, True, False]
