"""What the box of a blamed part says besides its findings: parts of a whole, and earlier defects."""

from __future__ import annotations

from typing import Any

from pytest_anubis.core.end_to_end import end_to_end_losses
from pytest_anubis.core.history import Defect, DefectState
from pytest_anubis.core.verdict import MetricVerdict, Outcome, Reason
from pytest_anubis.report.pages.html_blocks import blamed_parts
from tests.report.page_rules import Page
from tests.report.sample_run import EVIL

GEMM, TRAIN = "t.py::test_gemm", "t.py::test_train"


def verdict(component: str, device: str, metric: str, **more: Any) -> MetricVerdict:
    facts: dict[str, Any] = {
        "outcome": Outcome.FAIL,
        "reason": Reason.BEYOND,
        "text": f"{metric} is slow",
        "benchmark": TRAIN if component.startswith("training") else GEMM,
        "metric": metric,
        "better": "higher",
        "component": component,
        "device": device,
        "similarity": 0.8,
    }
    return MetricVerdict(**facts | more)


def texts(*verdicts: MetricVerdict, closed: tuple[Defect, ...] = ()) -> list[str]:
    bad = [v for v in verdicts if v.outcome in (Outcome.FAIL, Outcome.MARGINAL)]
    losses = end_to_end_losses(verdicts)
    return [Page(str(box)).text for box in blamed_parts(bad, {}, losses=losses, closed=closed)]


def defect(number: int, state: DefectState, *benchmarks: str, note: str = "") -> Defect:
    closed = None if state == "open" else 10.0 + number
    return Defect(
        number=number, node="n", found=1.0, benchmarks=benchmarks, state=state, closed=closed, note=note
    )  # fmt: skip


def test_an_explained_loss_is_below_what_explains_it() -> None:
    train = verdict("training.step", "cuda:3", "step_rate", similarity=0.5)
    (box,) = texts(train, verdict("compute.matrix", "cuda:3", "gemm_rate"))
    assert box.index("gemm_rate is slow") < box.index("step_rate is slow; explained by gemm_rate")


def test_the_box_of_an_explained_whole_is_the_later_one() -> None:
    train = verdict("training.step", "cpu", "step_rate", similarity=0.5)
    gemm = verdict("compute.matrix", "node", "gemm_rate", retest="a single value")
    first, second = texts(train, gemm)
    assert "gemm_rate is slow" in first
    assert "explained by gemm_rate" in second
    alone, other = texts(train, verdict("compute.matrix", "cuda:1", "gemm_rate"))
    assert "step_rate" in alone
    assert "explained" not in alone + other


def test_a_whole_that_no_part_explains_says_so() -> None:
    train = verdict("training.step", "cuda:3", "step_rate")
    fine = verdict("compute.matrix", "cuda:3", "gemm_rate", outcome=Outcome.PASS)
    other = verdict(
        "memory.cells", "cuda:3", "rate", outcome=Outcome.PASS, benchmark="t.py::test_c"
    )
    assert "none of 2 micro benchmarks of cuda:3 shows it" in texts(train, fine, other)[0]
    assert "the one micro benchmark of cuda:3 does not show it" in texts(train, fine)[0]
    assert "no micro benchmark of cuda:3 was judged" in texts(train)[0]


def test_earlier_defects_of_the_benchmark_are_counted() -> None:
    gemm = verdict("compute.matrix", "cuda:3", "gemm_rate")
    closed = (
        defect(1, "confirmed", GEMM),
        defect(2, "false alarm", GEMM, TRAIN),
        defect(4, "confirmed", GEMM, note=f"riser exchanged {EVIL}"),
        defect(3, "confirmed", GEMM, note="older note"),
        defect(5, "confirmed", TRAIN, note="of another benchmark"),
    )
    (box,) = map(str, blamed_parts([gemm], {}, closed=closed))
    assert EVIL not in box
    text = Page(box).text
    assert (
        "3 of 4 like it were confirmed, 1 false alarm; last note: riser exchanged <script>" in text
    )
    unusual = verdict("compute.matrix", "cuda:3", "gemm_rate", outcome=Outcome.MARGINAL)
    for silent in (texts(gemm), texts(gemm, closed=closed[4:]), texts(unusual, closed=closed)):
        assert "like it" not in silent[0]
