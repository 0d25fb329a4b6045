"""Goals, questions and metrics with what the latest run says, and an earlier one where it says nothing."""

from __future__ import annotations

import html
import json
from dataclasses import replace

import pytest

from pytest_anubis.core.asking.open_questions import asked_questions
from pytest_anubis.core.measurement import LOOKS_SPENT, Measurement, PlannedTest, TestResult
from pytest_anubis.core.metric import Metric
from pytest_anubis.core.run import RunRecord
from pytest_anubis.core.verdict import MetricVerdict, Outcome, Reason, Reference
from pytest_anubis.report.export.run_json import run_json
from pytest_anubis.report.pages.dossier import run_page
from pytest_anubis.report.text.goal_tree import (
    NO_GOAL,
    BenchmarkGoal,
    goal_answers,
    goals_markdown,
    goals_plain,
    goals_tree,
)
from pytest_anubis.report.text.shared_lines import COMPARED_ONLY, questions_lines, questions_text
from pytest_anubis.report.text.summary_text import coverage_text
from pytest_anubis.validator.deciding.node_decision import judge_node

GOAL = BenchmarkGoal(
    benchmark="t.py::test_gemm",
    component="compute",
    goal="full speed",
    question="is it fast?",
    action="clean it",
    metrics=("rate",),
)
TEST = "t.py::test_gemm[float32-cuda:0]"
PLAN = PlannedTest(
    test=TEST, benchmark="t.py::test_gemm[float32]", device="cuda:0", question="is it fast?"
)
MEASURED = Measurement(
    test=TEST,
    benchmark=PLAN.benchmark,
    component="compute",
    metric=Metric(name="rate", unit="GFLOP/s", better="higher"),
    device="cuda:0",
    values=(1.0,),
)
VERDICT = MetricVerdict(
    outcome=Outcome.PASS,
    reason=Reason.WITHIN,
    text="",
    benchmark=MEASURED.benchmark,
    metric="rate",
    unit="GFLOP/s",
    device="cuda:0",
    value=6.1,
)
GOOD = RunRecord(
    run="good",
    node="n1",
    started="2026-01-31T12:00:00+00:00",
    planned=(PLAN,),
    measurements=(MEASURED,),
    verdicts=(VERDICT,),
)
SKIPPED = RunRecord(
    run="skipped",
    node="n1",
    started="2026-02-01T12:00:00+00:00",
    planned=(PLAN,),
    results=(
        TestResult(test=TEST, benchmark=PLAN.benchmark, outcome="skipped", text="no torch here"),
    ),
)


def tree(*runs: RunRecord, goal: BenchmarkGoal = GOAL) -> str:
    return "\n".join(goals_tree(goal_answers([goal], runs)))


def test_metrics_are_under_their_question_and_goal() -> None:
    assert goals_tree(goal_answers([GOAL], [GOOD])) == [
        "run good of n1, 2026-01-31 12:00 UTC: 1 of 1 questions answered",
        "goal: full speed",
        "  question: is it fast?",
        "    t.py::test_gemm [compute]",
        "    metric: rate [float32] in GFLOP/s, higher is better, on cuda:0 -> PASS (6.1 GFLOP/s)",
        "    when bad: clean it",
    ]


def test_a_skipped_metric_shows_its_older_verdict() -> None:
    text = tree(SKIPPED, GOOD)
    assert "run skipped of n1, 2026-02-01 12:00 UTC: 0 of 1 questions answered" in text
    assert (
        "-> NOT_TESTED: skipped (no torch here); before: PASS (6.1 GFLOP/s) on 2026-01-31 in run good"
    ) in text
    other = replace(GOOD, node="n2")
    assert "before:" not in tree(SKIPPED, other)  # another node's answers nothing about this one


def test_a_pruned_benchmark_is_not_tested() -> None:
    elsewhere = replace(PLAN, test="t.py::test_disk", benchmark="t.py::test_disk")
    latest = replace(SKIPPED, planned=(elsewhere,), results=())
    disk = replace(GOAL, benchmark="t.py::test_disk")
    text = "\n".join(goals_tree(goal_answers([GOAL, disk], [latest, GOOD])))
    assert "-> NOT_TESTED: no part of run skipped; before: PASS (6.1 GFLOP/s) on 2026-01-31" in text
    pruned = replace(
        VERDICT,
        outcome=Outcome.NOT_TESTED,
        reason=Reason.PRUNED,
        text="left out by the Selector: found nothing",
        metric="",
        device="",
    )
    latest = replace(latest, verdicts=(pruned,))
    text = "\n".join(goals_tree(goal_answers([GOAL, disk], [latest, GOOD])))
    assert "-> NOT_TESTED: left out by the Selector: found nothing; before: PASS (6.1 GFL" in text


def test_unrecorded_declared_metrics_are_listed() -> None:
    goal = replace(GOAL, metrics=("rate", "heat"))
    passed = replace(
        GOOD, results=(TestResult(test=TEST, benchmark=PLAN.benchmark, outcome="passed"),)
    )
    text = tree(passed, goal=goal)
    assert "metric: heat [float32], on cuda:0 -> NOT_TESTED: declared, but not recorded" in text
    assert "0 of 1 questions" in text
    assert "metric: heat -> NOT_TESTED: not measured yet" in tree(goal=goal)


def test_undeclared_recorded_metrics_are_listed() -> None:
    heat = replace(MEASURED, metric=replace(MEASURED.metric, name="heat"))
    both = replace(
        GOOD,
        measurements=(MEASURED, heat),
        verdicts=(VERDICT, replace(VERDICT, metric="heat", value=7.0)),
    )
    line = "metric: heat [float32] in GFLOP/s, higher is better, on cuda:0 -> "
    assert f"{line}PASS (7 GFLOP/s); recorded without being declared" in tree(both)
    text = tree(SKIPPED, both)  # declared and undeclared metrics
    assert f"{line}NOT_TESTED: not recorded in this run; before: PASS (7 GFLOP/s)" in text
    assert text.count("without being declared") == 1
    assert "without" not in tree(both, goal=replace(GOAL, metrics=()))  # nothing is declared at all


def test_the_last_verdict_counts() -> None:
    assert "-> NOT_JUDGED: not judged in this run" in tree(replace(GOOD, verdicts=()))
    elsewhere = replace(VERDICT, device="cuda:1")
    assert "-> NOT_JUDGED" in tree(replace(GOOD, verdicts=(elsewhere,)))
    later = replace(VERDICT, outcome=Outcome.FAIL, value=7.0)
    assert "-> FAIL (7 GFLOP/s)" in tree(replace(GOOD, verdicts=(VERDICT, later)))


def test_a_pass_without_a_baseline_answers_nothing() -> None:
    bare = replace(
        VERDICT, outcome=Outcome.INCONCLUSIVE, reason=Reason.NO_BASELINE, text="no baseline here"
    )
    for reference, of in ((Reference.SELF, "7 earlier runs"), (Reference.PEERS, "3 devices")):
        near = replace(VERDICT, reference=reference, population=of)
        run = replace(GOOD, verdicts=(bare, near))
        assert f"-> NOT_JUDGED (6.1 GFLOP/s): {COMPARED_ONLY} ({of})" in tree(run)
        assert "0 of 1 questions answered" in tree(run)
        assert count([PLAN], list(run.verdicts)).startswith("0 of 1 questions answered")
        decided = judge_node([near], node="n1")
        assert decided.counts == (("NOT_JUDGED", 1),)
        assert coverage_text(decided).startswith(f"judged: nothing; 1 NOT_JUDGED: {COMPARED_ONLY};")
        plain = goals_plain(goal_answers([GOAL], [run]))["benchmarks"][0]
        assert (plain["answered"], plain["metrics"][0]["outcome"]) == (False, "NOT_JUDGED")


def test_a_change_without_a_baseline_stays_open() -> None:
    changed = replace(
        VERDICT,
        outcome=Outcome.MARGINAL,
        reason=Reason.CHANGE_POINT,
        reference=Reference.SELF,
        text="rate falls by 30 %",
        population="the earlier values of this run",
    )
    bare = replace(VERDICT, outcome=Outcome.INCONCLUSIVE, reason=Reason.NO_BASELINE)
    run = replace(GOOD, verdicts=(bare, changed))
    assert "-> MARGINAL (6.1 GFLOP/s): rate falls by 30 %; " in tree(run)
    assert "0 of 1 questions answered" in tree(run)
    assert judge_node([changed], node="n1").counts == (("MARGINAL", 1),)
    earlier = replace(GOOD, run="earlier", started="2026-01-01T12:00:00+00:00")
    assert "before: PASS" in tree(run, earlier)  # whose baseline there was then


def test_benchmarks_are_grouped_by_goal() -> None:
    other = replace(GOAL, benchmark="t.py::test_disk", goal="no loss")
    last = replace(GOAL, benchmark="t.py::test_dispatch")
    bare = BenchmarkGoal(benchmark="t.py::test_bare")
    lines = goals_tree(goal_answers([GOAL, other, last, bare], []))
    assert [line.strip() for line in lines if "goal:" in line or "::" in line] == [
        "goal: full speed",
        "t.py::test_gemm [compute]",
        "t.py::test_dispatch [compute]",
        "goal: no loss",
        "t.py::test_disk [compute]",
        f"goal: {NO_GOAL}",
        "t.py::test_bare [no component]",
    ]


def test_markdown_and_json_agree() -> None:
    odd = replace(VERDICT, value=float("inf"))
    found = goal_answers([replace(GOAL, question="a | b <c>?")], [replace(GOOD, verdicts=(odd,))])
    text = "\n".join(goals_markdown(found))
    assert "### a \\| b &lt;c>?" in text
    assert "| rate [float32] in GFLOP/s, higher is better, on cuda:0 | PASS (" in text
    plain = json.loads(json.dumps(goals_plain(found), allow_nan=False))
    assert (plain["answered"], plain["questions"]) == (1, 1)
    assert plain["benchmarks"][0]["metrics"][0]["outcome"] == "PASS"


def count(planned: list[PlannedTest], verdicts: list[MetricVerdict]) -> str:
    """Return the line about the questions of a run."""
    return questions_text(asked_questions(planned, verdicts))


UNKNOWN = replace(VERDICT, outcome=Outcome.NOT_TESTED, reason=Reason.NO_CRITERION)
AS_BEFORE = replace(VERDICT, reference=Reference.SELF)
WORSE = replace(AS_BEFORE, outcome=Outcome.FAIL, reason=Reason.BEYOND)
UNSET = replace(VERDICT, outcome=Outcome.FAIL, reason=Reason.UNSET)
NOT_RUN = replace(VERDICT, metric="", outcome=Outcome.NOT_TESTED, reason=Reason.NOT_RUN)
SAFE = replace(PLAN, benchmark="t.py::test_disk", question="is it safe?")


@pytest.mark.parametrize(
    ("planned", "verdicts", "begin"),
    [
        (
            [PLAN, SAFE],
            [VERDICT],
            "1 of 2 questions answered; 1 not: 1 lacking a value to judge: is it safe?",
        ),
        ([PLAN], [VERDICT, NOT_RUN], "0 of 1"),
        ([PLAN], [UNKNOWN, AS_BEFORE], "0 of 1"),
        ([PLAN], [UNKNOWN, WORSE], "1 of 1"),
        ([PLAN], [UNSET], "0 of 1"),
        ([PLAN], [VERDICT, UNSET], "0 of 1 questions answered; 1 not: 1 lacking"),
    ],
)
def test_open_questions_are_counted(
    planned: list[PlannedTest], verdicts: list[MetricVerdict], begin: str
) -> None:
    assert count(planned, verdicts).startswith(begin)


def test_a_run_without_questions_has_no_count() -> None:
    assert count([replace(PLAN, question="")], [VERDICT]) == ""


def test_many_open_questions_are_cut() -> None:
    many = asked_questions([replace(SAFE, question=f"is it {n}?") for n in range(5)], [])
    assert questions_text(many).endswith("is it 0?; is it 1?; and 3 more")
    assert questions_lines(many, 5)[-1].endswith("is it 4?")


def test_exact_values_do_not_answer_for_rates() -> None:
    right = replace(VERDICT, metric="wrong", better="equal")
    without = replace(
        VERDICT,
        better="higher",
        outcome=Outcome.NOT_TESTED,
        reason=Reason.NO_CRITERION,
        text="too noisy",
    )
    as_before = replace(AS_BEFORE, better="higher")
    assert count([PLAN], [right]).startswith("1 of 1")
    for near in ([], [as_before], [replace(as_before, reference=Reference.PEERS)]):
        shown = [right, without, *near]
        assert count([PLAN], shown) == (
            "0 of 1 questions answered; 1 not: 1 without a criterion (too noisy): is it fast?"
        )
        found = goal_answers([replace(GOAL, metrics=())], [replace(GOOD, verdicts=tuple(shown))])
        plain = goals_plain(found)
        assert (plain["answered"], plain["open"]) == (0, {"no_criterion": 1})
        assert not plain["benchmarks"][0]["answered"]
    other = replace(VERDICT, metric="other", better="lower")
    assert count([PLAN], [right, without, other]).startswith("1 of 1")


def test_open_questions_add_up_everywhere() -> None:
    shown, plans = [], []
    for number, (outcome, reason) in enumerate(
        [
            (Outcome.PASS, Reason.WITHIN),
            (Outcome.FAIL, Reason.BEYOND),
            (Outcome.INCONCLUSIVE, Reason.DISTURBED),
            (Outcome.INCONCLUSIVE, Reason.TOO_FEW),
            (Outcome.NOT_TESTED, Reason.NOT_RUN),
            (Outcome.NOT_TESTED, Reason.NO_CRITERION),
            (Outcome.NOT_TESTED, Reason.NO_CRITERION),
            (Outcome.NOT_TESTED, Reason.PRUNED),
        ]
    ):
        name = f"t.py::test_{number}"
        plans.append(replace(PLAN, test=name, benchmark=name, question=f"is it {number}?"))
        shown.append(replace(VERDICT, benchmark=name, outcome=outcome, reason=reason))
    head, *classes = questions_lines(asked_questions(plans, shown))
    assert head == "2 of 8 questions answered; 6 not:"
    assert sum(int(line.split()[0]) for line in classes) == 6
    run = replace(GOOD, planned=tuple(plans), verdicts=tuple(shown), measurements=())
    counts = asked_questions(plans, shown).plain()
    assert json.loads(run_json(run))["questions"] == counts
    goals = [replace(GOAL, benchmark=p.benchmark, question=p.question, metrics=()) for p in plans]
    elsewhere = replace(GOAL, benchmark="t.py::test_else", question="is it elsewhere?")
    plain = goals_plain(goal_answers([*goals, elsewhere], [run]))
    assert {"asked": plain["questions"]} | {k: plain[k] for k in counts if k != "asked"} == (
        counts | {"no_part": 1}
    )
    assert classes[0] in "\n".join(goals_tree(goal_answers(goals, [run])))
    assert questions_text(asked_questions(plans, shown)) in html.unescape(run_page(run))


NO_CARD = "not applicable: no accelerator"


def test_inapplicable_questions_are_not_asked() -> None:
    cards = [replace(PLAN, benchmark=f"t.py::test_{n}", question=f"are they {n}?") for n in "ab"]
    here = replace(PLAN, benchmark="t.py::test_here", question="is it safe?")
    skipped = replace(
        VERDICT, metric="", outcome=Outcome.NOT_TESTED, reason=Reason.NOT_RUN, text=NO_CARD
    )
    apart = [replace(skipped, benchmark=plan.benchmark) for plan in cards]
    pair = replace(apart[1], text="not applicable: fewer than two accelerators")
    shown = [VERDICT, replace(skipped, benchmark=here.benchmark, text="fio not found")]
    assert count([PLAN, here, *cards], [*shown, *apart]) == (
        "1 of 2 questions answered; 2 do not apply here (no accelerator); 1 not: "
        "1 not run, or only in part (fio not found): is it safe?"
    )
    assert count(cards, [apart[0], pair]) == (
        "0 of 0 questions answered; 2 do not apply here (no accelerator; and 1 other reason)"
    )
    # Asked on two devices of which one has no answer to give, it is answered by the other.
    both = replace(PLAN, benchmark=cards[0].benchmark)
    assert count([PLAN, both], [VERDICT, apart[0]]) == "1 of 1 questions answered"


def test_goals_count_questions_apart_that_do_not_apply() -> None:
    other = replace(GOAL, benchmark="t.py::test_card", question="is the card fast?", metrics=())
    plan = replace(PLAN, benchmark=other.benchmark, test=other.benchmark)
    skipped = replace(
        VERDICT, benchmark=other.benchmark, metric="", outcome=Outcome.NOT_TESTED,
        reason=Reason.NOT_RUN, text=NO_CARD,
    )  # fmt: skip
    run = replace(GOOD, planned=(PLAN, plan), verdicts=(VERDICT, skipped))
    found = goal_answers([GOAL, other], [run])
    assert goals_tree(found)[0].endswith(
        "1 of 1 questions answered; 1 does not apply here (no accelerator)"
    )
    assert (goals_plain(found)["questions"], goals_plain(found)["not_applicable"]) == (1, 1)


def test_looks_that_are_used_up_are_no_disturbance() -> None:
    spent = replace(
        VERDICT,
        outcome=Outcome.INCONCLUSIVE,
        reason=Reason.DISTURBED,
        reference=Reference.FLEET,
        disturbance=(LOOKS_SPENT,),
    )
    noisy = replace(spent, disturbance=("others used 40 % of the machine",))
    ones = [next(iter(asked_questions([PLAN], [one]).unanswered)) for one in (spent, noisy)]
    assert [one.value for one in ones] == ["looks used up", "disturbed"]
