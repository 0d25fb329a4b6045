"""``anubis doctor`` counts parts in words; ``anubis baseline show -v`` shows more, and cuts nothing."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_anubis.core.baseline import Baseline, Finding, PlainCheck, RejectedBy, SelfCheck
from pytest_anubis.report.text.learned_text import details_lines, learned_lines
from pytest_anubis.store.baselines.baseline_files import load_baseline
from tests.cli.command_line import anubis


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("doctor") / "node.json"
    assert anubis("doctor", "--record", str(path)).returncode == 0
    return path


def shown(recorded: Path, **parts: object) -> list[str]:
    plain = json.loads(recorded.read_text())
    plain["inventory"] |= parts
    path = recorded.with_name("changed.json")
    path.write_text(json.dumps(plain))
    done = anubis("doctor", "--inventory", str(path))
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_parts_that_are_not_there_are_said_in_words(recorded: Path) -> None:
    lines = shown(recorded, disks=[], nics=[], accelerators=[], system={})
    assert {"disks: none found", "nics: none found", "accelerators: none found"} <= set(lines)
    assert "system:" not in lines  # a heading with nothing behind it


def test_parts_are_counted_from_one(recorded: Path) -> None:
    lines = shown(recorded, disks=[{"name": "vda"}, {"name": "vdb"}])
    assert lines[lines.index("disk 1 of 2:") + 1] == "  name: vda"
    assert lines[lines.index("disk 2 of 2:") + 1] == "  name: vdb"
    assert not any(line.startswith("disks") for line in lines)


def test_a_baseline_is_shown_whole() -> None:
    benchmarks = [f"s/t.py::test_a_check_with_quite_a_long_name_{n}" for n in range(20)]
    baseline = Baseline(
        hardware_class="c",
        criteria=(),
        created="2026-01-01",
        nodes=("n1", "n2"),
        checks=tuple(PlainCheck(test=name) for name in benchmarks),
        findings=tuple(Finding(kind="odd", text=f"metric {n} is odd") for n in range(9)),
        self_check=SelfCheck(
            nodes=96, rejected=4, sick=4, rate=0.0, upper=0.04, holds=True,
            worst=tuple(RejectedBy(benchmark=b, metric="m", nodes=1, alone=1) for b in benchmarks),
        ),
    )  # fmt: skip
    brief = "\n".join(learned_lines(baseline))
    assert "8 more of this kind" in brief
    whole = "\n".join([*learned_lines(baseline, verbose=True), *details_lines(baseline)])
    assert "…" not in whole
    assert "more of this kind" not in whole
    assert whole.count("is odd") == 9
    assert whole.count("quite_a_long_name_19") == 2
    assert "nodes: n1, n2" in whole


def test_verbose_shows_more_of_any_baseline(tmp_path: Path) -> None:
    rows = (f"n{n},cuda:{d},copy,rate,GB/s,higher,{100 + n / 10}\n" for n in range(8) for d in "01")
    head = "node,device,benchmark,metric,unit,better,value\n"
    (tmp_path / "rates.csv").write_text(head + "".join(rows))
    anubis("learn", str(tmp_path / "rates.csv"), "--error-rate=none", "-o", str(tmp_path / "base"))
    brief, whole = (
        anubis("baseline", "show", str(tmp_path / "base"), *more).stdout.splitlines()
        for more in ((), ("-v",))
    )
    assert set(brief) < set(whole)
    (path,) = (tmp_path / "base").glob("*.json")
    baseline = load_baseline(path)
    assert f"nodes: {', '.join(baseline.nodes)}" in whole
    assert "copy rate: cuda:0, cuda:1 must answer" in whole
    assert [line.split()[-1] for line in whole if line.startswith("rate ")]


def test_length_that_learning_found_enough_is_shown(tmp_path: Path) -> None:
    draw = random.Random(3)
    rows = (
        f"n{n},copy,rate,GB/s,higher,{draw.gauss(100, 0.5)}\n"
        for n in range(30)
        for _ in range(200)
    )
    (tmp_path / "rates.csv").write_text("node,benchmark,metric,unit,better,value\n" + "".join(rows))
    anubis("learn", str(tmp_path / "rates.csv"), "-o", str(tmp_path / "base"))
    (path,) = (tmp_path / "base").glob("*.json")
    baseline = load_baseline(path)
    [(warm_up, length)] = [one.window for one in baseline.criteria if one.window]
    assert (warm_up, length < 200) == (0, True)
    enough = f"copy rate: {length} values say the same as the whole run, so later runs measure for so long"
    assert enough in anubis("baseline", "show", str(path), "-v").stdout.splitlines()
    alone = replace(
        baseline, one_machine=True
    )  # whose runs keep their length: a host's noise is slow
    assert not [line for line in details_lines(alone) if "measure for so long" in line]
