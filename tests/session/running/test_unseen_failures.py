"""Failed checks of which pytest only warns or hears nothing: no run with one is accepted, by any filters."""

from __future__ import annotations

import gc
import os
import threading

import pytest

from pytest_anubis.session.measuring import own_process
from pytest_anubis.store.journal.journal_reading import read_journal
from tests.session.conftest import HEALTHY, run_kinds, set_speed

THREAD = """
import threading
def run(check):
    thread = threading.Thread(target=check)
    thread.start()
    thread.join()
"""
CYCLE = """
class Buffer:
    def __init__(self): self.me = self
    def __del__(self): {}
"""
POOL = """
import warnings
from concurrent.futures import ThreadPoolExecutor, wait
def check(it): assert it != 1
"""
CHILD = """
import multiprocessing, os, signal, sys, time, pytest
def run(target, *args):
    child = multiprocessing.get_context('fork').Process(target=target, args=args)
    child.start()
    child.join()
    return child
def check(): assert 1 == 2
"""
RESULTS = (
    CHILD + "import multiprocessing.pool\ndef check(it): assert it != 1\ndef test_it():\n"
    "    with multiprocessing.Pool(2) as pool:\n"
)
# Kinds of failures that reject the node, and those that leave it undecided.
FAILED = {
    "future that no test reads": POOL
    + "def test_it():\n    with ThreadPoolExecutor() as pool: pool.submit(check, 1)\n",
    "map that no test reads": POOL
    + "def test_it():\n    with ThreadPoolExecutor() as pool: pool.map(check, range(3))\n",
    "future that is only waited for": POOL
    + "def test_it():\n    with ThreadPoolExecutor() as pool:\n"
    "        wait([pool.submit(check, 1)])\n",
    "future of a process": POOL
    + "import multiprocessing\nfrom concurrent.futures import ProcessPoolExecutor\n"
    "def test_it():\n    fork = multiprocessing.get_context('fork')\n"
    "    with ProcessPoolExecutor(1, fork) as pool: pool.submit(check, 1)\n",
    "result of a pool that no test reads": RESULTS
    + "        pool.apply_async(check, (1,)).wait()\n",
    "results of a pool that no test reads": RESULTS
    + "        pool.map_async(check, range(3)).wait()\n",
    "results of a pool that no test iterates over": RESULTS
    + "        pool.imap_unordered(check, range(3)); pool.close(); pool.join()\n",
    "handler of a server": "import socket, socketserver, threading\n"
    "class Handler(socketserver.BaseRequestHandler):\n    def handle(self): assert 1 == 2\n"
    "def test_it():\n    with socketserver.TCPServer(('127.0.0.1', 0), Handler) as server:\n"
    "        thread = threading.Thread(target=server.handle_request)\n        thread.start()\n"
    "        socket.create_connection(server.server_address).close()\n        thread.join()\n",
    "result of a pool of threads": RESULTS.replace("Pool(2)", "pool.ThreadPool(2)")
    + "        pool.apply_async(check, (1,)).wait()\n",
    "assertion in a thread": THREAD + "def check(): assert 1 == 2\ndef test_it(): run(check)\n",
    "fail in a thread": THREAD
    + "import pytest\ndef check(): pytest.fail('no')\ndef test_it(): run(check)\n",
    "several threads": THREAD
    + "def check(): assert 1 == 2\ndef test_it():\n    for _ in range(3): run(check)\n",
    "thread, and the test ignores warnings": THREAD
    + "import warnings\ndef check(): assert 1 == 2\n"
    "def test_it():\n    warnings.simplefilter('ignore')\n    run(check)\n",
    "thread in unittest that ignores warnings": THREAD
    + "import unittest, warnings\ndef check(): assert 1 == 2\n"
    "class TestIt(unittest.TestCase):\n    def test_it(self):\n"
    "        warnings.simplefilter('ignore')\n        run(check)\n",
    "task that no code awaits": "import asyncio\nasync def check(): assert 1 == 2\n"
    "async def main():\n    task = asyncio.create_task(check())\n    await asyncio.sleep(.01)\n"
    "def test_it(): asyncio.run(main())\n",
    "task that is kept": "import asyncio\nKEPT = []\nasync def check(): assert 1 == 2\n"
    "async def main():\n    KEPT.append(asyncio.create_task(check()))\n"
    "    await asyncio.sleep(.01)\ndef test_it(): asyncio.run(main())\n",
    "future of an executor that is kept": "import asyncio\nKEPT = []\ndef check(): assert 1 == 2\n"
    "async def main():\n"
    "    KEPT.append(asyncio.get_running_loop().run_in_executor(None, check))\n"
    "    await asyncio.sleep(.05)\ndef test_it(): asyncio.run(main())\n",
    "task, and the test disables logging": "import asyncio, logging\n"
    "async def check(): assert 1 == 2\n"
    "async def main():\n    task = asyncio.create_task(check())\n    await asyncio.sleep(.01)\n"
    "def test_it():\n    logging.disable(logging.CRITICAL)\n    asyncio.run(main())\n"
    "    logging.disable(logging.NOTSET)\n",
    "callback of an event loop": "import asyncio\ndef check(): assert 1 == 2\n"
    "async def main():\n    asyncio.get_running_loop().call_soon(check)\n"
    "    await asyncio.sleep(.01)\ndef test_it(): asyncio.run(main())\n",
    "callback of a future": "from concurrent.futures import ThreadPoolExecutor\n"
    "def check(future): assert 1 == 2\ndef test_it():\n    with ThreadPoolExecutor() as pool:\n"
    "        pool.submit(abs, 1).add_done_callback(check)\n",
    "failed subtest": "import unittest\nclass TestIt(unittest.TestCase):\n    def test_it(self):\n"
    "        with self.subTest(1): assert 1 == 2\n",
}
UNDECIDED = {
    "error in a future": POOL
    + "def test_it():\n    with ThreadPoolExecutor() as pool: pool.submit({}.pop, 1)\n",
    "child": CHILD + "def test_it(): run(check)\n",
    "child that is closed": CHILD + "def test_it(): run(check).close()\n",
    "child that ends by itself": CHILD + "def test_it(): run(sys.exit, 3)\n",
    "child that crashes": CHILD
    + "def test_it(): run(lambda: os.kill(os.getpid(), signal.SIGABRT))\n",
    "child that something else kills": CHILD
    + "def test_it(): run(lambda: os.kill(os.getpid(), signal.SIGKILL))\n",
    "child of a fixture": CHILD
    + "@pytest.fixture\ndef it():\n    yield\n    run(check)\ndef test_it(it): pass\n",
    "error in a thread": THREAD + "def check(): {}['x']\ndef test_it(): run(check)\n",
    "thread of a fixture": THREAD
    + "import pytest\n@pytest.fixture\ndef it():\n    yield\n    run(check)\n"
    "def check(): assert 1 == 2\ndef test_it(it): pass\n",
    "returned comparison": "def test_it(): return 1 == 2\n",
    "returned in a class": "class TestIt:\n    def test_it(self): return 1 == 2\n",
    "returned in unittest": "import unittest\nclass TestIt(unittest.TestCase):\n"
    "    def test_it(self): return 1 == 2\n",
    "finaliser": "class It:\n    def __del__(self): assert 1 == 2\ndef test_it(): It()\n",
    "not awaited": "async def check(): assert 1 == 2\ndef test_it(): check()\n",
    "returned, and the test resets warnings": "import warnings\n"
    "def test_it():\n    warnings.resetwarnings()\n"
    "    warnings.filterwarnings('ignore')\n    return 1 == 2\n",
    "error in a task that no code awaits": "import asyncio\nasync def check(): {}['x']\n"
    "async def main():\n    task = asyncio.create_task(check())\n    await asyncio.sleep(.01)\n"
    "def test_it(): asyncio.run(main())\n",
    "hook of finalisers exchanged": "import sys\nclass It:\n    def __del__(self): assert 1 == 2\n"
    "def test_it():\n    sys.unraisablehook = lambda args: None\n    It()\n",
    "hook of threads exchanged": THREAD + "def check(): assert 1 == 2\n"
    "def test_it():\n    threading.excepthook = lambda args: None\n    run(check)\n",
}


@pytest.mark.parametrize("filters", ["default", "ignore"])
@pytest.mark.parametrize(
    ("kinds", "code", "outcome"),
    [(FAILED, 1, "FAIL"), (UNDECIDED, 20, "INCONCLUSIVE")],
    ids=["failed", "undecided"],
)
def test_a_check_that_only_warns_accepts_nothing(
    with_baseline: pytest.Pytester, kinds: dict[str, str], code: int, outcome: str, filters: str
) -> None:
    ret, _, found = run_kinds(with_baseline, kinds, "-W", filters)
    assert found == {kind: {outcome} for kind in kinds}
    assert ret == code


@pytest.mark.parametrize("filters", ["default", "ignore"])
def test_failures_outside_of_tests_accept_nothing(
    with_baseline: pytest.Pytester, filters: str
) -> None:
    late = "import gc\ndef test_it():\n    gc.disable()\n    Buffer()\n"
    kinds = {
        "always true": "def test_it(): assert (1 == 2, 'text')\n",
        "finaliser at the end": CYCLE.format("assert 1 == 2") + late,
    }
    ret, record, _ = run_kinds(with_baseline, kinds, "-W", filters)
    gc.enable()
    assert ret == 20
    true, outside = [one.cause for one in record.blockers]
    assert true.startswith("test_00.py:1: the assertion is of a tuple and can never fail")
    assert outside.endswith("outside of any test: AssertionError: assert 1 == 2")
    (
        with_baseline.path / "test_01.py"
    ).unlink()  # the other one is compiled by now: pytest warns no more
    assert with_baseline.runpytest("--anubis", "-W", filters).ret == 20


def test_tests_of_a_class_with_a_constructor_accept_nothing(with_baseline: pytest.Pytester) -> None:
    (with_baseline.path / "test_made.py").write_text(
        "import dataclasses, unittest\nfrom pytest_anubis.core.measurement import TestResult\n"
        "@dataclasses.dataclass\nclass TestPlan:\n    name: str\n"
        "class TestCase(unittest.TestCase):\n    def test_it(self): pass\n"
    )
    set_speed(with_baseline, HEALTHY)
    assert with_baseline.runpytest("--anubis", "-W", "ignore").ret == 0
    (with_baseline.path / "test_made.py").write_text(
        "class TestIt:\n    def __init__(self): pass\n    def test_it(self): assert 1 == 2\n"
        "class Check:\n    def __call__(self): assert 1 == 2\ntest_it = Check()\n"
    )
    result = with_baseline.runpytest("--anubis", "-W", "ignore", "-v")
    assert result.ret == 20
    result.stdout.fnmatch_lines(["*test_made.py: pytest collects no test of class TestIt*"])
    result.stdout.fnmatch_lines(["*test_made.py: pytest does not collect test_it*"])


def test_ordinary_threads_and_finalisers_are_accepted(with_baseline: pytest.Pytester) -> None:
    with_baseline.makepyfile(
        test_zz=THREAD + CYCLE.format("self.me = None") + "import warnings\n"
        "def check(): assert 1 == 1, ('a', 'b')\n"
        "def test_it():\n    run(check)\n    Buffer()\n    warnings.warn('ordinary')\n"
        "    assert (1 ==\n            1)\n    assert ()  == ()\n"
    )
    set_speed(with_baseline, HEALTHY)
    result = with_baseline.runpytest("--anubis", "-W", "default")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*UserWarning: ordinary*"])


READ = {
    "futures": POOL + "import pytest\ndef test_it():\n    with ThreadPoolExecutor() as pool:\n"
    "        one, two, three = [pool.submit(check, it) for it in (1, 1, 2)]\n"
    "    assert isinstance(one.exception(), AssertionError)\n"
    "    with pytest.raises(AssertionError): two.result()\n",
    "futures of an event loop": POOL + "import asyncio, pytest\n"
    "async def main():\n    with pytest.raises(AssertionError):\n"
    "        await asyncio.get_running_loop().run_in_executor(None, check, 1)\n"
    "def test_it(): asyncio.run(main())\n",
    "tasks of an event loop": "import asyncio\nasync def check(): assert 1 == 2\n"
    "async def main():\n    one = asyncio.create_task(check())\n"
    "    two, three = await asyncio.gather(one, check(), return_exceptions=True)\n"
    "    assert repr(two) == repr(three)\ndef test_it(): asyncio.run(main())\n",
    "children": CHILD + "def test_it():\n    assert run(check).exitcode == 1\n"
    "    assert run(sys.exit, 3).exitcode == 3\n    run(sys.exit, 0)\n",
    "ended children": CHILD + "def test_it():\n"
    "    child = multiprocessing.get_context('fork').Process(target=time.sleep, args=(60,))\n"
    "    child.start()\n    child.terminate()\n    child.join()\n",
    "killed children": CHILD + "def test_it():\n"
    "    for kill in (lambda it: it.kill(), lambda it: os.kill(it.pid, signal.SIGKILL)):\n"
    "        child = multiprocessing.get_context('fork').Process(target=time.sleep, args=(60,))\n"
    "        child.start()\n        kill(child)\n        child.join()\n",
    "results of a pool": RESULTS + "        with pytest.raises(AssertionError):\n"
    "            pool.apply_async(check, (1,)).get()\n"
    "        with pytest.raises(AssertionError): pool.map(check, range(3))\n"
    "        with pytest.raises(AssertionError): list(pool.imap(check, range(3)))\n"
    "        assert list(pool.imap_unordered(abs, [-1, -1])) == [1, 1]\n"
    "        one, errors = pool.apply_async(check, (1,)), []\n        one.wait()\n"
    "        assert not one.successful()\n"
    "        pool.apply_async(check, (1,), error_callback=errors.append).wait()\n"
    "        assert errors\n",
    "a pool": CHILD
    + "def test_it():\n    with multiprocessing.get_context('fork').Pool(2) as pool:\n"
    "        assert pool.map(abs, [-1, 2]) == [1, 2]\n",
}


def test_what_is_read_is_the_tests_own(with_baseline: pytest.Pytester) -> None:
    ret, record, _ = run_kinds(with_baseline, READ)
    assert {
        result.test: result.text for result in record.results if result.outcome != "passed"
    } == {}
    assert ret == 0


def test_switching_pytests_ears_off_accepts_nothing(with_baseline: pytest.Pytester) -> None:
    assert with_baseline.runpytest("--anubis", "-p", "no:threadexception").ret == 20


def test_failed_check_in_a_workers_thread_fails(
    in_workers: None, with_baseline: pytest.Pytester
) -> None:
    with_baseline.makepyfile(test_aa=FAILED["assertion in a thread"])
    assert with_baseline.runpytest("--anubis").ret == 1


IMPATIENT = """
from pytest_anubis.session.measuring import threads_of_tests
threads_of_tests._JOIN_SECONDS = 0.1
"""
"""A conftest for runs that do not wait for a thread."""

RECORDS = """
import os, threading, time
import pytest
@pytest.mark.anubis(component="c", metrics=["good"])
def test_it(anubis_metric):
    anubis_metric.record("good", 7, unit="1", better="equal", expect=7)
    def wrong(): anubis_metric.record("wrong", 5, unit="1", better="equal", expect=7)
    {}
def test_later(): time.sleep(.2)
"""
CHILD_RECORDS = "pid = os.fork(); pid or (wrong(), os._exit(0)); os.waitpid(pid, 0)"


@pytest.mark.usefixtures("in_workers")
@pytest.mark.parametrize(
    ("where", "how"),
    [
        ("--anubis-in-process", CHILD_RECORDS),
        ("--anubis-in-process", "threading.Timer(.1, wrong).start()"),
        ("--anubis-in-process", "threading.Timer(1.5, wrong).start()"),
        ("-n0", CHILD_RECORDS),
    ],
    ids=["child", "late thread", "thread after the session", "child of a worker"],
)
def test_a_metric_that_nothing_judges_accepts_nothing(
    pytester: pytest.Pytester, where: str, how: str
) -> None:
    pytester.makeconftest(IMPATIENT if "1.5" in how else "")
    pytester.makepyfile(test_it=RECORDS.format(how))
    start = pytester.runpytest if where == "-n0" else pytester.runpytest_subprocess
    result = start("--anubis", where)
    assert result.ret != 0
    assert "where nothing judges it" in result.stdout.str()


LATE = """
import threading, time
def check(after=.3):
    time.sleep(after)
    assert 1 == 2
"""
OTHER = "def test_other(): time.sleep(.8)\n"
LATE_KINDS = {
    "fails at the end": LATE + "def test_it(): threading.Thread(target=check).start()\n",
    "timer fails at the end": LATE + "def test_it(): threading.Timer(.3, check).start()\n",
    "daemon fails while others are waited for": LATE
    + "def test_it():\n    threading.Thread(target=check, daemon=True).start()\n"
    "    threading.Thread(target=time.sleep, args=(.6,)).start()\n",
    "still runs": LATE + "def test_it(): threading.Thread(target=check, args=(1.5,)).start()\n",
    "fails in another test": LATE
    + "def test_it(): threading.Thread(target=check).start()\n"
    + OTHER,
    "its own thread fails in another test": LATE
    + "def test_it():\n    def again(): time.sleep(.2); threading.Timer(.2, check, (0,)).start()\n"
    "    threading.Timer(.1, again).start()\n" + OTHER,
    "thread of a fixture of the module": LATE
    + "import pytest\n@pytest.fixture(scope='module', autouse=True)\n"
    "def checking(): threading.Thread(target=check).start()\ndef test_it(): pass\n" + OTHER,
    "records again": LATE + "import pytest\n"
    "@pytest.mark.anubis(component='cpu.compute', scope='node')\ndef test_it(anubis_metric):\n"
    "    def record(): anubis_metric.record('n', 0, unit='count', better='equal', expect=0)\n"
    "    def late():\n        time.sleep(.3)\n        try: record()\n        except ValueError: pass\n"
    "    record()\n    threading.Thread(target=late).start()\n",
}


def accepts_nothing_for_its_thread(project: pytest.Pytester, kind: str, *, apart: bool) -> None:
    project.makeconftest(IMPATIENT if kind == "still runs" else "")
    project.makepyfile(test_zz=LATE_KINDS[kind])
    result = (project.runpytest_subprocess if apart else project.runpytest)("--anubis")
    assert result.ret == 20
    assert "failed" not in result.parseoutcomes()
    record = read_journal(next(project.path.glob(".anubis/runs/*")))
    assert any("test_zz.py::test_it" in one.cause for one in record.blockers)


@pytest.mark.parametrize("kind", LATE_KINDS)
def test_surviving_thread_accepts_nothing(with_baseline: pytest.Pytester, kind: str) -> None:
    accepts_nothing_for_its_thread(with_baseline, kind, apart=True)


@pytest.mark.parametrize("kind", ["fails at the end", "fails in another test"])
def test_surviving_thread_in_a_worker_accepts_nothing(
    in_workers: None, with_baseline: pytest.Pytester, kind: str
) -> None:
    accepts_nothing_for_its_thread(with_baseline, kind, apart=False)


def test_ending_and_library_threads_are_accepted(with_baseline: pytest.Pytester) -> None:
    with_baseline.makepyfile(
        test_zz="import multiprocessing, threading, time\n"
        "from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor\n"
        "KEPT = [ThreadPoolExecutor(1), ProcessPoolExecutor(1)]\n"
        "def test_it():\n    for pool in KEPT: assert pool.submit(abs, -1).result() == 1\n"
        "    threading.Thread(target=threading.Event().wait, daemon=True).start()\n"
        "    threading.Thread(target=time.sleep, args=(.3,)).start()\n"
    )
    assert with_baseline.runpytest_subprocess("--anubis", timeout=60).ret == 0


def test_a_run_leaves_threads_as_they_were(with_baseline: pytest.Pytester) -> None:
    before = threading.Thread.start, threading.excepthook
    assert with_baseline.runpytest_inprocess("--anubis").ret == 0
    assert (threading.Thread.start, threading.excepthook) == before


FORKS = """
import os, sys
import pytest
@pytest.fixture
def fixture():
    if {fixture}:
        pid = os.fork()
        if pid == 0: {child}
        os.waitpid(pid, 0)
@pytest.mark.anubis(component="c", metrics=["good"])
def test_it(anubis_metric, fixture):
    anubis_metric.record("good", 7, unit="1", better="equal", expect=7)
    if not {fixture}:
        pid = os.fork()
        if pid == 0: {child}
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == {code}
def test_later(): pass
"""


@pytest.mark.usefixtures("in_workers")
@pytest.mark.parametrize(
    ("where", "fixture", "child"),
    [
        ("--anubis-in-process", False, "raise RuntimeError('child')"),
        ("--anubis-in-process", False, "pytest.exit('child')"),
        ("--anubis-in-process", False, "return"),
        ("--anubis-in-process", True, "assert 1 == 2"),
        ("-n0", False, "raise RuntimeError('child')"),
    ],
    ids=["raises", "exits pytest", "returns", "in a fixture", "in a worker"],
)
def test_forked_child_in_the_test_accepts_nothing(
    pytester: pytest.Pytester, where: str, fixture: bool, child: str
) -> None:
    pytester.makepyfile(test_it=FORKS.format(fixture=fixture, child=child, code=1))
    start = pytester.runpytest if where == "-n0" else pytester.runpytest_subprocess
    result = start("--anubis", where)
    assert result.ret == 4
    result.assert_outcomes(passed=1, failed=1)
    assert "a child process that a test forked" in result.stdout.str()


@pytest.mark.parametrize("code", [0, 3])
def test_a_forked_child_that_exits_keeps_its_status(pytester: pytest.Pytester, code: int) -> None:
    child = f"sys.exit({code})"
    pytester.makepyfile(test_it=FORKS.format(fixture=False, child=child, code=code))
    result = pytester.runpytest_subprocess("--anubis", timeout=60)
    result.assert_outcomes(passed=1, skipped=1)  # no criterion
    assert "a child process that a test forked" not in result.stdout.str()


def test_runs_see_only_their_own_children() -> None:
    own_process.mistake_of_child()
    if (run := os.fork()) == 0:
        own_process.forget_children()
        own_process.end_forked(os.getppid(), RuntimeError("its child"))
    os.waitpid(run, 0)
    assert not own_process.mistake_of_child()
