"""What a baseline can show, and what to type next."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_anubis.cli.commands import learn_command
from pytest_anubis.cli.learning.next_commands import longer_command, pytest_command
from pytest_anubis.core.baseline import Baseline, Criterion, Unjudged
from pytest_anubis.core.metric import Metric
from pytest_anubis.report.text.power_text import next_line, power_lines

RATE = Criterion(
    benchmark="s.py::test_gemm",
    metric=Metric(name="rate", unit="GB/s", better="higher"),
    centre=(100.0,),
    detectable=0.08,
)
TIME = replace(
    RATE,
    benchmark="s.py::test_ping",
    metric=Metric(name="time", unit="us", better="lower"),
    detectable=1.0,  # twice as long
)
BASELINE = Baseline(hardware_class="c", criteria=(RATE, TIME), created="-", one_machine=True)
COMMANDS: dict[str, Any] = {"judge": ["pytest", "a b.py"], "learn": ["anubis", "learn", "a b.py"]}


def test_detectable_losses_share_one_scale() -> None:
    noisy = Unjudged(benchmark="s.py::test_disk", metric="rate", reason="too noisy")
    coarse = replace(TIME, benchmark="s.py::test_seek", detectable=2.0)  # has its own line
    many = replace(BASELINE, criteria=(RATE, TIME, coarse), unjudged=(noisy,))
    first, weakest, without = power_lines(many, 0.1, verbose=True)
    assert power_lines(many, 0.1) == [first]
    assert (
        first == "this baseline finds a loss of 10 % in 1 of 4 metrics, of 25 % in 1, of 50 % in 2"
    )
    assert (
        weakest
        == "weakest, with the smallest loss that each finds: test_ping time 50 % (2 times as long)"
    )
    longer = replace(BASELINE, criteria=(replace(TIME, detectable=0.73),))
    assert power_lines(longer, 0.1, verbose=True)[1].endswith(": test_ping time 42 % (73 % longer)")
    assert without == "it has no criterion for these, and does not judge them: test_disk rate"


def test_what_is_judged_next_is_one_command() -> None:
    assert next_line(**COMMANDS) == "next: pytest 'a b.py'"
    assert next_line(mend=True, **COMMANDS) == "next, once the marks are mended: pytest 'a b.py'"
    assert power_lines(replace(BASELINE, criteria=()), 0.1) == []


def test_what_can_never_be_accepted_is_not_proposed() -> None:
    assert next_line(bare=True, **COMMANDS) == (
        "next, when nothing else runs here: anubis learn 'a b.py'"
    )


@pytest.mark.parametrize(
    ("typed", "judge", "learn"),
    [
        ("--for 4m", "", "--for 12m"),
        (
            "--profile standard -o b --rounds 5",
            "--anubis-profile=standard --anubis-baseline=b ",
            "--profile standard -o b --rounds 15",
        ),
        (
            "--for 1m --detect 5% --alpha .9 --error-rate none --without copy --promise gpu=20% --split os",
            "--anubis-split=os ",
            "--detect 5% --alpha 0.9 --error-rate none --promise gpu=20% --without copy --split os --for 3m",
        ),
        ("--for 1m --pytest-args=-kgemm", "-kgemm ", "--pytest-args=-kgemm --for 3m"),
    ],
)
def test_commands_have_the_options_that_were_given(typed: str, judge: str, learn: str) -> None:
    parser = argparse.ArgumentParser()
    learn_command.add(parser)
    options = parser.parse_args(["s", *typed.split()])
    assert " ".join(pytest_command(options)).startswith(f"pytest --anubis s {judge}--html=")
    longer = longer_command(options, seconds=options.time, rounds=options.rounds)
    assert " ".join(longer) == f"anubis learn s {learn}"


@pytest.mark.parametrize(
    ("typed", "seen"), [("", "sub/baselines"), ("-o b", "sub/b"), ("-o /data/b", "/data/b")]
)
def test_baselines_of_a_subfolder_are_named_from_the_root(
    typed: str, seen: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path / "sub")
    parser = argparse.ArgumentParser()
    learn_command.add(parser)
    options = parser.parse_args(["s", *typed.split()])
    assert f"--anubis-baseline={seen}" in pytest_command(options, "..")
