from __future__ import annotations

import numpy as np

from pytest_anubis.validator.learning.self_check import MIN_NODES, joint_movement


def test_copies_of_one_link_are_one_group_and_what_never_differs_is_named() -> None:
    rng = np.random.default_rng(0)
    links = rng.normal(0, 0.01, (2, 60))
    values = np.concatenate([
        links[0] + rng.normal(0, 0.001, (3, 60)),
        rng.normal(0, 0.01, (4, 60)),
        links[1] + rng.normal(0, 0.001, (2, 60)),
        np.zeros((1, 60)),
    ])  # fmt: skip
    values[0, 5] = np.nan  # a node that lacks it
    values[1, 7] = 0.9  # and one that is sick in it
    found = joint_movement(values)
    assert found.groups == ((0, 1, 2), (7, 8))
    assert found.still == (9,)
    assert found.distinct == 6


def test_steps_of_a_coarse_clock_are_no_movement() -> None:
    rng = np.random.default_rng(1)
    coarse = (rng.random((200, 40)) < 0.25).astype(float)
    assert joint_movement(coarse).groups == ()
    assert joint_movement(coarse).distinct == 200


def test_of_few_nodes_nothing_is_said() -> None:
    same = np.ones((3, 1)) * np.arange(MIN_NODES - 1)
    assert joint_movement(same) == ((), (), 3)
