"""Learning from a history, its export and on a Dask cluster gives the same baseline."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Any

import pytest

from pytest_anubis.cli.learning import learning_engines as engines
from pytest_anubis.cli.main import main
from pytest_anubis.cli.shared.command_error import CommandError
from tests.cli.commands.test_judge_command import fleet, write

pytest.importorskip("duckdb")

NOWHERE = "tcp://127.0.0.1:9"  # nothing listens on the port for what is to be discarded


def prepare() -> None:
    """Make a history, and its samples as Parquet."""
    write(Path("runs.csv"), fleet(8, 2, metrics=("rate", "load")))
    assert main(["push", "runs.csv", "--history", "fleet"]) == 0
    assert main(["export", "--history", "fleet", "--parquet", "samples"]) == 0


def learned(*words: str) -> dict[str, Any]:
    """Return the baseline that was learned, without the moment and its digest."""
    assert main(["learn", *words, "-o", "out.json"]) in (0, 20)
    found = json.loads(Path("out.json").read_text())
    assert found.pop("created")
    return {name: value for name, value in found.items() if name != "digest"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """The address of a Dask cluster with two workers."""
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=False, protocol="tcp", dashboard_address=None
    ) as found:
        yield found.scheduler_address


def test_a_history_and_its_export_give_one_baseline(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = learned("runs.csv")
    assert whole["criteria"]
    assert learned("--history", "fleet") == whole
    for name in ("HELD", "_SMALL"):
        monkeypatch.setattr(f"pytest_anubis.store.samples.spilled_values.{name}", 0)
    assert learned("samples") == whole
    assert "left out" not in capsys.readouterr().out


def test_dask_learns_the_same(here: Path, cluster: str, capsys: pytest.CaptureFixture[str]) -> None:
    whole = learned("--history", "fleet", "--engine", "local")
    assert learned("--history", "fleet", "--engine", "dask", "--scheduler", cluster) == whole
    assert learned("samples", "--scheduler", cluster) == whole
    assert f"Dask at {cluster}: 2 workers" in capsys.readouterr().out


def test_it_is_an_executor_as_any_other(cluster: str) -> None:
    with engines.DaskEngine(cluster) as engine:
        assert engine.submit(divmod, 7, 2).result() == (3, 1)
        assert isinstance(engine.submit(divmod, 7, 0).exception(), ZeroDivisionError)
        assert list(engine.map(abs, [-1, -2])) == [1, 2]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["samples", "--engine", "dask"], "dask scheduler"),
        (["samples", "--engine", "local", "--scheduler", NOWHERE], "leave one out"),
        (["suites", "--scheduler", NOWHERE], "for runs that were collected"),
    ],
)
def test_what_does_not_go_together_is_one_line(
    words: list[str], said: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "suites").mkdir()
    (here / "suites" / "test_a.py").write_text("")
    capsys.readouterr()
    assert main(["learn", *words]) == 2
    found = capsys.readouterr().err
    assert said in found
    assert found.count("\n") == 1


def test_a_scheduler_that_is_not_there_is_one_line(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr(engines, "CONNECT_SECONDS", 0.2)
    capsys.readouterr()
    for address in (NOWHERE, "nonsense", "http://x"):
        before = set(threading.enumerate())
        assert main(["learn", "samples", "--scheduler", address]) == 2
        found = capsys.readouterr().err
        assert f"--scheduler {address}: no Dask scheduler answers there" in found
        assert found.count("\n") == 1
        # A client that is left half open closes whenever it is collected, and may wait for ever then.
        assert address == NOWHERE or set(threading.enumerate()) <= before, address


def test_missing_and_odd_workers_are_one_line_each(
    here: Path, cluster: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[int] = []

    def other() -> dict[str, str]:
        asked.append(0)  # first here, then on the workers, which are threads of this process
        return {"numpy": f"{len(asked)}.0"}

    capsys.readouterr()
    with monkeypatch.context() as patch:
        patch.setattr(engines.DaskEngine, "_threads", lambda self: {})
        assert main(["learn", "samples", "--scheduler", cluster]) == 2
    assert "it has no workers; start some: dask worker" in capsys.readouterr().err
    monkeypatch.setattr(engines, "versions", other)
    assert main(["learn", "samples", "--scheduler", cluster]) == 2
    found = capsys.readouterr().err
    assert "here are numpy 1.0: install the same" in found
    assert found.count("\n") == 1


def test_damaged_parquet_files_are_one_line_each(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, two = sorted(Path("samples").iterdir())
    whole = one.read_bytes()
    one.write_bytes(whole[: len(whole) // 2])
    capsys.readouterr()
    assert main(["learn", "samples", "-o", "half.json"]) in (0, 20)
    lines = [line for line in capsys.readouterr().out.splitlines() if "left out" in line]
    assert len(lines) == 1
    assert str(one) in lines[0]
    assert "damaged, or no Parquet file" in lines[0]
    two.write_text("no table at all")
    assert main(["learn", "samples"]) == 2
    assert "nothing to learn from" in capsys.readouterr().err


def test_lost_workers_end_learning_with_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    distributed = pytest.importorskip("distributed")
    monkeypatch.setattr(engines, "POLL_SECONDS", 0.05)
    monkeypatch.setattr(engines, "MAX_SECONDS_ALONE", 0.1)

    class Silent:
        """A task that no worker computes."""

        def result(self, timeout: float) -> None:
            raise TimeoutError

    class Killed:
        """A metric that ended its workers."""

        def result(self, timeout: float) -> None:
            raise distributed.KilledWorker("m", None, 3)

    class Lost:
        """What was asked of a scheduler that went away."""

        def result(self, timeout: float) -> None:
            raise CancelledError

    engine = object.__new__(engines.DaskEngine)
    engine._address = NOWHERE
    monkeypatch.setattr(engines.DaskEngine, "_threads", lambda self: {})
    for future, said in ((Silent(), "no workers"), (Killed(), "memory"), (Lost(), "broke")):
        with pytest.raises(CommandError, match=said) as found:
            engine._result(future)
        assert "\n" not in str(found.value)
