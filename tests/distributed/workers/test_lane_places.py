"""Lanes and their CPUs in a run: dealt out, printed, written down, obeyed, and given back."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from pytest_anubis.core.events import Event, LanesPlaced
from pytest_anubis.distributed.dispatch.tasks import layout
from pytest_anubis.distributed.workers import process_cores
from pytest_anubis.distributed.workers.lane_places import LanePlaces
from pytest_anubis.distributed.workers.process_cores import NearCard, bind_early, move
from pytest_anubis.hardware.numa import cpu_numbers, cpu_text
from pytest_anubis.session.context import RunContext, discard
from pytest_anubis.settings import Settings
from tests.hardware.two_numa_nodes import CARDS, CPUS, two_numa_nodes
from tests.run_journals import record_of

EIGHT = tuple(f"cuda:{number}" for number in range(8))
WHERE = """
import os, pathlib, pytest

@pytest.mark.anubis(component="accelerator.compute", scope="device", cost="10ms", metrics=["rate"])
def test_where(anubis_metric, anubis_device, anubis_node):
    name = anubis_device.name.replace(":", "")
    text = f"{sorted(os.sched_getaffinity(0))} {os.environ.get('OMP_NUM_THREADS')}"
    pathlib.Path(name).write_text(text)
    anubis_metric.record("rate", [1.0, 2.0], unit="GB/s", better="higher")
"""


@pytest.fixture
def home() -> Iterator[set[int]]:
    """The CPUs of this process, which are its own again afterwards."""
    before = os.sched_getaffinity(0)
    yield before
    os.sched_setaffinity(0, before)


def placed(
    root: Path, workers: int, events: list[Event] | None = None, quota: float = 0
) -> LanePlaces:
    context = RunContext(settings=Settings(active=True), devices=EIGHT)
    return LanePlaces(
        context,
        layout(EIGHT, workers),
        dict(zip(EIGHT, CARDS, strict=True)),
        sink=(events if events is not None else []).append,
        files=two_numa_nodes(root),
        allowed=CPUS,
        quota=quota,
    )


def test_every_lane_is_told_its_cpus_and_threads(tmp_path: Path) -> None:
    places = placed(tmp_path, 9)
    assert places.apart
    bound = [places.variables(name) for name in EIGHT]
    assert bound[4] == {
        "PYTEST_ANUBIS_CPUS": "8-9,24-25",
        **dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "4"),
    }
    used = [cpu for one in bound for cpu in cpu_numbers(one["PYTEST_ANUBIS_CPUS"])]
    assert len(used) == len(set(used)) == 32
    assert places.variables("node") == {"PYTEST_ANUBIS_CPUS": "0-31"}
    assert places.near("cuda:4") == {"cuda:4": "8-9,24-25"}
    assert places.near("node")["cuda:4"] == "8-15,24-31"


def test_lanes_share_a_quota_of_cpu_time(tmp_path: Path) -> None:
    places = placed(tmp_path / "enough", 9, quota=20)  # docker run --cpus=20
    assert places.apart
    assert places.variables("cuda:4") == {
        "PYTEST_ANUBIS_CPUS": "8-9,24-25",
        "PYTEST_ANUBIS_CPU_QUOTA": "2.5",
        **dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "2"),
    }
    assert places.variables("node") == {"PYTEST_ANUBIS_CPUS": "0-31"}
    assert places.pytest_report_header()[-1].endswith("each lane of cards has 2.5 CPUs' time")
    few = placed(tmp_path / "few", 9, quota=4)
    assert not few.apart
    assert few.variables("cuda:4")["OMP_NUM_THREADS"] == "1"


def test_one_lane_binds_no_process_but_every_test(tmp_path: Path) -> None:
    places = placed(tmp_path, 1)
    assert places.variables("node") == {}
    assert places.near("node") == {
        name: "0-7,16-23" if number < 4 else "8-15,24-31" for number, name in enumerate(EIGHT)
    }


def test_header_and_journal_tell_the_lanes(tmp_path: Path) -> None:
    events: list[Event] = []
    places = placed(tmp_path, 9, events)
    option = SimpleNamespace(collectonly=False)
    places.pytest_sessionstart(SimpleNamespace(config=SimpleNamespace(option=option)))  # type: ignore[arg-type]
    (event,) = events
    assert isinstance(event, LanesPlaced)
    assert [(one.lane, one.cpus, one.numa_node) for one in event.lanes[:5:4]] == [
        ("cuda:0", "0-1,16-17", 0),
        ("cuda:4", "8-9,24-25", 1),
    ]
    assert len(places.pytest_report_header()) == 9


def test_a_node_without_accelerators_is_left_alone() -> None:
    context = RunContext(settings=Settings(active=True), devices=("cpu",))
    places = LanePlaces(context, layout(("cpu",), 1), {}, sink=discard)
    assert places.apart
    assert places.pytest_report_header() == []
    assert places.variables("node") == places.near("node") == {}


def test_forbidden_binding_binds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(_pid: int, _cpus: object) -> None:
        raise PermissionError(1, "no")

    monkeypatch.setattr(os, "sched_setaffinity", forbidden)
    context = RunContext(settings=Settings(active=True), devices=EIGHT)
    places = LanePlaces(context, layout(EIGHT, 9), {}, sink=discard)
    assert not places.apart
    assert places.variables("cuda:0") == {}
    assert "what is timed on the host runs alone" in places.pytest_report_header()[-1]


def test_card_test_runs_near_its_card(home: set[int], monkeypatch: pytest.MonkeyPatch) -> None:
    near = min(home)
    plugin = NearCard({"cuda:0": str(near), "cuda:1": ""})

    def seen(device: str) -> set[int]:
        monkeypatch.setattr(process_cores, "device_of", lambda _: device)
        around = plugin.pytest_runtest_protocol(SimpleNamespace())  # type: ignore[arg-type]
        next(around)
        found = os.sched_getaffinity(0)
        around.close()
        return found

    assert seen("cuda:0") == {near}
    assert seen("node") == home
    assert seen("cuda:1") == home
    assert seen("cuda:0") == {near}
    plugin.pytest_unconfigure()
    assert os.sched_getaffinity(0) == home


def test_threads_go_along_but_those_that_were_placed(home: set[int]) -> None:
    if len(home) < 2:
        pytest.skip("one CPU: there is nowhere to go")
    import threading

    go, done = threading.Event(), threading.Event()
    found: dict[str, set[int]] = {}
    first, last = min(home), max(home)

    def work(name: str, cpus: set[int]) -> None:
        os.sched_setaffinity(0, cpus)
        ready.release()
        go.wait(60)
        found[name] = os.sched_getaffinity(0)

    ready = threading.Semaphore(0)
    threads = [
        threading.Thread(target=work, args=("free", home)),
        threading.Thread(target=work, args=("placed", {last})),
    ]
    for thread in threads:
        thread.start()
        ready.acquire()
    assert move({first})
    assert not move({first})
    go.set()
    for thread in threads:
        thread.join(60)
    done.set()
    assert found == {"free": {first}, "placed": {last}}


def test_worker_is_bound_before_user_code(home: set[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_ANUBIS_CPUS", "9000")  # gone meanwhile: the run goes on
    bind_early()
    assert os.sched_getaffinity(0) == home
    monkeypatch.setenv("PYTEST_ANUBIS_CPUS", str(min(home)))
    bind_early()
    assert os.sched_getaffinity(0) == {min(home)}


def test_lanes_of_a_run_use_no_cpu_twice(
    pytester: pytest.Pytester, gpus: str, home: set[int]
) -> None:
    if len(home) < 2:
        pytest.skip("one CPU: two lanes must share it")
    pytester.makeini("[pytest]\n")
    pytester.makepyfile(test_suite=WHERE)
    result = pytester.runpytest("--anubis", gpus, "-nauto", "--anubis-mode=measure")
    result.stdout.fnmatch_lines(["anubis: cuda:0: CPUs *, NUMA node unknown"])
    texts = [(pytester.path / f"cuda{number}").read_text() for number in range(2)]
    sets = [set(map(int, text.partition("]")[0].strip("[").split(", "))) for text in texts]
    assert not sets[0] & sets[1]
    assert [text.split()[-1] for text in texts] == [str(len(one)) for one in sets]
    record = record_of(pytester)
    assert not record.warnings
    assert [one.cpus for one in record.lanes[:2]] == [cpu_text(one) for one in sets]
