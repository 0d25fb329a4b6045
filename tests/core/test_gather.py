"""Samples become the same populations in whatever order and portions they come."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pytest_anubis.core.gather import Gather
from pytest_anubis.core.metric import Metric
from pytest_anubis.core.nominal_rate import NominalRate
from pytest_anubis.core.sample import SampleProblem

PCIE = NominalRate(value=64.0, of="PCIe 5.0 x16")
SAMPLE = st.fixed_dictionaries(
    {
        "benchmark": st.sampled_from(["b1", "b2"]),
        "metric": st.sampled_from(
            [
                Metric(name="m", unit="GB/s", better="higher"),
                Metric(name="m", unit="MB/s", better="higher"),
                Metric(name="m", unit="GB/s", better="higher", version=2),
                Metric(name="m", unit="GB/s", better="higher", version=2, nominal=PCIE),
            ]
        ),
        "node": st.sampled_from(["n1", "n2", "n3"]),
        "device": st.sampled_from(["d1", "d2"]),
        "run": st.uuids().map(str),
        "values": st.lists(st.sampled_from([0.0, 1.5, -1.0, float("inf")]), max_size=4),
        "problem": st.none() | st.just(SampleProblem(kind="failed", text="x")),
    }
)


def gathered(samples: list[dict[str, Any]]) -> Gather:
    gather = Gather()
    for sample in samples:
        gather.add(hardware_class="c", component="x", group="", **sample)
    return gather


def shown(gather: Gather) -> Any:
    return [
        (
            (p.benchmark, p.metric, p.nodes, p.devices, p.runs, p.problems),
            (p.values.tolist(), p.offsets.tolist()),
        )
        for p in gather.populations()
    ]


@given(st.lists(SAMPLE, max_size=12), st.randoms(), st.integers(0, 12))
def test_order_and_portions_do_not_matter(
    samples: list[dict[str, Any]], random: Any, cut: int
) -> None:
    whole = gathered(samples)
    expected = shown(whole)
    for population in whole.populations():
        assert np.array_equal(population.offsets, np.sort(population.offsets))
        for row in range(len(population)):
            given_one = next(s for s in samples if s["run"] == population.runs[row])
            same = given_one["metric"].variant == population.metric.variant
            assert population.sample(row).tolist() == (given_one["values"] if same else [])
            good = population.sample(row)
            clean = len(good) > 0 and bool((np.isfinite(good) & (good >= 0)).all())
            if row not in population.problems:
                assert clean
            if not clean:
                assert row in population.problems
    shuffled = samples.copy()
    random.shuffle(shuffled)
    assert shown(gathered(shuffled)) == expected
    again = Gather()
    for population in whole.populations():
        again.add_population(population)
    assert shown(again) == expected
    if not any(s["metric"].unit == "MB/s" for s in samples):
        parts = Gather()
        for portion in (samples[:cut], samples[cut:]):
            for population in gathered(portion).populations():
                parts.add_population(population)
        assert shown(parts) == expected


def sample(run: str, version: int, **given: Any) -> dict[str, Any]:
    metric = Metric(name="m", unit="GB/s", better="higher", version=version)
    fixed = {"benchmark": "b", "node": "n", "device": "d", "run": run, "values": [1.0]}
    return {**fixed, "metric": metric, **given}


def test_only_samples_of_the_newest_version_count() -> None:
    failed = SampleProblem(kind="failed", text="x")
    samples = [sample(f"r{i}", 1) for i in range(3)]
    samples += [sample("r3", 2, values=[5.0]), sample("r4", 1, problem=failed)]
    (population,) = gathered(samples).populations()
    assert population.metric.version == 2
    assert population.values.tolist() == [5.0]
    kinds = {population.runs[row]: problem.kind for row, problem in population.problems.items()}
    assert kinds == {"r0": "version", "r1": "version", "r2": "version", "r4": "failed"}
    assert population.problems[0].text.startswith("measured by version 1")


def test_the_nominal_rate_of_most_links_does_not_judge_the_others() -> None:
    rated = Metric(name="m", unit="GB/s", better="higher", nominal=PCIE)
    older = replace(rated, nominal=NominalRate(value=32.0, of="PCIe 4.0 x16"))
    samples = [sample(f"r{number}", 1, metric=rated) for number in range(6)]
    assert gathered(samples).populations()[0].metric == rated
    for other in (older, replace(rated, nominal=None)):
        (mixed,) = gathered([*samples, sample("r6", 1, metric=other)]).populations()
        assert (mixed.metric.nominal, mixed.problems) == (None, {})
