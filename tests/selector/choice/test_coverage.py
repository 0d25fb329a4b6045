"""What share of defects a set of benchmarks exposes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_anubis.core.history import Defect, Incident
from pytest_anubis.selector.choice.coverage import Candidate, learn_coverage
from pytest_anubis.selector.risk.incident_kinds import kind_mixes, relates
from pytest_anubis.selector.selector_error import SelectorError

NAMES = ("a", "b", "c", "d")


def defect(*benchmarks: str, **facts: object) -> Defect:
    return Defect(number=1, node="n", found=0.0, benchmarks=benchmarks, **facts)  # type: ignore[arg-type]


def candidates(*names: str) -> list[Candidate]:
    return [Candidate(benchmark=name, cost_seconds=1.0, component=f"part.{name}") for name in names]


def test_overlap_is_counted_once() -> None:
    known = [defect("a", "b"), defect("a"), defect("b"), defect("c")]
    coverage = learn_coverage(known, candidates(*NAMES), smoothing=0)
    assert [coverage.of(some) for some in ("a", "ab", "d", NAMES)] == [0.5, 0.75, 0, 1]


def test_identical_patterns_are_one_row() -> None:
    coverage = learn_coverage([defect("a", "b")] * 50, candidates(*NAMES), smoothing=0)
    assert coverage.weights.tolist() == [50]


def test_false_alarms_and_benchmarks_that_are_gone() -> None:
    known = [defect("a"), defect("b", state="false alarm"), defect("gone")]
    coverage = learn_coverage(known, candidates("a", "b"), smoothing=0)
    assert coverage.of(["a", "b"]) == 0.5


@given(st.lists(st.sets(st.sampled_from(NAMES), min_size=1), max_size=12), st.floats(0, 5))
def test_coverage_is_a_monotone_submodular_share(
    patterns: list[set[str]], smoothing: float
) -> None:
    coverage = (
        learn_coverage(
            [defect(*sorted(pattern)) for pattern in patterns],
            candidates(*NAMES),
            smoothing=smoothing,
        )
        if patterns or smoothing > 0.01
        else learn_coverage([], candidates(*NAMES))
    )
    small, large = coverage.of(["a"]), coverage.of(["a", "b"])
    assert 0 <= small <= large + 1e-12 <= 1 + 2e-12
    gain_on_small = coverage.of(["a", "c"]) - small
    gain_on_large = coverage.of(["a", "b", "c"]) - large
    assert gain_on_large <= gain_on_small + 1e-12


def test_a_new_benchmark_starts_from_its_component() -> None:
    known = [defect("old", component="network")] * 20
    options = [
        Candidate(benchmark="old", cost_seconds=1, component="network"),
        Candidate(benchmark="new-net", cost_seconds=1, component="network"),
        Candidate(benchmark="new-disk", cost_seconds=1, component="disk"),
    ]
    coverage = learn_coverage(known, options)
    assert coverage.of(["new-net"]) > coverage.of(["new-disk"]) > 0
    tried = learn_coverage(known, options, experience={"new-net": 1000})
    assert tried.of(["new-net"]) < coverage.of(["new-net"]) / 2


def test_the_full_set_may_miss_defects() -> None:
    few = learn_coverage([defect("a")], candidates("a"))
    many = learn_coverage([defect("a")] * 200, candidates("a"))
    assert few.of(["a"]) < 0.8 < 0.99 < many.of(["a"]) < 1


def test_kinds_move_the_weight() -> None:
    known = [defect("a", kind="gpu")] * 9 + [defect("b", kind="nic")]
    options = candidates("a", "b")
    assert learn_coverage(known, options, smoothing=0).of(["b"]) == 0.1
    moved = learn_coverage(known, options, smoothing=0, kinds={"nic": 0.75, "gpu": 0.25})
    assert moved.of(["b"]) == pytest.approx(0.75)


def test_a_kind_without_defects_has_its_component() -> None:
    options = [
        Candidate(benchmark="net", cost_seconds=1, component="network.loopback"),
        Candidate(benchmark="gemm", cost_seconds=1, component="compute.matrix"),
    ]
    known = [defect("gemm", component="compute.matrix")] * 5
    coverage = learn_coverage(known, options, kinds={"nic": 1.0}, smoothing=0)
    assert coverage.of(["net"]) == 1


def test_words_of_kinds_and_components() -> None:
    assert relates("nic", "network.loopback")
    assert relates("gpu-memory", "accelerator.memory")
    assert not relates("nic", "storage.disk")


def test_kinds_come_back_as_far_as_they_did() -> None:
    def incident(node: str, kind: str, when: float) -> Incident:
        return Incident(node=node, kind=kind, started=when)

    past = [incident(f"n{i}", "gpu", t) for i in range(20) for t in (1, 2, 3)]
    past += [incident("x", "nic", 5), incident("x", "gpu", 1)]
    mix = kind_mixes(past)["x"]
    assert sum(mix.values()) == pytest.approx(1)
    assert mix["nic"] > 0.5
    assert "unknown" not in kind_mixes(past)
    turned = [
        *past,
        *(incident(f"m{i}", k, t) for i in range(40) for k, t in (("nic", 1), ("gpu", 2))),
    ]
    assert kind_mixes(turned)["x"]["nic"] < 0.2


@pytest.mark.parametrize("cost", [-1.0, float("nan"), float("inf")])
def test_costs_must_make_sense(cost: float) -> None:
    with pytest.raises(SelectorError, match="finite duration"):
        Candidate(benchmark="a", cost_seconds=cost)


@pytest.mark.parametrize("kind", ["", "network.loopback", "nic"])
def test_unnamed_defects_have_the_kind_of_their_part(
    kind: str,
) -> None:
    known = [
        defect("a", component="network.loopback", kind=kind),
        *[defect("b", component="storage.disk", kind="disk")] * 9,
    ]
    coverage = learn_coverage(known, candidates("a", "b"), kinds={"nic": 1.0}, smoothing=0)
    assert coverage.of(["a"]) == 1
    named = [defect("a", component="network.loopback", kind="cable"), *known[1:]]
    coverage = learn_coverage(named, candidates("a", "b"), kinds={"nic": 1.0}, smoothing=0)
    assert coverage.of(["a"]) < 1
