"""A process that dies before it is a worker is started again, a few times."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pytest_anubis.distributed.workers.lane_places import TRIES, retry_worker_start

KILLED = """
import os, signal, sys
from pathlib import Path

import pytest
from execnet import gateway_io

start = gateway_io.popen_args

def mortal(spec):
    died = Path("died")
    if died.exists() and len(died.read_text()) >= MOST:
        return start(spec)
    with died.open("a") as file:
        file.write("x")
    return [sys.executable, "-c", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"]

gateway_io.popen_args = mortal
"""


@pytest.mark.parametrize("error", [EOFError("nothing came"), BrokenPipeError(32, "Broken pipe")])
def test_failed_worker_start_is_retried(error: Exception) -> None:
    deaths = iter([error] * (TRIES - 1))

    def make(spec: str) -> str:
        for one in deaths:
            raise one
        return f"worker of {spec}"

    group: Any = SimpleNamespace(makegateway=make)
    retry_worker_start(group)
    assert group.makegateway("popen") == "worker of popen"
    deaths = iter([error] * TRIES)
    with pytest.raises(pytest.exit.Exception, match=f"{TRIES} processes in a row died") as ended:
        group.makegateway("popen")
    assert ended.value.returncode == 3


@pytest.mark.parametrize(("deaths", "status"), [(1, 0), (99, 3)])
def test_run_survives_a_failed_worker_start(
    pytester: pytest.Pytester, deaths: int, status: int
) -> None:
    pytester.makeconftest(KILLED.replace("MOST", str(deaths)))
    pytester.makepyfile(
        "def test_a(anubis_metric):\n    anubis_metric.record('n', 3, unit='MiB', better='higher')\n"
    )
    result = pytester.runpytest_subprocess("--anubis", "--anubis-mode=measure")
    assert result.ret == status
    said = result.stdout.str() + result.stderr.str()
    assert "INTERNALERROR" not in said
    if status:
        assert "3 processes in a row died before they were workers" in said
