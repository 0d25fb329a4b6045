from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from pytest_anubis.core.asking.open_questions import asked_questions
from pytest_anubis.core.asking.typed_tests import SHIPPED, with_options
from pytest_anubis.core.blocker import Blocker, Hindrance
from pytest_anubis.core.measurement import LOOKS_SPENT, PlannedTest
from pytest_anubis.core.verdict import (
    Decision,
    MetricVerdict,
    NodeVerdict,
    Outcome,
    Reason,
    Reference,
)
from pytest_anubis.core.waivers.widened_limits import noise_options
from pytest_anubis.report.pages.inventory_block import inventory_block
from pytest_anubis.report.text.headlines import (
    after_decision,
    inventory_line,
    next_line,
    questions_text,
)
from pytest_anubis.report.text.summary_text import summary_lines


@pytest.mark.parametrize(
    ("taken", "said"),
    [
        ("2026-01-31T12:00:00+00:00", "of n1 recorded 2026-01-31 12:00 UTC, out of n1.json and not"),
        ("", "at an unknown time, out of n1.json"),
        ("soon", "'soon', which is no date"),
        (7, "at an unknown time, out of n1.json"),
    ],
)  # fmt: skip
def test_when_an_inventory_was_recorded_is_said(taken: object, said: str) -> None:
    assert said in inventory_line({"node": "n1", "taken": taken}, "n1.json")


def test_pages_say_when_the_inventory_was_recorded() -> None:
    page = inventory_block({"node": "n1", "taken": "2026-01-31T12:00:00+00:00", "os": "x"})
    assert "recorded 2026-01-31 12:00 UTC" in page


@pytest.mark.parametrize(
    ("decision", "headline", "said"),
    [
        (Decision.REJECTED, "node n1 rejected: disk. slow", "node n1: disk. slow"),
        (Decision.ACCEPTED, "node n1 accepted at risk 1 %: fine", "node n1 at risk 1 %: fine"),
        (Decision.UNDECIDED, "node n1 is neither accepted nor rejected: why", "node n1: why"),
        (Decision.REJECTED, "node n12 rejected: of another", "node n12 rejected: of another"),
    ],
)
def test_what_stands_behind_a_decision_does_not_say_it_again(
    decision: Decision, headline: str, said: str
) -> None:
    verdict = NodeVerdict(decision=decision, headline=headline, node="n1")
    assert after_decision(verdict) == said
    assert summary_lines(verdict, [], verbosity=-1)[0][0] == f"{decision.value}: {said}"


BARE = Blocker(kind=Hindrance.UNCOVERED, word="NOT_TESTED", subject="disk", cause="too noisy")
UNCLEAR = Blocker(
    kind=Hindrance.OPEN, word="INCONCLUSIVE", subject="b m", cause="slow", reason=Reason.DISTURBED
)
NONE = Blocker(kind=Hindrance.NO_BASELINE, subject="no baseline", cause="nothing can be accepted")
LACKS = Blocker(
    kind=Hindrance.OPEN,
    word="NOT_TESTED",
    subject="t",
    cause="fio not found",
    reason=Reason.NOT_RUN,
)

LEARN = "next: anubis learn suites/ --for 9m (when the machine is quieter than it was)"


@pytest.mark.parametrize(
    ("blocking", "said"),
    [
        ((BARE, UNCLEAR, BARE), LEARN),
        ((BARE, UNCLEAR), LEARN),
        ((BARE, UNCLEAR, UNCLEAR), LEARN),  # whatever is measured again, nothing is accepted
        ((UNCLEAR,), "next: pytest --anubis suites/ (when the machine is quiet)"),
        ((NONE, LACKS), "next: anubis learn suites/"),
        ((LACKS,), ""),
    ],
)  # fmt: skip
def test_what_to_type_next_is_known_from_what_measuring_again_cannot_help(
    blocking: tuple[Blocker, ...], said: str
) -> None:
    node = NodeVerdict(node="n1", decision=Decision.UNDECIDED, headline="", blocking=blocking)
    one = MetricVerdict(
        outcome=Outcome.PASS,
        reason=Reason.WITHIN,
        text="",
        metric="m",
        benchmark="suites/a/test_b.py::test_c",
    )
    assert next_line(node, [one]) == said
    assert next_line(node, []) == ""  # nobody knows where the tests lie
    other = NodeVerdict(node="n1", decision=Decision.REJECTED, headline="", blocking=blocking)
    assert next_line(other, [one]) == ""


def test_of_the_set_in_the_package_a_copy_is_learned_and_the_set_is_run() -> None:
    one = MetricVerdict(
        outcome=Outcome.PASS, reason=Reason.WITHIN, text="", metric="m", benchmark="suites/a.py::b"
    )

    def said(*blocking: Blocker) -> str:
        node = NodeVerdict(node="n1", decision=Decision.UNDECIDED, headline="", blocking=blocking)
        return next_line(node, [one], typed=SHIPPED)

    assert said(NONE) == "next: anubis suites && anubis learn suites/"
    assert said(UNCLEAR) == f"next: pytest --anubis {SHIPPED} (when the machine is quiet)"


def test_where_every_tool_is_missing_it_is_installed_before_anything_is_learned() -> None:
    node = NodeVerdict(node="n1", decision=Decision.UNDECIDED, headline="", blocking=(NONE,))
    fio, ib, other, apart = (
        MetricVerdict(
            outcome=Outcome.NOT_TESTED, reason=Reason.NOT_RUN, text=text, metric="",
            benchmark=f"suites/tools/test_{number}.py::test_a",
        )
        for number, text in enumerate((
            "not installed: fio (apt install fio)", "not installed: ib_write_bw (perftest)",
            "left out: too hot", "not applicable: one host",
        ))
    )  # fmt: skip
    first = "next: install fio, ib_write_bw (-v says how), then anubis learn suites/"
    assert next_line(node, [fio, ib, fio]) == first
    assert next_line(node, [apart, fio, ib]) == first
    seen_to = "next: pytest --anubis suites/ (once this is seen to: not installed: fio"
    assert next_line(node, [fio, other]).startswith(seen_to)
    assert next_line(node, [apart]) == ""


@pytest.mark.parametrize(
    ("typed", "root", "absent", "said"),
    [
        ("", "", ("suites/b.py::x",), "suites/"),
        ("suites/a.py", "", ("suites/b.py::x",), "suites/a.py suites/b.py"),
        ("./suites", "", ("suites/b.py::x",), "./suites"),
        ("suites/a.py::t", "", ("suites/a.py::u",), "suites/a.py"),
        ("a.py", "..", ("suites/b.py::x",), "a.py ../suites/b.py"),
        (".", "mine", ("suites/b.py::x",), "."),
        ("s/a.py 'my tests/c.py'", "", [f"s/{n}.py::x" for n in range(4)], "'my tests/c.py' s/"),
        ("a.py", "", [f"{n}/b.py::x" for n in range(4)], ""),
    ],
)  # fmt: skip
def test_what_did_not_run_is_run_with_what_was_typed(
    typed: str, root: str, absent: Sequence[str], said: str
) -> None:
    lines = (
        *(replace(LACKS, kind=Hindrance.UNANSWERED, benchmark=name) for name in absent),
        Blocker(kind=Hindrance.ABSENT, cause="4 of 9 did not run"),
    )
    node = NodeVerdict(
        node="n1", decision=Decision.UNDECIDED, headline="", absent=(*absent, "free.py::y"),
        blocking=lines,
    )  # fmt: skip
    one = MetricVerdict(
        outcome=Outcome.PASS, reason=Reason.WITHIN, text="", metric="m", benchmark="suites/a.py::t"
    )
    line = next_line(node, [one], typed=typed, root=root, required=("cpu",))
    assert line == (said and f"next: pytest --anubis {said} --anubis-require=cpu")
    more = replace(node, blocking=(*lines, replace(UNCLEAR, reason=Reason.WRONG_UNIT)))
    assert next_line(more, [one], typed=typed, root=root).endswith(")") == bool(said)


def test_what_broke_comes_before_what_is_to_be_learned() -> None:
    one = MetricVerdict(
        outcome=Outcome.INCONCLUSIVE, reason=Reason.NOT_REPORTED, text="hung: no end within 6 s",
        metric="", benchmark="suites/a/test_b.py::test_c[x]",
    )  # fmt: skip
    node = NodeVerdict(node="n1", decision=Decision.UNDECIDED, headline="", blocking=(NONE, BARE))
    assert next_line(node, [one]) == (
        "next: pytest --anubis suites/a/test_b.py::test_c (alone, after a look at where it ended)"
    )
    kept = replace(one, reason=Reason.ENVIRONMENT)
    assert next_line(node, [kept], profile="soak") == (
        "next: pytest --anubis suites/a/test_b.py::test_c --anubis-profile=soak "
        "(alone, after a look at what stood in its way)"
    )
    broken = Blocker(kind=Hindrance.UNCOLLECTED, cause="SyntaxError", benchmark="t.py")
    lost = replace(node, blocking=(broken, NONE))
    good = replace(one, outcome=Outcome.PASS, reason=Reason.WITHIN, metric="m")
    assert next_line(lost, [good]) == "next: pytest --anubis t.py (once it can be collected)"


@pytest.mark.parametrize(
    ("disturbance", "said"),
    [
        ((LOOKS_SPENT,), "next: pytest --anubis mine/"),
        (
            ("others used 40 % of it",),
            "next: pytest --anubis mine/ (when the machine is quiet)",
        ),
    ],
)
def test_nothing_is_learned_while_a_loss_waits_for_its_confirmation(
    disturbance: tuple[str, ...], said: str
) -> None:
    fine = MetricVerdict(
        outcome=Outcome.PASS, reason=Reason.WITHIN, text="", metric="m", benchmark="mine/test_a.py::a",
        reference=Reference.FLEET, population="9 runs of one machine",
    )  # fmt: skip
    lost = replace(
        fine, outcome=Outcome.INCONCLUSIVE, reason=Reason.DISTURBED, benchmark="mine/test_slow.py::b",
        disturbance=disturbance, similarity=0.61,
    )  # fmt: skip
    node = NodeVerdict(
        node="n1", decision=Decision.UNDECIDED, headline="", blocking=(BARE, UNCLEAR)
    )
    assert next_line(node, [fine, lost]) == said
    assert next_line(node, [fine]).startswith("next: anubis learn mine/")


def test_a_profile_is_typed_again_and_a_fleet_is_not_learned_from_one_machine() -> None:
    one = MetricVerdict(
        outcome=Outcome.PASS, reason=Reason.WITHIN, text="", metric="m", benchmark="t.py::test_c",
        reference=Reference.FLEET, population="9 runs of one machine",
    )  # fmt: skip
    node = NodeVerdict(node="n1", decision=Decision.UNDECIDED, headline="", blocking=(BARE,))
    assert next_line(node, [one], profile="burnin").startswith(
        "next: anubis learn t.py --profile burnin (when"
    )
    assert next_line(node, [replace(one, population="40 nodes")]) == ""


def test_a_run_in_which_tools_were_missing_says_to_see_to_them_and_not_to_learn() -> None:
    text = "not installed: fio (apt install fio)"
    one = MetricVerdict(
        outcome=Outcome.NOT_TESTED,
        reason=Reason.NOT_RUN,
        text=text,
        metric="",
        benchmark="suites/a.py::test_a",
    )
    apart = replace(one, benchmark="suites/b.py::test_b", text="not applicable: no accelerator")
    node = NodeVerdict(node="n1", decision=Decision.UNDECIDED, headline="", blocking=(NONE,))
    said = f"next: pytest --anubis suites/ (once this is seen to: {text})"
    broken = replace(one, text="the driver answers nothing")
    assert next_line(node, [broken, one, apart]) == (
        "next: pytest --anubis suites/ (once this is seen to: the driver answers nothing; and 1 other reason)"
    )
    some = replace(one, outcome=Outcome.INCONCLUSIVE, reason=Reason.NO_BASELINE, metric="m")
    assert (
        next_line(node, [one, some]) == "next: anubis learn suites/"
    )  # there is something to learn
    lost = replace(node, blocking=(replace(LACKS, benchmark="suites/a.py::test_a"),))
    passed = replace(some, outcome=Outcome.PASS, reason=Reason.WITHIN)
    assert next_line(lost, [passed, one]) == said
    assert next_line(lost, [passed, one], profile="soak") == said.replace(
        "suites/", "suites/ --anubis-profile=soak"
    )
    assert next_line(lost, [passed, apart]) == ""


def test_open_questions_do_not_repeat_next_steps_or_the_class_without_a_baseline() -> None:
    place = "t.py::test_{}"
    why = {
        "a": (
            Reason.NOT_REPORTED,
            "hung: no end within 3 s; next step: look where it hung (the stack)",
        ),
        "b": (Reason.NO_BASELINE, "no baseline for hardware class x in y: learn one"),
    }
    plans = [
        PlannedTest(test=place.format(k), benchmark=place.format(k), question=f"{k}?") for k in why
    ]
    told = [
        MetricVerdict(
            outcome=Outcome.INCONCLUSIVE, reason=reason, text=text, metric="",
            benchmark=place.format(k), test=place.format(k),
        )
        for k, (reason, text) in why.items()
    ]  # fmt: skip
    text = questions_text(asked_questions(plans, told))
    assert text.endswith(
        "1 broken off or kept from its work (hung: no end within 3 s): a?; 1 without a baseline: b?"
    )


def test_the_next_step_allows_the_noise_that_the_run_allowed() -> None:
    settings = {"quiet_limits": {"steal": 0.5}, "allowed_processes": ["bash", "dcgm-exporter"]}
    options = noise_options([settings, {}])
    assert options == (
        "--anubis-quiet-limit=steal=50%",
        "--anubis-allow-process=bash,dcgm-exporter",
    )
    again = "next: pytest --anubis suites/ (when the machine is quiet)"
    assert with_options(again, options) == (
        "next: pytest --anubis suites/ --anubis-quiet-limit=steal=50% "
        "--anubis-allow-process=bash,dcgm-exporter (when the machine is quiet)"
    )
    assert with_options("next: anubis learn . --for 9m", options) == (
        "next: anubis learn . --for 9m '--pytest-args=--anubis-quiet-limit=steal=50% "
        "--anubis-allow-process=bash,dcgm-exporter'"
    )
    assert with_options(again, noise_options([{}])) == again
    assert not with_options("", options)
