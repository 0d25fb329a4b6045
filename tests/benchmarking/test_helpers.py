"""The small helpers for authors: tolerances, sizes, turns."""

from __future__ import annotations

import itertools
import os
import time
from pathlib import Path

import pytest
import torch

from pytest_anubis.benchmarking.precision import tolerance
from pytest_anubis.benchmarking.sizes import (
    MemoryTakenError,
    fitting,
    give_back,
    host_memory,
    keep_freed_memory,
)
from pytest_anubis.benchmarking.turns import in_turns, values_in_turns
from pytest_anubis.hardware.text_files import Files


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "float16"])
def test_tolerance_accepts_only_rounding(dtype: str) -> None:
    size = 64
    made = torch.Generator().manual_seed(3)
    a, b = (torch.randn(size, size, generator=made).to(getattr(torch, dtype)) for _ in range(2))
    exact = a.double() @ b.double()
    result = (a @ b).double()
    bound = tolerance(dtype, terms=size)
    assert float((result - exact).norm() / exact.norm()) < bound
    result[0] = 0  # a lost row
    assert float((result - exact).norm() / exact.norm()) > bound


def test_whole_numbers_have_no_tolerance() -> None:
    assert tolerance("int8", terms=1 << 20) == 0.0
    with pytest.raises(KeyError):
        tolerance("int4")


def test_host_memory_leaves_what_others_use(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemTotal: 100 kB\nMemAvailable:      40 kB\n")
    free, total = host_memory(Files(tmp_path))
    assert free == 40 * 1024
    assert total > free


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_freed_memory_is_kept_until_it_is_given_back() -> None:
    keep_freed_memory()
    size = 24 << 20  # below the largest piece that glibc takes from its heap
    torch.ones(size, dtype=torch.uint8)
    with_it = _resident()
    give_back(torch.device("cpu"))
    assert _resident() < with_it - size / 2


def test_size_does_not_depend_on_free_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    card, kept, others = torch.device("cuda", 0), [12 << 30], 0

    def ask(*_: object) -> tuple[int, int]:
        return (16 << 30) - kept[0] - others, 16 << 30

    monkeypatch.setattr(torch.cuda, "mem_get_info", ask)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: kept.__setitem__(0, 0))
    assert fitting(8 << 30, card) == 8 << 30  # what earlier tests left is given back
    others = 12 << 30
    with pytest.raises(MemoryTakenError, match=r"17\.2 GB 4\.3 GB are free.* takes 8\.6 GB"):
        fitting(8 << 30, card)


def test_turns_give_each_the_same_moments(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = itertools.count()
    monkeypatch.setattr(time, "perf_counter", lambda: float(next(clock)))
    order: list[str] = []
    found = in_turns(
        {"a": lambda: order.append("a"), "b": lambda: order.append("b")},
        rounds=4,
        round_seconds=1.0,
    )
    assert found == {"a": [1.0] * 4, "b": [1.0] * 4}
    assert "".join(order[-8:]) == "abbaabba"
    with pytest.raises(ValueError, match="something to time"):
        in_turns({})


def test_values_in_turns_keeps_returned_values() -> None:
    order: list[int] = []

    def value(number: int) -> float:
        order.append(number)
        return float(100 * number + order.count(number))

    found = values_in_turns({1: lambda: value(1), 2: lambda: value(2)}, rounds=2)
    # The values are not seconds, and the first value of each is not counted.
    assert found == {1: [102.0, 103.0], 2: [202.0, 203.0]}
    assert order == [1, 2, 1, 2, 2, 1]
    with pytest.raises(ValueError, match="something to ask"):
        values_in_turns({})
    assert values_in_turns({"a": lambda: torch.tensor(2.5)}, rounds=1) == {"a": [2.5]}
    with pytest.raises(TypeError, match="'a' returned NoneType; in_turns times the calls"):
        values_in_turns({"a": lambda: None})
