"""Every way to die under ``-x``, workers that never start, and memory that the kernel takes back."""

from __future__ import annotations

import contextlib
import os
import xml.etree.ElementTree as ET  # reads what pytest wrote a moment ago
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_anubis.core.events import WorkerDied
from pytest_anubis.core.run import RunRecord
from tests.distributed.containment.test_containment_runs import (
    BENCHMARKS,
    CAUSES,
    DEVICE_BENCHMARK,
    hasty,
    outcomes,
)
from tests.distributed.containment.test_containment_runs import run as in_workers
from tests.run_journals import record_of

__all__ = ["hasty"]

WORKERS = ["-n0", "-n2"]
_GROUPS = Path("/sys/fs/cgroup/memory")


def run(pytester: pytest.Pytester, *arguments: str) -> tuple[pytest.RunResult, RunRecord]:
    result = in_workers(pytester, *arguments)
    record = record_of(pytester)
    assert record.exit_status == result.ret
    assert record.node_verdict is None or record.node_verdict.decision.exit_code == result.ret
    return result, record


def cases(pytester: pytest.Pytester) -> dict[str, str]:
    """Return what the JUnit file says about each test that it names."""
    found = {}
    for case in ET.parse(pytester.path / "out.xml").iter("testcase"):  # noqa: S314
        found[str(case.get("name"))] = ",".join(
            part.tag for part in case if part.tag != "properties"
        )
    return found


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("way", ["hang", "leave"])
def test_the_first_death_ends_a_run_with_x_in_order(
    pytester: pytest.Pytester, way: str, workers: str
) -> None:
    source = BENCHMARKS.replace(
        "WAYS = [hang, hang_holding_the_lock, segmentation_fault, out_of_memory, leave]",
        f"WAYS = [{way}]",
    )
    pytester.makepyfile(test_it="def test_before(): pass\n" + source)
    result, record = run(pytester, workers, "-x")
    assert result.ret == 20
    bad = f"test_bad[{way}]"
    assert outcomes(record) == {
        "test_before": "passed",
        bad: "crashed",
        "test_good[0]": "not reported",
        "test_good[1]": "not reported",
    }
    (died,) = [r.text for r in record.results if r.outcome == "crashed"]
    assert died == CAUSES[way]
    assert [m.values for m in record.measurements] == [(1.0, 2.0, 3.0)]
    assert {v.benchmark.partition("::")[2]: v.outcome for v in record.verdicts} == {
        bad: "INCONCLUSIVE",
        "test_good[0]": "NOT_TESTED",
        "test_good[1]": "NOT_TESTED",
    }
    assert cases(pytester) == {"test_before": "", bad: "error"}
    result.stdout.fnmatch_lines(["*stopping after 1 failures*"])


@pytest.mark.parametrize("workers", WORKERS)
def test_workers_that_never_start_are_given_up(pytester: pytest.Pytester, workers: str) -> None:
    pytester.makepyfile(
        test_it="import os\nif 'PYTEST_XDIST_WORKER' in os.environ: os._exit(5)\n"
        + DEVICE_BENCHMARK.format(condition="False")
    )
    result, record = run(pytester, workers)
    assert result.ret == 20
    deaths = [event for event in record.events if isinstance(event, WorkerDied)]
    assert 3 <= len(deaths) <= 12
    assert not record.results
    result.stdout.fnmatch_lines(["*no worker came as far as running a test*"])


@pytest.fixture
def small_memory() -> Iterator[Path]:
    """A control group with little memory, for processes that join it."""
    group = _GROUPS / f"anubis-test-{os.getpid()}"
    try:
        group.mkdir()
        (group / "memory.limit_in_bytes").write_text("100M")
    except OSError:
        pytest.skip("needs a control group for memory (version 1) and the right to make one")
    yield group
    with contextlib.suppress(OSError):  # the kernel may not have taken the last process out yet
        group.rmdir()


def test_out_of_memory_kill_is_named(pytester: pytest.Pytester, small_memory: Path) -> None:
    pytester.makepyfile(
        test_it=f"""
        import os
        def test_a(): pass
        def test_hungry(anubis_metric):
            anubis_metric.record("rate", [1.0, 2.0], unit="GB/s", better="higher")
            open({str(small_memory / "cgroup.procs")!r}, "w").write(str(os.getpid()))
            kept = []
            while True:
                kept.append(b"x" * (1 << 20))
        def test_b(): pass
        """
    )
    result, record = run(pytester, "-n0")
    assert result.ret == 20
    assert outcomes(record) == {"test_a": "passed", "test_hungry": "crashed", "test_b": "passed"}
    (died,) = [r.text for r in record.results if r.outcome == "crashed"]
    assert died == "the kernel killed its process for want of memory (SIGKILL, out of memory)"
    assert [m.values for m in record.measurements] == [(1.0, 2.0)]
    assert cases(pytester) == {"test_a": "", "test_hungry": "error", "test_b": ""}
