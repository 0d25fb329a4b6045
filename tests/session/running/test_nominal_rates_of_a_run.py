"""A first node of its kind, without a baseline, whose links all reach half of what they could."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from pytest_anubis.core.run import RunRecord
from pytest_anubis.core.verdict import Outcome, Reason, Reference
from pytest_anubis.store.journal.journal_reading import read_journal
from tests.places import RECORDED

SUITE = """
import json, pathlib, pytest

@pytest.mark.anubis(component="memory.transfer", scope="device", action="reseat the card")
def test_copy(anubis_metric, anubis_device):
    noise = [1 + .002 * (i % 5) for i in range(12)]
    level = json.loads(pathlib.Path("level.json").read_text())[anubis_device.name]
    best = anubis_device.nominal("pcie")
    values = [level * best.value / 1e9 * one for one in noise]
    anubis_metric.record("rate", values, unit="GB/s", better="higher", nominal=best)
"""


def run(pytester: pytest.Pytester, level: Mapping[int, float], *more: str) -> tuple[Any, RunRecord]:
    pytester.makepyfile(test_it=SUITE)
    levels = {f"cuda:{card}": level.get(card, level[0]) for card in range(8)}
    (pytester.path / "level.json").write_text(json.dumps(levels))
    options = (f"--anubis-inventory={RECORDED}", "--anubis-gate=off", "-p", "no:xdist")
    result = pytester.runpytest("--anubis", *options, "--anubis-run-id=now", *more)
    return result, read_journal(pytester.path / ".anubis/runs/now")


def test_half_of_the_nominal_rate_is_said_and_decides_nothing(pytester: pytest.Pytester) -> None:
    result, record = run(pytester, {0: 0.45})
    assert result.ret == 20
    result.stdout.fnmatch_lines(["*MARGINAL*cuda:*45 % of what PCIe*"])
    low = [one for one in record.verdicts if one.reason is Reason.BELOW_NOMINAL]
    assert len(low) == 8
    assert {(one.outcome, one.reference) for one in low} == {(Outcome.MARGINAL, Reference.MODEL)}
    assert not [one for one in record.verdicts if one.outcome is Outcome.PASS]


def test_a_healthy_node_is_left_alone(pytester: pytest.Pytester) -> None:
    result, record = run(pytester, {0: 0.86})
    assert result.ret == 20
    assert {one.outcome for one in record.verdicts if one.reference is Reference.PEERS} == {
        Outcome.PASS
    }
    assert "MARGINAL" not in result.stdout.str()


def test_one_card_below_the_others_is_still_rejected(pytester: pytest.Pytester) -> None:
    result, record = run(pytester, {0: 0.45, 3: 0.3})
    assert result.ret == 1
    failed = [one.device for one in record.verdicts if one.outcome is Outcome.FAIL]
    assert failed == ["cuda:3"]


def test_an_operator_may_reject_for_it(pytester: pytest.Pytester) -> None:
    result, _ = run(pytester, {0: 0.45}, "--anubis-fail-on=marginal")
    assert result.ret == 1


def test_a_wrong_rating_is_the_benchmark_s_mistake(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_it="""
        import pytest

        @pytest.mark.anubis(component="c", scope="device")
        def test_copy(anubis_metric, anubis_device):
            best = anubis_device.nominal("agp")
            anubis_metric.record("rate", 1.0, unit="GB/s", better="higher", nominal=best)
        """
    )
    options = (f"--anubis-inventory={RECORDED}", "--anubis-gate=off", "-p", "no:xdist")
    result = pytester.runpytest("--anubis", *options, "--anubis-run-id=now")
    assert result.ret == 4
    assert not read_journal(pytester.path / ".anubis/runs/now").measurements
