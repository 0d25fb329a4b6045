"""The table of duties: the median of the runs, and an exit code for a test that measures too little."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

device_duty: Any = importlib.import_module("benchmarks.accelerators.duty")


@pytest.mark.parametrize(("measured", "code"), [((5.0, 6.0, 1.0), 0), ((4.0, 6.0, 1.0), 1)])
def test_median_duty_of_every_test_is_held_against_a_half(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    measured: tuple[float, ...],
    code: int,
) -> None:
    left = list(measured)
    folders = []

    def run(_cards: int, _only: str, place: Path) -> Iterator[tuple[str, tuple[float, ...]]]:
        folders.append(place)
        yield "suites/compute/test_gemm.py::test_gemm[cuda:0]", (0.5, 10.0, left.pop(0))

    monkeypatch.setattr(device_duty, "run", run)
    assert device_duty.main(["--runs=3"]) == code
    out = capsys.readouterr().out
    share = f"{sorted(measured)[1] / 10:.0%}"
    assert "| compute/test_gemm.py::test_gemm[cuda:0] | 0.5 s | 10.0 s | " in out
    assert f" | {share} | 10% |" in out
    assert ("below 50%" in out) == bool(code)
    assert not any(place.exists() for place in folders)
