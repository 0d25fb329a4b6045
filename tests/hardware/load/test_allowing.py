"""The options that allow a disturbance are high enough, and no higher than what was told needs."""

from __future__ import annotations

import pytest

from pytest_anubis.hardware.load.allowing import limits_allowing, option_text, processes_named
from pytest_anubis.hardware.load.disturbance import Quietness, disturbances
from pytest_anubis.hardware.load.process_load import Stranger
from pytest_anubis.settings import _quiet_limits


def busy(share: float) -> Quietness:
    """Return a machine on which others take a share of everything."""
    return Quietness(
        seconds=1.0,
        cpus=2,
        steal=share,
        others=2 * share,
        pressure={"cpu some": share, "memory some": share, "io some": share},
        own_traffic=1 << 40,
        others_traffic=1.0,
        busiest=(Stranger(7, "a b", share), Stranger(8, "stress", share)),
    )


@pytest.mark.parametrize("share", [0.104, 0.1249, 0.333, 0.5, 0.994, 1.0])
def test_what_was_seen_is_allowed_whole(share: float) -> None:
    phrases = disturbances(busy(share))
    needed = limits_allowing(phrases)
    assert set(needed) == {"steal", "others", "cpu", "memory", "io"}
    limits = _quiet_limits(option_text(needed).partition("=")[2])
    assert disturbances(busy(share), limits) == ()
    assert all(value <= 100 * share + 5 for value in needed.values())
    assert processes_named(phrases) == ("a?b", "stress")


def test_of_several_the_worst_counts_and_what_no_limit_is_about_is_left_out() -> None:
    assert limits_allowing(["12 % steal", "9 % steal", "CPU quota of 2 cores"]) == {"steal": 13}
    assert option_text(limits_allowing(["CPU quota of 2 cores"])) == ""
