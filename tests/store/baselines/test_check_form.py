"""Tests without a metric in the file of a baseline."""

from __future__ import annotations

from pytest_anubis.core.baseline import Baseline, PlainCheck
from pytest_anubis.store.baselines.baseline_files import seal
from pytest_anubis.store.baselines.baseline_form import baseline_from_plain, baseline_to_plain


def test_check_without_component_keeps_its_digest() -> None:
    def of(check: PlainCheck) -> Baseline:
        return seal(
            Baseline(hardware_class="c", criteria=(), created="2026-01-01", checks=(check,))
        )

    old = of(PlainCheck(test="t", devices=("node",)))
    new = of(PlainCheck(test="t", component="gpu"))
    assert baseline_to_plain(old)["checks"] == [{"test": "t", "devices": ["node"]}]
    assert old.digest == "sha256:dbce49f74508"  # as written before a check had a component
    assert [baseline_from_plain(baseline_to_plain(one)) for one in (old, new)] == [old, new]
