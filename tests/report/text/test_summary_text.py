"""The summary at the end of a run."""

from __future__ import annotations

from dataclasses import replace

from pytest_anubis.core.asking.open_questions import AskedQuestion, AskedQuestions, Standing
from pytest_anubis.core.verdict import Decision, MetricVerdict, NodeVerdict, Outcome, Reason
from pytest_anubis.report.text.summary_text import (
    coverage_text,
    grouped,
    summary_lines,
    unsearched_names,
    without_folders,
)
from pytest_anubis.report.text.text_table import width_of

NODE = NodeVerdict(
    node="node7",
    decision=Decision.REJECTED,
    headline="node node7 rejected: disk. Next step: replace the disk",
    components=("disk",),
    blocking=("INCONCLUSIVE t::a x: no baseline", "INCONCLUSIVE t::b y: no baseline"),
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


def test_the_worst_metrics_come_first_and_good_ones_only_with_v() -> None:
    rows = [line.split()[2] for line in texts() if "rate" in line]
    assert rows == ["rate3", "rate2", "rate4"]
    assert [line.split()[2] for line in texts(1) if "rate" in line] == [
        *("rate3", "rate2", "rate4", "rate5", "rate1"),
    ]


def test_a_narrow_terminal_is_not_overrun_except_with_v() -> None:
    for width in (80, 100, 160):
        lines = texts(width=width)
        assert max(map(width_of, lines[1:-1])) <= width  # sentences are wrapped by the terminal
        assert "limit" in lines[1] or width < 100
        assert [word for word in ("value", "expected", "loss") if word not in lines[1]] == []
    assert any("suites/a_long_folder_name/test_something.py" in line for line in texts(1))


def test_a_terminal_breaks_no_word_of_headline_and_lists() -> None:
    """It did where its edge was; into a file a line stays one line."""
    headline = (
        "node node7 rejected: disk. Next step: replace the disk and the cable that leads to it"
    )
    node = replace(NODE, headline=headline, listed=(f"NOT_TESTED t::c: {'fio not found ' * 9}",))
    for width in (60, 80, 100):
        whole = summary_lines(node, VERDICTS, width=width)
        parts = summary_lines(node, VERDICTS, width=width, wrapped=True)
        assert (
            max(width_of(text) for text, _ in parts) <= width < max(width_of(t) for t, _ in whole)
        )
        assert " ".join(text for text, _ in parts).split() == " ".join(t for t, _ in whole).split()
        assert {style for text, style in parts if text.strip() in headline} <= {"red"}
        assert parts[1][0].startswith("  ") or width > 90


def test_next_steps_are_told_once() -> None:
    steps = [line for line in texts() if line.startswith("next step")]
    assert steps == ["next step for disk: look at the cable"]  # the other is in the headline


def test_lines_with_one_reason_become_one() -> None:
    assert "  2 INCONCLUSIVE: no baseline (t::a x, ...)" in texts()
    assert "  INCONCLUSIVE t::b y: no baseline" in texts(1)
    assert grouped(["a: x", "b", "c: y"]) == ["a: x", "b", "c: y"]


def bare(component: str, *metrics: str) -> str:
    """Return what is said of a component without a criterion."""
    remedy = "learn again with more or longer rounds, or on a quieter machine"
    told = "; ".join((*metrics, remedy))
    return f"NOT_TESTED {component}: none of its metrics shows a loss of a half: {told}"


def test_components_without_a_criterion_are_one_line_a_reason() -> None:
    noisy = "it is too noisy here to show that performance has halved (it shows losses from {} on)"
    few = "{} usable unit, at least 3 needed for a criterion"
    blocking = [
        bare("compute.matrix", f"gemm: {noisy.format('56 %')}", f"other: {noisy.format('51 %')}"),
        bare("memory.latency", f"latency[l2], latency[llc]: {noisy.format('2.3 times')}"),
        bare("storage.disk", f"read: {few.format(1)}", f"write: {few.format(2)}"),
        "INCONCLUSIVE test_x: disturbed",
    ]
    lines = [
        text for text, _ in summary_lines(replace(NODE, blocking=tuple(blocking)), [], width=80)
    ]
    at = lines.index("in the way of acceptance:")
    assert lines[at + 1 : at + 5] == [
        "  NOT_TESTED 3 components without a metric that shows a loss of a half: learn again with more or "
        "longer rounds, or on a quieter machine (-v says it of each metric)",
        "    too noisy here to show that performance has halved (the least loss that is shown): "
        "compute.matrix (51 %), memory.latency (2.3 times)",
        "    fewer usable units than a criterion needs: storage.disk",
        "  INCONCLUSIVE test_x: disturbed",
    ]
    every = [
        text for text, _ in summary_lines(replace(NODE, blocking=tuple(blocking)), [], verbosity=1)
    ]
    at = every.index("in the way of acceptance:")
    assert [f"  {text}" for text in blocking] == every[at + 1 : at + 5]
    two = replace(NODE, blocking=tuple(blocking[1:]))
    assert f"  {blocking[1]}" in [text for text, _ in summary_lines(two, [], width=80)]


def test_long_lists_are_cut_with_a_hint() -> None:
    blocking = tuple(f"obstacle {i}: reason {i}" for i in range(30))
    lines = texts(blocking=blocking)
    assert "  ... and 18 more (-v shows all)" in lines
    assert sum("obstacle" in line for line in lines) == 12
    assert sum("obstacle" in line for line in texts(1, blocking=blocking)) == 30


def test_a_long_entry_is_cut_before_what_is_to_be_done() -> None:
    reasons = "; ".join(f"metric_{i}: too noisy to show that it halved" for i in range(12))
    step = "learn again with more or longer rounds, or on a quieter machine"
    blocking = (
        f"NOT_TESTED memory: {reasons}; {step}",
        f"NOT_TESTED link: raised {'x; ' + 'y' * 500}",
    )
    lines = texts(blocking=blocking)
    told = next(line for line in lines if "NOT_TESTED memory" in line)
    assert told.startswith("  NOT_TESTED memory: metric_0: too noisy")
    assert told.endswith(f"…; {step}")
    assert all(len(line) <= 2 + 400 for line in lines)
    assert next(line for line in lines if "NOT_TESTED link" in line).endswith("yyy…")


def test_many_bad_metrics_are_cut_with_a_hint() -> None:
    many = [verdict(i, Outcome.FAIL) for i in range(40)]
    lines = [text for text, _ in summary_lines(NODE, many)]
    assert "... and 28 more metrics (-v shows all)" in lines


def test_what_stands_with_its_question_is_not_listed_once_more() -> None:
    listed = (
        "NOT_TESTED a.py::test_gemm rate node: no criterion",
        "NOT_TESTED b.py::test_own: none",
    )
    node = replace(NODE, listed=listed)
    questions = AskedQuestions(
        [AskedQuestion(question="is it fast?", standing=Standing.NO_CRITERION, why="no criterion")],
        frozenset({"a.py::test_gemm"}),
    )
    lines = [text for text, _ in summary_lines(node, [], questions=questions)]
    at = lines.index("0 of 1 questions answered; 1 not:")
    assert lines[at + 1] == "  1 without a criterion (no criterion): is it fast?"
    assert not any("test_gemm" in line for line in lines)
    assert any("test_own" in line for line in lines)
    every = [text for text, _ in summary_lines(node, [], questions=questions, verbosity=1)]
    assert any("a.py::test_gemm" in line for line in every)


def test_the_coverage_statement_names_counts_baseline_and_risk() -> None:
    assert coverage_text(replace(NODE, residual_risk=0.004)) == (
        "judged against baseline sha256:0123456789ab: 3 PASS, 1 FAIL; 2 in the way of acceptance; "
        "risk of an incident after what passed: 0.40 %"
    )
    bounded = replace(NODE, residual_risk=0.004, residual_interval=(0.001, 0.02))
    assert coverage_text(bounded).endswith(": 0.40 % (95 % within 0.10 % to 2.0 %)")
    assert texts()[-1] == coverage_text(NODE)
    bare = NodeVerdict(node="n", decision=Decision.UNDECIDED, headline="")
    assert coverage_text(bare) == "judged: nothing"


def test_texts_from_strangers_cannot_move_the_cursor() -> None:
    lines = texts(1, headline="a\x1b[2Jb", blocking=("x: \x1b[1mbold\nnext",))
    assert all(line.isprintable() for line in lines)


def test_folders_of_tests_are_left_out_where_there_is_little_room() -> None:
    line = "FAIL suites/a/test_b.py::test_c[x/y] cuda:0: 3 GB/s below a/b"
    assert without_folders(line) == "FAIL test_b.py::test_c[x/y] cuda:0: 3 GB/s below a/b"
    assert without_folders("2 tests: gone (suites/a/test_b.py::test_c, ...)").endswith(
        "(test_b.py::test_c, ...)"
    )
    blocking = ("NOT_TESTED suites/a/test_b.py::test_c: gone",)
    assert "  NOT_TESTED test_b.py::test_c: gone" in texts(blocking=blocking)
    assert "  NOT_TESTED suites/a/test_b.py::test_c: gone" in texts(1, blocking=blocking)


def test_a_reason_is_read_to_its_end_on_a_narrow_terminal() -> None:
    reason = "disturbed by another process on every core, measure again"
    blocking = (f"INCONCLUSIVE suites/a/test_b.py::test_c rate cuda:0: {reason}",)
    assert any(line.endswith(reason) for line in texts(width=80, blocking=blocking))


def test_what_is_too_short_to_be_searched_is_one_line_counted_by_component() -> None:
    short = [verdict(n, Outcome.PASS, count=10) for n in (1, 2, 3)]
    short += [replace(short[0], device="cuda:1"), replace(short[2], component="net", metric="x")]
    long = [verdict(6, Outcome.PASS, count=24), verdict(7, Outcome.INCONCLUSIVE, count=1)]
    exact = verdict(8, Outcome.PASS, count=1, better="equal")
    lines = [text for text, _ in summary_lines(NODE, [*short, *long, exact])]
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
