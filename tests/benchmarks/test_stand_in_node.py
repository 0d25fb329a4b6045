"""The stand-in node's benchmark runs real processes, and sees what is wrong with them."""

from __future__ import annotations

import importlib
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

stand_in_node: Any = importlib.import_module("benchmarks.accelerators.stand_in_node")


def test_a_healthy_node_and_a_fault(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    known = stand_in_node.conditions(4)
    healthy = replace(known["visible by number"], where="one")
    chosen = {"visible by number": healthy, "XID 79": known["XID 79"]}
    monkeypatch.setattr(stand_in_node, "conditions", lambda *_: chosen)
    assert stand_in_node.main(["--runs=1", "--cards=4"]) == 0
    healthy, fault = capsys.readouterr().out.splitlines()[2:4]
    assert healthy.startswith("| visible by number | 1 | 1 | ACCEPTED: ")
    assert fault.startswith("| XID 79 | 1 | 1 | REJECTED: ")
    assert "GPU 3 (0000:61:00.0): XID 79: the card has fallen off the bus" in fault
    assert "(serial number 1650000003)" in fault


@pytest.mark.parametrize(
    ("code", "said", "wrong"),
    [
        (1, "REJECTED: GPU 3: XID 79: the card has fallen off the bus", ""),
        (0, "REJECTED: GPU 3: XID 79: the card has fallen off the bus", "exit code 0 instead of 1"),
        (1, "REJECTED: XID 79: the card has fallen off the bus", "no line names the card"),
        (1, "REJECTED: GPU 3: XID 78: something else", "no line names the card"),
        (1, "GPU 3: XID 79: the card has fallen off the bus", "no line names the card"),
        (1, "REJECTED: GPU 3: XID 79: the card has fallen off the bus\nTraceback", "a traceback"),
    ],
)
def test_what_is_wrong_with_a_run_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, said: str, wrong: str
) -> None:
    done = subprocess.CompletedProcess[str]([], code, said)
    monkeypatch.setattr(stand_in_node.subprocess, "run", lambda *_, **__: done)
    template = tmp_path / "node"
    template.mkdir()
    found, _ = stand_in_node.attempt("XID 79", 0, template, tmp_path / "libnvidia-ml.so.1")
    assert found.startswith(wrong)
    assert bool(found) == bool(wrong)
