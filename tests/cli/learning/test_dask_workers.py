"""A real Dask cluster of processes: workers that are killed in mid-run, and one behind certificates."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pytest_anubis.cli.learning import learning_engines as engines
from pytest_anubis.cli.main import main
from tests.cli.commands.test_judge_command import fleet, write

ROOT = Path(__file__).parents[3]
METRICS = tuple(f"m{number}" for number in range(12))
LIMIT = 120
"""Seconds after which a test has hung; it takes some ten."""

pytestmark = pytest.mark.timeout(LIMIT)


@dataclass(frozen=True)
class Killing:
    """A function that kills the worker that computes it, as often as a file is there for it."""

    function: Callable[[Any], Any]
    folder: str

    def __call__(self, task: Any) -> Any:
        """Compute, unless a bullet is left: exactly one worker takes each."""
        for bullet in sorted(Path(self.folder).iterdir()):
            with contextlib.suppress(FileNotFoundError):
                bullet.unlink()
                os.kill(os.getpid(), 9)
        return self.function(task)


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Callable[..., str]]:
    """Start a scheduler and workers and return the address; all end with the test."""
    pytest.importorskip("distributed")
    with contextlib.ExitStack() as stack:

        def start(words: Sequence[str], environment: dict[str, str]) -> None:
            with (tmp_path / "dask.log").open("ab") as log:
                process = subprocess.Popen(
                    [sys.executable, "-m", *words], stdout=log, stderr=log, cwd=tmp_path,
                    env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
                )  # fmt: skip
            stack.callback(process.wait)
            stack.callback(process.kill)

        def cluster(
            workers: int, *, protocol: str = "tcp", environment: dict[str, str] | None = None
        ) -> str:
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                port = free.getsockname()[1]
            address = f"{protocol}://127.0.0.1:{port}"
            given = environment or {}
            start(["distributed.cli.dask_scheduler", "--no-dashboard", "--host", address], given)
            for _ in range(workers):
                start(
                    ["distributed.cli.dask_worker", address, "--nthreads", "1", "--no-nanny",
                     "--no-dashboard"], given,
                )  # fmt: skip
            waited(port)
            return address

        yield cluster


def waited(port: int) -> None:
    """Wait until something listens."""
    until = time.monotonic() + LIMIT / 2
    while True:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        assert time.monotonic() < until, "no scheduler"
        time.sleep(0.1)


def joined(address: str, workers: int) -> None:
    """Wait until the workers have registered."""
    import distributed

    connect: Any = distributed.Client
    with connect(address, timeout=LIMIT / 2, set_as_default=False) as client:
        client.wait_for_workers(workers, timeout=LIMIT / 2)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a history of a dozen metrics, and the bytes of its baseline in ``whole.json``."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1793491200")
    write(tmp_path / "runs.csv", fleet(8, 1, metrics=METRICS))
    assert main(["push", "runs.csv", "--history", "fleet"]) == 0
    assert main(["learn", "--history", "fleet", "-o", "whole.json"]) in (0, 20)
    return tmp_path


def bullets(folder: Path, count: int, patch: pytest.MonkeyPatch) -> None:
    """Let so many workers be killed by the tasks that they are given."""
    place = folder / "bullets"
    place.mkdir()
    for number in range(count):
        (place / str(number)).touch()
    map_all = engines.DaskEngine.map

    def killing(self: engines.DaskEngine, fn: Any, tasks: Any, **words: Any) -> Any:
        return map_all(self, Killing(fn, str(place)), tasks, **words)

    patch.setattr(engines.DaskEngine, "map", killing)


def test_a_worker_that_is_killed_changes_no_byte(
    here: Path, processes: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    address = processes(2)
    joined(address, 2)
    bullets(here, 1, monkeypatch)
    assert main(["learn", "--history", "fleet", "--scheduler", address, "-o", "out.json"]) in (
        0,
        20,
    )
    assert not list((here / "bullets").iterdir())  # it was killed
    assert (here / "out.json").read_bytes() == (here / "whole.json").read_bytes()


def test_all_workers_killed_is_one_line(
    here: Path,
    processes: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(engines, "POLL_SECONDS", 0.2)
    monkeypatch.setattr(engines, "MAX_SECONDS_ALONE", 1.0)
    address = processes(2)
    joined(address, 2)
    bullets(here, 2, monkeypatch)
    capsys.readouterr()
    assert main(["learn", "--history", "fleet", "--scheduler", address, "-o", "out.json"]) == 2
    found = capsys.readouterr().err
    assert f"--scheduler {address}: it has had no workers" in found
    assert found.count("\n") == 1
    assert not (here / "out.json").exists()


def certificates(folder: Path) -> dict[str, str]:
    """Make a certificate that signs itself, and return the settings with which Dask takes it."""
    program = shutil.which("openssl")
    if program is None:
        pytest.skip("no openssl to make certificates with")
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    subprocess.run(
        [program, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj",
         "/CN=anubis-test", "-keyout", str(key), "-out", str(certificate)],
        check=True, capture_output=True, timeout=LIMIT / 2,
    )  # fmt: skip
    roles = [
        f"{role}__{kind}" for role in ("SCHEDULER", "WORKER", "CLIENT") for kind in ("KEY", "CERT")
    ]
    files = {f"TLS__{role}": str(key if role.endswith("KEY") else certificate) for role in roles}
    settings = {**files, "TLS__CA_FILE": str(certificate), "REQUIRE_ENCRYPTION": "true"}
    return {f"DASK_DISTRIBUTED__COMM__{name}": value for name, value in settings.items()}


def test_dasks_certificates_open_a_cluster(here: Path, processes: Callable[..., str]) -> None:
    settings = certificates(here)
    address = processes(1, protocol="tls", environment=settings)

    def learn(environment: dict[str, str], name: str) -> subprocess.CompletedProcess[str]:
        words = ["learn", "--history", "fleet", "--scheduler", address, "-o", name]
        return subprocess.run(
            [sys.executable, "-m", "pytest_anubis", *words],
            env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
            capture_output=True, text=True, timeout=LIMIT / 2, check=False, cwd=here,
        )  # fmt: skip

    for _ in range(30):  # its worker is on its way
        done = learn(settings, "out.json")
        if "has no workers" not in done.stderr:
            break
    assert done.returncode in (0, 20), done.stderr
    assert (here / "out.json").read_bytes() == (here / "whole.json").read_bytes()
    bare = learn({}, "bare.json")
    assert bare.returncode == 2
    assert bare.stderr.count("\n") == 1, bare.stderr
    assert f"--scheduler {address}: " in bare.stderr
    assert "DASK_DISTRIBUTED__COMM__TLS__CA_FILE" in bare.stderr
    lost = learn(
        {**settings, "DASK_DISTRIBUTED__COMM__TLS__CLIENT__KEY": "/no/key.pem"}, "lost.json"
    )
    assert (lost.returncode, lost.stderr.count("\n")) == (2, 1), lost.stderr
    stranger = here / "other"
    stranger.mkdir()
    foreign = learn(certificates(stranger), "foreign.json")
    assert foreign.returncode == 2
    assert foreign.stderr.count("\n") == 1, foreign.stderr
    assert f"--scheduler {address}: " in foreign.stderr
