"""Nothing that a test says, raises or swallows costs the report of another, or its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.quiet import OPTIONS
from tests.run_journals import record_of

HOSTILE = r"""
import os, pytest, sys, warnings

BAD = b"\xff".decode("utf-8", "surrogateescape")

class Mine(UserWarning): pass

class Odd:
    def __repr__(self): raise RuntimeError

def test_message(): assert BAD == ""

def test_property(record_property):
    import numpy
    for value in (numpy.float64(3), numpy.int64(3), Odd(), BAD, -2**40, 10**5000):
        record_property("x", value)

def test_output():
    print(BAD)
    os.write(1, b"\xff")
    assert 0

def test_warning():
    warnings.warn(Mine(BAD))

def test_section(request):
    request.node.add_report_section("call", BAD, BAD)

@pytest.mark.skip(reason=BAD)
def test_skipped(): pass

@pytest.mark.xfail(reason=BAD)
def test_expected(): assert 0, BAD

def test_subtests(subtests):
    with subtests.test(BAD, value=BAD):
        assert 0, BAD

@pytest.fixture
def torn():
    yield
    raise RuntimeError(BAD)

def test_teardown(torn): pass

def test_interrupt(): raise KeyboardInterrupt

def test_leave(): sys.exit(0)

def test_swallowed(): assert 0

def test_last(): pass
"""
ENDS = {
    "message": "failed",
    "property": "passed",
    "output": "failed",
    "warning": "passed",
    "section": "passed",
    "skipped": "skipped",
    "expected": "xfailed",
    "subtests": "failed",
    "teardown": "error",
    "interrupt": "failed",
    "leave": "failed",
    "swallowed": "not reported",
    "last": "passed",
    "in_odd_folder": "failed",
}
SWALLOW = """
def pytest_runtest_protocol(item):
    return True if item.name == "test_swallowed" else None
"""


@pytest.fixture(autouse=True)
def quiet(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_ADDOPTS", OPTIONS)
    pytester.makeini("[pytest]\nfilterwarnings = default\n")


@pytest.mark.parametrize("where", ["worker", "process"])
def test_every_report_comes(pytester: pytest.Pytester, where: str) -> None:
    pytester.makepyfile(test_it=HOSTILE)
    pytester.makeconftest(SWALLOW)
    odd = pytester.path / "odd\udcff"
    odd.mkdir()
    (odd / "test_in.py").write_text("def test_in_odd_folder(): assert 0\n")
    chosen = []
    if where == "process":  # in pytest's own process an interrupt is one
        chosen = ["--anubis-in-process", "--deselect=test_it.py::test_interrupt"]
    result = pytester.runpytest("--anubis", "--junitxml=out.xml", "--html=out.html", *chosen)
    record = record_of(pytester)
    ends = {r.test.rpartition("::test_")[2]: r.outcome for r in record.results}
    assert ends == {name: end for name, end in ENDS.items() if not chosen or name != "interrupt"}
    assert result.ret == 1
    for name in ("out.xml", "out.html"):
        text = Path(name).read_text(encoding="utf-8")
        assert text.count("test_in_odd_folder") > 0
    (message,) = [r.text for r in record.results if r.test.endswith("test_message")]
    assert message == "assert '\\udcff' == ''"
    assert not record.warnings
    result.stdout.no_fnmatch_line("*INTERNALERROR*")


@pytest.mark.parametrize(("status", "code"), [("None", 2), ("7", 7), ("0", 2)])
def test_exit_by_a_test_ends_the_run_in_order(
    pytester: pytest.Pytester, status: str, code: int
) -> None:
    pytester.makepyfile(
        test_it=f"""
        import pytest
        def test_a(): pass
        def test_b(): pytest.exit("enough", returncode={status})
        def test_c(): open("ran", "w")
        """
    )
    result = pytester.runpytest("--anubis")
    record = record_of(pytester)
    assert result.ret == code
    assert not Path("ran").exists()
    assert [*map(str, record.blockers)] == [
        "test_it.py::test_b ended the run by pytest.exit: enough"
    ]
    assert [r.outcome for r in record.results] == ["passed", "not reported", "not reported"]
    result.stdout.no_fnmatch_line("*INTERNALERROR*")


def test_fault_inside_a_worker_blocks(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_it="def test_a(): pass")
    pytester.makeconftest(
        """
        def pytest_runtest_logfinish(nodeid):
            import os
            if "PYTEST_XDIST_WORKER" in os.environ:
                raise ValueError("a conftest is wrong")
        """
    )
    result = pytester.runpytest("--anubis")
    assert result.ret not in (0, 1)
    said = "gw0: a worker had an internal error: ValueError: a conftest is wrong"
    assert said in [one.cause for one in record_of(pytester).blockers]
