"""One order everywhere, sure and worst first; what is to be measured again drains nothing.

Also which nodes of a list a fleet has never seen.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pytest_anubis.core.history import NodeRecord
from pytest_anubis.core.standing.standing_of import JudgedRun, Standing
from pytest_anubis.core.verdict import Decision, NodeVerdict, Triage
from pytest_anubis.fleet.fleet_status import NodeStatus, drain_lines, statuses_of, unknown_of
from pytest_anubis.store.fleet.last_runs import DecidingRun, NodeState
from tests.cli.command_line import anubis
from tests.cli.commands.test_judged_fleet import write

NODES = {  # in the order of the list
    "gone": (Triage.REJECT, 0.0, ("cuda:6",)),
    "a-wrong": (Triage.REJECT, 0.0, ()),
    "b-slow": (Triage.REJECT, 0.5, ()),
    "a-less": (Triage.REJECT, 0.8, ()),
    "a-borderline": (Triage.RETEST, 0.4, ()),
}


def statuses() -> tuple[NodeStatus, ...]:
    """Return where nodes stand whose rejections are the older, the less urgent they are."""
    found = []
    for age, (name, (triage, lowest, gone)) in enumerate(NODES.items()):
        verdict = NodeVerdict(
            node=name,
            decision=Decision.REJECTED,
            headline=f"node {name} rejected: slow",
            triage=triage,
            lowest=lowest,
            gone=gone,
        )
        last = DecidingRun(run="r", started=100.0 - age, ended=None, verdict=verdict)
        by = JudgedRun(run="r", began=last.started, decision="REJECTED")
        standing = Standing(decision=Decision.REJECTED, by=by)
        found.append(NodeState(node=NodeRecord(name=name), last=last, standing=standing))
    return statuses_of(found, now=200.0, risks={}, accepted_risk=1.0)


def test_the_order_is_that_of_verdicts() -> None:
    assert [one.node for one in statuses()] == list(NODES)


@pytest.mark.parametrize("scontrol", [False, True])
def test_what_is_to_be_measured_again_is_a_remark(scontrol: bool) -> None:
    lines, refused = drain_lines(statuses(), scontrol=scontrol)
    assert refused == []
    assert [line.startswith("#") for line in lines] == [False] * 4 + [True]
    assert "a-borderline" in lines[-1]


@pytest.mark.parametrize("scontrol", [False, True])
def test_a_rejected_node_without_host_name_is_listed(scontrol: bool) -> None:
    second, evil = (replace(statuses()[0], node=name) for name in ("n1~6bfd", "n\nreboot"))
    lines, refused = drain_lines([second, evil], scontrol=scontrol)
    assert len(lines) == len(refused) == 2
    assert all(line.startswith("#") and "\n" not in line for line in lines)
    assert "n1~6bfd" in lines[0]


def test_a_history_keeps_the_urgency_of_rejections(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "old.csv", run="old")
    assert anubis("learn", "old.csv").returncode == 0
    write(tmp_path / "new.csv", slow={"n40": 0.7}, run="new", week=8)
    assert anubis("import", "table", "new.csv").returncode in (0, 1)
    pushed = anubis(
        "push", ".anubis/imports/new.csv.npz", "--baseline", "baselines", "--history", "h"
    )
    assert pushed.returncode == 0, pushed.stderr
    done = anubis("fleet", "drain-list", "--history", "h")
    sure, again = done.stdout.splitlines()
    assert sure.startswith("n05 ")
    assert again.startswith("# measure again first: n40 ")  # by a single value
    status = anubis("fleet", "status", "--history", "h").stdout.splitlines()
    assert [line.split()[0] for line in status[2:4]] == ["n05", "n40"]


@pytest.mark.parametrize("removed", [90.0, 110.0])
def test_a_removed_node_that_was_measured_since_is_listed(removed: float) -> None:
    verdict = NodeVerdict(node="n1", decision=Decision.REJECTED, headline="slow")
    last = DecidingRun(run="r", started=100.0, ended=None, verdict=verdict)
    by = JudgedRun(run="r", began=100.0, decision="REJECTED")
    known = NodeState(
        node=NodeRecord(name="n1", state="removed", changed=removed),
        last=last,
        standing=Standing(decision=Decision.REJECTED, by=by),
    )
    found = statuses_of([known], now=200.0, risks={}, accepted_risk=1.0)
    assert [one.node for one in found] == (["n1"] if removed < 100.0 else [])


@pytest.mark.parametrize(
    ("listed", "known", "unknown"),
    [
        (["n1", "n2", "n1"], ["n1"], ["n2"]),
        (["n1", "n2", "n1"], ["n1.c.example", "n2"], []),
        (["n1", "n2", "n1"], ["n1.c.example", "n1.d.example"], ["n1", "n2"]),
        (["n1", "n2", "n1"], [], ["n1", "n2"]),
        (["n1.a.example", "10.0.0.1"], ["n1.b.example", "10"], ["n1.a.example", "10.0.0.1"]),
        (["n1.a.example"], ["n1"], []),
    ],
)
def test_a_host_is_known_by_its_short_or_full_name(
    listed: list[str], known: list[str], unknown: list[str]
) -> None:
    assert unknown_of(listed, known) == unknown
