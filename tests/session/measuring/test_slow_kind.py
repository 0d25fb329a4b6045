"""A step whose time is recorded by kind of operation: the slow kind is named wherever the loss is."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pytest
from markupsafe import escape

from pytest_anubis.core.baseline import Baseline
from pytest_anubis.core.metric import Metric
from pytest_anubis.core.run import RunRecord
from pytest_anubis.core.sample import population_of
from pytest_anubis.core.verdict import MetricVerdict, Outcome
from pytest_anubis.report.export.run_json import run_json
from pytest_anubis.report.pages.dossier import run_page
from pytest_anubis.report.text.explanation_text import shares_text
from pytest_anubis.store.baselines.baseline_files import load_baseline, save_baseline
from pytest_anubis.store.journal.journal_reading import read_journal
from tests.session.conftest import baseline_of

SUITE = """
import json, pathlib, pytest

@pytest.mark.anubis(component="workload.trace", scope="device")
def test_step(anubis_metric, anubis_device):
    for name, values in json.loads(pathlib.Path("times.json").read_text()).items():
        part_of = "step_time" if name != "step_time" else ""
        anubis_metric.record(name, values, unit="ms", better="lower", part_of=part_of)
"""
STEP = {"time_matrix": 8.0, "time_pointwise": 5.0, "time_copy": 4.0, "time_between": 3.0}


def times(seed: int, factors: Mapping[str, float]) -> dict[str, list[float]]:
    generator = np.random.default_rng(seed)
    parts = {
        name: usual * factors.get(name, 1.0) * np.exp(0.01 * generator.standard_normal(30))
        for name, usual in STEP.items()
    }
    return {
        name: one.tolist()
        for name, one in {"step_time": np.sum([*parts.values()], axis=0), **parts}.items()
    }


@pytest.fixture(scope="module")
def baseline(hardware_class: tuple[str, Mapping[str, str]]) -> Baseline:
    """What twelve healthy nodes of this machine's class teach."""
    key, attributes = hardware_class
    healthy = [times(seed, {}) for seed in range(12)]
    populations = [
        population_of(
            [one[name] for one in healthy],
            metric=Metric(name=name, unit="ms", better="lower", part_of=whole),
            benchmark="test_suite.py::test_step",
            devices=["cpu"] * 12,
            hardware_class=key,
            component="workload.trace",
        )
        for name, whole in {"step_time": "", **dict.fromkeys(STEP, "step_time")}.items()
    ]
    return baseline_of(populations, key, attributes)


Run = Callable[..., tuple[RunRecord, pytest.RunResult]]


@pytest.fixture
def run(pytester: pytest.Pytester, baseline: Baseline) -> Run:
    """Run the suite on a machine on which kinds take some times as long."""
    pytester.makepyfile(test_suite=SUITE)
    save_baseline(baseline, pytester.path / "baselines")

    def do(*options: str, **factors: float) -> tuple[RunRecord, pytest.RunResult]:
        (pytester.path / "times.json").write_text(json.dumps(times(99, factors)))
        name = f"r{len([*pytester.path.glob('.anubis/runs/*')])}"
        result = pytester.runpytest("--anubis", f"--anubis-run-id={name}", *options)
        return read_journal(pytester.path / ".anubis/runs" / name), result

    return do


def of_step(record: RunRecord) -> MetricVerdict:
    (found,) = (one for one in record.effective_verdicts if one.metric == "step_time")
    return found


def test_the_slow_kind_is_named_in_every_report(pytester: pytest.Pytester, run: Run) -> None:
    page = ("-p", "html", "--html=report.html", "--self-contained-html")
    record, result = run(*page, time_matrix=1.5)
    verdict = of_step(record)
    assert verdict.outcome is Outcome.FAIL
    assert verdict.shares is not None
    (named,) = verdict.shares.named
    assert (named.metric, named.component) == ("time_matrix", "compute.matrix")
    assert named.low <= 1 <= named.high
    text = shares_text(verdict)
    assert str(escape(text)) in run_page(record)
    shown = " ".join(" ".join(result.outlines).split())
    assert f"evidence: {text}" in shown
    assert "time_matrix, 1.5" in (pytester.path / "report.html").read_text()
    cells = next(
        one for one in json.loads(run_json(record))["verdicts"] if one["metric"] == "step_time"
    )
    assert cells["shares"]["parts"][0]["metric"] == "time_matrix"


def test_it_decides_nothing(pytester: pytest.Pytester, run: Run) -> None:
    found = []
    for suite in (SUITE, SUITE.replace('"step_time" if name != "step_time" else ""', '""')):
        pytester.makepyfile(test_suite=suite)
        record, result = run(time_matrix=1.5)
        bare = [replace(one, shares=None) for one in record.effective_verdicts]
        assert record.node_verdict is not None
        found.append((bare, record.node_verdict, result.ret))
        explained = [one.metric for one in record.effective_verdicts if one.shares]
        assert explained == ["step_time"] * (suite is SUITE)
    assert found[0] == found[1]


def test_a_marginal_step_is_explained_with_v(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makeconftest(
        """
        from pytest_anubis.core.verdict import MetricVerdict, Outcome, Reason

        def pytest_anubis_judge(measurement):
            name = measurement.metric.name
            unusual = name == "step_time"
            return MetricVerdict(
                outcome=Outcome.MARGINAL if unusual else Outcome.PASS,
                reason=Reason.UNUSUAL if unusual else Reason.WITHIN,
                text=name, benchmark=measurement.benchmark, metric=name,
            )
        """
    )
    for options in ((), ("-v",)):
        record, result = run(*options, time_matrix=1.5)
        text = shares_text(of_step(record))
        assert "time_matrix" in text
        assert (text in " ".join(" ".join(result.outlines).split())) == bool(options)


def test_a_baseline_keeps_what_is_a_part(pytester: pytest.Pytester, run: Run) -> None:
    run()
    (file,) = (pytester.path / "baselines").iterdir()
    parts = {one.metric.name: one.metric.part_of for one in load_baseline(file).criteria}
    assert parts == {"step_time": "", **dict.fromkeys(STEP, "step_time")}
