"""Tools fail closed: missing, failing, late, endless or changed ones never pass."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pytest_anubis.benchmarking import tools
from pytest_anubis.benchmarking.tools import (
    ToolFailed,
    UnreadableOutput,
    find_tool,
    run_tool,
    tool_version,
)
from pytest_anubis.session.error_causes import environment_of

PYTHON = sys.executable


def script(folder: Path, text: str) -> str:
    place = folder / "tool"
    place.write_text(f"#!/bin/sh\n{text}\n")
    place.chmod(0o755)
    return str(place)


def test_missing_tool_leaves_the_test_out_with_the_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(pytest.skip.Exception, match=r"no-such-tool not found: apt install it"):
        find_tool("no-such-tool", hint="apt install it")
    monkeypatch.setenv("OUR_TOOL", "/nowhere/tool")
    with pytest.raises(pytest.skip.Exception, match=r"sh not found \(OUR_TOOL=/nowhere/tool\)"):
        find_tool("sh", hint="build it", variable="OUR_TOOL")
    assert Path(find_tool("sh", hint="")).is_absolute()


def test_output_and_version_are_returned(tmp_path: Path) -> None:
    tool = script(tmp_path, '[ "$1" = --version ] && { echo "tool 1.2"; exit; }; echo "$1;$LC_ALL"')
    kept: dict[str, object] = {}
    version = tool_version(tool, record_property=kept.__setitem__)
    assert (version, kept) == ("tool 1.2", {"tool_tool": "tool 1.2"})
    said = run_tool([tool, "a b;`date`"], timeout=60, version=version)
    assert said.lines == ["a b;`date`;C"]
    with pytest.raises(UnreadableOutput) as caught:
        said.unreadable("no line with a rate")
    assert str(caught.value) == "output of tool 1.2 cannot be read: 'no line with a rate'"
    assert environment_of(caught.value).startswith(
        "the output of a tool is not what its adapter knows"
    )
    with pytest.raises(TypeError, match="list of arguments"):
        run_tool("echo a", timeout=60)


def test_failure_says_the_last_lines(tmp_path: Path) -> None:
    tool = script(tmp_path, "for i in 1 2 3 4 5 6 7; do echo line $i >&2; done; exit 3")
    with pytest.raises(ToolFailed, match=r"^tool ended with status 3: line 3 \|.*\| line 7$"):
        run_tool([tool], timeout=60)
    assert run_tool([tool], timeout=60, accept=(0, 3)).output == ""
    with pytest.raises(ToolFailed, match="ended by signal 9"):
        run_tool([script(tmp_path, "kill -9 $$")], timeout=60)
    with pytest.raises(ToolFailed, match="cannot be started"):
        run_tool([str(tmp_path / "nothing")], timeout=60)
    assert tool_version(str(tmp_path / "nothing")) == ""


def test_deadline_ends_the_tool_and_what_it_started(tmp_path: Path) -> None:
    place = tmp_path / "pid"
    tool = script(tmp_path, f"sleep 1000 & echo $! > {place}; wait")
    with pytest.raises(ToolFailed, match=r"tool did not end within 0\.5 s"):
        run_tool([tool], timeout=0.5)
    state = Path(f"/proc/{int(place.read_text())}/stat")
    assert not state.exists() or state.read_text().split()[2] in "ZX"


def test_endless_output_decides_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tools, "MOST_OUTPUT", 10)
    with pytest.raises(UnreadableOutput, match="of unknown version"):
        run_tool([script(tmp_path, "echo 12345678901")], timeout=60)


def test_unreadable_output_is_inconclusive_and_never_a_pass(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_it="""
        from pytest_anubis.benchmarking.tools import UnreadableOutput

        def test_tool(anubis_metric):
            anubis_metric.record("rate", [1.0], unit="GB/s", better="higher")
            raise UnreadableOutput("nvbandwidth", "0.9", "SUM none")
        """
    )
    result = pytester.runpytest("--anubis", "--anubis-in-process")
    assert result.ret == 20
    result.stdout.fnmatch_lines(
        ["*INCONCLUSIVE*output of a tool is not what its adapter knows*nvbandwidth 0.9*SUM none*"]
    )
