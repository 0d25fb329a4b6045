"""What ``anubis simulate`` reads of a fleet of one's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_anubis.cli.commands.simulate_command import _costs
from pytest_anubis.cli.shared.command_error import CommandError
from pytest_anubis.codec.input_limits import VARIABLE


def test_costs_are_read_as_people_write_tables(tmp_path: Path) -> None:
    path = tmp_path / "costs.csv"
    path.write_text("\ufeffbenchmark, time, share \n gemm, 90s, 3\nnccl,1h,0.5\n", encoding="utf-8")
    assert _costs(path) == {"gemm": (3.0, 0.025), "nccl": (0.5, 1.0)}


def test_costs_that_are_not_there_are_one_plain_line(tmp_path: Path) -> None:
    path = tmp_path / "costs.csv"
    with pytest.raises(CommandError) as refused:
        _costs(path)
    assert str(refused.value) == f"{path}: cannot be read (No such file or directory)"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("benchmark,time\ngemm,90s\n", "needs the columns benchmark, time, share"),
        ("benchmark,time,share\ngemm,90s\n", "line 2: needs benchmark, time and share"),
        ("benchmark,time,share\ngemm,soon,1\n", "line 2: "),
        ("benchmark,time,share\n", "names no benchmark"),
        ("x" * (1 << 20 | 1), "too large, beyond the limit of 1MiB"),
    ],
)
def test_wrong_costs_are_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, said: str
) -> None:
    monkeypatch.setenv(VARIABLE, "1MiB")
    path = tmp_path / "costs.csv"
    path.write_text(text)
    with pytest.raises(CommandError, match=said) as refused:
        _costs(path)
    assert "\n" not in str(refused.value)
