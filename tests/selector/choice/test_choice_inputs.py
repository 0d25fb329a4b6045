"""What a choice is made from, and what it says when little is known."""

from __future__ import annotations

import itertools
import json
import random
import re
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_anubis.codec import to_plain
from pytest_anubis.core.history import Defect, FleetHistory, Incident, NodeRecord, RunSummary
from pytest_anubis.report.pages.choice_report import choice_lines, explain_lines
from pytest_anubis.selector.choice.benchmark_choice import joint_risk
from pytest_anubis.selector.choice.choice_inputs import (
    UNKNOWN_COST,
    Choice,
    ChoiceInputs,
    ChoiceRequest,
    Offer,
    choose,
    gather_inputs,
)
from pytest_anubis.selector.choice.choice_record import choice_record
from pytest_anubis.selector.risk.drivers import risk_drivers
from pytest_anubis.selector.risk.forecast import NoRiskError, RiskModel, fit_risk, look_ahead
from pytest_anubis.selector.risk.survival_rows import NodeRisk, value_words
from pytest_anubis.selector.selector_error import SelectorError

DAY, NOW = 86400.0, 1.8e9
NAMES = ("a", "b", "c", "d")


def fleet(*, nodes: int = 6, each: int = 5, **more: Any) -> FleetHistory:
    """Nodes in service for 100 days; the higher the number, the more incidents."""
    names = [f"n{number}" for number in range(nodes)]
    incidents = [
        Incident(node=name, kind="nic", started=NOW - day * DAY, duration=3600.0)
        for number, name in enumerate(names)
        for day in range(3 + number, 95, max(1, 95 // (each * (number + 1))))
    ]
    return FleetHistory(
        nodes=tuple(NodeRecord(name=name, since=NOW - 100 * DAY) for name in names),
        incidents=tuple(sorted(incidents, key=lambda item: item.started)),
        **more,
    )


def defects(*sets: str) -> tuple[Defect, ...]:
    return tuple(
        Defect(number=i, node="n1", found=NOW - DAY, benchmarks=tuple(s))
        for i, s in enumerate(sets)
    )


def offers(*costs: float | None) -> list[Offer]:
    return [
        Offer(benchmark=name, declared=cost, component=f"part.{name}")
        for name, cost in zip(NAMES, costs, strict=True)
    ]


def inputs(**changes: Any) -> ChoiceInputs:
    facts: dict[str, Any] = {
        "risks": (NodeRisk(node="n1", probability=0.3),),
        "horizon": DAY,
        "defects": defects("a", "a", "a", "b", "cd"),
    }
    return ChoiceInputs(**(facts | changes))


def chosen(known: ChoiceInputs, **request: Any) -> tuple[Choice, dict[str, Any]]:
    """Choose among four benchmarks of 5 to 8 s without exploration; return the choice and its record."""
    wanted = ChoiceRequest(**({"explore": 0.0} | request))
    found = choose(known, offers(5, 6, 7, 8), wanted)
    return found, to_plain(choice_record(found, wanted))


LACKING = [("incidents",), ("defects",), ("incidents", "defects")]


@pytest.mark.parametrize("lacking", LACKING)
@pytest.mark.parametrize("mode", ["risk", "cost", "budget"])
def test_missing_knowledge_leaves_out_nothing(lacking: tuple[str, ...], mode: Any) -> None:
    known = () if "defects" in lacking else inputs().defects
    found, record = chosen(inputs(lacking=lacking, defects=known), mode=mode, budget=12.0)
    assert (record["risk_before"] is None) == ("incidents" in lacking)
    if mode != "budget":
        assert found.plan.chosen == NAMES
        assert record["lacking"] == list(lacking)
        return
    assert 0 < found.plan.cost <= 12
    (line, *_) = choice_lines(record)
    assert f"{len(found.plan.chosen)} of 4 benchmarks" in line
    assert ("risk is unknown" in line) == ("incidents" in lacking)


@pytest.mark.parametrize("mode", ["risk", "cost", "budget"])
def test_a_doubtful_model_chooses_with_a_warning(mode: Any) -> None:
    request: dict[str, Any] = {"mode": mode, "p0": 0.3, "budget": 5.0}
    trusted, plain = chosen(inputs(), **request)
    doubted, record = chosen(inputs(warning="it predicted worse"), **request)
    # Where nodes are alike every model fails so, and the full set would always run.
    assert doubted.plan == trusted.plan
    assert record["warnings"] == ["it predicted worse"]
    assert "warning: it predicted worse" in choice_lines(record)
    assert "warnings" not in plain


def test_a_history_gives_the_same_choice_later() -> None:
    known = fleet(nodes=12, each=3)
    first, *others = (
        fit_risk(known, now=NOW + later, quick=True) for later in (0.0, 0.7, 7.3, DAY)
    )
    assert first.backtest.candidates
    assert all(other.backtest == first.backtest for other in others)
    run = RunSummary(run="r", node="n1", hardware_class="", started=NOW)
    more = replace(known, runs={"n1": (run,)})
    assert fit_risk(more, now=NOW + DAY, quick=True).backtest != first.backtest


def test_a_negative_skill_is_a_warning() -> None:
    # Ever fewer incidents on ever other nodes: what was learned misleads.
    names = [f"n{number:02}" for number in range(16)]
    rng = random.Random(1)
    incidents = [
        Incident(node=rng.choice(names), kind="nic", started=NOW - (1 + 399 * share**0.4) * DAY)
        for share in (rng.random() for _ in range(160))
    ]
    turned = FleetHistory(
        nodes=tuple(NodeRecord(name=name, since=NOW - 401 * DAY) for name in names),
        incidents=tuple(sorted(incidents, key=lambda item: item.started)),
        defects=defects("a", "b"),
    )
    for model in (
        fit_risk(turned, now=NOW, quick=True),
        fit_risk(turned, now=NOW, model="exponential"),
    ):
        assert model.backtest.chosen is not None
        assert model.backtest.chosen.mean("skill") < 0
        found = gather_inputs(turned, ["n00"], now=NOW, horizon=DAY, model=model)
        assert found.warning == model.backtest.warning
        assert "predicted worse than one rate for all nodes" in found.warning


@pytest.mark.parametrize(
    ("known", "words"),
    [
        (
            {"defects": defects("x", "y", "y", "z")},
            "assumed: 4 defects known, none exposed by one of these benchmarks",
        ),
        ({"defects": (), "lacking": ("defects",)}, "assumed: no defect that counts is known"),
    ],
)
def test_shares_without_related_defects_are_assumed(known: dict[str, Any], words: str) -> None:
    _, record = chosen(inputs(**known, false_alarms=5), p0=0.1)
    assert record["chosen"] == list(NAMES)
    assert all(one["reason"].startswith("assumed to expose ") for one in record["picked"])
    assert explain_lines(record)[0] == f"shares of defects below are {words}"
    alarms = "has no defect that counts (5 false alarms): the full"
    assert (alarms in choice_lines(record)[0]) == ("lacking" in known)


def test_a_share_names_its_known_defects() -> None:
    _, record = chosen(inputs(defects=defects("x", "y", "a"), false_alarms=5), p0=0.1)
    assert (record["lacking"], "false_alarms" in record) == ([], False)
    first, second = (one["reason"] for one in record["picked"][:2])
    assert first.startswith("exposes 22 % of defects (1 known), ")
    assert second.startswith("assumed to expose ")  # from smoothing alone
    assert record["exposed_defects"] == 1


@pytest.mark.parametrize(
    ("costs", "budget", "reason"),
    [
        ((5, 6, 7, 3), 4.0, "takes 5 s, more than the 4 s that there are"),
        ((3, 3, 3, 3), 2.7, "takes 3 s, more than the 2.7 s that there are"),
    ],
)
def test_a_cost_beyond_the_budget_is_the_reason(
    costs: tuple[float, ...], budget: float, reason: str
) -> None:
    request = ChoiceRequest(mode="budget", budget=budget, explore=0.0)
    plan = choose(inputs(), offers(*costs), request).plan
    assert plan.chosen == (("d",) if costs[3] <= budget else ())
    assert plan.pruned[0].reason == reason


def test_an_unknown_risk_is_nowhere_a_figure() -> None:
    found, record = chosen(inputs(lacking=("incidents",)), mode="budget", budget=5.0)
    assert record["chosen"] == ["a"]
    assert {record["residual_risk"], record["full_risk"], record["target"]} == {None}
    assert found.risk_after(NAMES) is None
    assert not [one["reason"] for one in record["pruned"] if "risk" in one["reason"]]


def test_unknown_costs_are_the_median_of_others() -> None:
    everything = ChoiceRequest(mode="all")
    found = choose(inputs(durations={"a": 100.0}), offers(1, 2, None, 4), everything)
    assert found.plan.full_cost == 100 + 2 + 4 + 4  # 4 is the median of 100, 2 and 4
    assert found.unpriced == ("c",)
    alone = choose(inputs(), offers(None, None, None, None), everything)
    assert alone.plan.full_cost == 4 * UNKNOWN_COST
    two = [Offer(benchmark="a", declared=10.0, turns=2), Offer(benchmark="b", declared=1.0)]
    assert choose(inputs(durations={"a": 8.0}), two, everything).plan.full_cost == 17


@given(st.sets(st.sampled_from(NAMES)), st.floats(0, 0.99), st.floats(0, 0.99))
@settings(deadline=None)
def test_residual_risk_falls_with_what_passed(passed: set[str], one: float, two: float) -> None:
    risks = (NodeRisk(node="n1", probability=one), NodeRisk(node="n2", probability=two))
    found = choose(inputs(risks=risks), offers(5, 6, 7, 8), ChoiceRequest(mode="all"))

    def after(names: set[str]) -> float:
        risk = found.risk_after(sorted(names))
        assert risk is not None
        return risk

    assert after(passed) <= joint_risk([one, two]) + 1e-12
    assert all(after(passed | {more}) <= after(passed) + 1e-12 for more in NAMES)
    assert after(set()) == pytest.approx(joint_risk([one, two]))


@given(st.permutations(NAMES), st.integers(0, 5), st.sampled_from(["risk", "cost", "budget"]))
@settings(deadline=None)
def test_the_choice_does_not_depend_on_the_order(order: list[str], seed: int, mode: Any) -> None:
    request = ChoiceRequest(mode=mode, p0=0.1, budget=12.0, explore=0.5, seed=seed)
    plain = {offer.benchmark: offer for offer in offers(5, 6, 7, 8)}
    first, second = (
        to_plain(choice_record(choose(inputs(), [plain[name] for name in names], request), request))
        for names in (NAMES, order)
    )
    assert first == second
    assert json.loads(json.dumps(first, allow_nan=False)) == first


# Where the risks come from.


def test_new_nodes_get_the_usual_risk() -> None:
    found = gather_inputs(fleet(nodes=12, each=3), ["n0", "n11", "new"], now=NOW, horizon=DAY)
    risk = {item.node: item.probability for item in found.risks}
    assert risk["n0"] < risk["n11"]
    assert 0 < risk["new"] < 1
    assert any("new is not in the history" in note for note in found.notes)
    assert found.kinds["n11"] == {"nic": 1.0}
    assert found.kinds["new"] == {}


@pytest.mark.parametrize(
    ("each", "nodes", "model"), [(1, 2, "exponential"), (2, 6, "weibull"), (5, 9, "weibull")]
)
def test_the_model_is_as_rich_as_the_history(each: int, nodes: int, model: str) -> None:
    known = fleet(nodes=nodes, each=each)
    risk = fit_risk(known, now=NOW, quick=True)
    assert risk.text == f"{model} model of {risk.model.events} incidents on {nodes} nodes"
    assert (risk.model.events >= 100) == (each == 5)
    assert look(known, risk) == look(fleet(nodes=nodes, each=each), risk)


def look(known: FleetHistory, risk: RiskModel, days: float = 1) -> tuple[Any, tuple[str, ...]]:
    """Return the nodes' risks and the notes."""
    found = look_ahead(known, risk, now=NOW, horizon=days * DAY)
    return found.risks, found.notes


def test_a_longer_horizon_is_never_safer() -> None:
    known = fleet()
    risk = fit_risk(known, now=NOW, quick=True)
    risks = [look(known, risk, days)[0] for days in (0.1, 1, 10, 400)]
    for short, long in itertools.pairwise(risks):
        assert all(a.probability <= b.probability < 1 for a, b in zip(short, long, strict=True))
    (note,) = (note for note in look(known, risk, 400)[1] if "reaches" in note)
    words = (
        r"reaches [\d.]+ days beyond the longest time without an incident .* \([\d.]+ days\): there"
    )
    assert re.search(words, note)


def test_nodes_that_are_gone_have_no_risk() -> None:
    known = fleet(nodes=3)
    gone = [NodeRecord(name="n0", since=NOW - 100 * DAY, state="removed"), *known.nodes[1:]]
    rest = FleetHistory(nodes=tuple(gone), incidents=known.incidents, gone={"n0": NOW - DAY})
    risks, _ = look(rest, fit_risk(rest, now=NOW, quick=True))
    assert [risk.node for risk in risks] == ["n1", "n2"]


def test_a_model_survives_plain_data_exactly() -> None:
    known = fleet(nodes=9, runs={"n1": (RunSummary(run="r", node="n1", started=NOW - 50 * DAY),)})
    risk = fit_risk(known, now=NOW, quick=True)
    again = RiskModel.from_plain(json.loads(json.dumps(risk.to_plain(), allow_nan=False)))
    assert look(known, again) == look(known, risk)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"schema": 1}, "schema '1', this version reads 2"),
        ({"kinds": "nic"}, "another type"),
        ({"kinds": [1]}, "another type"),
        ({"nodes": "many"}, "another type"),
        ({"incidents": None}, "another type"),
        ({"model": None}, "another type"),
        ({"model": {"schema": 1, "model": "tea leaves"}}, "none of"),
        ({"kinds": ["nic", "gpu"]}, "columns|shape|covariates"),
    ],
)
def test_a_model_that_does_not_fit_is_refused(change: dict[str, Any], words: str) -> None:
    known = fleet(nodes=9)
    plain = fit_risk(known, now=NOW, quick=True).to_plain() | change
    with pytest.raises(SelectorError, match=words):
        look(known, RiskModel.from_plain(plain))


def test_an_impossible_history_is_refused() -> None:
    known = fleet()
    future = Incident(node="n1", kind="nic", started=NOW + DAY)
    wrong = FleetHistory(nodes=known.nodes, incidents=(*known.incidents, future))
    with pytest.raises(SelectorError, match="lies in the future"):
        gather_inputs(wrong, ["n1"], now=NOW, horizon=DAY)


def test_an_outdated_model_says_so() -> None:
    known = fleet()
    kept = fit_risk(known, now=NOW, quick=True)
    assert not any("fit it again" in note for note in look(known, kept)[1])
    more = replace(known.incidents[-1], started=NOW - 1)
    grown = replace(known, incidents=(*known.incidents, *[more] * len(known.incidents)))
    assert any("fit it again" in note for note in look(grown, kept)[1])


def test_without_incidents_no_model_is_made() -> None:
    with pytest.raises(SelectorError, match="no incident"):
        fit_risk(FleetHistory(nodes=fleet().nodes), now=NOW)


@pytest.mark.parametrize("days", [0, 5])
def test_history_that_begins_with_its_last_event(days: int) -> None:
    began = NOW - days * DAY
    young = FleetHistory(
        nodes=tuple(NodeRecord(name=f"n{i}", since=began) for i in (1, 2)),
        incidents=tuple(Incident(node=f"n{i}", kind="nic", started=began) for i in (1, 2)),
        defects=defects("a"),
    )
    assert gather_inputs(young, ["n1"], now=NOW, horizon=DAY).lacking == ("incidents",)
    with pytest.raises(NoRiskError):
        fit_risk(young, now=NOW)


def test_first_incidents_of_nodes_end_no_interval() -> None:
    nodes = tuple(NodeRecord(name=f"n{i}", since=NOW - 100 * DAY) for i in range(9))
    first = tuple(Incident(node=node.name, kind="nic", started=node.since) for node in nodes)
    later = Incident(node="n1", kind="nic", started=NOW - 50 * DAY)
    known = FleetHistory(nodes=nodes, incidents=(*first, later))
    found = fit_risk(known, now=NOW)
    assert found.model.events == 1
    assert found.text == "exponential model of 1 of 10 incidents on 9 nodes"
    assert RiskModel.from_plain(found.to_plain()).text == found.text
    (risk,) = gather_inputs(known, ["n2"], now=NOW, horizon=DAY).risks
    assert risk.probability == pytest.approx(1 / 900, rel=0.02)  # one in 900 days of nodes


def test_the_drivers_of_a_risk_are_named() -> None:
    known = fleet()
    risk = fit_risk(known, now=NOW, model="exponential")
    drivers = risk_drivers(known, risk, now=NOW, horizon=DAY)
    assert any("29 of them in 90 days (usual 19 and 19) raises it" in why for why in drivers["n5"])
    assert all(why.endswith("lowers it") for why in drivers["n0"])
    assert all(len(words) <= 2 for words in drivers.values())


class Opposed:
    """A model that shares the common effect of two counts between them with opposite signs."""

    uses_facts = True

    def incident_probability(self, facts: Any, up: Any, hours: float) -> Any:
        return 0.01 * np.exp(0.2 * facts[:, 1] - 0.1 * facts[:, 2])


def test_counts_of_incidents_are_one_fact() -> None:
    known = fleet()
    risk = replace(fit_risk(known, now=NOW, model="exponential"), model=cast(Any, Opposed()))
    (words,) = risk_drivers(known, risk, now=NOW, horizon=DAY, nodes=["n5"])["n5"]
    assert words.startswith("incidents 29, 29 of them in 90 days (")
    assert words.endswith("raises it")


@pytest.mark.parametrize(
    ("name", "value", "usual", "words"),
    [
        ("age", 7332.0, 6017.0, "in service 305.5 days when it last came up (usual 250.7 days)"),
        (
            "hours before the last incident",
            1612.0,
            20.0,
            "up 67.2 days before the last incident (usual 20 h)",
        ),
        ("hours of the last incident", 24.0, 5.0, "last incident lasted 24 h (usual 5 h)"),
        (
            "hours since validation",
            12.0,
            72.0,
            "validated 12 h before it last came up (usual 3.0 days)",
        ),
        ("last was nic", 1.0, 0.0, "last incident nic"),
        ("last was nic", 0.0, 1.0, "last incident not nic"),
        ("incidents", 7.0, 2.0, "incidents 7 (usual 2)"),
    ],
)
def test_drivers_have_units(name: str, value: float, usual: float, words: str) -> None:
    assert value_words(name, value, usual) == words


def test_missing_values_are_drivers_in_plain_words() -> None:
    old = tuple(NodeRecord(name=f"old{n}", since=NOW - 400 * DAY) for n in range(12))
    quiet = tuple(NodeRecord(name=f"quiet{n}", since=NOW - 400 * DAY) for n in range(12))
    many = tuple(
        Incident(
            node=node.name, kind="nic", started=NOW - (13 * n + i) * DAY, duration=3600.0 * (i + 1)
        )
        for i, node in enumerate(old)
        for n in range(1, 25)
    )
    known = FleetHistory(nodes=old + quiet, incidents=many)
    risk = fit_risk(known, now=NOW, model="cox")
    drivers = risk_drivers(known, risk, now=NOW, horizon=DAY)
    assert "no incident yet lowers it" in drivers["quiet0"]
    assert len(drivers["quiet0"]) == len(set(drivers["quiet0"]))
    assert not any("nan" in word.lower() for words in drivers.values() for word in words)
    assert not any("missing" in note for note in look(known, risk)[1])
