"""The first hour without a card, and on eight that are not there: what can run runs, the rest is said."""

from __future__ import annotations

import importlib
import json
import time
from pathlib import Path
from typing import Any

import pytest

from pytest_anubis.core.inventory import Inventory
from tests.hardware.nvml_stand_in import Node, nvml_node

__all__ = ["nvml_node"]

HOUR = "benchmarks.accelerators.first_hour"


@pytest.fixture(scope="module")
def hour() -> Any:
    return importlib.import_module(f"{HOUR}.command")


def rows_of(rows: list[dict[str, Any]], step: str) -> dict[str, dict[str, Any]]:
    return {row["what"]: row for row in rows if row["step"] == step}


def test_the_plan_says_what_would_be_done_and_how_long(
    hour: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert hour.main(["--plan"]) == 0
    one = capsys.readouterr().out
    assert hour.main(["--plan", "--all"]) == 0
    every = capsys.readouterr().out
    for step in hour.ONE:
        assert step.name in one
    assert "burn" in every
    assert "burn" not in one
    assert "no setting of a card is changed" in one
    assert (
        sum(step.minutes for step in hour.ONE) <= 30 >= sum(step.minutes for step in hour.ALL) / 2
    )


@pytest.mark.parametrize("minutes", [1.0, 4.0, 15.0, 60.0])
def test_the_most_telling_steps_end_within_the_time(hour: Any, minutes: float) -> None:
    chosen = hour.within(hour.ONE, minutes)
    assert chosen
    assert sum(step.minutes for step in chosen) <= minutes
    assert [step for step in hour.ONE if step in chosen] == chosen
    assert hour.PRIORITIES[0] in [step.name for step in chosen]
    assert sorted(hour.PRIORITIES) == sorted(step.name for step in hour.ONE)


def test_every_step_is_there_and_says_what_it_does(hour: Any) -> None:
    for step in (*hour.ONE, *hour.ALL):
        module, _, name = step.call.partition(":")
        assert getattr(importlib.import_module(f"{HOUR}.{module}"), name).__doc__, step.call


def test_without_a_card_it_says_so_and_does_nothing(
    hour: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(hour, "read_inventory", lambda: Inventory(node="n"))
    assert hour.main([]) == hour.NO_CARD == 7
    assert capsys.readouterr().out.startswith("no accelerator here")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(["--only", "nonsense"], "no step is called nonsense"), (["--card", "8"], "this node has 8")],
)
def test_a_wrong_use_is_one_line(
    hour: Any, nvml_node: Node, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    assert hour.main(arguments) == 2
    (line,) = capsys.readouterr().out.splitlines()
    assert words in line


def test_on_stand_in_cards_what_needs_no_torch_runs(
    hour: Any, nvml_node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, page = tmp_path / "hour.json", tmp_path / "hour.html"
    steps = "what is there,every call,memory,kill,corruption,links"
    as_process = hour._run

    def run(step: Any, card: int, binding: dict[str, str], model: str, path: Path) -> Any:
        if step.name == "corruption":
            return as_process(step, card, binding, model, path)
        module, _, name = step.call.partition(":")
        findings = hour.Findings(step.name, path, model)
        with pytest.MonkeyPatch.context() as patch:
            for variable, value in binding.items() if module == "suites" else ():
                patch.setenv(variable, value)
            getattr(importlib.import_module(f"{HOUR}.{module}"), name)(findings, card)
        return hour.read_findings(path)

    monkeypatch.setattr(hour, "_run", run)
    assert hour.main(["--only", steps, "--json", str(out), "--html", str(page)]) == 0
    data = json.loads(out.read_text())
    rows = data["rows"]
    assert data["facts"]["cards"] == "8 x NVIDIA H100 80GB HBM3"
    assert data["facts"]["expected figures"] == "those of H100"
    calls = rows_of(rows, "every call")
    assert (
        calls["nvmlDeviceGetTemperature"]["end"] == "seen"
    )  # nobody knows what a call should take
    assert calls["a reading of all cards"]["expected"] == "at most 10 ms"
    assert "one with their counters" in calls
    assert len([name for name in calls if name.startswith("nvml")]) > 20
    (memory,) = rows_of(rows, "memory").values()
    assert memory["end"] == "not possible"
    assert "torch sees no card" in memory["found"]
    assert rows_of(rows, "kill")["kill -9"]["found"].startswith("INCONCLUSIVE")
    assert rows_of(rows, "corruption")["corrupted result"]["found"].startswith("FAIL")
    assert len(rows_of(rows, "links")) == 8
    text = page.read_text()
    assert all(f"<h2>{step}</h2>" in text for step in steps.split(","))
    assert "<script" not in text


def test_a_step_that_hangs_or_dies_is_a_line_and_what_it_found_is_kept(
    hour: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    child = tmp_path / "child.py"
    child.write_text(
        "import json, os, sys, time\n"
        "out = open(sys.argv[sys.argv.index('--out') + 1], 'a')\n"
        "print(json.dumps({'row': {'step': 's', 'what': 'w', 'found': 'f'}}), file=out, flush=True)\n"
        'print(\'{"row": {"st\', file=out, flush=True)\n'
        "time.sleep(600) if 'hang' in sys.argv[2] else os.abort()\n"
    )
    monkeypatch.setattr(hour, "HERE", child)
    begin = time.monotonic()
    for name, words in (("hang", "ended after 3 s"), ("die", "exit code -6")):
        step = hour.Step(name, f"{name}:x", 0.05, False, "why")
        rows, _ = hour._run(step, 0, {}, "", tmp_path / name)
        assert [(row.what, row.found) for row in rows] == [("w", "f"), ("the step itself", words)]
        assert rows[-1].end == "failed"
    assert time.monotonic() - begin < 300  # and not the ten minutes of the child


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA H100 PCIe", ""),
        ("NVIDIA H200", "H200"),
        ("NVIDIA H200 NVL", ""),
        ("AMD Instinct MI300X", "MI300X"),
        ("NVIDIA A100-SXM4-80GB", ""),
    ],
)
def test_figures_are_expected_of_known_cards_only(hour: Any, name: str, model: str) -> None:
    assert hour.model_of(name) == model


def test_every_figure_has_its_place_beside_the_expected_one(hour: Any, tmp_path: Path) -> None:
    findings = hour.Findings("s", tmp_path / "rows", "H100")
    findings.figure("copy", 3.0)
    findings.figure("copy", 2.0)
    findings.figure("dispatch", 9.0)
    findings.within("spread", 0.5, 1.0, "%", "ours")
    rows, courses = hour.read_findings(tmp_path / "rows")
    assert [row.end for row in rows] == ["as expected", "off", "seen", "as expected"]
    assert rows[0].expected == "2.85 TB/s or more, of 3 TB/s"
    assert rows[2].source == "an estimate"  # which nobody fails by
    assert rows[0].source == "measured on a single card"
    assert courses == []
    unknown = hour.Findings("s", tmp_path / "other", "")
    unknown.figure("copy", 2.0)
    assert hour.read_findings(tmp_path / "other")[0][0].end == "seen"
