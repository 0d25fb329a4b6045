"""The summary at the end of a run."""

from __future__ import annotations

from dataclasses import replace

from pytest_anubis.core.asking.open_questions import AskedQuestion, AskedQuestions, QuestionState
from pytest_anubis.core.blocker import Blocker, Hindrance
from pytest_anubis.core.measurement import TestResult
from pytest_anubis.core.onset import Onset, SensorMove
from pytest_anubis.core.verdict import Decision, MetricVerdict, NodeVerdict, Outcome, Reason
from pytest_anubis.report.text.summary_text import (
    coverage_text,
    grouped,
    stated_lines,
    summary_lines,
    unsearched_names,
    untested_text,
    without_folders,
)
from pytest_anubis.report.text.text_table import width_of

of_text = Blocker.of_text
NODE = NodeVerdict(
    node="node7",
    decision=Decision.REJECTED,
    headline="node node7 rejected: disk. Next step: replace the disk",
    components=("disk",),
    blocking=(
        of_text("INCONCLUSIVE t::a x: no baseline"),
        of_text("INCONCLUSIVE t::b y: no baseline"),
    ),
    listed=("NOT_TESTED t::c: fio not found",),
    counts=(("PASS", 3), ("FAIL", 1)),
    baseline="sha256:0123456789ab",
)


def verdict(number: int, outcome: Outcome, **fields: object) -> MetricVerdict:
    base = MetricVerdict(
        outcome=outcome,
        reason=Reason.WITHIN,
        text="",
        benchmark=f"suites/a_long_folder_name/test_something.py::test_benchmark_{number}[float32]",
        metric=f"rate{number}",
        unit="GB/s",
        better="higher",
        component="disk",
        device="cuda:0",
        value=1.0,
        expected=1.0,
        similarity=0.9,
        threshold=0.95,
    )
    return replace(base, **fields)  # type: ignore[arg-type]  # fields of the verdict


def test_what_tests_state_is_listed_with_v() -> None:
    """One line a test that stated something, such as what limits an input pipeline."""
    results = [
        TestResult(test="suites/s.py::t", benchmark="", properties=("binding: reading", "x: 3 %")),
        TestResult(test="suites/s.py::silent", benchmark=""),
    ]
    line = "s.py::t: binding: reading; x: 3 %"
    for level in (0, 1):
        said = [text for text, _ in summary_lines(NODE, [], results=results, verbosity=level)]
        assert any(line in text for text in said) == (level == 1)
    assert stated_lines(results) == [line]


VERDICTS = [
    verdict(1, Outcome.PASS),
    verdict(2, Outcome.MARGINAL, action="look at the cable"),
    verdict(3, Outcome.FAIL, action="replace the disk"),
    verdict(4, Outcome.INCONCLUSIVE),
    verdict(5, Outcome.INCONCLUSIVE, similarity=None),
]


def texts(verbosity: int = 0, width: int = 100, **fields: object) -> list[str]:
    node = replace(NODE, **fields)  # type: ignore[arg-type]  # fields of the verdict
    return [text for text, _ in summary_lines(node, VERDICTS, verbosity=verbosity, width=width)]


def test_the_decision_comes_first_in_its_colour() -> None:
    for decision, colour in (("ACCEPTED", "green"), ("REJECTED", "red"), ("UNDECIDED", "yellow")):
        node = replace(NODE, decision=Decision(decision))
        text, style = summary_lines(node, [])[0]
        assert text.startswith(f"{decision}: ")
        assert style == colour


def test_quiet_shows_the_decision_only() -> None:
    assert len(texts(-1)) == 1


def test_failures_come_first() -> None:
    rows = [line.split()[2] for line in texts() if line.startswith(("FAIL", "MARGINAL"))]
    assert rows == ["rate3", "rate2"]
    assert not any("rate1" in line or line.startswith("benchmark") for line in texts())
    every = texts(1)
    head = next(number for number, line in enumerate(every) if line.startswith("benchmark "))
    table = every[head + 1 : head + 6]
    assert [line.split()[2] for line in table] == ["rate3", "rate2", "rate4", "rate5", "rate1"]
    assert any("suites/a_long_folder_name/test_something.py" in line for line in every)


def test_a_failure_is_one_complete_line() -> None:
    slow = verdict(1, Outcome.FAIL, value=2398.0, expected=3001.0, similarity=0.8)
    cards = {"cuda:0": "slot ab:00.0"}
    (line,) = [t for t, _ in summary_lines(NODE, [slow], cards=cards) if t.startswith("FAIL")]
    assert line == (
        "FAIL test_benchmark_1[float32] rate1 on cuda:0 (slot ab:00.0) 20 % slower: 2398 GB/s, "
        "expected 3001 [disk]"
    )


def test_nothing_is_said_twice() -> None:
    first, *rest = texts()
    assert first == "REJECTED: node node7: disk (1 of 4 results failed)"
    assert len(rest) == len(set(rest))
    assert texts(-1) == texts(1)[:1] == ["REJECTED: node node7: disk. Next step: replace the disk"]
    open_one = texts(decision=Decision.UNDECIDED, counts=(("PASS", 3), ("NOT_TESTED", 1)))
    assert open_one[0] == ("UNDECIDED: node node7: 3 results judged, none failed")


def test_waived_failures_are_counted() -> None:
    waived = verdict(1, Outcome.NOT_TESTED, reason=Reason.WAIVED)
    node = replace(NODE, decision=Decision.UNDECIDED, counts=(("PASS", 3), ("NOT_TESTED", 1)))
    first = summary_lines(node, [waived])[0][0]
    assert first == "UNDECIDED: node node7: 3 results judged, none failed, 1 waived"


def test_since_when_and_what_explains_it_are_told() -> None:
    fallen = SensorMove(part="GPU 3", quantity="SM clock", unit="MHz", before=1980.0, after=1410.0)
    onset = Onset(number=22, count=42, size=0.12, compared=7, sensor=fallen)
    part = verdict(1, Outcome.FAIL, value=0.9, component="accelerator.compute", onset=onset)
    whole = verdict(2, Outcome.FAIL, value=0.9, component="training")
    alone = replace(whole, device="cuda:1")
    said = {
        level: [text for text, _ in summary_lines(NODE, [part, whole, alone], verbosity=level)]
        for level in (-1, 0, 1)
    }
    (line,) = [text for text in said[0] if " rate1 " in text]
    assert line.endswith("[accelerator.compute]; since value 22 of 42: SM clock fell")
    assert not any("explained" in text or "1980" in text for text in (*said[-1], *said[0]))
    at = said[1].index("since when:")
    assert said[1][at + 1] == (
        "  test_benchmark_1[float32] rate1 on cuda:0 12 % slower from value 22 of 42, when the "
        "SM clock of GPU 3 fell from 1980 to 1410 MHz"
    )
    at = said[1].index("end-to-end losses:")
    assert said[1][at + 1 : at + 3] == [
        "  test_benchmark_2[float32] rate2 on cuda:0: explained by rate1 [accelerator.compute]",
        "  test_benchmark_2[float32] rate2 on cuda:1: no micro benchmark of cuda:1 was judged",
    ]


def test_the_summary_fits_a_screen() -> None:
    many = [verdict(i, outcome) for i in range(40) for outcome in (Outcome.FAIL, Outcome.MARGINAL)]
    many += [verdict(i, Outcome.NOT_TESTED, reason=Reason.NOT_RUN, text="why") for i in range(9)]
    blocking = tuple(of_text(f"obstacle {i}: {'reason ' * i}") for i in range(30))
    node = replace(NODE, blocking=blocking)
    for width in (80, 100):
        lines = [text for text, _ in summary_lines(node, many, width=width, wrapped=True)]
        assert len(lines) <= 18  # and the journal, the next command, pytest's own
        assert max(map(width_of, lines)) <= width
        words = [line.split()[0] for line in lines]
        assert (
            words.index("FAIL") < words.index("MARGINAL") < lines.index("in the way of acceptance:")
        )
        assert sum(line.endswith("more (-v shows all)") for line in lines) == 3


def test_lines_are_wrapped_between_words() -> None:
    """It did where its edge was; into a file a line stays one line."""
    headline = f"node node7 accepted: {'some metrics ' * 9}"
    blocking = (of_text(f"NOT_TESTED t::c: {'fio not found ' * 9}"),)
    node = replace(NODE, decision=Decision.ACCEPTED, headline=headline, blocking=blocking)
    for width in (60, 80, 100):
        whole = summary_lines(node, [], width=width)
        parts = summary_lines(node, [], width=width, wrapped=True)
        assert (
            max(width_of(text) for text, _ in parts) <= width < max(width_of(t) for t, _ in whole)
        )
        assert " ".join(text for text, _ in parts).split() == " ".join(t for t, _ in whole).split()
        assert parts[1] == (parts[1][0], "green")
        assert parts[1][0].startswith("  ")


def test_next_steps_appear_once() -> None:
    steps = [line for line in texts() if line.startswith("next step")]
    assert steps == [
        "next step for disk: replace the disk",
        "next step for disk: look at the cable",
    ]


def test_lines_with_one_reason_become_one() -> None:
    assert "  2 INCONCLUSIVE: no baseline (t::a x, ...)" in texts()
    assert "  INCONCLUSIVE t::b y: no baseline" in texts(1)
    assert grouped(["a: x", "b", "c: y"]) == ["a: x", "b", "c: y"]


def test_components_that_nothing_covers_are_one_line() -> None:
    blocking = tuple(
        Blocker(
            kind=Hindrance.UNCOVERED,
            word="NOT_TESTED",
            subject=f"part{i}",
            cause="rate: too noisy",
            act="learn again",
            benchmark=f"part{i}",
        )
        for i in range(8)
    )
    whole = (*blocking, of_text("INCONCLUSIVE test_x: disturbed"))
    rejected = texts(blocking=whole)  # of which what the baseline lacks is no matter
    assert not any("without a metric" in line for line in rejected)
    lines = texts(decision=Decision.UNDECIDED, blocking=whole)
    at = lines.index("in the way of acceptance:")
    assert lines[at + 1 :] == [
        "  INCONCLUSIVE test_x: disturbed",
        "  NOT_TESTED 8 components without a metric that shows a loss of a half: part0, part1, part2, part3, "
        "part4, part5 and 2 more (-v says why)",
    ]
    every = texts(1, blocking=blocking)
    at = every.index("in the way of acceptance:")
    assert [f"  {text}" for text in blocking] == every[at + 1 : at + 9]


def test_long_lists_are_cut_with_a_hint() -> None:
    blocking = tuple(of_text(f"obstacle {i}: reason {i}") for i in range(30))
    lines = texts(blocking=blocking)
    shown = sum("obstacle" in line for line in lines)
    assert f"  ... and {30 - shown} more (-v shows all)" in lines
    assert sum("obstacle" in line for line in texts(1, blocking=blocking)) == 30


def test_tests_that_did_not_run_are_one_line() -> None:
    reasons = ["not applicable: no accelerator"] * 3
    reasons += [
        "not installed: fio (apt install fio)",
        "not installed: xhpl (build it)",
        "needs root",
    ]
    line = "6 tests (3 no accelerator; 2 not installed: fio, xhpl; 1 other reason; -v names them)"
    assert untested_text(reasons) == line
    skipped = [
        verdict(i, Outcome.NOT_TESTED, reason=Reason.NOT_RUN, text=text, metric="")
        for i, text in enumerate(reasons)
    ]
    shown = [text for text, _ in summary_lines(NODE, skipped)][-1]
    assert shown == f"not run here: {line}"
    assert untested_text(["a", "b", "c", "d", "e"]).endswith("; 3 other reasons; -v names them)")
    assert untested_text([]) == ""


def test_a_long_entry_is_cut_before_what_is_to_be_done() -> None:
    reasons = "; ".join(f"metric_{i}: too noisy to show that it halved" for i in range(12))
    step = "learn again with more or longer rounds, or on a quieter machine"
    blocking = (
        Blocker(word="NOT_TESTED", subject="memory", cause=reasons, act=step),
        of_text(f"NOT_TESTED link: raised {'x -> ' + 'y' * 500}"),
    )
    lines = texts(blocking=blocking)
    shown = next(line for line in lines if "NOT_TESTED memory" in line)
    assert shown.startswith("  NOT_TESTED memory: metric_0: too noisy")
    assert shown.endswith(f"… -> {step}")
    assert all(len(line) <= 2 + 280 for line in lines)
    assert next(line for line in lines if "NOT_TESTED link" in line).endswith("yyy…")


def test_only_verbose_shows_questions_and_notes() -> None:
    questions = AskedQuestions(
        [
            AskedQuestion(
                question="is it fast?", state=QuestionState.NO_CRITERION, why="no criterion"
            )
        ]
    )
    lines = [text for text, _ in summary_lines(NODE, [], questions=questions)]
    every = [text for text, _ in summary_lines(NODE, [], questions=questions, verbosity=1)]
    at = every.index("0 of 1 questions answered; 1 not:")
    assert every[at + 1] == "  1 without a criterion (no criterion): is it fast?"
    assert "not judged, does not block:" in every
    assert not {every[at], every[at + 1], "not judged, does not block:", every[-1]} & set(lines)


def test_coverage_has_counts_baseline_and_risk() -> None:
    assert coverage_text(replace(NODE, residual_risk=0.004)) == (
        "judged against baseline sha256:0123456789ab: 3 PASS, 1 FAIL; 2 in the way of acceptance; "
        "risk of an incident after what passed: 0.40 %"
    )
    bounded = replace(NODE, residual_risk=0.004, residual_interval=(0.001, 0.02))
    assert coverage_text(bounded).endswith(": 0.40 % (95 % within 0.10 % to 2.0 %)")
    assert texts(1)[-1] == coverage_text(NODE)
    bare = NodeVerdict(node="n", decision=Decision.UNDECIDED, headline="")
    assert coverage_text(bare) == "judged: nothing"


def test_untrusted_texts_are_printable() -> None:
    lines = texts(1, headline="a\x1b[2Jb", blocking=(of_text("x: \x1b[1mbold\nnext"),))
    assert all(line.isprintable() for line in lines)


def test_test_ids_lose_their_folders() -> None:
    line = "FAIL suites/a/test_b.py::test_c[x/y] cuda:0: 3 GB/s below a/b"
    assert without_folders(line) == "FAIL test_b.py::test_c[x/y] cuda:0: 3 GB/s below a/b"
    assert without_folders("2 tests: gone (suites/a/test_b.py::test_c, ...)").endswith(
        "(test_b.py::test_c, ...)"
    )
    blocking = (of_text("NOT_TESTED suites/a/test_b.py::test_c: gone"),)
    assert "  NOT_TESTED test_b.py::test_c: gone" in texts(blocking=blocking)
    assert "  NOT_TESTED suites/a/test_b.py::test_c: gone" in texts(1, blocking=blocking)


def test_reasons_are_whole_on_narrow_terminals() -> None:
    reason = "disturbed by another process on every core, measure again"
    blocking = (of_text(f"INCONCLUSIVE suites/a/test_b.py::test_c rate cuda:0: {reason}"),)
    assert any(line.endswith(reason) for line in texts(width=80, blocking=blocking))


def test_short_series_are_counted_by_component() -> None:
    short = [verdict(n, Outcome.PASS, count=10) for n in (1, 2, 3)]
    short += [replace(short[0], device="cuda:1"), replace(short[2], component="net", metric="x")]
    long = [verdict(6, Outcome.PASS, count=24), verdict(7, Outcome.INCONCLUSIVE, count=1)]
    exact = verdict(8, Outcome.PASS, count=1, better="equal")
    lines = [text for text, _ in summary_lines(NODE, [*short, *long, exact], verbosity=1)]
    (line,) = [text for text in lines if "not searched" in text]
    assert line == (
        "not searched for changes within the run (fewer than 24 values): 4 of 7 metrics (disk 3, net 1)"
    )
    names = unsearched_names([*short, *long, exact])  # as the page lists them
    assert len(names) == 4
    assert len([name for name in names if name.endswith(" x")]) == 1


def test_tools_that_are_not_installed_are_one_line() -> None:
    texts = [
        "NOT_TESTED a.py::a node: not installed: xhpl (build it; or give its path)",
        "NOT_TESTED b.py::b node: not applicable: no accelerator",
        "NOT_TESTED c.py::c node: not installed: stream_c (build it)",
        "NOT_TESTED d.py::d node: not installed: xhpl (build it; or give its path)",
    ]
    assert grouped(texts) == [
        "3 NOT_TESTED: tools not installed: xhpl, stream_c (-v says how to get them) (a.py::a node, ...)",
        texts[1],
    ]
    assert grouped(texts[:2]) == texts[:2]  # one tool: with the way to get it


def test_a_command_to_be_typed_keeps_its_folders() -> None:
    text = "INCONCLUSIVE a/b/t.py::test_x node: hung; run it alone again: pytest --anubis a/b/t.py::test_x"
    assert without_folders(text) == text.replace("a/b/", "", 1)
