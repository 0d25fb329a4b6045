"""Nodes that are rejected for nothing but what they share have one word, number and step everywhere."""

from __future__ import annotations

import html
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cli.command_line import anubis

NODES, CARDS = 60, 4
BATCH = range(20, 32)
"""Nodes of a batch whose links are slower, n25 most of all."""
HEAD = "node,batch,driver,device,benchmark,metric,unit,better,component,value,time"
BY = ("new.csv", "--baseline", "baselines")


def write(
    path: str,
    week: int,
    *,
    lost: float = 0.0,
    nodes: range = range(NODES),
    driver: str = "570",
    weak: int = -1,
) -> None:
    """Write a table of one week in which the batch's links, and a driver's steps, have lost something.

    The steps of the node `weak` are slower by 2 % besides.
    """
    rng = np.random.default_rng(week)
    rows = [HEAD]
    for number in nodes:
        own = driver if number % 3 == 0 else "570"
        for card in range(CARDS):
            link = 50 * np.exp(rng.normal(0, 0.003))
            step = 400 * np.exp(rng.normal(0, 0.003)) * (0.97 if own == "580" else 1)
            step *= 0.98 if number == weak else 1
            if number in BATCH:
                link *= 1 - lost * (1.1 if number == 25 else 1)
            gemm = 100 * np.exp(rng.normal(0, 0.003)) * (0.7 if number == 7 and lost else 1)
            for metric, value in {
                "pcie,copy,GB/s,higher,link": link,
                "training,rate,1/s,higher,compute": step,
                "gemm,rate,TFLOP/s,higher,compute": gemm,
            }.items():
                which = f"n{number:02d},{'C' if number in BATCH else 'A'},{own},cuda:{card}"
                rows.append(f"{which},{metric},{value:.5g},2026-01-{week:02d}T00:00:00+00:00")
    Path(path).write_text("\n".join(rows) + "\n", encoding="utf-8")


def prepare() -> None:
    """Learn from a sound fleet, and have one with a slow batch and a slow card."""
    write("old.csv", 1)
    write("new.csv", 8, lost=0.08)
    assert anubis("learn", "old.csv").returncode == 0


def judged(*words: str) -> tuple[str, dict[str, dict[str, Any]]]:
    """Return what judge says, and its nodes."""
    said = anubis("judge", *words, "--json", "judged.json", "--html", "page.html").stdout
    nodes = json.loads(Path("judged.json").read_text(encoding="utf-8"))["nodes"]
    return said, {one["node"]: one for one in nodes}


def shown(path: str) -> str:
    """Return the words of a page."""
    text = Path(path).read_text(encoding="utf-8")
    return " ".join(
        html.unescape(re.sub(r"(?s)<(style|script).*?</\1>|<[^>]*>", " ", text)).split()
    )


def steps_of(text: str) -> set[str]:
    """Return the nodes with which a text says to begin."""
    return set(re.findall(r"cooling of (n\d+)", text))


@pytest.mark.usefixtures("here")
def test_a_batch_is_named_alike_everywhere() -> None:
    said, nodes = judged(*BY)
    batch = [f"n{number}" for number in BATCH]
    assert {nodes[name]["triage"] for name in batch} == {"shared"}
    assert len({nodes[name]["next"] for name in batch}) == 1
    assert "1 REJECTED, 12 RETEST" in said
    assert "take out of service" not in said
    assert anubis("push", *BY, "--history", "fleet").returncode == 0
    status = json.loads(anubis("fleet", "status", "--history", "fleet", "--json", "-").stdout)
    assert Counter(one["is"] for one in status["nodes"]) == {
        "REJECTED": 1,
        "RETEST": 12,
        "ACCEPTED": 47,
    }
    order = [one["node"] for one in status["nodes"] if one["is"] != "ACCEPTED"]
    assert order == list(nodes)[:13]
    assert {one["next"] for one in status["nodes"] if one["group"]} == {nodes["n20"]["next"]}
    drained = anubis("fleet", "drain-list", "--history", "fleet")
    assert (drained.returncode, drained.stdout.count("# a shared cause")) == (1, 12)
    (line,) = (one for one in drained.stdout.splitlines() if "n20" in one)
    health = anubis("health", "--store", "fleet", "--node", "n20")
    assert health.returncode == 20
    assert line.endswith(f"n20 {health.stdout.strip()}")
    report = anubis("report", *BY, "--node", "n20", "--html", "node.html").stdout
    gauges = anubis("report", *BY, "--node", "n20", "--prometheus", "-").stdout
    assert 'word="RETEST"} 1.0' in gauges
    assert "RETEST: node n20: link" in report
    assert "measure again" not in report
    texts = (said, report, shown("node.html"), shown("page.html"))
    assert [steps_of(text) for text in texts] == [{"n25"}] * len(texts)


@pytest.mark.usefixtures("here")
def test_what_rejects_by_an_option_is_no_shared_cause() -> None:
    """With ``--fail-on marginal`` what is to be looked at rejects, and is the node's own."""
    _, nodes = judged(*BY, "--fail-on", "marginal")
    assert nodes["n07"]["triage"] != "shared"


@pytest.mark.usefixtures("here")
def test_chosen_nodes_are_said_to_hide_what_all_share() -> None:
    for nodes, hidden in (("n20,n21", True), ("n01,n02", False)):
        said, _ = judged(*BY, "--nodes", nodes)
        assert ("without --nodes" in said) == hidden, said


@pytest.mark.usefixtures("here")
def test_a_mended_node_shows_the_others_the_way() -> None:
    """What helped one of them is done to the others; one of another driver had that loss, too."""
    write("fast.csv", 2, driver="580")
    assert anubis("learn", "fast.csv", "--output", "of-drivers").returncode == 0
    write("slow.csv", 8, lost=0.08, driver="580", weak=39)
    write("n25.csv", 15, nodes=range(25, 26))
    write("n36.csv", 15, nodes=range(36, 37), driver="570")
    write("n33.csv", 3, nodes=range(33, 34), driver="570")  # it was good, and is not now
    write("n39.csv", 15, nodes=range(39, 40), driver="570", weak=39)  # helped, and still weak
    runs = ("slow.csv", "n25.csv", "n36.csv", "n33.csv", "n39.csv", "--baseline", "of-drivers")
    _, nodes = judged(*runs)
    found = json.loads(Path("judged.json").read_text(encoding="utf-8"))
    mended = {one["trait"]: one["mended"] for one in found["shared"]}
    assert mended == {"batch": ["n25"], "driver": ["n36", "n39"]}
    assert (nodes["n25"]["decision"], nodes["n20"]["triage"]) == ("ACCEPTED", "shared")
    assert "n25" in nodes["n20"]["next"]
    unlike = [name for name, one in nodes.items() if "unlike the others" in str(one["noted"])]
    assert ("n36" in unlike, "n33" in unlike) == (False, True)


@pytest.mark.usefixtures("here")
def test_a_history_has_one_step_for_a_batch() -> None:
    write("n22.csv", 15, nodes=range(22, 23), lost=0.08)
    write("n25.csv", 15, nodes=range(25, 26))
    runs = ("new.csv", "n22.csv", "n25.csv", "--baseline", "baselines")
    _, nodes = judged(*runs)
    assert anubis("push", *BY, "--history", "fleet").returncode == 0
    for place in ("fleet", "another"):
        assert anubis("push", *runs, "--history", place).returncode == 0
        status = json.loads(anubis("fleet", "status", "--history", place, "--json", "-").stdout)
        steps = {one["node"]: one["next"] for one in status["nodes"] if one["group"]}
        assert steps == {f"n{number}": nodes["n20"]["next"] for number in BATCH if number != 25}
