"""The set can be listed without a device, and says what is missing instead of failing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.places import ROOT


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_listing_touches_neither_torch_nor_a_device() -> None:
    program = (
        "import sys, pytest\n"
        "code = pytest.main(['--collect-only', '-q', 'suites'])\n"
        "print('torch loaded' if 'torch' in sys.modules else 'torch not loaded')\n"
        "sys.exit(code)\n"
    )
    done = run("-c", program)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "torch not loaded" in done.stdout
    assert "suites/compute/test_gemm.py::test_gemm" in done.stdout


def test_missing_tools_are_named_and_one_that_others_can_write_is_not_run(tmp_path: Path) -> None:
    planted, ran = tmp_path / "fio", tmp_path / "ran"
    planted.write_text(f"#!/bin/sh\n: > {ran}\n", encoding="ascii")
    planted.chmod(0o777)
    done = run(
        "-m",
        "pytest",
        "-q",
        "-rs",
        "suites/storage",
        "suites/memory/test_latency.py",
        PATH=str(tmp_path),
        XDG_CACHE_HOME=str(tmp_path),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"fio is not run: everybody can write {planted}" in done.stdout
    assert not ran.exists()
    assert "no C compiler found: install one, e.g. apt install gcc" in done.stdout


def test_a_librarys_warning_is_no_failure_of_the_set(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nfilterwarnings = error\n")
    pytester.makeconftest(
        "from suites.conftest import pytest_itemcollected as pytest_itemcollected"
    )
    pytester.makepyfile("import warnings\ndef test_a():\n    warnings.warn('settings of old')\n")
    pytester.runpytest("-W", "error").assert_outcomes(passed=1, warnings=1)
