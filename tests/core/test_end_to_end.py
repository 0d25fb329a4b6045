"""Which failed micro benchmarks explain the loss of an end-to-end benchmark."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_anubis.core.end_to_end import EndToEndLoss, end_to_end_losses, is_end_to_end
from pytest_anubis.core.verdict import MetricVerdict, Outcome, Reason


def verdict(component: str, device: str, outcome: Outcome = Outcome.FAIL, **more: Any) -> Any:
    facts: dict[str, Any] = {
        "outcome": outcome,
        "reason": Reason.BEYOND,
        "text": "",
        "benchmark": f"t.py::test_{component}",
        "metric": "rate",
        "better": "higher",
        "component": component,
        "device": device,
        "similarity": 0.8,
    }
    return MetricVerdict(**facts | more)


def only(*verdicts: MetricVerdict) -> EndToEndLoss:
    (loss,) = end_to_end_losses(verdicts)
    return loss


def named(loss: EndToEndLoss) -> list[tuple[str, str]]:
    return [(one.component, one.device) for one in loss.explained_by]


@pytest.mark.parametrize(
    ("component", "whole"),
    [
        *(("training.transformer", True), ("workload.inference", True), ("training", True)),
        *(("collective.overlap", True), ("collective.allreduce", False), ("compute", False)),
        *(("", False), ("trainings.x", False)),
    ],
)
def test_components_are_parts_or_wholes(component: str, whole: bool) -> None:
    assert is_end_to_end(component) is whole


def test_failed_parts_of_the_same_card_explain_it() -> None:
    loss = only(
        verdict("training.transformer", "cuda:3"),
        verdict("compute.matrix", "cuda:3", similarity=0.9),
        verdict("memory.bandwidth", "cuda:3", similarity=0.7),
        verdict("accelerator.link", "cuda:3>cuda:5", similarity=0.95),
        verdict("compute.matrix", "cuda:4"),
        verdict("memory.bandwidth", "cpu"),
        verdict("compute.vector", "cuda:3", Outcome.PASS),
        verdict("compute.function", "cuda:3", Outcome.MARGINAL),
        verdict("compute.exact", "cuda:4", Outcome.PASS),
        verdict("training.convolution", "cuda:3", Outcome.PASS),
        verdict("accelerator.power", "cuda:3", reason=Reason.HARDWARE),
    )
    assert named(loss) == [
        ("memory.bandwidth", "cuda:3"),
        ("compute.matrix", "cuda:3"),
        ("accelerator.link", "cuda:3>cuda:5"),
    ]
    assert loss.passed == 2


def test_a_whole_of_the_node_uses_all_of_its_parts() -> None:
    loss = only(
        verdict("workload.parallel", "node"),
        verdict("compute.matrix", "cuda:4"),
        verdict("memory.bandwidth", "cpu"),
    )
    assert named(loss) == [("compute.matrix", "cuda:4"), ("memory.bandwidth", "cpu")]


def test_a_whole_without_failed_parts_says_how_many_passed() -> None:
    loss = only(
        verdict("workload.inference", "cpu", Outcome.MARGINAL),
        verdict("memory.bandwidth", "node", Outcome.PASS),
        verdict("memory.latency", "cpu", Outcome.INCONCLUSIVE),
    )
    assert (loss.explained_by, loss.passed) == ((), 1)


def test_a_loss_is_explained_by_its_own_run() -> None:
    answered = {"run": "a", "reason": Reason.ANSWERED}
    first, second = end_to_end_losses(
        [
            verdict("training", "cpu", run="a", similarity=0.7),
            verdict("cpu.compute", "cpu", Outcome.PASS, **answered, recovered=True),
            verdict("cpu.noise", "cpu", Outcome.PASS, **answered, similarity=None),
            verdict("memory.copy", "cpu", Outcome.PASS, run="a"),
            verdict("training", "cpu", run="b"),
            verdict("cpu.compute", "cpu", Outcome.PASS, run="b"),
            verdict("memory.copy", "cpu", Outcome.PASS, run="b"),
        ]
    )
    assert (first.whole.run, named(first), first.passed) == ("a", [("cpu.compute", "cpu")], 1)
    assert (second.whole.run, named(second), second.passed) == ("b", [], 2)
    assert [one.run for one in first.explained_by] == ["a"]


def test_wrong_results_and_passes_are_no_losses() -> None:
    assert not end_to_end_losses(
        [
            verdict("workload.bits", "cuda:0", better="equal"),
            verdict("training.transformer", "cuda:0", Outcome.PASS),
            verdict("compute.matrix", "cuda:0"),
        ]
    )
