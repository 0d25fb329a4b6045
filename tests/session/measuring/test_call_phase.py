"""What a user sees for each kind of result: outcome, text, exit code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.run_journals import events_of
from tests.session.conftest import HEALTHY, Learn, append_to_suite, edit_suite, set_speed

SLOW = [0.8 * value for value in HEALTHY]


def test_healthy_node_is_accepted(with_baseline: pytest.Pytester) -> None:
    result = with_baseline.runpytest("--anubis")
    result.assert_outcomes(passed=1)
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        [
            "anubis: inventory of * recorded ????-??-?? ??:?? UTC",
            "ACCEPTED: node *: 1 metric judged, none failed*",
        ]
    )


def test_slow_node_is_rejected_with_component_and_reasons(with_baseline: pytest.Pytester) -> None:
    set_speed(with_baseline, SLOW)
    result = with_baseline.runpytest("--anubis", "-rf")
    result.assert_outcomes(failed=1)
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        ["*REJECTED*cpu.compute*", "FAILED test_suite.py::test_speed* - speed 20 % slower: *"]
    )
    result.stdout.no_fnmatch_line("*Traceback*")
    result.stdout.fnmatch_lines(
        [
            "metric * unit * value * expected * limit * loss * certainty * baseline * triage * verdict",
            "speed * GFLOP/s * 80 * 99.99 * 94.99 * 20 % * sha256:???????????? * reject * FAIL",
            "",
            "speed is 80 GFLOP/s, expected 99.99 GFLOP/s: 20 % slower, beyond *",
            "component: cpu.compute (* cpu)",
            "learned from: 12 nodes",
            "next step: check the cooler",
        ],
        consecutive=True,
    )


NETWORK = """
import pytest

@pytest.mark.anubis(component="network.loopback", action="check the cable, the switch and the adapter")
def test_tcp_rate(anubis_metric):
    anubis_metric.record("tcp_rate", [0.95] * 5, unit="GB/s", better="higher")
"""
OWN = """
import pytest

def test_of_its_own():
    assert 1 + 1 == 3, "nobody who counts would ever say that it is three, and so on, and on, and on, and on"

@pytest.fixture
def broken():
    raise OSError("a fixture may say as much as this: nobody who counts would ever say that it is three")

def test_without(broken):
    pass
"""
TERMINAL = """
import pytest

@pytest.hookimpl(trylast=True)
def pytest_configure(config):
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None:
        reporter.isatty = lambda: True
"""
SHORT = {
    60: "FAILED test_loop.py::test_tcp_rate - tcp_rate 73 % slower",
    80: "FAILED test_loop.py::test_tcp_rate - tcp_rate 73 % slower: 0.95 vs 3.57 GB/s",
    100: "FAILED suites/network/test_loop.py::test_tcp_rate - tcp_rate 73 % slower: 0.95 GB/s, expected 3.57",
}


def rejected(
    pytester: pytest.Pytester, learn: Learn, monkeypatch: pytest.MonkeyPatch, width: int
) -> list[str]:
    """Return what a rejection looks like on a terminal of this width, from the failures on."""
    test = "suites/network/test_loop.py::test_tcp_rate"
    learn({"tcp_rate": ("GB/s", "higher")}, benchmark=test, centre=3.58)
    folder = pytester.mkdir("suites") / "network"
    folder.mkdir()
    (folder / "test_loop.py").write_text(NETWORK)
    monkeypatch.setenv("COLUMNS", str(width))
    pytester.makeconftest(TERMINAL)
    lines = pytester.runpytest("--anubis", "-p", "no:benchmark", "--color=yes").stdout.lines
    plain = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in lines]
    failures = next(n for n, line in enumerate(plain) if "= FAILURES =" in line)
    # A path, and what is to be typed, stay whole.
    spared = ("run recorded in ", "next: ")
    return [line for line in plain[failures:] if not line.startswith(spared)]


@pytest.mark.parametrize("width", [60, 80, 100, 200])
def test_a_rejection_fits_the_terminal(
    pytester: pytest.Pytester, learn: Learn, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    """The table was as wide as it is, and pytest's line had no room for what was measured."""
    shown = rejected(pytester, learn, monkeypatch, width)
    assert max(map(len, shown)) <= width
    (last,) = [line for line in shown if line.startswith("FAILED ")]
    if width == 200:
        assert last.endswith("expected 3.57 (similarity .27 < .95): network.loopback")
    else:
        assert last == SHORT[width]
    (header,) = [line.split() for line in shown if line.startswith("metric ")]
    assert ("baseline" in header) is (width >= 100)


def test_summary_line_fits_the_terminal(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pytest counts the colours as well, so that the terminal broke it in the middle of a word."""
    monkeypatch.setenv("COLUMNS", "80")
    pytester.makepyfile(test_own=OWN)
    lines = pytester.runpytest("--anubis", "--color=yes").stdout.lines
    plain = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in lines]
    failed, error = [line for line in plain if line.startswith(("FAILED ", "ERROR "))]
    assert failed.startswith("FAILED test_own.py::test_of_its_own - AssertionError: nobody who ")
    assert error.startswith("ERROR test_own.py::test_without - OSError: a fixture may say ")
    assert len(failed) == len(error) == 80
    assert any("and so on, and on, and on, and on" in line for line in plain)  # in the failures


@pytest.mark.usefixtures("in_workers")
def test_rejection_in_a_worker_fits_the_terminal(
    pytester: pytest.Pytester, learn: Learn, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = rejected(pytester, learn, monkeypatch, 80)
    assert max(map(len, shown)) <= 80
    assert SHORT[80] in shown


def test_unknown_requirement_is_refused_early(with_baseline: pytest.Pytester) -> None:
    result = with_baseline.runpytest("--anubis", "--anubis-require=cpu,any,test_sped,nosuch")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    what = "the baseline has no such component, benchmark or metric"
    result.stderr.fnmatch_lines(
        [
            f"ERROR: --anubis-require test_sped: {what} (did you mean 'test_speed'?); its components: "
            f"cpu.compute; --anubis-require nosuch: {what}; its components: cpu.compute"
        ]
    )
    assert not (with_baseline.path / ".anubis").exists()


def test_no_baseline_is_20_and_says_what_to_do(project: pytest.Pytester) -> None:
    elsewhere = project.mkdir("elsewhere")
    (project.path / "speed.json").rename(elsewhere / "speed.json")
    (file,) = project.path.glob("test_*.py")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(elsewhere)
        result = project.runpytest("--anubis", "-rs", "--rootdir=..", f"../{file.name}")
    result.assert_outcomes(skipped=1)
    assert result.ret == 20
    result.stdout.fnmatch_lines(
        ["*no baseline for hardware class*anubis learn*", f"next: anubis learn ../{file.name}"]
    )
    begun = events_of(project)[0]
    assert (begun["tests"], begun["root"]) == (f"../{file.name}", "..")
    kinds = [event["event"] for event in events_of(project)]
    assert "measurement" in kinds
    assert kinds[-1] == "run_finished"


def test_measure_mode_records_and_judges_nothing(project: pytest.Pytester) -> None:
    result = project.runpytest("--anubis", "--anubis-mode=measure")
    result.assert_outcomes(passed=1)
    assert result.ret == 0
    kinds = {event["event"] for event in events_of(project)}
    assert "measurement" in kinds
    assert not kinds & {"verdict", "node_verdict"}


def test_without_anubis_nothing_is_written(with_baseline: pytest.Pytester) -> None:
    set_speed(with_baseline, SLOW)
    before = {path.name for path in with_baseline.path.iterdir()}
    result = with_baseline.runpytest("-p", "no:cacheprovider", "-p", "no:benchmark")
    result.assert_outcomes(passed=1)
    assert {path.name for path in with_baseline.path.iterdir()} - {"__pycache__"} == before - {
        "__pycache__"
    }
    result.stdout.no_fnmatch_line("anubis:*")
    result.stdout.no_fnmatch_line("*ACCEPTED*")


def test_collect_only_writes_nothing(with_baseline: pytest.Pytester) -> None:
    result = with_baseline.runpytest("--anubis", "--collect-only", "-q")
    result.stdout.fnmatch_lines(["test_suite.py::test_speed[[]cpu[]]"])
    assert not (with_baseline.path / ".anubis").exists()


@pytest.mark.parametrize(
    ("strict", "speed", "outcome", "code"),
    [
        # Waived, so nothing was judged.
        (False, SLOW, {"xfailed": 1}, 20),
        (True, SLOW, {"xfailed": 1}, 20),
        (False, HEALTHY, {"xpassed": 1}, 0),
        (True, HEALTHY, {"failed": 1}, 1),
    ],
)
def test_xfail_keeps_its_meaning(
    with_baseline: pytest.Pytester,
    strict: bool,
    speed: list[float],
    outcome: dict[str, int],
    code: int,
) -> None:
    mark = f'@pytest.mark.xfail(reason="known slow", strict={strict})\n@pytest.mark.anubis('
    edit_suite(with_baseline, "@pytest.mark.anubis(", mark)
    set_speed(with_baseline, speed)
    result = with_baseline.runpytest("--anubis")
    result.assert_outcomes(**outcome)
    assert result.ret == code


def test_waived_failure_is_listed(with_baseline: pytest.Pytester) -> None:
    mark = '@pytest.mark.xfail(reason="known slow")\n@pytest.mark.anubis('
    edit_suite(with_baseline, "@pytest.mark.anubis(", mark)
    set_speed(with_baseline, SLOW)
    result = with_baseline.runpytest("--anubis", "-v")
    result.assert_outcomes(xfailed=1)
    assert result.ret == 20  # there was nothing else to judge
    text = "test_suite.py::test_speed speed cpu: failed as its xfail mark expects: speed is 80 GFLOP/s*"
    # The list of what was not judged once held a loss of 20 %.
    result.stdout.fnmatch_lines(["UNDECIDED: *; 1 waived by xfail marks: *test_speed speed cpu*"])
    result.stdout.fnmatch_lines(["seen, does not block:", f"  WAIVED {text}"], consecutive=True)
    result.stdout.no_fnmatch_line("not judged, does not block:")
    found = next(e["noted"] for e in events_of(with_baseline) if e["event"] == "node_verdict")
    assert isinstance(found, list)
    listed = [str(line) for line in found]
    assert len(listed) == 1
    assert listed[0].startswith(f"WAIVED {text[:-1]}")


def test_body_failure_is_reported_as_itself(with_baseline: pytest.Pytester) -> None:
    append_to_suite(with_baseline, "\n    assert 1 + 1 == 3, 'wrong sum'\n")
    result = with_baseline.runpytest("--anubis")
    result.assert_outcomes(failed=1)
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*wrong sum*"])
    result.stdout.no_fnmatch_line("*expected*similarity*")
    assert any(event["event"] == "measurement" for event in events_of(with_baseline))


FIRST = """collect('first', lambda: 1.0, unit='ms', better='lower', rounds=3)
    anubis_metric."""
WRONG = {
    "record('speed', 1, unit='s')": "has no direction; say better=",
    "record('speed', 1, unit='s', better='up')": "has better='up'; say better='higher', ",
    "record('speed', 1, unit='', better='higher')": "has no unit; give one",
    "record('speed', -1, unit='s', better='lower')": "value -1 is negative",
    "record('speed', 'fast', unit='s', better='lower')": "is text; record numbers",
    "record('bits', {1: 2}, unit='1', better='equal')": "dict is a mapping",
    "record('bits', 2**53 + 1, unit='1', better='equal', expect=2**53)": "beyond 2**53 loses",
    "record('bits', 10**400, unit='1', better='equal')": "beyond 2**53 loses",
    "record('bits', 1, unit='1', better='equal', expect=2**60)": "beyond 2**53 loses",
    "record('x', 1, unit='1', better='higher', evidence='rank 3')": "is 'rank 3'; give a list of texts",
    "record('x', 1, unit='1', better='higher', evidence=[3, None])": "[3, None]; give a list of texts",
    "record('x', 1, unit='1', better='higher', evidence=3)": "evidence is 3; give a list of texts",
    "collect('speed', lambda: 1, unit='s', better='up')": "has better='up'",
    "measure('speed', lambda: 1, unit='parsec', better='lower')": "parsec",
    "measure('speed', lambda: 1, unit='s', better='lower', load='long')": "say 'sustained' or 'short'",
    f"{FIRST}record('second', [1, 2], unit='ms', better='lower', rounds_of='other')": "has no such metric",
    f"{FIRST}record('second', [1, 2], unit='ms', better='lower', rounds_of='first')": (
        "rounds_of='first' has 3 values, and 2 are"
    ),
    f"{FIRST}record('part', [1], unit='ms', better='lower', part_of='whole')": "before its parts",
    f"{FIRST}record('part', [1], unit='s', better='lower', part_of='first')": "the same unit",
    f"{FIRST}record('part', [1], unit='ms', better='higher', part_of='first')": "better='lower'",
    f"{FIRST}record('first', 1, unit='ms', better='lower')": "is recorded twice",
}  # fmt: skip
"""Call of a test -> words of its refusal."""


def test_each_wrong_call_is_a_usage_error_and_shown_where_it_stands(
    with_baseline: pytest.Pytester,
) -> None:
    suite, lines = "", []
    for number, call in enumerate(WRONG):
        suite += f"def test_{number}(anubis_metric):\n    anubis_metric.{call}\n"
        lines.append(suite.count("\n"))
    with_baseline.makepyfile(test_suite=suite)
    result = with_baseline.runpytest("--anubis")
    assert result.ret == 4
    # Not anywhere: pytest also shows the line of the test that made the call.
    said = [line for line in result.outlines if line.startswith("benchmark written wrongly: ")]
    assert len(said) == len(WRONG)
    assert [
        words for words, line in zip(WRONG.values(), said, strict=True) if words not in line
    ] == []
    shown = [line for line in result.outlines if re.match(r"test_suite\.py:\d+: ", line)]
    assert [int(line.split(":")[1]) for line in shown] == lines
    assert sum(line.startswith(">") for line in result.outlines) == len(WRONG)
    result.stdout.no_fnmatch_line("*recorder.py*")
    result.stdout.no_fnmatch_line("*INTERNALERROR*")


ODD = {
    "NaN": ("[float('nan')], unit='GFLOP/s', better='higher'", "value 1 is NaN"),
    "infinity": ("[float('inf')], unit='GFLOP/s', better='higher'", "value 1 is infinite"),
    "empty": ("[], unit='GFLOP/s', better='higher'", "no value was recorded"),
    "other unit": (
        "[100.0] * 20, unit='TFLOP/s', better='higher'",
        "recorded in TFLOP/s, the baseline has GFLOP/s",
    ),
    "other direction": (
        "[100.0] * 20, unit='GFLOP/s', better='lower'",
        "recorded as better=lower, the baseline has higher",
    ),
    "new metric": ("1, unit='s', better='lower'", "the baseline has no criterion for other yet"),
    "nothing": ("", "the benchmark recorded no metric"),
}


@pytest.mark.parametrize("case", ODD)
def test_each_odd_value_has_a_defined_outcome(with_baseline: pytest.Pytester, case: str) -> None:
    values, words = ODD[case]
    name = "other" if case == "new metric" else "speed"
    call = f"record({name!r}, {values})" if values else "measurements"
    with_baseline.makepyfile(
        test_suite=f"def test_speed(anubis_metric, anubis_device):\n    anubis_metric.{call}\n"
    )
    result = with_baseline.runpytest("--anubis", "-ra")
    assert result.ret == 20
    assert [line for line in result.outlines if line.startswith("SKIPPED ") and words in line]
    result.stdout.no_fnmatch_line("*INTERNALERROR*")


@pytest.mark.parametrize(("phase", "code"), [("setup", 4), ("teardown", 1)])
def test_mistake_in_a_fixture_is_a_usage_error(
    with_baseline: pytest.Pytester, phase: str, code: int
) -> None:
    """After a body that failed it excuses nothing."""
    before, after = ("wrong()", "0") if phase == "setup" else ("0", "wrong()")
    with_baseline.makepyfile(
        test_suite=f"""
        import pytest

        @pytest.fixture
        def mine(anubis_metric):
            wrong = lambda: anubis_metric.record('x', 1, unit='s')
            {before}
            yield
            {after}

        def test_speed(mine):
            assert 1 == 2
        """
    )
    assert with_baseline.runpytest("--anubis").ret == code


def test_invalid_values_are_reported_without_baseline(project: pytest.Pytester) -> None:
    values = "[1.0, float('inf')]"
    project.makepyfile(
        f"def test_it(anubis_metric): anubis_metric.record('x', {values}, unit='s', better='lower')"
    )
    result = project.runpytest("--anubis", "-rs")
    assert result.ret == 20
    line = "x cannot be judged: value 2 is infinite; record finite numbers, or skip the test"
    result.stdout.fnmatch_lines(
        [f"*INCONCLUSIVE *::test_it x node: {line}", "SKIPPED [[]2[]] *: measured, not judged *"]
    )


def test_a_summary_that_is_cut_begins_with_the_cause(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for name in ("CI", "BUILD_NUMBER"):  # where pytest cuts nothing
        monkeypatch.delenv(name, raising=False)
    project.makepyfile(
        test_cut="def test_it(anubis_metric): anubis_metric.record('speed', 'fast', unit='s', better='lower')"
    )
    result = project.runpytest("--anubis", "-rf")
    result.stdout.fnmatch_lines(
        [
            "benchmark written wrongly: test_cut.py::test_it: metric 'speed': 'fast' is text; *",
            "FAILED test_cut.py::test_it - metric 'speed': 'fast' is text; record numbers",
        ]
    )


def test_declared_metric_needs_the_fixture(project: pytest.Pytester, learn: Learn) -> None:
    """The test passed and the node was accepted, although `anubis learn` had ended with 20 for it."""
    learn()
    project.makepyfile(
        test_other="""
        import pytest

        @pytest.mark.anubis(component="cpu.other", metrics=["heat"])
        def test_declares():
            assert 1 + 1 == 2

        @pytest.mark.anubis(component="cpu.other")
        def test_checks():
            assert 1 + 1 == 2

        @pytest.mark.anubis(component="cpu.other", metrics=["warmth"])
        def test_asks(request):
            metric = request.getfixturevalue("anubis_metric")
            metric.record("warmth", [1.0], unit="s", better="lower")
        """
    )
    result = project.runpytest("--anubis", "-rs")
    result.assert_outcomes(passed=2, skipped=2)  # of warmth there is no criterion
    assert result.ret == 20
    line = "heat is declared by the test's mark, and the test never asks for anubis_metric: record it, or *"
    result.stdout.fnmatch_lines(["UNDECIDED: *", f"*test_declares heat*{line}"])


def test_declared_but_unset_metric_fails(with_baseline: pytest.Pytester) -> None:
    edit_suite(with_baseline, 'scope="device"', 'scope="device", metrics=["speed", "heat"]')
    result = with_baseline.runpytest("--anubis", "-rf")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["FAILED* - heat is declared*"])
    result.stdout.fnmatch_lines(
        [
            "heat is declared by the test's mark but was never recorded; recorded: speed; either this node "
            "kept the test from it, or the benchmark is written wrongly: then record heat, or take it out of "
            "the mark's metrics*"
        ]
    )


def test_a_criterion_that_was_not_tested_blocks(project: pytest.Pytester, learn: Learn) -> None:
    learn({"speed": ("GFLOP/s", "higher"), "latency": ("us", "lower")})
    result = project.runpytest("--anubis")
    result.assert_outcomes(passed=1)
    assert result.ret == 20
    untested = "NOT_TESTED test_suite.py::test_speed latency: the baseline has a criterion, but *"
    result.stdout.fnmatch_lines(["UNDECIDED: *", f"  {untested}"])


def test_a_deselected_benchmark_blocks(with_baseline: pytest.Pytester) -> None:
    append_to_suite(with_baseline, "\ndef test_plain():\n    pass\n")
    assert with_baseline.runpytest("--anubis", "-k", "plain").ret == 20


def test_new_benchmark_is_listed_and_does_not_block(with_baseline: pytest.Pytester) -> None:
    new = "    anubis_metric.record('x', 1, unit='s', better='lower')\n"
    append_to_suite(with_baseline, f"\ndef test_new(anubis_metric):\n{new}")
    assert with_baseline.runpytest("--anubis").ret == 0
    assert with_baseline.runpytest("--anubis", "--anubis-require-all").ret == 20


def test_skip_blocks_only_with_a_criterion(with_baseline: pytest.Pytester) -> None:
    append_to_suite(
        with_baseline, "\ndef test_tool(anubis_metric):\n    pytest.skip('fio not found')\n"
    )
    result = with_baseline.runpytest("--anubis")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["not run here: 1 test (1 fio not found; -v names them)"])
    edit_suite(with_baseline, "    values =", "    pytest.skip('gone')\n    values =")
    assert with_baseline.runpytest("--anubis").ret == 20


def test_marginal_fails_only_when_asked(with_baseline: pytest.Pytester) -> None:
    with_baseline.makeconftest(
        """
        from pytest_anubis import MetricVerdict, Outcome, Reason

        def pytest_anubis_judge(config, measurement):
            return MetricVerdict(outcome=Outcome.MARGINAL, reason=Reason.UNUSUAL, text="unusual",
                                 benchmark=measurement.benchmark, metric=measurement.metric.name)
        """
    )
    assert with_baseline.runpytest("--anubis").ret == 0
    assert with_baseline.runpytest("--anubis", "--anubis-fail-on=marginal").ret == 1


def test_hooks_extend_the_class_and_see_the_verdict(with_baseline: pytest.Pytester) -> None:
    with_baseline.makeconftest(
        """
        from pathlib import Path

        def pytest_anubis_attributes(config, attributes):
            return {"cooling": "rear door"}

        def pytest_anubis_verdict(config, verdict, verdicts):
            Path("seen.txt").write_text(f"{verdict.decision} {len(verdicts)}")
        """
    )
    result = with_baseline.runpytest("--anubis", "--anubis-split=water, cooling")
    assert result.ret == 20  # another class: no baseline
    result.stdout.fnmatch_lines(
        ["anubis: *, hardware class *_cooling-rear-door_water-unknown, profile smoke"]
    )
    assert (with_baseline.path / "seen.txt").read_text() == "UNDECIDED 1"


def test_wrong_hook_answer_is_one_line(project: pytest.Pytester) -> None:
    project.makeconftest("def pytest_anubis_attributes(config, attributes): return 7")
    result = project.runpytest("--anubis")
    assert result.ret == 4
    result.stderr.fnmatch_lines(["*pytest_anubis_attributes returned 7*"])


def test_journal_holds_the_values_in_order(project: pytest.Pytester) -> None:
    project.runpytest("--anubis")
    (measurement,) = [e for e in events_of(project) if e["event"] == "measurement"]
    assert measurement["values"] == HEALTHY
    assert Path(project.path / ".anubis").is_dir()


def test_one_reason_of_many_tests_is_told_once(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_many="""
        import pytest

        @pytest.mark.parametrize("n", range(12))
        def test_rate(anubis_metric, n):
            anubis_metric.record("rate", [1.0 + n] * 5, unit="GB/s", better="higher")

        @pytest.mark.anubis(component="network.nic", cost="1s", goal="g", question="q", action="a")
        @pytest.mark.skipif(True, reason="ib_write_bw not found")
        def test_port():
            pass
        """
    )
    result = pytester.runpytest("--anubis", "-ra", "-p", "no:xdist")
    assert result.ret == 20
    lines = [line for line in result.outlines if "no baseline for hardware class" in line]
    assert len(lines) <= 2  # the header's and the summary's
    result.stdout.fnmatch_lines(
        [
            "not run here: 1 test (1 ib_write_bw not found; -v names them)",
            "SKIPPED [[]12[]] test_many.py: measured, not judged (-v says why of each)",
        ]
    )


def test_unreadable_tool_output_takes_two_lines(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_tool="""
        from pytest_anubis.benchmarking.tools import UnreadableOutput

        def test_fio(anubis_metric):
            try:
                int("x")
            except ValueError:
                raise UnreadableOutput("fio", "no jobs in it", "fio-3.33")

        def test_own(anubis_metric):
            import no_such_library
        """
    )
    result = pytester.runpytest("--anubis", "-rf", "-p", "no:xdist")
    assert result.ret == 20
    at = result.outlines.index("INCONCLUSIVE: output of fio-3.33 cannot be read: no jobs in it")
    assert "test_fio" in result.outlines[at - 1]
    assert result.outlines[at + 1].startswith("next step: use the version of the tool that")
    assert "test_own" in result.outlines[at + 2]
    result.stdout.fnmatch_lines(
        ["E * No module named 'no_such_library'"]
    )  # of others the place counts
    result.stdout.fnmatch_lines(["FAILED *::test_fio - output of fio-3.33 cannot be read*"])
