"""Tools fail closed: missing, failing, late, endless or changed ones never pass."""

from __future__ import annotations

import json
import os
import re
import selectors
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from pytest_anubis.benchmarking import tools, trusted_paths
from pytest_anubis.benchmarking.tools import (
    RunningTool,
    ToolFailed,
    UnreadableOutput,
    find_tool,
    run_tool,
    tool_version,
)
from pytest_anubis.benchmarking.trusted_paths import refusal_of
from pytest_anubis.session.error_causes import environment_of

PYTHON = sys.executable


def script(folder: Path, text: str) -> str:
    place = folder / "tool"
    place.write_text(f"#!/bin/sh\n{text}\n")
    place.chmod(0o755)
    return str(place)


def test_missing_tool_skips_the_test_with_a_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(pytest.skip.Exception, match=r"not installed: no-tool \(apt install it; or"):
        find_tool("no-tool", hint="apt install it")
    assert Path(find_tool("no-tool", "sh", hint="")).is_absolute()
    monkeypatch.setenv("PYTEST_ANUBIS_TOOL_NO_TOOL", "/nowhere/tool")
    with pytest.raises(
        pytest.skip.Exception, match="no-tool is not run: /nowhere/tool: No such"
    ) as skipped:
        find_tool("no-tool", hint="build it")
    assert "PYTEST_ANUBIS_TOOL_NO_TOOL names it" in str(skipped.value)
    assert str(skipped.value).endswith("(build it)")
    monkeypatch.setenv("OUR_TOOL", "bin/tool")
    with pytest.raises(pytest.skip.Exception, match="bin/tool is no absolute path"):
        find_tool("sh", hint="build it", variable="OUR_TOOL")


@pytest.mark.parametrize("place", ["tool", "inner/tool", "link"])
@pytest.mark.parametrize(("mode", "words"), [(0o777, "everybody can write"), (0o775, "")])
def test_what_another_user_may_write_is_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, mode: int, words: str
) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    tool = script(inner, "true")
    link = tmp_path / "link"
    link.symlink_to(tool)
    path = {"tool": Path(tool), "inner/tool": Path(tool), "link": link}[place]
    assert refusal_of(path) == ""
    (Path(tool) if place == "tool" else inner).chmod(mode)
    monkeypatch.setattr(trusted_paths, "_own_group", lambda group: True)
    assert refusal_of(path).startswith(words)
    assert bool(refusal_of(path)) is bool(words)
    monkeypatch.setattr(trusted_paths, "_own_group", lambda group: False)
    assert "can write" in refusal_of(path)


def test_every_link_on_the_way_is_looked_at(tmp_path: Path) -> None:
    good, hops = tmp_path / "good", tmp_path / "hops"
    good.mkdir()
    hops.mkdir()
    program = Path(script(tmp_path, 'echo "$0"'))
    (hops / "hop").symlink_to("../tool")
    link = good / "link"
    link.symlink_to(hops / "hop")
    assert refusal_of(link) == ""
    assert run_tool([str(link)], timeout=60).lines == [str(program)]
    (good / "folder").symlink_to(hops)
    hops.chmod(0o777)
    for path in (link, good / "folder/hop", good / "folder/../tool"):
        assert refusal_of(path) == f"everybody can write {hops}; chmod o-w"
    assert trusted_paths.refusal_of_file(link).startswith("everybody can write")
    (good / "round").symlink_to("round")
    assert "symbolic links" in refusal_of(good / "round").lower().replace(
        "symlink", "symbolic links"
    )


def test_only_programs_of_this_user_or_root_are_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = Path(script(tmp_path, "true"))
    assert "is no program" in refusal_of(tmp_path)
    tool.chmod(0o644)
    assert "is no program" in refusal_of(tool) or os.access(tool, os.X_OK)
    tool.chmod(0o755)
    owners = {str(tool): 4711}
    found = Path.lstat

    def lstat(place: Path) -> os.stat_result:
        said = list(found(place))
        said[4] = owners.get(str(place), 0)
        return os.stat_result(said)

    monkeypatch.setattr(Path, "lstat", lstat)
    assert refusal_of(tool) == (
        f"{tool} belongs to another user; have it owned by root or by who runs the tests"
    )


def test_output_and_version_are_returned(tmp_path: Path) -> None:
    tool = script(tmp_path, '[ "$1" = --version ] && { echo "tool 1.2"; exit; }; echo "$1;$LC_ALL"')
    kept: dict[str, object] = {}
    version = tool_version(tool, record_property=kept.__setitem__)
    assert (version, kept) == ("tool 1.2", {"anubis_tool": f"tool 1.2 ({tool})"})
    said = run_tool([tool, "a b;`date`"], timeout=60, version=version)
    assert said.lines == ["a b;`date`;C"]
    with pytest.raises(UnreadableOutput) as caught:
        said.unreadable("no line with a rate")
    assert str(caught.value) == "output of tool 1.2 cannot be read: no line with a rate"
    assert environment_of(caught.value).startswith(
        "the output of a tool is not what its adapter knows"
    )
    with pytest.raises(TypeError, match="list of arguments"):
        run_tool("echo a", timeout=60)


def test_a_tool_that_refuses_has_no_version(tmp_path: Path) -> None:
    tool = script(tmp_path, "echo 'Invalid command; type \"help\"' >&2; echo tool 1.2; exit 1")
    kept: dict[str, object] = {}
    assert tool_version(tool, record_property=kept.__setitem__) == ""
    assert "sha256" in str(kept["anubis_tool"])  # its digest identifies it without a version
    assert tool_version(tool, pattern=r"tool (\S+)") == "1.2"
    assert tool_version(tool, pattern=r"version (\S+)") == ""


def test_failure_says_the_last_lines(tmp_path: Path) -> None:
    tool = script(tmp_path, "for i in 1 2 3 4 5 6 7; do echo line $i >&2; done; exit 3")
    with pytest.raises(ToolFailed, match=r"^tool ended with status 3: line 4 \|.*\| line 7$"):
        run_tool([tool], timeout=60)
    assert run_tool([tool], timeout=60, accept=(0, 3)).output == ""
    with pytest.raises(ToolFailed, match="tool was killed by SIGKILL"):
        run_tool([script(tmp_path, "kill -9 $$")], timeout=60)
    with pytest.raises(ToolFailed, match="cannot be started"):
        run_tool([str(tmp_path / "nothing")], timeout=60)
    assert tool_version(str(tmp_path / "nothing")) == ""


def test_deadline_ends_the_tool_and_what_it_started(tmp_path: Path) -> None:
    place = tmp_path / "pid"
    tool = script(tmp_path, f"sleep 1000 & echo $! > {place}; wait")
    for seconds in (0.3, 3, 30):  # it may begin late on a busy machine
        with pytest.raises(ToolFailed, match=rf"tool did not end within {seconds} s"):
            run_tool([tool], timeout=seconds)
        if place.exists() and place.read_text():
            break
    state = Path(f"/proc/{int(place.read_text())}/stat")

    def ended() -> bool:
        try:
            return state.read_text().split()[2] in "ZX"
        except (FileNotFoundError, ProcessLookupError):
            return True

    for _ in range(600):  # on a busy machine what was killed waits for a CPU to end on
        if ended():
            break
        time.sleep(0.05)
    assert ended()


@pytest.mark.parametrize("late", [False, True], ids=["in time", "past its time"])
def test_output_before_the_first_read_is_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, late: bool
) -> None:
    go, look = tmp_path / "go", selectors.DefaultSelector.select
    tool = script(tmp_path, f"until [ -e {go} ]; do sleep 0.02; done; echo bank 3")

    def stand_still(selector: selectors.DefaultSelector, timeout: float | None = None) -> Any:
        if go.exists():
            return look(selector, timeout)
        go.touch()
        assert running._process.wait(60) == 0
        if late:
            now = time.monotonic()
            monkeypatch.setattr(time, "monotonic", lambda: now + 1000)
        return []

    monkeypatch.setattr(selectors.DefaultSelector, "select", stand_still)
    with RunningTool([tool]) as running:
        assert running.wait(100).lines == ["bank 3"]


def test_endless_output_decides_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tools, "MAX_OUTPUT", 10)
    with pytest.raises(UnreadableOutput, match="output of tool cannot be read: more than"):
        run_tool([script(tmp_path, "echo 12345678901")], timeout=60)


def test_unreadable_output_is_inconclusive(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_it="""
        from pytest_anubis.benchmarking.tools import UnreadableOutput

        def test_tool(anubis_metric):
            anubis_metric.record("rate", [1.0], unit="GB/s", better="higher")
            raise UnreadableOutput("nvbandwidth", "SUM none", "0.9")
        """
    )
    result = pytester.runpytest("--anubis", "--anubis-in-process")
    assert result.ret == 20
    result.stdout.fnmatch_lines(
        ["*INCONCLUSIVE*output of a tool is not what its adapter knows*nvbandwidth 0.9*SUM none*"]
    )


def test_used_and_missing_tools_are_reported(
    pytester: pytest.Pytester,
) -> None:
    pytester.makepyfile(
        test_it="""
        import pytest
        from pytest_anubis.benchmarking.tools import find_tool, tool_version

        @pytest.mark.parametrize("name", ["no-tool", "none-such", "no-tool"])
        def test_missing(anubis_metric, name):
            find_tool(name, hint="build it")

        def test_shell(anubis_metric, record_property):
            tool = find_tool("sh", hint="")
            tool_version(tool, ["-c", "echo sh 1.2"], record_property=record_property)
            anubis_metric.record("rate", [1.0], unit="GB/s", better="higher")
        """
    )
    result = pytester.runpytest("--anubis", "--anubis-in-process", "-ra")
    one = "not run here: 3 tests (3 not installed: no-tool, none-such; -v names them)"
    result.stdout.fnmatch_lines([one, f"SKIPPED [[]3[]] *: {one}"])
    (journal,) = pytester.path.glob(".anubis/runs/*/journal.jsonl")
    ended = [json.loads(line) for line in journal.read_text().splitlines()]
    tools = [event["tools"] for event in ended if "tools" in event]
    assert tools == [[f"sh 1.2 ({find_tool('sh', hint='')})"]]


def test_failed_tool_is_shown_at_the_tests_own_call(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_it="""
        from pytest_anubis.benchmarking.tools import find_tool, run_tool

        def test_shell(anubis_metric):
            tool = find_tool("sh", hint="")
            rate = lambda: float(run_tool([tool, "-c", "echo bank 3; exit 9"], timeout=9).output)
            anubis_metric.collect("rate", rate, unit="GB/s", better="higher")
        """
    )
    result = pytester.runpytest("--anubis", "--anubis-in-process")
    result.stdout.fnmatch_lines(
        [
            "E *ToolFailed: sh ended with status 9: bank 3",
            "FAIL test_shell: sh ended with status 9: bank 3",
            "next step for test_it.py::test_shell: run *",
            "FAILED test_it.py::test_shell - sh ended with status 9: bank 3",
        ]
    )
    places = [line for line in result.outlines if re.match(r"\S+\.py:\d+: ", line)]
    assert all(line.startswith("test_it.py:") for line in places), places
    assert len(places) == 2
