"""The Selector's hook, end to end: a suite of 30 benchmarks, a fleet's past, and what runs."""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from pytest_anubis.core.events import Judged, NodeDecided, PlanPredicted, RunFinished, RunStarted
from pytest_anubis.core.verdict import (
    Decision,
    MetricVerdict,
    NodeVerdict,
    Outcome,
    Reason,
    Reference,
)
from pytest_anubis.hardware.inventory.hardware_classes import hardware_class
from pytest_anubis.hardware.inventory.inventory_reading import read_inventory
from pytest_anubis.report.text.numbers import percent
from pytest_anubis.store.history.database import History, shown_time
from pytest_anubis.store.history.defect_records import add_defect, defects
from pytest_anubis.store.journal.journal_file import Journal
from pytest_anubis.store.journal.journal_reading import read_journal
from tests.run_journals import record_of
from tests.session.selector_story import (
    ALL,
    HERE,
    HOUR,
    happened,
    names,
    write_history,
)

RISK = ("--anubis-select=risk", "--anubis-horizon=30d", "--anubis-risk=0.1", "--anubis-seed=1")
LOW = ("--anubis-select=risk", "--anubis-risk=0.5", "--anubis-horizon=1h", "--anubis-explore=0")
"""Options by which a healthy node needs no benchmark."""
BUDGET = ("--anubis-select=budget", "--anubis-budget=2m", "--anubis-explore=0")


def run(story: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    # In one process, though costs are declared: there pytest counts what it deselects.
    return story.runpytest("--anubis", "suites", "-s", "-p", "no:cacheprovider", *arguments)


def choice(story: pytest.Pytester) -> dict[str, Any]:
    """Return the choice that the latest journal holds."""
    paths = sorted(Path(story.path).glob(".anubis/runs/*/journal.jsonl"))
    events = [json.loads(line) for line in paths[-1].read_text().splitlines()]
    (found,) = [event for event in events if event["event"] == "selection"]
    return dict(found)


def ran(result: pytest.RunResult) -> set[str]:
    """Return the tests that --collect-only -q lists."""
    return set(re.findall(r"^(suites/\S+::\S+)$", result.stdout.str(), flags=re.MULTILINE))


def test_cheapest_set_within_the_risk_accepts(story: pytest.Pytester) -> None:
    result = run(story, *RISK, "-v", "--html=report.html", "--self-contained-html")
    found = choice(story)
    assert 5 < len(found["chosen"]) < 25
    assert sorted([*found["chosen"], *(item["benchmark"] for item in found["pruned"])]) == ALL
    assert found["residual_risk"] <= 0.1 < found["risk_before"]
    assert found["full_risk"] < found["residual_risk"]
    assert found["cost"] < found["full_cost"] == 920
    result.assert_outcomes(passed=len(found["chosen"]), deselected=len(found["pruned"]))
    assert result.ret == 0
    # Terminal, JSON and HTML say at which risk.
    record = read_journal(next(Path(story.path).glob(".anubis/runs/*/journal.jsonl")))
    assert record.node_verdict is not None
    assert record.node_verdict.residual_risk == pytest.approx(found["residual_risk"], rel=1e-4)
    assert record.node_verdict.residual_interval == pytest.approx(found["residual_interval"], 1e-4)
    low, high = map(percent, found["residual_interval"])
    risk = f"at risk {percent(found['residual_risk'])} (95 % within {low} to {high})"
    result.stdout.fnmatch_lines(
        [
            "*selecting by risk: risk of an incident in 720 h * incidents on 60 nodes)*",
            f"anubis: {len(found['chosen'])} of 30 benchmarks, * of 15 min 20 s, *",
            f"ACCEPTED: node {HERE} {risk}*",
        ]
    )
    assert risk in (story.path / "report.html").read_text()
    pruned = [v for v in record.verdicts if v.reason == "pruned"]
    assert sorted(v.benchmark for v in pruned) == sorted(i["benchmark"] for i in found["pruned"])
    assert all(v.outcome == "NOT_TESTED" and v.component for v in pruned)


def test_choice_follows_a_network_incident(story: pytest.Pytester) -> None:
    before = ran(run(story, *BUDGET, "--collect-only", "-q"))
    with History(story.path / ".anubis") as history:
        happened(history, HERE, "nic", time.time() - 3 * HOUR, 2.0)
    after = ran(run(story, *BUDGET, "--collect-only", "-q"))
    network = {*names("network.loopback"), *names("network.collective")}
    assert len(after & network) > len(before & network)
    assert len(after & network) > len(after - network)


def test_choice_by_risk_follows_an_incident(story: pytest.Pytester) -> None:
    by_risk = ("--anubis-select=risk", "--anubis-horizon=30d", "--anubis-risk=0.15")
    network = {*names("network.loopback"), *names("network.collective")}
    shares = []
    for happens in (False, True):
        if happens:
            with History(story.path / ".anubis") as history:
                happened(history, HERE, "nic", time.time() - 3 * HOUR, 2.0)
        result = run(story, *by_risk, "--anubis-explore=0", "--anubis-explain", "--collect-only")
        text = result.stdout.str()
        kept = set(re.findall(r"^(suites/\S+) +exposes", text, flags=re.MULTILINE))
        left = set(re.findall(r"^(suites/\S+) +\d.* (?:risk|defects)", text, flags=re.MULTILINE))
        assert kept | left == set(ALL)
        assert not kept & left
        result.stdout.fnmatch_lines(
            ["anubis: * of 30 benchmarks, *after these pass (full set: *), accepted 15 %"]
        )
        shares.append(len(kept & network) / len(kept))
    assert shares[0] < 0.5 < shares[1]


def test_every_left_out_benchmark_is_explained(story: pytest.Pytester) -> None:
    result = run(story, *RISK, "--anubis-explain", "--collect-only", "-q")
    text = result.stdout.str()
    kept = ran(result)
    assert 5 < len(kept) < 25
    for name in set(ALL) - kept:
        assert re.search(rf"^{re.escape(name)} .* (risk|defects)", text, flags=re.MULTILINE), name
    # What the node's risk comes from, and where it lies.
    result.stdout.re_match_lines([rf"{re.escape(HERE)}: risk \S+ % \(95 % within .* %\): .*it"])
    assert not (story.path / ".anubis" / "runs").exists()


@pytest.mark.usefixtures("in_workers")
def test_workers_run_what_one_process_runs(story: pytest.Pytester) -> None:
    alone = ran(run(story, *RISK, "--collect-only", "-q"))
    result = run(story, *RISK, "-n2")
    found = choice(story)
    assert set(found["chosen"]) == alone
    result.assert_outcomes(passed=len(alone))
    assert result.ret == 0
    result.stdout.fnmatch_lines([f"anubis: {len(alone)} of 30 benchmarks, *"])


@pytest.mark.usefixtures("in_workers")
@pytest.mark.parametrize("extra", [("--anubis-in-process",), ("-n1",)])
def test_nothing_runs_within_the_accepted_risk(
    story: pytest.Pytester, extra: tuple[str, ...]
) -> None:
    result = run(story, "--anubis-select=risk", "--anubis-risk=0.5", "--anubis-horizon=1h", *extra)
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        [
            "anubis: nothing needs to run: risk of an incident in 1 h *, accepted 50 %; the full set*",
            f"ACCEPTED: node {HERE} at risk * without any measurement: nothing needs to run*",
        ]
    )


def test_selection_without_baseline_accepts_nothing(story: pytest.Pytester) -> None:
    for path in (story.path / "baselines").iterdir():
        path.unlink()
    result = run(story, "--anubis-select=risk", "--anubis-risk=0.5", "--anubis-horizon=1h")
    assert result.ret == 20


def test_unmeasured_benchmarks_count_in_the_risk(story: pytest.Pytester) -> None:
    path = story.path / "suites" / "test_network_loopback.py"
    path.write_text(path.read_text().replace("    anubis_metric", "    pytest.skip('no cable')\n#"))
    result = run(story, *RISK)
    assert result.ret == 20  # the baseline has criteria for them
    promised = choice(story)["residual_risk"]
    paths = sorted(Path(story.path).glob(".anubis/runs/*/journal.jsonl"))
    verdict = read_journal(paths[-1]).node_verdict
    assert verdict is not None
    assert verdict.residual_risk is not None
    assert verdict.residual_risk > promised + 0.01


@pytest.fixture(scope="module")
def poor(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """Stores whose history lacks something, made once."""
    stores = {}
    for lacking in ("incidents", "defects", "both"):
        stores[lacking] = folder = tmp_path_factory.mktemp(lacking)
        write_history(
            folder,
            defects=50 if lacking == "incidents" else 0,
            incidents=lacking == "defects",
        )
    return stores


@pytest.mark.parametrize(
    ("mode", "lacking"),
    [
        *(("risk", lacking) for lacking in ("incidents", "defects", "store")),
        ("cost", "both"),
        ("all", "both"),
        *(("budget", lacking) for lacking in ("incidents", "defects", "store")),
    ],
)
def test_without_a_history_all_runs_that_the_budget_allows(
    bare: pytest.Pytester, poor: Mapping[str, Path], mode: str, lacking: str
) -> None:
    if lacking != "store":
        shutil.copytree(poor[lacking], bare.path / ".anubis")
    options = BUDGET if mode == "budget" else (f"--anubis-select={mode}",)
    result = run(bare, *options, "--collect-only", "-q")
    if mode == "budget":
        assert 0 < len(ran(result)) < len(ALL)
        result.stdout.fnmatch_lines([f"anubis: {len(ran(result))} of 30 benchmarks, *"])
    else:
        assert ran(result) == set(ALL)
        result.stdout.fnmatch_lines(["anubis:*the full set runs, 30 benchmarks*"])


@pytest.mark.usefixtures("in_workers")
@pytest.mark.parametrize("where", ["--anubis-in-process", "-n1"])
def test_budget_end_leaves_the_rest_out(bare: pytest.Pytester, where: str) -> None:
    path = bare.path / "suites" / "test_storage_disk.py"
    costs = re.sub(r"cost=\d+", "cost=0.1", path.read_text())  # the first takes a second
    path.write_text(
        costs.replace("    anubis_metric", "    __import__('time').sleep(1)\n    anubis_metric", 1)
    )
    budget = ("--anubis-select=budget", "--anubis-budget=900ms", "--anubis-explore=0", where)
    result = run(bare, "suites/test_storage_disk.py::test_b3", *budget)
    assert result.ret == 20
    record = record_of(bare)
    late = {v.test for v in record.verdicts if v.reason == "pruned" and v.test}
    measured = {one.test for one in record.measurements}
    # The first has begun, and what was named runs whatever it takes.
    assert measured == {f"suites/test_storage_disk.py::test_b{n}" for n in (0, 3)}
    assert late == {f"suites/test_storage_disk.py::test_b{n}" for n in (1, 2)}
    assert record.budget is not None
    assert record.budget[0] == pytest.approx(0.2)
    result.stdout.fnmatch_lines(["2 tests left out: the budget of * was over*"])


@pytest.mark.usefixtures("in_workers")
@pytest.mark.parametrize("where", ["--anubis-in-process", "-n1"])
def test_budget_too_small_is_reported(story: pytest.Pytester, where: str) -> None:
    budget = ("--anubis-select=budget", "--anubis-budget=100ms", "--anubis-explore=0", where)
    result = run(story, *budget)
    assert result.ret == 20
    assert len(choice(story)["pruned"]) == len(ALL)
    result.stdout.fnmatch_lines(["*too small for any benchmark: *takes 10.0 s; give at least 10s"])


@pytest.mark.usefixtures("in_workers")
@pytest.mark.parametrize("where", ["--anubis-in-process", "-n1"])
@pytest.mark.parametrize("chosen", [True, False])
def test_what_does_not_apply_here_is_not_planned(
    bare: pytest.Pytester, where: str, chosen: bool
) -> None:
    path = bare.path / "suites" / "test_network_collective.py"
    path.write_text(path.read_text().replace("cost=10)", "cost=10, cards=1)"))
    no_card = "suites/test_network_collective.py::test_b0"
    options = ("--anubis-select=all",) if chosen else ()
    result = run(bare, *options, where)
    record = record_of(bare)
    assert (no_card in {one.test for one in record.planned}) is not chosen
    assert (no_card in {one.test for one in record.results}) is not chosen
    if where == "-n1":
        result.stdout.fnmatch_lines([f"anubis: {len(ALL) - 1} tests, about *"])
        (plan,) = [event for event in record.events if isinstance(event, PlanPredicted)]
        assert no_card not in {slot.test for slot in plan.tests}


@pytest.mark.parametrize(
    "named",
    ["suites/test_storage_disk.py::test_b3", "./suites/../suites/test_storage_disk.py::test_b3"],
)
def test_a_named_test_is_never_left_out(story: pytest.Pytester, named: str) -> None:
    result = run(story, *LOW, named, "--collect-only", "-q")
    assert ran(result) == {"suites/test_storage_disk.py::test_b3"}


def test_dry_run_with_empty_choice_ends_normally(story: pytest.Pytester) -> None:
    result = run(story, *LOW, "--anubis-explain", "--collect-only", "-q")
    assert not ran(result)
    assert result.ret == 20
    # Where nothing was there to choose from, it stays pytest's.
    assert run(story, "-k", "no_such_test", *LOW, "--collect-only", "-q").ret == 5


def test_test_named_through_a_link_always_runs(story: pytest.Pytester) -> None:
    (story.path / "linked").symlink_to("suites", target_is_directory=True)
    named = "linked/test_storage_disk.py::test_b3"
    result = story.runpytest("--anubis", *LOW, "linked", named, "--collect-only", "-q")
    listed = re.findall(r"^(\S+::\S+)$", result.stdout.str(), flags=re.MULTILINE)
    assert listed == [named]


def test_plain_tests_always_run(story: pytest.Pytester) -> None:
    (story.path / "suites" / "test_plain.py").write_text("def test_x():\n    pass\n")
    assert ran(run(story, *LOW, "--collect-only", "-q")) == {"suites/test_plain.py::test_x"}


@pytest.mark.parametrize("option", ["--lf", "--ff", "--nf", "--sw"])
def test_selector_gives_way_to_pytests_options(story: pytest.Pytester, option: str) -> None:
    result = story.runpytest("--anubis", "suites", *RISK, option, "--collect-only")
    result.stdout.fnmatch_lines([f"*the Selector gives way to {option}: nothing is left out*"])
    assert len(re.findall(r"<Function", result.stdout.str())) == 30


def test_order_is_kept_and_drops_reported_once(story: pytest.Pytester) -> None:
    story.makeconftest(
        "def pytest_deselected(items):\n"
        "    print('DROPPED', len(items))\n"
        "def pytest_collection_modifyitems(items):\n"
        "    items.reverse()\n"
    )
    result = run(story, *RISK, "--collect-only", "-q", "-s")
    listed = re.findall(r"^(suites/\S+::\S+)$", result.stdout.str(), flags=re.MULTILINE)
    order = [line for line in reversed(sorted_as_collected(story)) if line in set(listed)]
    assert listed == order
    assert result.stdout.str().count("DROPPED") == 1


def sorted_as_collected(story: pytest.Pytester) -> list[str]:
    (story.path / "conftest.py").unlink()
    result = run(story, "--collect-only", "-q")
    return re.findall(r"^(suites/\S+::\S+)$", result.stdout.str(), flags=re.MULTILINE)


def test_a_seed_repeats_the_choice_and_is_recorded(story: pytest.Pytester) -> None:
    many = ("--anubis-select=risk", "--anubis-horizon=30d", "--anubis-risk=0.1")
    run(story, *many, "--anubis-explore=0.5")
    first = choice(story)
    assert first["explored"]
    run(story, *many, "--anubis-explore=0.5", f"--anubis-seed={first['seed']}")
    again = choice(story)
    # The run before it taught durations, so that the plan may differ; the draw may not.
    assert again["seed"] == first["seed"]
    drawn = set(first["explored"]) - set(again["chosen"])
    assert not drawn


def test_exposing_benchmark_always_runs(story: pytest.Pytester) -> None:
    (name,) = names("storage.disk")[-1:]
    assert name not in ran(run(story, *LOW, "--collect-only", "-q"))
    with History(story.path / ".anubis") as history:
        for node, state in ((HERE, "open"), ("n05", "open"), (HERE, "false alarm")):
            tests = [name] if (node, state) == (HERE, "open") else names("storage.disk")[:1]
            add_defect(history, node=node, benchmarks=tests, state=state)
        own = defects(history, node=HERE, state="open")[0].number
    result = run(story, *LOW, "--collect-only", "-q")
    assert ran(result) == {name}
    result.stdout.fnmatch_lines([f"anubis: open defect {own}: its component is measured again; *"])


def write_run(story: pytest.Pytester, decision: Decision | None, failed: str = "") -> None:
    """Write an earlier run of this node that the history lacks; without a decision it was cut short."""
    with Journal.create(story.path / ".anubis", "0-before") as journal:
        key, _ = hardware_class(read_inventory(), "smoke")
        journal.write(
            RunStarted(run="0-before", node=HERE, started=shown_time(1e9), hardware_class=key)
        )
        if failed:
            verdict = MetricVerdict(
                outcome=Outcome.FAIL,
                reason=Reason.BEYOND,
                text="slow",
                benchmark=failed,
                metric="rate",
                device="cpu",
                node=HERE,
                reference=Reference.FLEET,
            )
            journal.write(Judged(verdict=verdict))
        if decision is not None:
            verdict_of_node = NodeVerdict(node=HERE, decision=decision, headline="h")
            journal.write(NodeDecided(verdict=verdict_of_node))
            journal.write(RunFinished(exit_status=decision.exit_code, ended=shown_time(1e9 + 60)))
    os.utime(journal.path, (1e9, 1e9))


@pytest.mark.parametrize(
    ("decision", "failed"),
    [(None, ""), (Decision.UNDECIDED, ""), (Decision.REJECTED, "other.py::test_gone")],
)
def test_nothing_is_left_out_on_a_node_in_doubt(
    story: pytest.Pytester, decision: Decision | None, failed: str
) -> None:
    write_run(story, decision, failed)
    assert ran(run(story, *LOW, "--collect-only", "-q")) == set(ALL)
    budget = ("--anubis-select=budget", "--anubis-budget=1m", "--anubis-explore=0")
    result = run(story, *budget)
    assert choice(story)["pruned"]
    assert result.ret == 20  # it is kept, and accepts nothing


def test_what_failed_before_the_history_knows_it_runs(story: pytest.Pytester) -> None:
    (name,) = names("storage.disk")[-1:]
    write_run(story, Decision.REJECTED, name)
    result = run(story, *LOW)
    assert choice(story)["chosen"] == choice(story)["exposing"] == [name]
    assert result.ret == 0  # it passed


def test_what_acceptance_needs_is_never_left_out(story: pytest.Pytester) -> None:
    run(story, *LOW, "--anubis-require=storage.disk")
    assert choice(story)["chosen"] == names("storage.disk")


def test_false_alarms_teach_nothing(story: pytest.Pytester) -> None:
    with History(story.path / ".anubis") as history:
        for _ in range(40):
            add_defect(
                history,
                node="n05",
                benchmarks=names("storage.disk")[-1:],
                component="storage.disk",
                state="false alarm",
            )
    assert names("storage.disk")[-1] not in ran(run(story, *BUDGET, "--collect-only", "-q"))
