"""A recorded job is a benchmark: collected by its name, with fixtures, marks and verdicts as any other."""

from __future__ import annotations

import pytest

from pytest_anubis.cli.main import main
from pytest_anubis.traces.trace_reading import read_trace
from tests.run_journals import record_of
from tests.traces.made_traces import node, two_products, write

OTHER = """
def test_other(anubis_metric):
    anubis_metric.record("speed", [1.0, 1.0], unit="GB/s", better="higher")
"""
COLLECT = ("--collect-only",)
MEASURE = ("--anubis", "--anubis-mode=measure")


@pytest.fixture
def traced(pytester: pytest.Pytester) -> pytest.Pytester:
    """A folder with one trace and nothing else."""
    write(pytester.path, two_products())
    return pytester


def test_a_trace_is_collected_for_each_device_and_measured(traced: pytest.Pytester) -> None:
    result = traced.runpytest(*MEASURE, "--junitxml=out.xml")
    result.assert_outcomes(passed=1)
    found = {one.metric.name: one for one in record_of(traced).measurements}
    assert {"step_time", "time_matrix", "time_between", "replayed", "step_bits"} == set(found)
    digest = read_trace(traced.path / "job.trace.json").digest
    assert found["step_time"].group == found["replayed"].group == digest
    assert list(found["replayed"].values) == [2]
    parts = {name for name, one in found.items() if one.metric.part_of == "step_time"}
    assert parts == {"time_matrix", "time_between"}
    assert {one.benchmark for one in found.values()} == {"job.trace.json::replay"}


def test_the_goals_of_a_folder_include_its_traces(
    traced: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    (traced.path / "x.trace.json").write_text('{"traceEvents": []}')
    assert main(["goals", ".", "--format", "json"]) == 0
    printed = capsys.readouterr()
    assert "job.trace.json::replay" in printed.out
    assert "x.trace.json" not in printed.out
    assert printed.err.count("x.trace.json looks like a profiler's timeline") == 1


def test_the_same_ids_with_and_without_workers(traced: pytest.Pytester, in_workers: None) -> None:
    ids = []
    for workers in ("-n0", "-n2"):
        result = traced.runpytest(workers, "-v", "-p", "xdist", "job.trace.json")
        result.assert_outcomes(passed=1)
        ids.append({word for line in result.outlines for word in line.split() if "::" in word})
    assert ids[0] == ids[1] == {"job.trace.json::replay[cpu]"}


def test_what_the_file_beside_it_states(traced: pytest.Pytester) -> None:
    beside = traced.path / "job.trace.toml"
    beside.write_text('component = "customer.translation"\naction = "call them"\n')
    result = traced.runpytest("--collect-only", "-q", "-m", "anubis", "job.trace.json")
    assert "job.trace.json::replay[cpu]" in result.stdout.str()
    item = (
        traced.inline_run("--collect-only", "job.trace.json")
        .getcalls("pytest_itemcollected")[0]
        .item
    )
    mark = next(item.iter_markers("anubis"))
    assert (mark.kwargs["component"], mark.kwargs["action"]) == (
        "customer.translation",
        "call them",
    )


@pytest.mark.parametrize(
    ("stated", "options"),
    [
        ("colour = 'red'", ()),
        ("colour = 'red'", MEASURE),
        ("cost = 7", COLLECT),
        ("cost = 'long'", COLLECT),
        ("goal = ''", COLLECT),
        ("component = 'My GPUs'", COLLECT),
        ("component = [", COLLECT),
        ("\xff", COLLECT),
    ],
)
def test_a_wrong_file_beside_it_is_one_line(
    traced: pytest.Pytester, stated: str, options: tuple[str, ...]
) -> None:
    (traced.path / "job.trace.toml").write_text(stated, encoding="latin-1")
    traced.makepyfile(test_other=OTHER)
    result = traced.runpytest(*options, *(() if options == MEASURE else ("job.trace.json",)))
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    (line,) = (line for line in result.errlines if line)
    assert "job.trace.toml: " in line


def test_a_wrong_file_beside_it_is_named_by_plain_workers(
    traced: pytest.Pytester, in_workers: None
) -> None:
    (traced.path / "job.trace.toml").write_text("colour = 'red'")
    result = traced.runpytest("-n2", "-p", "xdist", "job.trace.json")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines("*job.trace.toml: no key 'colour'*")


def test_a_damaged_trace_is_inconclusive_and_stops_no_other_test(traced: pytest.Pytester) -> None:
    traced.makepyfile(test_other=OTHER)
    write(traced.path, {"schema": "9"}, "broken.trace.json")
    data = two_products()
    data["nodes"].append(node(5, "mine::op", "mine::op(Tensor a) -> Tensor", parent=2))
    write(traced.path, data, "foreign.trace.json")
    result = traced.runpytest(*MEASURE)
    result.assert_outcomes(passed=2, failed=2)
    text = result.stdout.str()
    assert text.count("INCONCLUSIVE") == 2
    assert "mine::op" in text


def test_a_profilers_timeline_is_no_test(traced: pytest.Pytester) -> None:
    (traced.path / "a.pt.trace.json").write_text("{}")
    result = traced.runpytest("--collect-only", "-q", "a.pt.trace.json")
    assert "a.pt.trace.json::" not in result.stdout.str()
    result.stdout.fnmatch_lines("*a.pt.trace.json looks like a profiler's timeline*")


@pytest.mark.parametrize("options", [(), ("--anubis", "--anubis-mode=measure")])
def test_other_tools_timelines_in_a_folder_are_no_tests(
    pytester: pytest.Pytester, options: tuple[str, ...]
) -> None:
    pytester.makepyfile(test_other=OTHER)
    (pytester.path / "chrome.trace.json").write_text('{"traceEvents": []}')
    (pytester.path / "list.trace.json").write_text("[{}]")
    strict = pytester.runpytest(*options, "-Werror")
    strict.assert_outcomes(passed=1)
    named = {"chrome.trace.json", "list.trace.json"} if options else set()
    assert {name for name in named if f"{name} looks like a" in strict.stdout.str()} == named
    warned = pytester.runpytest(*options, "-Wdefault::pytest.PytestWarning")
    warned.assert_outcomes(passed=1, warnings=2 if options else 0)


def test_a_trace_in_a_folder_is_a_test_of_a_run_with_anubis_alone(traced: pytest.Pytester) -> None:
    traced.makepyfile(test_other=OTHER)
    traced.runpytest().assert_outcomes(passed=1)
    traced.runpytest("--anubis", "--collect-only").stdout.fnmatch_lines("*replay?cpu?*")
