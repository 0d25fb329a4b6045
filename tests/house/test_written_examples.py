"""The examples for authors of benchmarks in README and `docs/writing-benchmarks.md` run as they are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch  # before pytester does: it is loaded once in a process

from tests.places import RECORDED, ROOT

TEXT = (ROOT / "docs" / "writing-benchmarks.md").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")
assert torch.__version__
MEASURE = ("--anubis", "--anubis-mode=measure", "--anubis-in-process")
TOOL = """#!/bin/sh
[ "$1" = --version ] && { echo "nvbandwidth Version: v0.8"; exit; }
echo "$CUDA_DEVICE_ORDER $CUDA_VISIBLE_DEVICES" > asked
echo "SUM $2 55.25"
"""


def example(kind: str) -> str:
    """Return the code under a heading; that of a device is in README."""
    text, heading = (README, "Write a benchmark") if kind == "a device" else (TEXT, f"For {kind}")
    section = text.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    (code,) = re.findall(r"```python\n(.*?)```", section, flags=re.DOTALL)
    return str(code)


def test_example_of_a_device(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_move=example("a device"))
    pytester.runpytest(*MEASURE).assert_outcomes(passed=1)


def test_example_of_a_device_notices_a_wrong_bit(pytester: pytest.Pytester) -> None:
    before = "    wrong = count_errors"
    spoiled = example("a device").replace(before, f"    flip_bit(target, 5)\n{before}")
    pytester.makepyfile(test_move=spoiled)
    run = pytester.runpytest()
    run.assert_outcomes(failed=1)
    run.stdout.fnmatch_lines(["*wrong words after a copy: 1"])


def test_example_of_a_link(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_own_link=example("a link"))
    done = pytester.runpytest(*MEASURE).parseoutcomes()
    assert done["passed"] + done.get("skipped", 0) == 2
    assert "failed" not in done


@pytest.fixture
def tool(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = pytester.path / "nvbandwidth"
    place.write_text(TOOL)
    place.chmod(0o755)
    monkeypatch.setenv("PATH", str(pytester.path), prepend=":")
    monkeypatch.setenv("PYTEST_ANUBIS_TOOL_NVBANDWIDTH", str(place))
    pytester.makepyfile(test_copy=example("another program"))
    return place


CARD_3 = (f"--anubis-inventory={RECORDED}", "test_copy.py::test_copy[cuda:3]")


def test_example_of_a_tool_asks_for_its_card(pytester: pytest.Pytester, tool: Path) -> None:
    pytester.runpytest(*MEASURE, *CARD_3).assert_outcomes(passed=1)
    assert (pytester.path / "asked").read_text() == "PCI_BUS_ID 3\n"


def test_example_of_a_tool_passes_no_other_format(pytester: pytest.Pytester, tool: Path) -> None:
    tool.write_text(TOOL.replace("SUM $2 55.25", "SUM of $2: 55.25 GB/s"))
    run = pytester.runpytest(*MEASURE, *CARD_3)
    run.assert_outcomes(failed=1)
    run.stdout.fnmatch_lines(["INCONCLUSIVE: output of nvbandwidth Version: v0.8 cannot be read*"])
    run.stdout.no_fnmatch_line("*Traceback*")


def test_example_of_a_tool_is_left_out_without_it(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_copy=example("another program"))
    run = pytester.runpytest(*MEASURE, *CARD_3, "-rs")
    run.assert_outcomes(skipped=1)
    run.stdout.fnmatch_lines(["*nvbandwidth*github.com/NVIDIA/nvbandwidth*"])


SYSBENCH = """#!/bin/sh
[ "$1" = --version ] && { echo "sysbench 1.0.20"; exit; }
echo "CPU speed:
    events per second:   ${RATE:-812.50}

General statistics:
    total number of events:              ${EVENTS:-1000}

Latency (ms):
         95th percentile:                        1.27"
"""


@pytest.mark.parametrize(
    ("environment", "outcome", "line"),
    [
        ({}, "passed", "*1 passed*"),
        (
            {"RATE": "many"},
            "failed",
            "INCONCLUSIVE: *cannot be read: 0 lines like *events per second*",
        ),
        ({"EVENTS": "999"}, "failed", "*assert 999.0 == 1000"),
    ],
)
def test_example_of_several_figures(
    pytester: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    environment: dict[str, str],
    outcome: str,
    line: str,
) -> None:
    place = pytester.path / "sysbench"
    place.write_text(SYSBENCH)
    place.chmod(0o755)
    monkeypatch.setenv("PYTEST_ANUBIS_TOOL_SYSBENCH", str(place))
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    pytester.makepyfile(test_primes=example("several figures of one run"))
    run = pytester.runpytest(*MEASURE)
    run.assert_outcomes(**{outcome: 1})
    run.stdout.fnmatch_lines([line])


@pytest.mark.usefixtures("quick_processes")
def test_example_of_ranks(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_own_ranks=example("ranks"))
    options = ("--anubis", "--anubis-mode=measure", "--anubis-in-process")
    pytester.runpytest(*options, "-k", "test_sum").assert_outcomes(passed=1, deselected=1)
    done = pytester.runpytest(*options, "-k", "not test_sum").parseoutcomes()
    assert done.get("passed", 0) + done.get("skipped", 0) == 1
    assert "failed" not in done


@pytest.mark.usefixtures("quick_processes")
def test_example_of_ranks_notices_a_wrong_sum(pytester: pytest.Pytester) -> None:
    before = "        dist.all_reduce(values)\n"
    spoiled = example("ranks").replace(
        before, f"{before}        values[7] += 1 if number == 1 else 0\n"
    )
    pytester.makepyfile(test_own_ranks=spoiled)
    run = pytester.runpytest("-k", "test_sum")
    run.assert_outcomes(failed=1, deselected=1)
    run.stdout.fnmatch_lines(["*the sum is off by *"])
