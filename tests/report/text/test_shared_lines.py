from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from pytest_anubis.core.asking.next_step import SHIPPED, with_options
from pytest_anubis.core.asking.open_questions import asked_questions
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
from pytest_anubis.core.waiving import noise_options
from pytest_anubis.report.pages.inventory_block import inventory_block
from pytest_anubis.report.text.next_command import next_line
from pytest_anubis.report.text.shared_lines import after_decision, inventory_line, questions_text
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
def test_an_inventory_has_its_time(taken: object, said: str) -> None:
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
def test_after_decision_does_not_repeat_it(decision: Decision, headline: str, said: str) -> None:
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
PASSED = MetricVerdict(
    outcome=Outcome.PASS, reason=Reason.WITHIN, text="", metric="m", benchmark="suites/a.py::t"
)
SKIPPED = replace(
    PASSED,
    outcome=Outcome.NOT_TESTED,
    reason=Reason.NOT_RUN,
    text="not installed: fio (apt install fio)",
    metric="",
)
ON_ONE_MACHINE = replace(PASSED, reference=Reference.FLEET, population="9 runs of one machine")


def undecided(*blocking: Blocker, absent: Sequence[str] = ()) -> NodeVerdict:
    return NodeVerdict(
        node="n1", decision=Decision.UNDECIDED, headline="", blocking=blocking, absent=tuple(absent)
    )


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
def test_the_next_command_follows_from_the_blockers(
    blocking: tuple[Blocker, ...], said: str
) -> None:
    node = undecided(*blocking)
    assert next_line(node, [PASSED]) == said
    assert next_line(node, []) == ""  # the folder of the tests is unknown
    assert next_line(replace(node, decision=Decision.REJECTED), [PASSED]) == ""


def test_the_shipped_set_is_copied_before_learning() -> None:
    learn = next_line(undecided(NONE), [PASSED], typed=SHIPPED)
    assert learn == "next: anubis suites && anubis learn suites/"
    run = next_line(undecided(UNCLEAR), [PASSED], typed=SHIPPED)
    assert run == f"next: pytest --anubis {SHIPPED} (when the machine is quiet)"


def test_missing_tools_are_installed_before_learning() -> None:
    node = undecided(NONE)
    fio = SKIPPED
    ib = replace(fio, benchmark="suites/b.py::t", text="not installed: ib_write_bw (perftest)")
    other = replace(fio, benchmark="suites/c.py::t", text="left out: too hot")
    inapplicable = replace(fio, benchmark="suites/d.py::t", text="not applicable: one host")
    first = "next: install fio, ib_write_bw (-v says how), then anubis learn suites/"
    assert next_line(node, [fio, ib, fio]) == first
    assert next_line(node, [inapplicable, fio, ib]) == first
    reason = "next: pytest --anubis suites/ (once this is seen to: not installed: fio"
    assert next_line(node, [fio, other]).startswith(reason)
    assert next_line(node, [inapplicable]) == ""


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
def test_absent_benchmarks_join_the_typed_tests(
    typed: str, root: str, absent: Sequence[str], said: str
) -> None:
    blocking = (
        *(replace(LACKS, kind=Hindrance.UNANSWERED, benchmark=name) for name in absent),
        Blocker(kind=Hindrance.ABSENT, cause="4 of 9 did not run"),
    )
    node = undecided(*blocking, absent=(*absent, "free.py::y"))
    line = next_line(node, [PASSED], typed=typed, root=root, required=("cpu",))
    assert line == (said and f"next: pytest --anubis {said} --anubis-require=cpu")
    more = replace(node, blocking=(*blocking, replace(UNCLEAR, reason=Reason.WRONG_UNIT)))
    assert next_line(more, [PASSED], typed=typed, root=root).endswith(")") == bool(said)


def test_broken_tests_come_before_learning() -> None:
    node = undecided(NONE, BARE)
    hung = replace(
        PASSED,
        outcome=Outcome.INCONCLUSIVE,
        reason=Reason.NOT_REPORTED,
        metric="",
        benchmark="suites/a.py::t[x]",
    )
    alone = "next: pytest --anubis suites/a.py::t"
    assert next_line(node, [hung]) == f"{alone} (alone, after a look at where it ended)"
    kept = replace(hung, reason=Reason.ENVIRONMENT)
    assert next_line(node, [kept], profile="soak") == (
        f"{alone} --anubis-profile=soak (alone, after a look at what stood in its way)"
    )
    broken = Blocker(kind=Hindrance.UNCOLLECTED, cause="SyntaxError", benchmark="t.py")
    line = next_line(undecided(broken, NONE), [PASSED])
    assert line == "next: pytest --anubis t.py (once it can be collected)"


@pytest.mark.parametrize(
    ("disturbance", "said"),
    [
        ((LOOKS_SPENT,), "next: pytest --anubis suites/"),
        (("others used 40 % of it",), "next: pytest --anubis suites/ (when the machine is quiet)"),
    ],
)
def test_open_losses_come_before_learning(disturbance: tuple[str, ...], said: str) -> None:
    node = undecided(BARE, UNCLEAR)
    lost = replace(
        ON_ONE_MACHINE,
        outcome=Outcome.INCONCLUSIVE,
        reason=Reason.DISTURBED,
        disturbance=disturbance,
        similarity=0.61,
    )
    assert next_line(node, [ON_ONE_MACHINE, lost]) == said
    assert next_line(node, [ON_ONE_MACHINE]) == LEARN


def test_profile_and_fleet_in_the_next_command() -> None:
    learn = "next: anubis learn suites/ --profile burnin (when"
    assert next_line(undecided(BARE), [ON_ONE_MACHINE], profile="burnin").startswith(learn)
    of_fleet = replace(ON_ONE_MACHINE, population="40 nodes")
    assert next_line(undecided(BARE), [of_fleet]) == ""


def test_skip_reasons_come_before_learning() -> None:
    node = undecided(NONE)
    inapplicable = replace(SKIPPED, text="not applicable: no accelerator")
    broken = replace(SKIPPED, text="the driver answers nothing")
    assert next_line(node, [broken, SKIPPED, inapplicable]) == (
        "next: pytest --anubis suites/ (once this is seen to: the driver answers nothing; and 1 other reason)"
    )
    unlearned = replace(PASSED, outcome=Outcome.INCONCLUSIVE, reason=Reason.NO_BASELINE)
    assert next_line(node, [SKIPPED, unlearned]) == "next: anubis learn suites/"
    lacking = undecided(replace(LACKS, benchmark="suites/a.py::t"))
    reason = f"(once this is seen to: {SKIPPED.text})"
    assert next_line(lacking, [PASSED, SKIPPED]) == f"next: pytest --anubis suites/ {reason}"
    line = next_line(lacking, [PASSED, SKIPPED], profile="soak")
    assert line == f"next: pytest --anubis suites/ --anubis-profile=soak {reason}"
    assert next_line(lacking, [PASSED, inapplicable]) == ""


def test_open_questions_do_not_repeat_next_steps() -> None:
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
    shown = [
        MetricVerdict(
            outcome=Outcome.INCONCLUSIVE, reason=reason, text=text, metric="",
            benchmark=place.format(k), test=place.format(k),
        )
        for k, (reason, text) in why.items()
    ]  # fmt: skip
    text = questions_text(asked_questions(plans, shown))
    assert text.endswith(
        "1 broken off or kept from its work (hung: no end within 3 s): a?; 1 without a baseline: b?"
    )


def test_the_next_command_keeps_allowed_noise() -> None:
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
