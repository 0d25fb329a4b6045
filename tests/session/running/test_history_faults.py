"""Whatever happens to the history, the run decides as it would without one, and says one line."""

from __future__ import annotations

import errno
import json
import sqlite3
from typing import Any

import pytest
import sqlalchemy as sa

from pytest_anubis.selector.risk.choosing.backtest_record import Backtest
from pytest_anubis.selector.risk.choosing.refits import Refits
from pytest_anubis.selector.risk.forecast import RiskModel
from pytest_anubis.selector.risk.models.parametric import Exponential
from pytest_anubis.store.history import database, fleet_history, run_filing
from pytest_anubis.store.history.database import History
from pytest_anubis.store.history.risk_model_files import MODEL_NAME, save_model
from pytest_anubis.store.history.waiting_runs import waiting
from tests.session.conftest import HEALTHY, set_speed

DIALECT = sa.engine.default.DefaultDialect
BAD = [value / 2 for value in HEALTHY]
FULL = OSError(errno.ENOSPC, "No space left on device")
BROKEN = sqlite3.DatabaseError("database disk image is malformed")
ODD = UnicodeEncodeError("utf-8", "\udcff", 0, 1, "surrogates not allowed")


def run(project: pytest.Pytester, name: str, *arguments: str) -> tuple[int, list[str]]:
    """Run, and return the exit code and what was said about the history."""
    xml, page = (f"--{kind}={name}.{kind}" for kind in ("junitxml", "html"))
    result = project.runpytest(
        *("--anubis", f"--anubis-run-id={name}", xml, page, "-W", "default", *arguments)
    )
    text = result.stdout.str() + result.stderr.str()
    assert "Traceback" not in text
    assert "INTERNALERROR" not in text
    assert (project.path / f"{name}.junitxml").exists()
    assert (project.path / f"{name}.html").exists()
    code = int(result.ret)
    assert any(line.startswith(("ACCEPTED", "REJECTED")) for line in result.outlines)
    return code, [
        line for line in text.splitlines() if "Warning: " in line and "the history" in line
    ]


@pytest.mark.parametrize(
    ("where", "name", "error", "good"),
    [
        (database, "engine_of", FULL, True),
        (DIALECT, "do_execute", BROKEN, False),
        (run_filing, "_put_run", ODD, True),
        (run_filing, "_put_run", SystemExit(3), False),
        (run_filing, "_put_run", SystemExit(3), True),
        (DIALECT, "do_commit", sa.exc.OperationalError("commit", {}, FULL), True),
        (sa.Engine, "dispose", RuntimeError("it\nwill not close"), False),
        (run_filing, "file_finished", AttributeError("a fault of ours"), True),
    ],
    ids=["open", "execute", "file", "exit bad", "exit good", "commit", "close", "ours"],
)
def test_a_fault_of_the_history_costs_no_verdict(
    with_baseline: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    where: Any,
    name: str,
    error: BaseException,
    good: bool,
) -> None:
    def fail(*_: object, **__: object) -> Any:
        raise error

    set_speed(with_baseline, HEALTHY if good else BAD)
    with monkeypatch.context() as patch:
        patch.setattr(where, name, fail)
        code, said = run(with_baseline, "r1")
    assert code == (0 if good else 1)
    assert len(said) == 1
    # The next run files both.
    if name != "file_finished":
        assert run(with_baseline, "r2") == (code, [])
        with History(with_baseline.path / ".anubis") as history:
            (node,) = history.nodes()
            assert [one.run for one in history.node_history(node.name)] == ["r1", "r2"]


def test_selector_without_history_leaves_nothing_out(
    with_baseline: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> Any:
        raise BROKEN

    with History(with_baseline.path / ".anubis"):
        pass
    monkeypatch.setattr(fleet_history, "read_fleet", fail)
    code, said = run(with_baseline, "r1", "--anubis-select=risk")
    assert code == 0
    (line,) = said
    assert "--anubis-select: the history cannot be read: " in line
    assert line.endswith(".anubis: database disk image is malformed; nothing is left out")
    journal = (with_baseline.path / ".anubis/runs/r1/journal.jsonl").read_text()
    (choice,) = [event for event in map(json.loads, journal.splitlines()) if "unreadable" in event]
    assert choice["pruned"] == []
    assert choice["unreadable"].endswith("malformed")


def test_model_without_history_finds_no_node_safe(with_baseline: pytest.Pytester) -> None:
    store = with_baseline.path / ".anubis"
    store.mkdir()
    (store / "history.sqlite").write_bytes(b"no database" * 500)
    model = RiskModel(
        model=Exponential().fit([[]] * 9, [1e6] * 9, [1, *[0] * 8]),
        kinds=(),
        nodes=9,
        incidents=1,
        backtest=Backtest(reason="one rate", error=0.8, degrees=1),
        refits=Refits(incidents=1),
        hours=9e6,
    )
    save_model(store / MODEL_NAME, model.to_plain(), created="")
    code, _ = run(with_baseline, "r1", "--anubis-select=risk", "--anubis-risk=0.9")
    assert code == 0
    assert '"event":"measurement"' in (store / "runs/r1/journal.jsonl").read_text()


def test_warnings_that_are_errors_touch_no_verdict(with_baseline: pytest.Pytester) -> None:
    (with_baseline.path / ".anubis").mkdir()
    (with_baseline.path / ".anubis" / "history.sqlite").mkdir()
    result = with_baseline.runpytest("--anubis", "-W", "error", "--anubis-select=risk")
    assert result.ret == 0
    words = "*unable to open database file*"
    result.stderr.fnmatch_lines([f"anubis: --anubis-select: the history cannot be read: {words}"])
    result.stdout.fnmatch_lines([f"anubis: this run is not in the history: {words}"])


def test_interrupt_ends_only_the_filing(
    with_baseline: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(run_filing, "use_history", interrupted)
        code, said = run(with_baseline, "r1")
    assert code == 0
    assert "interrupted; 'anubis push' files it" in "".join(said)
    assert [one.name for one in waiting(with_baseline.path / ".anubis")] == ["r1"]
    assert run(with_baseline, "r2") == (0, [])
    assert waiting(with_baseline.path / ".anubis") == ()


def test_a_lone_surrogate_in_a_test_is_filed(with_baseline: pytest.Pytester) -> None:
    with_baseline.makepyfile(
        test_odd="import pytest\n"
        "@pytest.mark.parametrize('x', [1], ids=['a'])\n"
        "def test_odd(x):\n"
        "    pytest.fail('said \\udcff')\n"
    )
    result = with_baseline.runpytest("--anubis", "-W", "default")
    assert result.ret == 1
    result.stdout.no_fnmatch_line("*the history*")
    assert waiting(with_baseline.path / ".anubis") == ()
