"""The interval of a share agrees with Clopper and Pearson's."""

from __future__ import annotations

import pytest

from pytest_anubis.core.share_interval import share_interval


def test_intervals_are_clopper_pearson() -> None:
    known = {(0, 10): (0, 0.3085), (3, 10): (0.0667, 0.6525), (0, 0): (0, 1), (10, 10): (0.6915, 1)}
    for (happened, count), ends in known.items():
        assert list(share_interval(happened, count)) == pytest.approx(list(ends), abs=1e-4)
