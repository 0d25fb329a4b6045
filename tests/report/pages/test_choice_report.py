"""The words and pages about what the Selector chose, the fleet's risk, and simulated policies."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_anubis.core.events import BenchmarksChosen, BlockerFound, Event, UnknownEvent
from pytest_anubis.core.run import RunRecord
from pytest_anubis.report.pages.choice_report import (
    choice_lines,
    chosen_lines,
    explain_lines,
    selection_block,
)
from pytest_anubis.report.pages.risk_report import (
    ModelStory,
    NodeOutlook,
    fleet_line,
    risk_lines,
    risk_page,
)
from pytest_anubis.report.pages.simulation_report import (
    simulation_answer,
    simulation_lines,
    simulation_page,
    simulation_rows,
)
from tests.report.sample_run import EVIL


def choice(**changes: Any) -> dict[str, Any]:
    """Two of three benchmarks, one of them drawn by chance."""
    pruned = {"benchmark": "c", "cost_seconds": 90.0, "gain": 0.01, "reason": "too dear"}
    return {
        "mode": "risk",
        "method": "exact",
        "chosen": ["a", "b"],
        "explored": ["b"],
        "pinned": [],
        "exposing": [],
        "picked": [],
        "pruned": [pruned],
        "unpriced": [],
        "lacking": [],
        "notes": ["age: missing"],
        "nodes": {},
        "node_intervals": {},
        "drivers": {},
        "within": "",
        "basis": "weibull model of 7 incidents on 3 nodes",
        "horizon": 86400.0,
        "target": 0.01,
        "budget": None,
        "reached": True,
        "optimal": True,
        "seed": 7,
        "cost": 30.0,
        "full_cost": 120.0,
        "coverage": 0.8,
        "defects": 40,
        "exposed_defects": 31,
        "risk_before": 0.03,
        "risk_interval": None,
        "residual_risk": 0.006,
        "residual_interval": None,
        "full_risk": 0.001,
        **changes,
    }


def run(*events: Event) -> RunRecord:
    return RunRecord(run="r", node="n", events=events)


def test_the_choice_in_words() -> None:
    assert choice_lines(choice()) == [
        "2 of 3 benchmarks, 30.0 s of 2 min 00 s, exposing 80 % of defects (31 of the 40 known); risk of an "
        "incident in 24 h 3.0 %, 0.60 % after these pass (full set: 0.10 %), accepted 1.0 %",
        "1 of them by chance, so that learning goes on (seed 7)",
    ]


def test_the_risk_of_a_node_has_its_interval_and_drivers() -> None:
    event = choice(
        nodes={"n1": 0.03, "<n2>": 0.01, "n3": None},
        node_intervals={"n1": [0.01, 0.08]},
        drivers={"n1": ["incidents 7 (usual 2) raises it", "no incident yet"], "<n2>": []},
        within="what 7 incidents leave open",
        risk_interval=[0.01, 0.08],
    )
    assert "in 24 h 3.0 % (95 % within 1.0 % to 8.0 %), 0.60 % after" in choice_lines(event)[0]
    assert explain_lines(event)[:2] == [
        "n1: risk 3.0 % (95 % within 1.0 % to 8.0 %): incidents 7 (usual 2) raises it; no incident yet",
        "95 % within: what 7 incidents leave open",
    ]
    assert "n1: risk 3.0 % (95 % within" in selection_block(event)
    assert "damaged" in selection_block(event | {"node_intervals": {"n1": "wide"}})


GUESS = {"defects": 1, "exposed_defects": 1}
NOTHING = {"method": "nothing", "chosen": [], "explored": []}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"exposed_defects": 0}, "(assumed: 40 defects known, none exposed by what was chosen)"),
        (
            {"defects": 2, "exposed_defects": 2},
            "(a guess: 2 defects are known, the rest is assumed)",
        ),
        (GUESS, "(a guess: 1 defect is known, the rest is assumed); risk"),
        (GUESS, "0.60 % after these pass, a guess as well (full set"),
        ({"defects": 0}, "30.0 s of 2 min 00 s; risk"),
        ({"pruned": [], "explored": []}, "the full set runs, 2 benchmarks, 2 min 00 s; risk"),
        (
            {"lacking": ["incidents", "defects"], "pruned": []},
            "no incidents and no defects yet: the",
        ),
        ({"lacking": ["defects"]}, "the history has no defects yet: 2 of 3 benchmarks, "),
        (NOTHING, "nothing needs to run: risk of an incident in 24 h"),
        (NOTHING, "the full set of 1 benchmark would take 2 min 00 s"),
        (NOTHING | {"chosen": ["a"]}, "only what was named runs: risk"),
        (
            NOTHING | {"chosen": ["a"], "exposing": ["a"], "open_defects": [7]},
            "open defect 7: its component is measured again; risk",
        ),
        (
            NOTHING | {"chosen": ["a", "b"], "exposing": ["a"], "open_defects": [7, 9]},
            "only what was named runs; open defects 7, 9: their components are measured again; risk",
        ),
        ({"target": None}, "0.60 % after these pass (full set: 0.10 %)"),
        ({"reached": False}, "the accepted risk of 1.0 % cannot be reached"),
        (
            {"reached": False, "full_risk": 0.011},
            "the accepted risk of 1.0 % cannot be reached: even the full set leaves 1.1 %",
        ),
        (
            {"mode": "budget", "budget": 10.0},
            "takes 30.0 s, more than the budget of 10.0 s: what was named",
        ),
        (
            {"mode": "budget", "budget": 10.0, "chosen": [], "cost": 0.0},
            "too small for any benchmark: the cheapest, c, takes 1 min 30 s; give at least 90s",
        ),
        ({"optimal": False}, "chosen greedily, not proven to be the best choice"),
        ({"unpriced": ["a"]}, "1 benchmark of unknown duration"),
        ({"risk_before": None, "target": None}, "the risk is unknown, since no incident"),
    ],
)
def test_the_words_for_special_choices(changes: dict[str, Any], words: str) -> None:
    assert any(words in line for line in choice_lines(choice(**changes)))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"explored": [], "target": None}, "accepted"),
        ({"pruned": [], "explored": []}, "full set: "),
        (NOTHING, "after these pass"),
    ],
)
def test_words_that_do_not_apply_are_left_out(changes: dict[str, Any], words: str) -> None:
    (line,) = choice_lines(choice(**changes))
    assert words not in line


def test_every_benchmark_has_its_reason() -> None:
    picked = [{"benchmark": "a", "cost_seconds": 3.0, "reason": "exposes most"}]
    event = choice(
        chosen=["a", "b", "d", "e", "f"], pinned=["d", "e"], exposing=["e"], picked=picked
    )
    assert [line.split(maxsplit=1) for line in explain_lines(event)][-6:-1] == [
        ["a", "exposes most"],
        ["b", "drawn by chance"],
        ["d", "named on the command line"],
        ["e", "it exposed a defect that is still open"],
        ["f", "chosen"],
    ]
    assert "c         1 min 30 s  too dear" in explain_lines(event)
    assert explain_lines(event)[-1] == "note: age: missing"
    guess = "shares of defects below are a guess: 1 defect is known, the rest is assumed"
    assert explain_lines(choice(**GUESS))[0] == guess


@pytest.mark.parametrize(
    ("changes", "first_words"),
    [
        ({"pruned": [], "notes": []}, ["runs", "a", "b"]),
        ({"chosen": [], "explored": [], "notes": []}, ["left", "c"]),
        ({"chosen": [], "explored": [], "pruned": [], "notes": []}, []),
    ],
)
def test_empty_tables_are_left_out(changes: dict[str, Any], first_words: list[str]) -> None:
    assert [line.split()[0] for line in explain_lines(choice(**changes))] == first_words


def test_html_is_escaped_and_whole() -> None:
    evil = {"benchmark": EVIL, "cost_seconds": 1.0, "gain": 0.0, "reason": EVIL}
    text = selection_block(choice(pruned=[evil], picked=[evil], notes=[EVIL], basis=EVIL))
    assert EVIL not in text
    assert text.count("&lt;script&gt;") == 6


def test_a_run_without_a_choice_has_no_words_about_it() -> None:
    assert selection_block(None) == ""
    assert chosen_lines(None) == []
    assert run().choice is None
    assert run(BlockerFound(text="cuda:1 is hidden")).choice is None


plain = st.none() | st.text(max_size=3) | st.floats() | st.lists(st.integers(), max_size=2)


@given(st.dictionaries(st.sampled_from(sorted(choice())), plain, max_size=4))
def test_a_damaged_journal_does_not_break_the_page(damage: dict[str, Any]) -> None:
    event = {**choice(), **damage}
    assert selection_block(event).startswith("<p>")
    assert chosen_lines(event)
    assert "damaged" in chosen_lines({"mode": "risk"})[0]


def test_a_long_table_of_what_was_left_out_is_folded() -> None:
    one = {"benchmark": "c", "cost_seconds": 90.0, "gain": 0.01, "reason": "too dear"}
    few, many = (selection_block(choice(pruned=[one] * count)) for count in (12, 13))
    assert "<details open>" in few
    assert "<details>" in many
    assert many.count("too dear") == 13
    assert "<table" not in selection_block(choice(pruned=[]))


def test_the_latest_choice_counts() -> None:
    early, late = choice(cost=1.0), choice(cost=2.0)
    twice = [BenchmarksChosen(choice=one) for one in (early, late)]
    assert run(*twice, UnknownEvent(data={"event": "other"})).choice == late
    assert chosen_lines(run(*twice).choice) == choice_lines(late)


STORY = ModelStory(reason="it is the only one")


def node(name: str, probability: float, **more: Any) -> NodeOutlook:
    facts = {"uptime": 7200.0, "incidents": 2, "last": "nic", "state": "in service", **more}
    return NodeOutlook(node=name, probability=probability, **facts)


@pytest.mark.parametrize(
    ("probabilities", "words"),
    [
        (
            [0.5, 0.1],
            "2 nodes: 0.6 incidents expected within 24 h, at least one with a probability of 55 %",
        ),
        ([1.0], "1 node: 1 incident expected"),
        ([1.0] * 3, "probability of 100 %"),
        ([], "0 incidents expected"),
    ],
)
def test_the_risk_of_a_fleet_in_words(probabilities: list[float], words: str) -> None:
    rows = [node(f"n{number}", one) for number, one in enumerate(probabilities)]
    assert words in fleet_line(rows, 86400)


def test_the_terminal_shows_the_riskiest_nodes() -> None:
    lines = risk_lines([node("n1", 0.5), node("n2", 0.1)], 86400, "weibull model", most=1)
    assert lines[-1] == "... and 1 more nodes (--all shows them)"
    assert not any("n2" in line for line in lines)
    assert any(line.startswith("n1") and "50 %" in line for line in lines)


def test_nodes_that_are_alike_are_one_line() -> None:
    rows = [node("bad", 0.5), *(node(f"n{i}", 0.1) for i in range(40))]
    lines = risk_lines(rows, 86400, "weibull model", most=20)
    assert any(line.startswith("n0, n1, n2 and 37 more ") and "10 %" in line for line in lines)
    assert len(lines) == 5
    assert len(risk_lines(rows, 86400, "weibull model")) == 44  # --all: every node has its line


def test_the_page_of_a_large_fleet_stays_small() -> None:
    rows = [node(f"n{i}", 0.5 / (i + 1)) for i in range(20_000)]
    page = risk_page(
        [*rows, node(EVIL, 0)], 86400, "model", [(1, 2.0), (24, 9.0)], STORY, notes=[EVIL]
    )
    assert len(page) < 400_000
    assert page.count("<svg") == 2
    assert page.index("<table") < page.index("<svg")  # names before pictures
    assert ">in\N{NO-BREAK SPACE}service<" in page
    assert EVIL not in page


def test_terminal_and_page_name_nodes_and_assumptions() -> None:
    rows = [node("n1", 0.5), node("n2", 0.1, incidents=0, last="", state="drained")]
    first, basis, head, *table = risk_lines(rows, 3600, "cox model")
    assert "within 1 h" in first
    assert basis == "from a history: cox model"
    assert head.split() == ["node", "risk", "up", "for", "incidents", "last", "state"]
    assert [line.split()[0] for line in table] == ["n1", "n2"]
    assert table[1].split()[-2:] == ["-", "drained"]
    page = risk_page(rows, 3600, "cox model", [(1, 0.6)], STORY, notes=["age: missing"])
    for words in ("cox model", "age: missing", "within 1 h", "<td>n2</td>", "drained"):
        assert words in page
    assert "nodes with less risk" not in page
    assert "<li>" not in risk_page(rows, 3600, "cox model", [(1, 0.6)], STORY)


def figures(policy: str, validation: float, mtbi: float, knob: str = "") -> dict[str, Any]:
    return {
        "policy": policy,
        "knob": knob,
        "validation": validation,
        "share": validation / 50,
        "mtbi": mtbi,
        "gain": mtbi / 400,
        "low": 1.0,
        "high": 2.0,
        "utilisation": 0.9,
        "useful": 600.0,
        "useful_low": None,
        "useful_high": None,
        "incidents": 0.1,
    }


def test_the_full_set_does_not_squeeze_the_plot() -> None:
    rows = [figures("none", 0, 400), figures("selector", 5, 6000), figures("full set", 900, 8000)]
    page = simulation_page("scenario B", rows, "remark")
    drawn = page[page.index("<svg") : page.index("</svg>")]
    assert "selector: 5, 6000" in drawn
    assert "full set" not in drawn
    assert "at 900 h per node and an MTBI of 8000 h" in page
    without = simulation_page(EVIL, rows[:2], EVIL)
    assert "far to the right" not in without
    assert EVIL not in without


def test_a_single_seed_has_no_interval() -> None:
    _, one, none, several = simulation_rows(
        [
            {**figures("none", 0, 400), "high": 1.0},
            {**figures("none", 0, 400), "low": None, "high": None, "useful_low": None},
            figures("selector", 5, 6000),
        ]
    )
    assert one[6] == none[6] == "-"
    assert several[:7] == ["selector", "", "5.00", "10 %", "6000", "15.00", "1.00 to 2.00"]


def test_the_answer_is_the_best_policy_but_the_ideal_one() -> None:
    rows = [
        {**figures("none", 0, 400), "useful": 228.0, "useful_low": 228.0},
        {**figures("full set", 50, 8000), "useful": 437.0, "useful_low": 430.0},
        {**figures("ideal", 0, 9000), "useful": 500.0, "useful_low": 490.0},
        {**figures("selector", 5, 6000, "p0=0.02"), "useful": 417.0, "useful_low": 410.0},
        {**figures("selector", 5, 6000, "p0=0.3"), "useful": 461.0, "useful_low": 415.0},
    ]
    answer = simulation_answer(rows)
    assert answer.startswith("most useful time: selector p0=0.3, 461 h a node")
    assert "none 228 h, full set 437 h" in answer
    assert answer.endswith("2 others within its interval")
    assert "within" not in simulation_answer([{**one, "useful_low": None} for one in rows])


@pytest.mark.parametrize("width", [80, 120])
def test_the_table_of_policies_fits_the_terminal(width: int) -> None:
    more = {"useful_low": 90.0, "useful_high": 110.0}
    rows = [
        {**figures("none", 0, 400), "high": 1.0},
        {**figures("full set", 50, 8000), **more, "high": 29.25},
        {**figures("selector", 5, 12345, "p0=0.002"), **more},
    ]
    header, *lines, units = simulation_lines(rows, width)
    assert "column" in units or width == 120
    assert max(map(len, [header, *lines])) <= width
    ends = [found.end() for found in re.finditer(r"\S+( \S+)*", header)]
    for line in lines:
        found = [one.end() for one in re.finditer(r"\S+( \S+)*", line)]
        assert set(found[-len(ends) + 2 :]) <= set(ends)  # numbers end where their heads do
    assert len(lines) == 3
    page = simulation_page("scenario B", rows, "the paper says")
    assert "the paper says" in page
    assert "<th scope='col' class='n'>MTBI</th>" in page
    assert "<td class='n'>12345</td>" in page
