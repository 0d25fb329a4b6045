"""A blank value where a name belongs is refused, such as an unset shell variable."""

from __future__ import annotations

import pytest

from pytest_anubis.cli.main import main, refuse_blanks


@pytest.mark.parametrize("blank", ["", " ", "\t", "\u3000", ",", " , "])
@pytest.mark.parametrize(
    "words",
    [
        "health --node {}",
        "health --node={}",
        "history defect list --node {}",
        "fleet status --nodes {}",
        "fleet status --exclude={}",
        "fleet verdict c --expect {}",
        "judge {}",
        "judge c --require {}",
        "push c --history {}",
        "report c --metrics {}",
    ],
)
def test_a_blank_value_is_refused(
    words: str, blank: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([word.format(blank) for word in words.split(" ")]) == 2
    assert "is blank" in capsys.readouterr().err


def test_a_note_may_be_blank(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["history", "state", "--node", "n1", "--as", "drained", "--note", "", "--on", "x"]
    main(words)
    assert "is blank" not in capsys.readouterr().err


def test_blanks_behind_two_dashes_are_pytests() -> None:
    refuse_blanks(["fleet", "run", "--hosts", "n1", "--", "suites", "-k", "", "--anubis-duration="])
