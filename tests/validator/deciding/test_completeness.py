"""What is said of tests that did not come to their end."""

from __future__ import annotations

import pytest

from pytest_anubis.core.measurement import PlannedTest, TestResult
from pytest_anubis.validator.deciding.completeness import verdicts_of_tests

TEST = "test_a.py::test_link[cuda:1>cuda:2]"


@pytest.mark.parametrize(
    ("cause", "beginning", "step"),
    [
        (
            "hung: no end within 5 s (--anubis-timeout); the process was killed",
            "hung: no end within 5 s",
            "that device's driver, card or link does not answer",
        ),
        (
            "its process died: segmentation fault (SIGSEGV)",
            "the process died during the test: its process died",
            "look for the driver's words in the kernel log",
        ),
    ],
)
def test_what_never_ended_has_a_next_step(cause: str, beginning: str, step: str) -> None:
    plan = PlannedTest(test=TEST, benchmark="test_a.py::test_link", device="cuda:1>cuda:2")
    result = TestResult(test=TEST, benchmark=plan.benchmark, outcome="crashed", text=cause)
    (verdict,) = verdicts_of_tests([plan], {TEST: result}, (), node="n")
    assert verdict.text.startswith(beginning)
    assert f"next step: look where it {'hung' if 'hung' in cause else 'ended'}" in verdict.text
    assert f"run it alone again: pytest --anubis '{TEST}'" in verdict.text
    assert verdict.text.endswith(step)
