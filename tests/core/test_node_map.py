"""Places of devices by their names."""

from __future__ import annotations

import pytest

from pytest_anubis.core.node_map import card_number
from pytest_anubis.core.run import card_texts


@pytest.mark.parametrize(
    ("device", "number"),
    [
        *(("cuda:3", 3), ("cuda:12", 12), ("cuda:0>cuda:1", None), ("cpu", None), ("", None)),
        *((":3", None), ("mlx5_0:1", None), ("0000:3a:00.0", None), (f"cuda:{'9' * 5000}", None)),
    ],
)
def test_only_a_single_card_has_a_number(device: str, number: int | None) -> None:
    assert card_number(device) == number


def test_a_number_of_any_length_is_no_crash() -> None:
    cards = {"accelerators": [{"pci": "0000:01:00.0"}]}
    assert card_texts([f"cuda:{'9' * 5000}"], cards) == {}
