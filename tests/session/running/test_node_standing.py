"""A run leaves its verdict where health checks read it at once, under the name that the node was given."""

from __future__ import annotations

import errno
import fcntl
import re
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from pytest_anubis import run_context
from pytest_anubis.cli.main import main
from pytest_anubis.codec.moments import iso_of
from pytest_anubis.core.events import INVENTORY, Judged, NodeDecided, RunFinished, RunStarted
from pytest_anubis.core.run import RunRecord
from pytest_anubis.core.standing.recorded_run import passed_checks
from pytest_anubis.core.standing.standing_of import GATE
from pytest_anubis.core.verdict import Decision, MetricVerdict, NodeVerdict, Outcome, Reason
from pytest_anubis.core.waiving import holds_on
from pytest_anubis.fleet.fleet_status import Status, statuses_of
from pytest_anubis.hardware.inventory.inventory_reading import read_inventory
from pytest_anubis.hardware.telemetry.recorded_node import Recorded, recording_text
from pytest_anubis.store import node_standing
from pytest_anubis.store.baselines.baseline_files import load_baseline, save_baseline
from pytest_anubis.store.collected_runs import read_runs
from pytest_anubis.store.fleet.last_runs import last_of_history, last_of_runs
from pytest_anubis.store.history.database import History
from pytest_anubis.store.history.run_filing import record_run
from pytest_anubis.store.journal.journal_file import Journal
from pytest_anubis.store.journal.journal_reading import read_journal
from pytest_anubis.store.node_standing import keep_begun, keep_ended, read_standing, standing_file
from tests.session.conftest import HEALTHY, edit_suite, set_speed
from tests.store.written_runs import written


def health(store: Path, capsys: pytest.CaptureFixture[str], *more: str) -> tuple[int, str]:
    capsys.readouterr()
    code = main(["health", "--store", str(store), "--node", "rack3-n17", *more])
    return code, capsys.readouterr().out.rstrip("\n")


def finding(outcome: Outcome, benchmark: str = "t") -> MetricVerdict:
    return MetricVerdict(
        outcome=outcome,
        reason=Reason.BEYOND,
        text="",
        benchmark=benchmark,
        metric="m",
        device="cpu",
    )


def record_with(
    run: str, decision: Decision, *found: MetricVerdict, node: str = "n1", began: float = 0.0
) -> RunRecord:
    said = NodeVerdict(node=node, decision=decision, headline="")
    return RunRecord(run=run, node=node, started=str(began), verdicts=found, node_verdict=said)


def judged(
    store: Path, run: str, began: float, decision: Decision, *, node: str = "n1"
) -> RunRecord:
    """Keep what a run said that judged one thing."""
    outcome = Outcome.FAIL if decision is Decision.REJECTED else Outcome.PASS
    record = record_with(run, decision, finding(outcome), node=node, began=began)
    keep_begun(store, node, run, began=began)
    assert not keep_ended(store, record, ended=began + 100.0, reason="")
    return record


def test_health_is_the_last_verdict(
    with_baseline: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    store = with_baseline.path / ".anubis"
    code, text = health(store, capsys)
    assert (code, text[:14]) == (20, "ANB:NO-VERDICT")

    assert (
        with_baseline.runpytest("--anubis", "--anubis-node=rack3-n17", "--anubis-run-id=r1").ret
        == 0
    )
    code, text = health(store, capsys)
    assert code == 0
    assert re.fullmatch(r"ANB:ACCEPTED \d+ s ago run=r1", text)

    set_speed(with_baseline, [value / 2 for value in HEALTHY])
    assert (
        with_baseline.runpytest("--anubis", "--anubis-node=rack3-n17", "--anubis-run-id=r2").ret
        == 1
    )
    code, text = health(store, capsys)
    assert code == 1
    assert text.startswith("ANB:SPEED cpu 50 GFLOP/s, expected "), text
    assert text.endswith(" [cpu.compute] run=r2"), text
    standing = read_standing(store, "rack3-n17")
    assert standing is not None
    assert (standing.standing(holds_on("")).decision, standing.running) == (Decision.REJECTED, "")

    # What measures only, and what is only collected, says nothing about the node.
    with_baseline.runpytest("--anubis", "--anubis-mode=measure", "--anubis-node=rack3-n17")
    with_baseline.runpytest("--anubis", "--collect-only", "--anubis-node=rack3-n17")
    assert read_standing(store, "rack3-n17") == standing
    # Nor does a run that is refused before a test of it begins: it leaves nothing to judge either.
    runs = sorted(store.joinpath("runs").iterdir())
    with_baseline.makepyfile(
        test_wrong="import pytest\n@pytest.mark.anubis(scope='moon')\ndef test_a(): pass\n"
    )
    for named in ("nosuch.py", "test_wrong.py"):
        result = with_baseline.runpytest("--anubis", "--anubis-node=rack3-n17", named)
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        assert "UNDECIDED" not in result.stdout.str()
    assert read_standing(store, "rack3-n17") == standing
    assert sorted(store.joinpath("runs").iterdir()) == runs


def test_metrics_that_nothing_judged_are_counted_of_an_accepted_node(
    with_baseline: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    edit_suite(
        with_baseline,
        "    anubis_metric.record(",
        "    anubis_metric.record('b', [9.0] * 20, unit='s', better='lower')\n    anubis_metric.record(",
    )
    store = with_baseline.path / ".anubis"
    assert (
        with_baseline.runpytest("--anubis", "--anubis-node=rack3-n17", "--anubis-run-id=r1").ret
        == 0
    )
    text = health(store, capsys)[1]
    assert re.fullmatch(r"ANB:ACCEPTED \d+ s ago, 1 metric without a criterion run=r1", text)
    for place in ([str(store)], ["--history", str(store)]):
        assert main(["fleet", "status", "--all", *place]) == 0
        out = capsys.readouterr().out
        assert "accepted, 1 metric without a criterion" in out
        assert "note: 1 accepted node with up to 1 metric without a criterion" in out


def test_closed_defect_leaves_node_undecided(
    with_baseline: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(with_baseline.path)
    named = ("--anubis", "--anubis-node=rack3-n17")
    asked = (
        ["judge", ".anubis/runs"],
        ["fleet", "verdict", ".anubis/runs"],
        ["health", "--node", "rack3-n17"],
    )
    set_speed(with_baseline, [value / 2 for value in HEALTHY])
    assert with_baseline.runpytest(*named).ret == 1
    assert [main(words) for words in asked] == [1, 1, 1]
    assert main(["history", "defect", "close", "1", "--as", "confirmed"]) == 0
    assert [main(words) for words in asked] == [20, 20, 20]
    capsys.readouterr()
    assert main(["report", "--fleet", ".anubis/runs", "--html", "site"]) == 0
    assert "0 REJECTED, 1 UNDECIDED" in capsys.readouterr().out
    assert with_baseline.runpytest(*named).ret == 1  # as slow as it was
    assert [main(words) for words in asked] == [1, 1, 1]


def test_judge_names_nodes_that_their_latest_run_leaves_undecided(
    with_baseline: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    store = with_baseline.path / ".anubis"
    named = ("--anubis", "--anubis-node=rack3-n17")

    assert with_baseline.runpytest(*named).ret == 0
    set_speed(with_baseline, [value / 2 for value in HEALTHY])
    waived = '[[waiver]]\nowner = "j"\nreason = "fan"\nexpires = 2999-01-01\nmetric = "speed"\n'
    with_baseline.path.joinpath("waivers.toml").write_text(waived)
    assert with_baseline.runpytest(*named, "--anubis-waivers=waivers.toml").ret == 20
    monkeypatch.chdir(with_baseline.path)
    assert (health(store, capsys)[0], main(["judge", ".anubis"])) == (20, 0)
    assert "undecided, and by 'anubis health': rack3-n17" in capsys.readouterr().out


def test_a_rejection_stands_until_what_failed_passes(
    with_baseline: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    store = with_baseline.path / ".anubis"

    def anubis(*more: str) -> int:
        return int(with_baseline.runpytest("--anubis", "--anubis-node=rack3-n17", *more).ret)

    set_speed(with_baseline, [value / 2 for value in HEALTHY])
    assert anubis() == 1
    for run in (("--setup-plan",), ("-k", "nothing"), ("--anubis-mode=measure",)):
        anubis(*run)
        assert health(store, capsys)[0] == 1, run
    path = standing_file(store, "rack3-n17")
    path.write_text(path.read_text()[:-30])  # it is made anew out of the journals
    anubis("--setup-plan")
    assert health(store, capsys)[0] == 1
    path.unlink()
    anubis("--setup-plan")
    assert health(store, capsys)[0] == 1
    set_speed(with_baseline, HEALTHY)
    assert anubis() == 0
    assert health(store, capsys)[0] == 0


def test_a_clock_that_went_back_hides_no_rejection(tmp_path: Path) -> None:
    for name, began, decision in (
        ("good", 2e9, Decision.ACCEPTED),
        ("bad", 100.0, Decision.REJECTED),  # in 1970
        ("mended", 300.0, Decision.ACCEPTED),
    ):
        judged(tmp_path, name, began, decision)
        found = read_standing(tmp_path, "n1")
        assert found is not None
        assert found.standing(holds_on("")).decision is decision


def test_a_damaged_standing_is_no_acceptance(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert keep_begun(tmp_path, "rack3-n17", "r1", began=time.time()) == ""
    path = standing_file(tmp_path, "rack3-n17")
    path.write_text(path.read_text()[:-30])
    code, text = health(tmp_path, capsys)
    assert (code, text[:15]) == (20, "ANB:UNREADABLE ")


def test_a_node_is_named_by_a_name(project: pytest.Pytester) -> None:
    result = project.runpytest("--anubis", "--anubis-node=../n17")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --anubis-node is '../n17': name the node with letters*"])
    for option in ("node", "require", "waivers"):
        result = project.runpytest("--anubis", f"--anubis-{option}= ")
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        result.stderr.fnmatch_lines([f"ERROR: --anubis-{option} is blank*"])


def test_later_of_overlapping_runs_counts(tmp_path: Path) -> None:
    def ended(name: str, began: int, outcome: Outcome, decision: Decision) -> None:
        record = record_with(name, decision, finding(outcome), began=began)
        keep_ended(tmp_path, record, ended=began + 100.0, reason="")

    keep_begun(tmp_path, "n1", "long", began=10.0)
    keep_begun(tmp_path, "n1", "short", began=20.0)
    ended("short", 20, Outcome.FAIL, Decision.REJECTED)
    ended("long", 10, Outcome.PASS, Decision.ACCEPTED)
    found = read_standing(tmp_path, "n1")
    assert found is not None
    kept = found.kept(found.standing(holds_on("")))
    assert kept is not None
    assert (kept.judged.run, found.running) == ("short", "")


def test_clock_behind_the_baseline_accepts_nothing(with_baseline: pytest.Pytester) -> None:
    (path,) = (with_baseline.path / "baselines").glob("*.json")
    save_baseline(replace(load_baseline(path), created="2999-01-01T00:00:00+00:00"), path.parent)
    waiver = '[[waiver]]\nowner = "o"\nreason = "r"\nmetric = "*"\nexpires = 2998-01-01\n'
    (with_baseline.path / "waivers.toml").write_text(waiver)
    result = with_baseline.runpytest("--anubis")
    assert result.ret == Decision.UNDECIDED.exit_code
    result.stdout.fnmatch_lines(["*the clock of this machine is * behind its baseline*"])
    set_speed(with_baseline, [value / 2 for value in HEALTHY])
    # It is unknown which clock is right, and so whether the waiver is valid.
    result = with_baseline.runpytest("--anubis", "--anubis-waivers=waivers.toml")
    assert result.ret == Decision.UNDECIDED.exit_code


@pytest.mark.parametrize("measured", [True, False])
def test_what_a_killed_run_found_counts_though_another_run_ended_before(
    tmp_path: Path, measured: bool
) -> None:
    """Run a began first, and found its failure only after run b had accepted the node."""
    began = time.time() - 50
    bad = finding(Outcome.FAIL, "t" if measured else "u")
    asked = (
        ["health", "--store", str(tmp_path), "--node", "n1"],
        ["fleet", "status", str(tmp_path)],
        ["fleet", "verdict", str(tmp_path)],
    )
    with Journal.create(tmp_path, "a") as killed:
        killed.write(RunStarted(run="a", node="n1", started=iso_of(began)))
        keep_begun(tmp_path, "n1", "a", began=began)
        written(tmp_path, "b", "n1", began + 10, Decision.ACCEPTED)
        assert main(asked[0]) == 0  # run a goes on
        killed.write(Judged(verdict=bad))
    assert [main(words) for words in asked] == [20, 20, 20]
    assert main(["push", str(tmp_path), "--history", str(tmp_path)]) == 0
    assert main(["fleet", "status", "--history", str(tmp_path)]) == 20
    judged(tmp_path, "c", time.time() + 1, Decision.ACCEPTED)
    assert main(asked[0]) == (0 if measured else 20)


@pytest.mark.parametrize(("one", "other"), [("n1", "n1.x.example"), ("n1.x.example", "n1")])
def test_short_and_full_host_name_share_a_standing(tmp_path: Path, one: str, other: str) -> None:
    judged(tmp_path, "bad", 1e9, Decision.REJECTED, node=one)
    assert main(["health", "--store", str(tmp_path), "--node", other]) == 1
    judged(tmp_path, "other", 1e9, Decision.ACCEPTED, node="n10.x.example")
    narrow = record_with("narrow", Decision.ACCEPTED, node=other)
    keep_begun(tmp_path, other, "narrow", began=2e9)
    keep_ended(tmp_path, narrow, ended=2e9, reason="")
    for name in (one, other):  # as after somebody has renamed the host
        assert main(["health", "--store", str(tmp_path), "--node", name]) == 1
    assert main(["health", "--store", str(tmp_path), "--node", "n1.y.example"]) == (
        1 if one == "n1" else 20
    )


def test_a_lock_that_is_never_let_go_holds_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged(tmp_path, "a", 1e9, Decision.ACCEPTED)
    monkeypatch.setattr(node_standing, "_LOCK_TIMEOUT", 0.1)
    with standing_file(tmp_path, "n1").with_suffix(".lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)  # by any reader of it
        judged(tmp_path, "b", 2e9, Decision.REJECTED)
    found = read_standing(tmp_path, "n1")
    assert found is not None
    assert found.standing(holds_on("")).decision is Decision.REJECTED


def test_what_a_run_looked_at_is_what_it_can_clear(with_baseline: pytest.Pytester) -> None:
    """Unchecked inventories and unread errors accept nothing."""
    (path,) = (with_baseline.path / "baselines").glob("*.json")
    store = with_baseline.path / ".anubis" / "runs"
    with_baseline.runpytest("--anubis", "--anubis-run-id=r0")
    whole = replace(load_baseline(path), inventory=read_journal(store / "r0").inventory)
    for run, baseline, gate in (
        ("a", whole, "stop"),
        ("b", whole, "off"),
        ("c", replace(whole, inventory={}), "stop"),
    ):
        save_baseline(baseline, path.parent)
        with_baseline.runpytest("--anubis", f"--anubis-gate={gate}", f"--anubis-run-id={run}")
        record = read_journal(store / run)
        assert record.looked_at is not None
        assert (INVENTORY in record.looked_at) == (run == "a")
        passed = {key for key, _ in passed_checks(record)}
        assert (GATE in passed) == (run == "a")
    assert record.after == "b"


def test_run_without_verdict_leaves_no_acceptance(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    judged(tmp_path, "good", time.time() - 200, Decision.ACCEPTED)
    with Journal.create(tmp_path, "killed") as journal:
        journal.write(RunStarted(run="killed", node="n1"))
        keep_begun(tmp_path, "n1", "killed", began=time.time())
        assert main(["health", "--store", str(tmp_path), "--node", "n1"]) == 0  # it goes on
    capsys.readouterr()
    assert main(["health", "--store", str(tmp_path), "--node", "n1"]) == 20
    assert "ANB:CUT-SHORT" in capsys.readouterr().out


def test_failure_in_a_killed_run_stays_open(tmp_path: Path) -> None:
    bad, good = finding(Outcome.FAIL, "bad"), finding(Outcome.PASS, "good")

    def now() -> str:
        return datetime.fromtimestamp(time.time(), UTC).isoformat()

    def plays(run: str, *found: MetricVerdict, killed: bool = False) -> None:
        keep_begun(tmp_path, "n1", run, began=time.time())
        with Journal.create(tmp_path, run) as journal:
            journal.write(RunStarted(run=run, node="n1", started=now()))
            for one in found:
                journal.write(Judged(verdict=one))
            if not killed:
                said = NodeVerdict(node="n1", decision=Decision.ACCEPTED, headline="")
                journal.write(NodeDecided(verdict=said))
                journal.write(RunFinished(exit_status=0, ended=now()))
        if not killed:
            record = read_journal(tmp_path / "runs" / run)
            assert not keep_ended(tmp_path, record, ended=time.time(), reason="")

    def everybody() -> set[int]:
        with History(tmp_path) as history:
            for path in (tmp_path / "runs").iterdir():
                record_run(history, read_journal(path))
            filed = last_of_history(history, tmp_path)
        said = [
            one.standing.decision for one in (*filed, *last_of_runs(read_runs([tmp_path]).journals))
        ]
        assert None not in said
        codes = {Decision(one).exit_code for one in said if one}
        codes.add(main(["health", "--store", str(tmp_path), "--node", "n1"]))
        return {*codes, main(["fleet", "verdict", str(tmp_path)])}

    plays("killed", good, bad, killed=True)
    assert everybody() == {20}
    plays("part", good)
    assert everybody() == {20}
    plays("whole", good, replace(bad, outcome=Outcome.PASS, reason=Reason.WITHIN))
    assert everybody() == {0}


def test_unstored_rejection_leaves_no_acceptance(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, text: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    good = judged(tmp_path, "good", time.time() - 200, Decision.ACCEPTED)
    with monkeypatch.context() as patch:
        patch.setattr(node_standing, "write_atomically", full)
        assert keep_ended(tmp_path, good, ended=time.time(), reason="")
        assert main(["health", "--store", str(tmp_path), "--node", "n1"]) == 0
        bad = NodeVerdict(node="n1", decision=Decision.REJECTED, headline="")
        assert keep_ended(
            tmp_path, replace(good, run="bad", node_verdict=bad), ended=time.time(), reason=""
        )
    assert main(["health", "--store", str(tmp_path), "--node", "n1"]) == 20


def test_a_name_that_no_file_can_have_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "n" * 253
    assert main(["health", "--store", str(tmp_path), "--node", name]) == 20
    (tmp_path / "nodes").mkdir()
    assert main(["health", "--store", str(tmp_path), "--node", name]) == 20
    assert "ANB:UNREADABLE" in capsys.readouterr().out
    assert "\n" not in keep_begun(tmp_path, name, "r", began=1.0)


def test_machines_of_one_name_stay_separate(
    with_baseline: pytest.Pytester,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here, store = read_inventory(), with_baseline.path / ".anubis"

    def measured(serial: str | None, speed: float) -> int:
        system = replace(here.system, serial=serial)
        known = replace(here, system=system, machine=None, nics=(), accelerators=())
        monkeypatch.setattr(run_context, "read_inventory", lambda: known)
        set_speed(with_baseline, [value * speed for value in HEALTHY])
        return int(with_baseline.runpytest("--anubis", "--anubis-node=rack3-n17").ret)

    def health_text() -> str:
        code, text = health(store, capsys)
        return f"{code} {text.split()[0]}"

    assert (measured("AAAA-0001", 1), health_text()) == (0, "0 ANB:ACCEPTED")
    assert (measured("BBBB-0002", 1), health_text()) == (0, "20 ANB:TWO-MACHINES")
    assert (measured("AAAA-0001", 0.5), health_text()) == (1, "1 ANB:SPEED")
    assert (measured("BBBB-0002", 1), health_text()) == (0, "1 ANB:SPEED")
    assert (measured("AAAA-0001", 1), health_text()) == (0, "20 ANB:TWO-MACHINES")
    (path,) = (store / "nodes").glob("*.json")
    path.unlink()  # it is made anew out of the journals
    assert (measured("AAAA-0001", 1), health_text()) == (0, "20 ANB:TWO-MACHINES")
    # One node after all, whose mainboard was exchanged.
    with History(store) as history:
        (other,) = (one.name for one in history.nodes() if "~" in one.name)
    assert main(["history", "nodes", "join", other, "--history", str(store)]) == 0
    assert (measured("BBBB-0002", 1), health_text()) == (0, "0 ANB:ACCEPTED")
    assert (measured("AAAA-0001", 1), health_text()) == (0, "20 ANB:TWO-MACHINES")
    # Or the other one has a name of its own now.
    state = ["history", "state", "--node=rack3-n17", "--as=in-service", "--history", str(store)]
    assert main(state) == 0
    assert (measured("AAAA-0001", 1), health_text()) == (0, "0 ANB:ACCEPTED")
    assert (measured(None, 1), health_text()) == (0, "0 ANB:ACCEPTED")


def test_foreign_inventory_accepts_nothing(
    with_baseline: pytest.Pytester,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store, node = with_baseline.path / ".anubis", "--anubis-node=rack3-n17"
    here = read_inventory()
    system = replace(here.system, serial="HERE-0001")
    monkeypatch.setattr(run_context, "read_inventory", lambda: replace(here, system=system))
    for name, serial in (("own", "HERE-0001"), ("other", "THERE-0002"), ("unknown", None)):
        known = replace(here, system=replace(system, serial=serial), machine=None, nics=())
        recording = Recorded(inventory=known, readings=())
        (with_baseline.path / f"{name}.json").write_text(recording_text(recording))

    def statuses() -> list[Status]:
        with History(store) as history:
            filed = last_of_history(history, store)
        return [
            one.status
            for nodes in (last_of_runs(read_runs([store]).journals), filed)
            for one in statuses_of(nodes, now=time.time(), risks={}, accepted_risk=1.0)
        ]

    def replayed(name: str) -> int:
        result = with_baseline.runpytest("--anubis", node, f"--anubis-inventory={name}.json")
        line = "*not known to be of the machine that measures*"
        if name == "own":
            result.stdout.no_fnmatch_line(line)
        else:
            result.stdout.fnmatch_lines([line])
        return int(result.ret)

    def verdict() -> int:
        return main(["fleet", "verdict", str(store)])

    for name in ("other", "unknown"):
        assert replayed(name) == 0
        assert (health(store, capsys)[0], verdict(), main(["judge", str(store)])) == (20, 20, 20)
        assert statuses() == [Status.NEVER, Status.NEVER]
    set_speed(with_baseline, [value / 2 for value in HEALTHY])
    assert with_baseline.runpytest("--anubis", node).ret == 1
    set_speed(with_baseline, HEALTHY)
    for name in ("other", "unknown"):
        assert replayed(name) == 0
        assert (health(store, capsys)[0], verdict(), main(["judge", str(store)])) == (1, 1, 1)
        assert statuses() == [Status.QUARANTINED, Status.QUARANTINED]
    assert replayed("own") == 0
    assert (health(store, capsys)[0], verdict(), main(["judge", str(store)])) == (0, 0, 0)
    assert statuses() == [Status.FIT, Status.FIT]
    set_speed(with_baseline, [value / 2 for value in HEALTHY])
    assert replayed("other") == 1
    assert (health(store, capsys)[0], verdict()) == (1, 1)
    assert statuses() == [Status.QUARANTINED, Status.QUARANTINED]
