"""Text that no encoding can write is replaced, all other text is kept."""

from __future__ import annotations

from pytest_anubis.codec import without_surrogates


def test_lone_surrogates_are_replaced_and_nothing_else() -> None:
    assert without_surrogates("a\udcffb\ud800") == "a\ufffdb\ufffd"
    assert without_surrogates("plain, \xe9, \U0001f600\0") == "plain, \xe9, \U0001f600\0"
