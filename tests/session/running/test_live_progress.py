"""The progress of a run, and pytest's own output, which must stay as it is."""

from __future__ import annotations

import io
import re
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_anubis.core.events import PlanPredicted, TestFinished, TestsPlanned, TestStarted
from pytest_anubis.core.measurement import ExpectedTest, PlannedTest, TestResult
from pytest_anubis.core.run_state import RunState
from pytest_anubis.session.running import live_progress
from pytest_anubis.session.running.line_below import LineBelow
from pytest_anubis.session.running.live_progress import LiveProgress, TimeLeft
from pytest_anubis.session.running.terminal_plugin import write_apart

TESTS = """
import pytest

@pytest.mark.parametrize("number", range(3))
def test_fast(number):
    pass

def test_wrong():
    raise ValueError("on purpose")
"""

ON_A_TERMINAL = """
import pytest

@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session):
    session.config.pluginmanager.get_plugin("terminalreporter").isatty = lambda: True
"""


def screen(text: str) -> str:
    """Return what a terminal shows in the end that is never full: the sequences that are in use here."""
    rows, row, column = [""], 0, 0
    text = re.sub(r"\x1b\].*?\x07", "", text)
    for move, how, other in re.findall(r"\x1b\[([\d;]*)([AGJm])|([^\x1b])", text):
        if how == "A":
            row -= 1
        elif how == "G":
            column = int(move) - 1
        elif how == "J":
            rows[row:] = [rows[row][:column]]
        elif other == "\r":
            column = 0
        elif other == "\n":
            row, column = row + 1, 0
            rows += [""] * (row + 1 - len(rows))
        elif other:
            rows[row] = rows[row][:column].ljust(column) + other + rows[row][column + 1 :]
            column += 1
    return "\n".join(line.rstrip() for line in rows)


class Writer:
    """As much of pytest's writer as is used."""

    def __init__(self) -> None:
        self.file = io.StringIO()

    def write_raw(self, msg: str, *, flush: bool = False) -> None:
        self.file.write(msg)

    @property
    def screen(self) -> str:
        return screen(self.file.getvalue())


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("test_a.py ..", "."),
        ("whole line\n", "next\n"),
        ("test_a.py \x1b[32m.\x1b[0m", "\x1b]9;4;1;50\x07F"),
        ("\rgw0 I", "\rgw0 ok"),
        ("", "first"),
    ],
)
def test_line_stands_below_and_leaves_no_trace(before: str, after: str) -> None:
    plain = screen(before + after)
    writer = Writer()
    line = LineBelow(writer)
    writer.write_raw(before)
    for text in ("test_gemm on cpu, a rather long one", "test_disk"):
        line.show(text)
        rows = writer.screen.split("\n")
        assert rows[-1] == text
        assert "\n".join(rows[:-1]) == screen(before).rstrip("\n")
    writer.write_raw(after)
    assert writer.screen == plain
    line.show("again")
    line.close()
    assert writer.screen == plain
    assert "write_raw" not in vars(writer)


def test_line_is_cut_and_escapes_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    writer = Writer()
    LineBelow(writer).show("evil\x1b[2J name of a test that is long")
    assert writer.screen == "evil\\x1b[2J name o…"


def without_times(text: str) -> str:
    return re.sub(r"in \d.*s|runs/\S+|\d{4}-\d\d-\d\d( \d\d:\d\d)?", "", text)


@pytest.mark.parametrize("options", [["--color=no"], ["-v", "--color=yes"]])
def test_pytests_own_text_is_not_spoiled_on_a_terminal(
    pytester: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setattr(live_progress, "TERMINAL_SECONDS", 0.0)
    pytester.makepyfile(TESTS)
    pytester.makeconftest(ON_A_TERMINAL)
    pytester.inline_run("--anubis", *options)  # a run result holds lines, without carriage returns
    shown = capsys.readouterr().out
    assert "anubis: test_fast[1] on node, 1 of 4 done" in shown
    monkeypatch.setenv("TERM", "dumb")
    pytester.inline_run("--anubis", *options)
    plain = capsys.readouterr().out
    assert "of 4 done" not in plain
    assert without_times(screen(shown)) == without_times(screen(plain))


def test_a_log_has_a_line_now_and_then_and_none_with_q(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makepyfile(TESTS)
    assert "done" not in pytester.runpytest("--anubis").stdout.str()  # too short for a line
    monkeypatch.setattr(live_progress, "LOG_SECONDS", 0.0)
    result = pytester.runpytest("--anubis")
    result.stdout.fnmatch_lines(["anubis: test_fast?2? on node, 2 of 4 done, about 1 s left"])
    assert "\x1b[J" not in result.stdout.str()
    for options in (["-q"], ["-s"], ["--collect-only"]):
        assert "of 4 done" not in pytester.runpytest("--anubis", *options).stdout.str()


def test_line_never_follows_dots_of_a_quiet_run(request: pytest.FixtureRequest) -> None:
    file = io.StringIO()
    reporter: Any = pytest.TerminalReporter(request.config, file)
    config: Any = SimpleNamespace(get_terminal_writer=lambda: reporter._tw)
    reporter.write("..")  # as with -q, and of workers: pytest remembers no file
    write_apart(config, reporter, "first")
    write_apart(config, reporter, "second")
    assert file.getvalue() == "..\nfirst\nsecond\n"


def test_time_left_follows_plan_then_speed() -> None:
    state = RunState()
    names = "abcd"
    state.apply(TestsPlanned(tests=tuple(PlannedTest(test=name) for name in names)))
    slots = tuple(ExpectedTest(test=name, lane="node", start=0.0, end=10.0) for name in names)
    state.apply(PlanPredicted(tests=slots, wall=40.0, serial=40.0))
    state.apply(TestFinished(result=TestResult(test="a", benchmark="", outcome="passed")))
    left = TimeLeft(state)  # resumed: the first was done before
    assert left.at(0.0) is None
    state.apply(TestStarted(test="b"))
    assert left.at(100.0) == pytest.approx(40.0)
    assert left.at(105.0) == pytest.approx(5 / 6 * (5 / 6 * 40 + 5))
    state.apply(TestFinished(result=TestResult(test="b", benchmark="", outcome="passed")))
    # It took four times as long as was planned: that counts the more, the more is done.
    assert left.at(140.0) == pytest.approx(2 / 3 * (2 / 3 * 40 + 40))
    for name in "cd":
        state.apply(TestFinished(result=TestResult(test=name, benchmark="", outcome="passed")))
    assert left.at(150.0) == 0.0


def progress(
    monkeypatch: pytest.MonkeyPatch, written: list[str], *, terminal: bool
) -> LiveProgress:
    """Return the progress of a run with workers, one of two tests done; `written` gets a log's lines."""
    state = RunState()
    state.apply(TestsPlanned(tests=(PlannedTest(test="a"), PlannedTest(test="b"))))
    state.apply(TestFinished(result=TestResult(test="a", benchmark="", outcome="passed")))
    state.apply(TestStarted(test="b"))
    monkeypatch.setattr(live_progress, "LOG_SECONDS", 0.0)
    monkeypatch.setattr(live_progress, "TERMINAL_SECONDS", 0.0)
    monkeypatch.setattr(live_progress, "_can_draw", lambda: terminal)

    def write(config: object, reporter: object, text: str) -> None:
        written.append(f"{threading.current_thread().name}: {text}")

    monkeypatch.setattr(live_progress, "write_apart", write)
    reporter: Any = object.__new__(pytest.TerminalReporter)
    reporter.isatty = terminal
    writer = Writer()
    config: Any = SimpleNamespace(
        option=SimpleNamespace(usepdb=False, trace=False, capture="fd", collectonly=False),
        pluginmanager=SimpleNamespace(get_plugin=lambda name: reporter),
        get_verbosity=lambda: 0,
        get_terminal_writer=lambda: writer,
    )
    run: Any = SimpleNamespace(state=state)
    return LiveProgress(config, run, workers=True)


def test_only_pytests_thread_writes_in_a_log(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []
    live = progress(monkeypatch, written, terminal=False)
    live.pytest_sessionstart()
    assert "anubis-progress" not in {thread.name for thread in threading.enumerate()}
    live.pytest_runtest_logreport()
    live.pytest_sessionfinish()
    (line,) = written
    assert line.startswith(f"{threading.current_thread().name}: anubis: b, 1 of 2 done")


def test_failed_update_stops_the_drawing(monkeypatch: pytest.MonkeyPatch) -> None:
    live = progress(monkeypatch, [], terminal=True)
    shown = threading.Event()
    broken = threading.Event()
    moment = getattr(live_progress, "run_progress")  # noqa: B009 - imported there

    def failing(*args: Any) -> Any:
        if shown.is_set():
            broken.wait()
            raise ValueError("on purpose")
        shown.set()
        return moment(*args)

    monkeypatch.setattr(live_progress, "run_progress", failing)
    live.pytest_sessionstart()
    assert shown.wait(60)
    thread, writer = live._thread, live._config.get_terminal_writer()
    assert thread is not None
    broken.set()
    thread.join(60)
    assert not thread.is_alive()
    assert "1 of 2 done" in writer.file.getvalue()  # type: ignore[attr-defined]
    live.pytest_runtest_logreport()
    assert "done" not in writer.screen  # type: ignore[attr-defined]
    live.pytest_sessionfinish()


def test_hanging_update_does_not_delay_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    live = progress(monkeypatch, [], terminal=True)
    looking, free = threading.Event(), threading.Event()
    moment = getattr(live_progress, "run_progress")  # noqa: B009 - imported there

    def slow(*args: Any) -> Any:
        looking.set()
        free.wait(60)
        return moment(*args)

    monkeypatch.setattr(live_progress, "run_progress", slow)
    monkeypatch.setattr(live_progress, "JOIN_SECONDS", 0.0)
    live.pytest_sessionstart()
    assert looking.wait(60)
    thread, writer = live._thread, live._config.get_terminal_writer()
    assert thread is not None
    live.pytest_sessionfinish()
    assert thread.is_alive()
    free.set()
    thread.join(60)
    assert writer.file.getvalue() == ""  # type: ignore[attr-defined]
