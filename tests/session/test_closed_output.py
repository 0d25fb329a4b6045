"""A closed reader of the output (``| head``) changes neither the run nor its files."""

from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as ET  # reads what pytest wrote a moment ago
from pathlib import Path

import pytest

from pytest_anubis.core.verdict import Decision
from tests.run_journals import record_of


def unread(folder: Path, *more: str, both: bool = False) -> tuple[int, str]:
    """Run with closed output; return the exit code and standard error."""
    reading, writing = os.pipe()
    os.close(reading)
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", "--anubis", "-p", "no:cacheprovider", *more],
        cwd=folder,
        stdout=writing,
        stderr=writing if both else subprocess.PIPE,
        text=True,
    )
    os.close(writing)
    _, said = process.communicate(timeout=120)
    return process.returncode, said or ""


@pytest.mark.usefixtures("in_workers")
@pytest.mark.parametrize(
    ("more", "both"),
    [(["--anubis-in-process"], True), (["-n0"], False), (["--anubis-in-process", "-s"], False)],
)
def test_run_survives_closed_output(
    request: pytest.FixtureRequest, with_baseline: pytest.Pytester, more: list[str], both: bool
) -> None:
    if "-n0" not in more:  # that one starts and ends as users' do: Python flushes what is left
        request.getfixturevalue("quick_processes")
    outputs = ["--junitxml=out.xml", "--html=out.html", "--self-contained-html"]
    code, said = unread(with_baseline.path, *outputs, *more, both=both)
    assert (code, said) == (0, "")
    record = record_of(with_baseline)
    assert record.node_verdict is not None
    assert record.node_verdict.decision is Decision.ACCEPTED
    assert ET.parse(with_baseline.path / "out.xml").find(".//testcase") is not None  # noqa: S314
    assert "ACCEPTED" in (with_baseline.path / "out.html").read_text()


def test_an_undecided_run_says_so_to_nobody_too(with_baseline: pytest.Pytester) -> None:
    assert unread(with_baseline.path, "--collect-only", both=True) == (20, "")
