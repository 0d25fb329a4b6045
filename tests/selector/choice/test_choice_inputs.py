"""What a choice rests on, and what it says when there is little to rest on."""

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
    ChoiceInputs,
    ChoiceRequest,
    Offer,
    choose,
    gather_inputs,
)
from pytest_anubis.selector.choice.choice_record import choice_record
from pytest_anubis.selector.risk.drivers import risk_drivers
from pytest_anubis.selector.risk.forecast import NoRiskError, RiskModel, fit_risk, look_ahead
from pytest_anubis.selector.risk.node_status import NodeRisk, value_words
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


def defects(*sets: str, **facts: Any) -> tuple[Defect, ...]:
    return tuple(
        Defect(number=i, node="n1", found=NOW - DAY, benchmarks=tuple(s), **facts)
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


@pytest.mark.parametrize("lacking", [("incidents",), ("defects",), ("incidents", "defects")])
@pytest.mark.parametrize("mode", ["risk", "cost"])
def test_what_is_lacking_leads_to_the_full_set(lacking: tuple[str, ...], mode: Any) -> None:
    known = () if "defects" in lacking else inputs().defects
    request = ChoiceRequest(mode=mode, explore=0.0)
    found = choose(inputs(lacking=lacking, defects=known), offers(5, 6, 7, 8), request)
    record = to_plain(choice_record(found, request))
    assert found.plan.chosen == NAMES
    assert record["lacking"] == list(lacking)
    assert (record["risk_before"] is None) == ("incidents" in lacking)


@pytest.mark.parametrize("lacking", [("incidents",), ("defects",), ("incidents", "defects")])
def test_a_budget_is_kept_whatever_is_lacking(lacking: tuple[str, ...]) -> None:
    known = () if "defects" in lacking else inputs().defects
    request = ChoiceRequest(mode="budget", budget=12.0, explore=0.0)
    found = choose(inputs(lacking=lacking, defects=known), offers(5, 6, 7, 8), request)
    assert 0 < found.plan.cost <= 12
    (line, *_) = choice_lines(to_plain(choice_record(found, request)))
    assert f"{len(found.plan.chosen)} of 4 benchmarks" in line
    assert ("risk is unknown" in line) == ("incidents" in lacking)


@pytest.mark.parametrize("mode", ["risk", "cost", "budget"])
def test_a_model_that_failed_its_backtests_chooses_with_a_warning(mode: Any) -> None:
    request = ChoiceRequest(mode=mode, p0=0.3, budget=5.0, explore=0.0)
    trusted = choose(inputs(), offers(5, 6, 7, 8), request)
    doubted = choose(inputs(warning="it predicted worse"), offers(5, 6, 7, 8), request)
    # Of a fleet of nodes that are alike every model fails so: the full set would be all that there is.
    assert doubted.plan == trusted.plan
    record = to_plain(choice_record(doubted, request))
    assert record["warnings"] == ["it predicted worse"]
    assert "warning: it predicted worse" in choice_lines(record)
    assert "warnings" not in to_plain(choice_record(trusted, request))


def test_a_history_gives_the_same_choice_whenever_it_is_asked() -> None:
    known = fleet(nodes=12, each=3)
    first, *others = (
        fit_risk(known, now=NOW + later, quick=True) for later in (0.0, 0.7, 7.3, DAY)
    )
    assert first.backtest.candidates
    for other in others:
        assert other.backtest == first.backtest
    # What happened since then counts.
    more = replace(
        known, runs={"n1": (RunSummary(run="r", node="n1", hardware_class="", started=NOW),)}
    )
    assert fit_risk(more, now=NOW + DAY, quick=True).backtest != first.backtest


def test_a_negative_skill_is_a_warning_where_the_choice_is_made() -> None:
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
    model = fit_risk(turned, now=NOW, quick=True)
    assert model.backtest.chosen is not None
    assert model.backtest.chosen.mean("skill") < 0
    found = gather_inputs(turned, ["n00"], now=NOW, horizon=DAY, model=model)
    assert found.warning == model.backtest.warning
    assert "predicted worse than one rate for all nodes" in found.warning
    named = fit_risk(turned, now=NOW, model="exponential")  # is tested as well, and warned of
    assert "worse" in gather_inputs(turned, ["n00"], now=NOW, horizon=DAY, model=named).warning


def test_defects_that_tell_nothing_of_these_benchmarks_are_named_and_shares_called_assumed() -> (
    None
):
    request = ChoiceRequest(p0=0.1, explore=0.0)
    others = inputs(defects=defects("x", "y", "y", "z"), false_alarms=5)
    none = inputs(defects=(), lacking=("defects",), false_alarms=5)
    for told, words in (
        (others, "assumed: 4 defects known, none exposed by one of these benchmarks"),
        (none, "assumed: no defect that counts is known"),
    ):
        record = to_plain(choice_record(choose(told, offers(5, 6, 7, 8), request), request))
        assert record["chosen"] == list(NAMES)
        assert all(one["reason"].startswith("assumed to expose ") for one in record["picked"])
        assert explain_lines(record)[0] == f"shares of defects below are {words}"
    assert "has no defect that counts (5 false alarms): the full" in choice_lines(record)[0]
    one = inputs(defects=defects("x", "y", "a"), false_alarms=5)
    record = to_plain(choice_record(choose(one, offers(5, 6, 7, 8), request), request))
    assert (record["lacking"], "false_alarms" in record) == ([], False)
    first, second = (one["reason"] for one in record["picked"][:2])
    assert first.startswith("exposes 22 % of defects (1 known), ")
    assert second.startswith("assumed to expose ")  # no defect tells of it: smoothing alone
    assert record["exposed_defects"] == 1


def test_what_takes_more_than_the_budget_says_so() -> None:
    request = ChoiceRequest(mode="budget", budget=4.0, explore=0.0)
    found = choose(inputs(), offers(5, 6, 7, 3), request)
    assert found.plan.chosen == ("d",)
    reasons = [one.reason for one in found.plan.pruned]
    assert reasons[0] == "takes 5 s, more than the 4 s that there are"
    assert len(reasons) == 3
    close = ChoiceRequest(mode="budget", budget=2.7, explore=0.0)
    told = {one.reason for one in choose(inputs(), offers(3, 3, 3, 3), close).plan.pruned}
    assert told == {"takes 3 s, more than the 2.7 s that there are"}


def test_an_unknown_risk_is_nowhere_a_figure() -> None:
    request = ChoiceRequest(mode="budget", budget=5.0, explore=0.0)
    found = choose(inputs(lacking=("incidents",)), offers(5, 6, 7, 8), request)
    record = to_plain(choice_record(found, request))
    assert record["chosen"] == ["a"]
    assert {record["residual_risk"], record["full_risk"], record["target"]} == {None}
    assert found.risk_after(NAMES) is None
    assert not [one["reason"] for one in record["pruned"] if "risk" in one["reason"]]


def test_costs_are_measured_else_declared_else_like_the_others() -> None:
    measured = {"a": 100.0}
    found = choose(inputs(durations=measured), offers(1, 2, None, 4), ChoiceRequest(mode="all"))
    assert found.plan.full_cost == 100 + 2 + 4 + 4  # 4 is the median of 100, 2 and 4
    assert found.unpriced == ("c",)
    alone = choose(inputs(), offers(None, None, None, None), ChoiceRequest(mode="all"))
    assert alone.plan.full_cost == 4 * UNKNOWN_COST


def test_tests_of_devices_that_wait_for_each_other_add_up() -> None:
    two = [Offer(benchmark="a", declared=10.0, turns=2), Offer(benchmark="b", declared=1.0)]
    assert choose(inputs(durations={"a": 8.0}), two, ChoiceRequest(mode="all")).plan.full_cost == 17


@given(st.sets(st.sampled_from(NAMES)), st.floats(0, 0.99), st.floats(0, 0.99))
@settings(deadline=None)
def test_the_risk_that_is_left_falls_with_what_passed(
    passed: set[str], one: float, two: float
) -> None:
    risks = (NodeRisk(node="n1", probability=one), NodeRisk(node="n2", probability=two))
    found = choose(inputs(risks=risks), offers(5, 6, 7, 8), ChoiceRequest(mode="all"))
    left = found.risk_after(sorted(passed))
    assert left is not None
    assert left <= joint_risk([one, two]) + 1e-12
    for more in NAMES:
        after = found.risk_after(sorted(passed | {more}))
        assert after is not None
        assert after <= left + 1e-12
    assert found.risk_after([]) == pytest.approx(joint_risk([one, two]))


@given(st.permutations(NAMES), st.integers(0, 5), st.sampled_from(["risk", "cost", "budget"]))
@settings(deadline=None)
def test_the_choice_does_not_depend_on_the_order(order: list[str], seed: int, mode: Any) -> None:
    request = ChoiceRequest(mode=mode, p0=0.1, budget=12.0, explore=0.5, seed=seed)
    plain = {offer.benchmark: offer for offer in offers(5, 6, 7, 8)}
    first = to_plain(choice_record(choose(inputs(), list(plain.values()), request), request))
    second = to_plain(
        choice_record(choose(inputs(), [plain[name] for name in order], request), request)
    )
    assert first == second
    assert json.loads(json.dumps(first, allow_nan=False)) == first


# Where the risks come from.


def test_a_bad_node_is_riskier_and_a_new_one_gets_what_is_usual() -> None:
    known = fleet(nodes=12, each=3)
    found = gather_inputs(known, ["n0", "n11", "new"], now=NOW, horizon=DAY)
    risk = {item.node: item.probability for item in found.risks}
    assert risk["n0"] < risk["n11"]
    assert 0 < risk["new"] < 1
    assert any("new is not in the history" in note for note in found.notes)
    assert found.kinds["n11"] == {"nic": 1.0}
    assert found.kinds["new"] == {}


@pytest.mark.parametrize(
    ("each", "nodes", "model"), [(1, 2, "exponential"), (2, 6, "weibull"), (5, 9, "weibull")]
)
def test_the_model_is_as_rich_as_the_history_allows(each: int, nodes: int, model: str) -> None:
    known = fleet(nodes=nodes, each=each)
    risk = fit_risk(known, now=NOW, quick=True)
    assert risk.text == f"{model} model of {risk.model.events} incidents on {nodes} nodes"
    rich = risk.model.events >= 100
    found = look_ahead(known, risk, now=NOW, horizon=DAY)
    again = look_ahead(fleet(nodes=nodes, each=each), risk, now=NOW, horizon=DAY)
    assert found == again
    assert rich == (each == 5)


def test_a_longer_horizon_is_never_safer() -> None:
    known = fleet()
    risk = fit_risk(known, now=NOW, quick=True)
    risks = [
        look_ahead(known, risk, now=NOW, horizon=days * DAY).risks for days in (0.1, 1, 10, 400)
    ]
    for short, long in itertools.pairwise(risks):
        assert all(a.probability <= b.probability < 1 for a, b in zip(short, long, strict=True))
    assert any(
        "beyond" in note for note in look_ahead(known, risk, now=NOW, horizon=400 * DAY).notes
    )


def test_nodes_that_are_gone_have_no_risk() -> None:
    known = fleet(nodes=3)
    gone = [NodeRecord(name="n0", since=NOW - 100 * DAY, state="removed"), *known.nodes[1:]]
    left = FleetHistory(nodes=tuple(gone), incidents=known.incidents, gone={"n0": NOW - DAY})
    found = look_ahead(left, fit_risk(left, now=NOW, quick=True), now=NOW, horizon=DAY)
    assert [risk.node for risk in found.risks] == ["n1", "n2"]


def test_a_model_survives_plain_data_exactly() -> None:
    known = fleet(nodes=9, runs={"n1": (RunSummary(run="r", node="n1", started=NOW - 50 * DAY),)})
    risk = fit_risk(known, now=NOW, quick=True)
    plain = json.loads(json.dumps(risk.to_plain(), allow_nan=False))
    again = RiskModel.from_plain(plain)
    one = look_ahead(known, risk, now=NOW, horizon=DAY)
    assert look_ahead(known, again, now=NOW, horizon=DAY) == one


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"schema": 2}, "schema '2', this version reads 1"),
        ({"kinds": "nic"}, "another type"),
        ({"kinds": [1]}, "another type"),
        ({"nodes": "many"}, "another type"),
        ({"model": None}, "another type"),
        ({"model": {"schema": 1, "model": "tea leaves"}}, "none of"),
        ({"kinds": ["nic", "gpu"]}, "columns|shape|covariates"),
    ],
)
def test_a_model_that_does_not_fit_is_refused(change: dict[str, Any], words: str) -> None:
    known = fleet(nodes=9)
    plain = fit_risk(known, now=NOW, quick=True).to_plain() | change
    with pytest.raises(SelectorError, match=words):
        look_ahead(known, RiskModel.from_plain(plain), now=NOW, horizon=DAY)


@pytest.mark.parametrize(
    ("incident", "words"),
    [
        (Incident(node="n1", kind="nic", started=NOW + DAY), "lies in the future"),
        (Incident(node="n1", kind="nic", started=NOW - DAY, duration=-1.0), "negative duration"),
        (Incident(node="stranger", kind="nic", started=NOW - DAY), "which the fleet does not have"),
    ],
)
def test_a_history_that_makes_no_sense_is_refused(incident: Incident, words: str) -> None:
    known = fleet()
    wrong = FleetHistory(nodes=known.nodes, incidents=(*known.incidents, incident))
    with pytest.raises(SelectorError, match=words):
        gather_inputs(wrong, ["n1"], now=NOW, horizon=DAY)


def test_a_kept_model_that_missed_much_says_so() -> None:
    known = fleet()
    kept = fit_risk(known, now=NOW, quick=True)
    assert not any("fit it again" in note for note in look(known, kept))
    more = replace(known.incidents[-1], started=NOW - 1)
    grown = replace(known, incidents=(*known.incidents, *[more] * len(known.incidents)))
    assert any("fit it again" in note for note in look(grown, kept))


def look(known: FleetHistory, kept: RiskModel) -> tuple[str, ...]:
    return look_ahead(known, kept, now=NOW, horizon=DAY).notes


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


def test_an_incident_that_a_node_is_first_heard_of_by_ends_no_interval() -> None:
    nodes = tuple(NodeRecord(name=f"n{i}", since=NOW - 100 * DAY) for i in range(9))
    first = tuple(Incident(node=node.name, kind="nic", started=node.since) for node in nodes)
    later = Incident(node="n1", kind="nic", started=NOW - 50 * DAY)
    found = fit_risk(FleetHistory(nodes=nodes, incidents=(*first, later)), now=NOW)
    assert found.model.events == 1
    assert found.text == "exponential model of 1 of 10 incidents on 9 nodes"
    assert RiskModel.from_plain(found.to_plain()).text == found.text
    (risk,) = gather_inputs(
        FleetHistory(nodes=nodes, incidents=(*first, later)), ["n2"], now=NOW, horizon=DAY
    ).risks
    assert risk.probability == pytest.approx(1 / 900, rel=0.02)  # one in 900 days of nodes


def test_what_a_nodes_risk_comes_from_is_told() -> None:
    known = fleet()
    told = risk_drivers(known, fit_risk(known, now=NOW, model="exponential"), now=NOW, horizon=DAY)
    assert any("29 of them in 90 days (usual 19 and 19) raises it" in why for why in told["n5"])
    assert all(why.endswith("lowers it") for why in told["n0"])
    assert all(len(words) <= 2 for words in told.values())


class Opposed:
    """A model that shares out between two counts what they say together, one of them with the wrong sign."""

    uses_facts = True

    def incident_probability(self, facts: Any, up: Any, hours: float) -> Any:
        return 0.01 * np.exp(0.2 * facts[:, 1] - 0.1 * facts[:, 2])


def test_counts_of_incidents_are_one_fact() -> None:
    known = fleet()
    risk = fit_risk(known, now=NOW, model="exponential")
    told = risk_drivers(
        known, replace(risk, model=cast(Any, Opposed())), now=NOW, horizon=DAY, nodes=["n5"]
    )
    assert [word.partition(" (")[0] for word in told["n5"]] == [
        "incidents 29, 29 of them in 90 days"
    ]
    assert told["n5"][0].endswith("raises it")


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


def test_a_forecast_beyond_what_was_seen_says_by_how_much_in_hours_and_days() -> None:
    known = fleet()
    risk = fit_risk(known, now=NOW, model="exponential")
    notes = look_ahead(known, risk, now=NOW, horizon=200 * DAY).notes
    (note,) = (note for note in notes if "reaches" in note)
    said = (
        r"reaches [\d.]+ days beyond the longest time without an incident .* \([\d.]+ days\): there"
    )
    assert re.search(said, note)


def test_what_there_is_none_of_is_told_in_plain_words_where_it_matters() -> None:
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
    told = risk_drivers(known, risk, now=NOW, horizon=DAY)
    words = [word for facts in told.values() for word in facts]
    assert "no incident yet lowers it" in told["quiet0"]
    assert len(told["quiet0"]) == len(set(told["quiet0"]))
    assert not any("nan" in word.lower() for word in words)
    assert not any("missing" in note for note in look(known, risk))
