"""What all tests have in common: they may run side by side, and start other processes at little cost."""

from __future__ import annotations

import contextlib
import gc
import importlib
import importlib.util
import os
import pkgutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from execnet.gateway_io import Popen2IOMaster

import pytest_anubis
from tests import forked, forked_workers, installed
from tests.postgres import postgres_url as postgres_url
from tests.quiet import FEW_COLLECTIONS, OPTIONS
from tests.turns import Turns

# Whoever has the package alone may still ask pytest for its options here.
with contextlib.suppress(ImportError):
    from hypothesis import HealthCheck, settings

    # Property tests run on shared machines, where slowness says nothing. Their examples are the same in every
    # run, so that a change is judged by what it changed; --hypothesis-profile=search draws new ones.
    _found: dict[str, Any] = {"derandomize": True, "database": None}
    for _profile, _kept in (("shared", _found), ("search", {})):
        settings.register_profile(
            _profile, deadline=None, suppress_health_check=[HealthCheck.too_slow], **_kept
        )
    settings.load_profile("shared")

# Recorded nodes have accelerators whatever is hidden from whoever runs these tests, a run inside a
# test is no worker of the run outside, and thousands of processes need not compile the same files.
for _name in list(os.environ):
    if _name.startswith(("PYTEST_XDIST_", "PYTEST_ANUBIS_")) or _name in (
        *("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ZE_AFFINITY_MASK"),
        "PYTHONDONTWRITEBYTECODE",
        *("CI", "BUILD_NUMBER"),  # pytest cuts no line where these are set
        *("COLUMNS", "LINES"),  # what is printed into a pipe has no width
    ):
        del os.environ[_name]
sys.dont_write_bytecode = False

installed.keep()

# As `anubis trace record` starts its script, so that this process too is forked.
os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")

# Several of these processes share few cores: more threads of one wait for each other with the cores busy.
os.environ["OPENBLAS_NUM_THREADS"] = "1"

# Whoever starts these tests in the background has made them and their children deaf to SIGINT.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Other processes find this project, its tests included, wherever they start.
os.environ["PYTHONPATH"] = os.pathsep.join(
    filter(None, [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH")])
)


LONGEST = 300
"""Seconds after which a test hangs. Controllers run in the tests' own process, where one that waits for ever
would hold up everything; the longest test takes a quarter of a minute on a quiet machine."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--fuzz``, the one option of these tests."""
    parser.addoption(
        "--fuzz",
        type=int,
        default=140,  # ten a reader: seconds
        metavar="N",
        help="mutated files that tests/fuzz feeds to the readers, in all (default: 140)",
    )


@pytest.hookimpl(wrapper=True)
def pytest_sessionstart(session: pytest.Session) -> Iterator[None]:
    """Have the servers that processes are forked from, here or where this worker was started."""
    if importlib.util.find_spec("hypothesis") is None:
        raise pytest.UsageError("these tests need the extra 'test': pip install -e '.[test]'")
    if forked.FOLDER not in os.environ:
        stack = contextlib.ExitStack()
        stack.enter_context(forked.servers())
        session.config.add_cleanup(stack.close)
    session.config.add_cleanup(forked_workers.end)
    return (yield)


def pytest_collection_finish() -> None:
    """Take what is loaded out of the garbage collector's way, which looks through all else in each run."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*FEW_COLLECTIONS)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put tests that need the machine for themselves last, and give all of them an end."""
    items.sort(key=_alone)
    for item in items:
        if item.config.pluginmanager.has_plugin("timeout"):
            item.add_marker(pytest.mark.timeout(LONGEST))


TURNS = Turns()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """Let a test marked ``alone`` wait for its neighbours in other workers, and them for it."""
    with TURNS.take(alone=_alone(item), alone_next=nextitem is not None and _alone(nextitem)):
        return (yield)


def pytest_sessionfinish() -> None:
    """Let the other workers go on: the process of one that has ended lives until all have."""
    TURNS.end()


def _alone(item: pytest.Item) -> bool:
    return item.get_closest_marker("alone") is not None


@pytest.fixture(scope="session", autouse=True)
def no_waiting_for_the_disk() -> Iterator[None]:
    """Let SQLite's commits in this process return at once: a made-up history has thousands of them."""

    def hasten(connection: Any, _: object) -> None:
        if isinstance(connection, sqlite3.Connection):
            connection.execute("PRAGMA synchronous=OFF")

    sa.event.listen(sa.Engine, "connect", hasten)
    yield
    sa.event.remove(sa.Engine, "connect", hasten)


@pytest.fixture(scope="session")
def loaded_once() -> None:
    """Load what pytester would otherwise forget, and load anew, with every run in this process."""
    for module in pkgutil.walk_packages(pytest_anubis.__path__, "pytest_anubis."):
        importlib.import_module(module.name)
    for name in (
        *("numpy", "scipy.optimize", "scipy.sparse", "scipy.special"),
        *("sqlalchemy.dialects.sqlite", "sqlalchemy.dialects.postgresql", "sqlite3", "psycopg"),
        *("pynvml", "_pytest.stepwise", "torch._dynamo"),  # torch's cannot be loaded a second time
    ):
        with contextlib.suppress(ModuleNotFoundError):
            importlib.import_module(name)
    pytest_collection_finish()


@pytest.fixture
def pytester(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, loaded_once: None
) -> pytest.Pytester:
    """Pytest's own, whose runs leave out what they do not need and take this machine to be quiet.

    Processes of its that run pytest are forked from one that has loaded it (`tests.forked`), as are the
    workers of its runs in this process (`tests.forked_workers`).
    """
    monkeypatch.setenv("PYTEST_ADDOPTS", OPTIONS)
    start = pytester.popen

    def popen(command: Sequence[Any], stdin: Any = None, **options: Any) -> Any:
        paths = [str(Path.cwd()), os.environ["PYTHONPATH"]]  # as pytester itself has it
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
        if not forked.can_be_forked(command, environment):
            return start(command, stdin=stdin, **options)
        return forked.Forked(command, env=environment, stdin=subprocess.DEVNULL, **options)

    monkeypatch.setattr(pytester, "popen", popen)
    monkeypatch.setattr(Popen2IOMaster, "__init__", forked_workers.begin)
    return pytester


@pytest.fixture
def quick_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fork the processes of pytest, ``anubis`` and benchmarks that this process would start."""
    monkeypatch.setattr(subprocess, "Popen", forked.Quick)
