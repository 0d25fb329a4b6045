"""A baseline file is checked before use, sealed, and never half written."""

from __future__ import annotations

import copy
import dataclasses
import json
import math
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from pytest_anubis.core.baseline import Baseline, Criterion, Exclusion, Finding, PlainCheck
from pytest_anubis.core.metric import Metric
from pytest_anubis.core.verdict import Outcome
from pytest_anubis.store.baselines.baseline_files import (
    baseline_file_name,
    find_baseline,
    load_baseline,
    load_baselines,
    save_baseline,
    seal,
)
from pytest_anubis.store.baselines.baseline_form import (
    BaselineError,
    baseline_from_plain,
    baseline_to_plain,
)
from pytest_anubis.validator import judge_sample


def criterion(name: str = "rate", **more: Any) -> Criterion:
    fields: dict[str, Any] = {
        "benchmark": "suites/test_net.py::test_tcp",
        "metric": Metric(name=name, unit="GB/s", better="higher", question="µ?"),
        "component": "network",
        "centre": (1.0, 1.123456789012, 2.0),
        "learned": 0.97,
        "repeatability": 0.99,
        "medians": (1.0, 1.5),
        "nodes": 12,
        "units": 96,
        "window": (3, 20),
        "notes": ("a learned threshold would need 230 nodes",),
    }
    return Criterion(**(fields | more))


def baseline(**more: Any) -> Baseline:
    fields: dict[str, Any] = {
        "hardware_class": "cpu epyc/8",
        "attributes": {"cpu": "epyc"},
        "criteria": (criterion(), criterion("latency", scope="node", window=None, learned=None)),
        "created": "2026-01-31T12:00:00Z",
        "nodes": ("n1", "n2"),
        "runs": ("r1",),
        "error_rate": 0.01,
        "exclusions": (
            Exclusion(node="n9", device="cuda:1", benchmark="b", metric="m", reason="slow"),
        ),
        "findings": (Finding(kind="second-population", text="two firmwares"),),
        "inventory": {"gpus": [{"name": "x", "gb": 80.5}]},
    }
    return Baseline(**(fields | more))


def test_saved_baseline_comes_back_sealed(tmp_path: Path) -> None:
    path = save_baseline(baseline(), tmp_path / "new" / "folder")
    loaded = load_baseline(path, hardware_class="cpu epyc/8")
    assert loaded == seal(baseline())
    assert loaded.digest.startswith("sha256:")
    assert len(loaded.digest) == len("sha256:") + 12
    assert loaded.criteria[1].centre == (1.0, 1.1234568, 2.0)
    assert [p.name for p in path.parent.iterdir()] == [path.name]
    assert "µ?" in path.read_text(encoding="utf-8")


def test_version_1_of_a_benchmark_is_not_written(tmp_path: Path) -> None:
    assert '"version"' not in save_baseline(baseline(), tmp_path).read_text(encoding="utf-8")
    second = criterion(metric=Metric(name="rate", unit="GB/s", better="higher", version=2))
    path = save_baseline(baseline(criteria=(second,)), tmp_path / "second")
    loaded = load_baseline(path, hardware_class="cpu epyc/8")
    assert loaded.criteria[0].metric.version == 2


def test_check_without_component_has_none_in_its_file() -> None:
    old = seal(baseline(criteria=(), checks=(PlainCheck(test="t", devices=("node",)),)))
    new = seal(baseline(criteria=(), checks=(PlainCheck(test="t", component="gpu"),)))
    assert baseline_to_plain(old)["checks"] == [{"test": "t", "devices": ["node"]}]
    assert [baseline_from_plain(baseline_to_plain(one)) for one in (old, new)] == [old, new]


@pytest.mark.parametrize("value", [3162939361.0, 0.123456789012345])
def test_exact_results_are_kept_to_the_last_digit(tmp_path: Path, value: float) -> None:
    exact = criterion(
        metric=Metric(name="fingerprint", unit="1", better="equal"), centre=(value,), learned=None
    )
    path = save_baseline(baseline(criteria=(exact,)), tmp_path)
    loaded = load_baseline(path, hardware_class="cpu epyc/8")
    judged = judge_sample([value] * 4, loaded.criteria[0], loaded)
    assert judged.outcome is Outcome.PASS
    assert load_baseline(path, hardware_class="cpu epyc/8") == seal(loaded)


def test_saving_is_stable_and_independent_of_order(tmp_path: Path) -> None:
    first = save_baseline(baseline(), tmp_path).read_bytes()
    turned = dataclasses.replace(baseline(), criteria=baseline().criteria[::-1])
    assert save_baseline(turned, tmp_path).read_bytes() == first
    assert (
        save_baseline(load_baseline(tmp_path / "cpu-epyc-8.json"), tmp_path).read_bytes() == first
    )


def test_layout_does_not_matter_but_content_does(tmp_path: Path) -> None:
    path = save_baseline(baseline(), tmp_path)
    plain = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(plain))
    assert load_baseline(path).digest == plain["digest"]
    plain["criteria"][0]["alpha"] = 0.5
    path.write_text(json.dumps(plain))
    with pytest.raises(BaselineError, match=r"edited after it was sealed.*anubis baseline promote"):
        load_baseline(path)
    edited = load_baseline(path, sealed=False)
    assert edited.criteria[0].alpha == 0.5
    assert edited.digest != plain["digest"]
    save_baseline(edited, tmp_path)
    assert load_baseline(path) == edited


def test_files_are_found_by_class(tmp_path: Path) -> None:
    assert find_baseline(tmp_path, "cpu epyc/8") is None
    path = save_baseline(baseline(), tmp_path)
    assert find_baseline(tmp_path, "cpu epyc/8") == path
    assert find_baseline(path, "another") == path
    with pytest.raises(BaselineError, match="'cpu epyc/8', not for 'another'"):
        load_baseline(path, hardware_class="another")
    assert load_baselines(tmp_path) == load_baselines(path) == {"cpu epyc/8": load_baseline(path)}
    path.rename(tmp_path / "other.json")
    with pytest.raises(BaselineError, match=r"must be named cpu-epyc-8\.json"):
        load_baselines(tmp_path)
    with pytest.raises(BaselineError, match="no such folder"):
        load_baselines(tmp_path / "nowhere")
    assert baseline_file_name("../../etc/passwd") == "etc-passwd.json"
    assert baseline_file_name("..") == "unnamed.json"


MALFORMED = [
    ("schema", 2, "schema: version 2"),
    ("schema", "1", 'schema: version "1", this version'),
    ("format", "x", "not a baseline"),
    ("hardware_class", "", "hardware_class: is empty"),
    ("criteria", {}, "criteria: expected a list"),
    ("criteria.0", 7, r"criteria\[0\]: expected an object"),
    ("criteria.0.centre", [], r"criteria\[0\].centre: is empty"),
    ("criteria.0.centre", [2.0, 1.0], r"criteria\[0\].centre\[1\]: smaller"),
    ("criteria.1.centre.0", -1.0, r"\[1\].centre\[0\]: expected a number of at least 0, found -1"),
    (
        "criteria.1.centre.0",
        None,
        r"\[1\].centre\[0\]: expected a number of at least 0, found null",
    ),
    ("criteria.1.centre.0", 10**400, r"centre\[0\]: expected .*, found a number that is too large"),
    ("criteria.0.alpha", 1.5, r"criteria\[0\].alpha: expected a number from 0 to 1, found 1.5"),
    ("criteria.0.better", "faster", 'better: expected one of higher, lower, equal, found "faster"'),
    ("criteria.0.unit", "", "has no unit"),
    ("criteria.0.window", [1], "window: expected 2 items, found 1"),
    ("criteria.0.window", [1, 0], r"window\[1\]: expected a whole number of at least 1, found 0"),
    ("criteria.0.medians", [1.0] * 102, "at most 101"),
    ("criteria.0.nodes", True, "nodes: expected a whole number"),
    ("criteria.0.limmit", 0.5, "limmit: unknown field"),
    ("created", "yesterday", 'created: "yesterday" is not a date'),
    ("nodes", ["a", 5], r"nodes\[1\]: expected text"),
    ("error_rate", -0.1, "error_rate: expected a number from 0 to 1, found -0.1"),
    ("attributes", {"cpu": 5}, "attributes.cpu: expected text"),
    ("inventory", [], "inventory: expected an object"),
]


@pytest.mark.parametrize(("where", "value", "said"), MALFORMED)
def test_malformed_field_is_one_line_with_its_place(
    tmp_path: Path, where: str, value: Any, said: str
) -> None:
    path = save_baseline(baseline(), tmp_path)
    target = plain = json.loads(path.read_text(encoding="utf-8"))
    *way, last = [int(part) if part.isdigit() else part for part in where.split(".")]
    for part in way:
        target = target[part]
    target[last] = value
    path.write_text(json.dumps(plain))
    with pytest.raises(BaselineError, match=said) as caught:
        load_baseline(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({}, r"criteria\[2\]: the same .* as criteria\[0\]"),
        ({"group": "b", "unit": "MB/s"}, r"criteria\[2\].unit: MB/s"),
        ({"group": "b", "version": 2}, r"criteria\[2\].unit: .* version 2\) here"),
    ],
)
def test_duplicates_and_mixed_units_are_refused(change: dict[str, Any], said: str) -> None:
    plain = baseline_to_plain(baseline())
    plain["criteria"].append(plain["criteria"][0] | change)
    with pytest.raises(BaselineError, match=said):
        baseline_from_plain(plain)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "line 1 column 1: not valid JSON"),
        (b'{"schema": 1, "schema": 1}', "'schema' occurs twice"),
        (b'{"schema": NaN}', "NaN is not a number"),
        (b"[" * 200_000, "nested too deeply"),
        (b"\xff{}", "byte 0 is not UTF-8"),
        (b'{"n": ' + b"9" * 5000 + b"}", "not valid JSON .*learn it again"),
        (b"[]", "expected an object"),
        (b"\x00" * 10, "not valid JSON"),
    ],
)
def test_file_that_is_no_baseline_gives_one_line(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "b.json"
    path.write_bytes(content)
    with pytest.raises(BaselineError, match=said) as caught:
        load_baseline(path)
    assert str(path) in str(caught.value)


PLAIN = baseline_to_plain(seal(baseline()))
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.floats()
    | st.integers()
    | st.text(max_size=5)
    | st.sampled_from([-1, 0, 1, 1e308, -1e308, 10**400, "higher", [], {}]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)


@st.composite
def mutated(draw: st.DrawFn) -> Any:
    plain = copy.deepcopy(PLAIN)
    for _ in range(draw(st.integers(1, 3))):
        target: Any = plain
        while True:
            keys = sorted(target) if isinstance(target, dict) else list(range(len(target)))
            if not keys:
                break
            key = draw(st.sampled_from(keys))
            child = target[key]
            if isinstance(child, dict | list) and child and draw(st.booleans()):
                target = child
                continue
            if draw(st.booleans()):
                target[key] = draw(JSON)
            else:
                del target[key]
            if isinstance(target, dict) and draw(st.booleans()):
                target[draw(st.text(max_size=5))] = draw(JSON)
            break
    return plain


@settings(
    max_examples=80,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(mutated())
def test_mutated_baselines_are_valid_or_refused(tmp_path: Path, plain: Any) -> None:
    path = tmp_path / "m.json"
    path.write_text(json.dumps(plain))
    try:
        loaded = load_baseline(path, sealed=False)
    except BaselineError as error:
        said = str(error)
        assert said.startswith(str(path))
        assert "\n" not in said
        return
    for item in loaded.criteria:
        assert item.centre
        assert all(math.isfinite(v) and v >= 0 for v in (*item.centre, *item.medians))
        assert list(item.centre) == sorted(item.centre)
        assert 0 <= item.alpha <= 1
    again = save_baseline(loaded, tmp_path / "again.json")
    assert load_baseline(again) == seal(loaded)


def test_nothing_that_cannot_be_read_back_is_written(tmp_path: Path) -> None:
    bad = dataclasses.replace(baseline(), criteria=(criterion(centre=(1.0, math.nan)),))
    with pytest.raises(BaselineError, match=r"centre\[1\]: expected a finite number, found NaN"):
        save_baseline(bad, tmp_path)
    deep: Any = {}
    for _ in range(40):
        deep = {"x": deep}
    with pytest.raises(BaselineError, match="nested more than"):
        save_baseline(baseline(inventory=deep), tmp_path)
    assert list(tmp_path.iterdir()) == []
    endless = dataclasses.replace(baseline(), criteria=(criterion(detectable=math.inf),))
    assert load_baseline(save_baseline(endless, tmp_path)).criteria[0].detectable is None


def test_a_failed_write_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = save_baseline(baseline(), tmp_path)
    before = path.read_bytes()

    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(BaselineError, match="No space left"):
        save_baseline(baseline(method="medoid"), tmp_path)
    monkeypatch.undo()
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


USELESS: dict[str, dict[str, Any]] = {
    "alpha 0": {"alpha": 0.0, "learned": None},
    "both thresholds 0": {"alpha": 0.0, "learned": 0.0},
    "a learned threshold of 0": {"learned": 0.0},
    "one of 0 until many looks": {"unconfirmed": 0.0},
    "a centre of 0": {"centre": (0.0,), "medians": ()},
    "a centre of nothing": {"centre": (5e-324,), "medians": ()},
    "an endless centre": {
        "centre": (1e300,),
        "medians": (),
        "metric": Metric(name="time", unit="s", better="lower"),
    },
    "more values than there are": {"least": 2**40},
}


@pytest.mark.parametrize("part", ["criteria", "together"])
@pytest.mark.parametrize("what", USELESS)
def test_criterion_that_cannot_fail_is_refused(tmp_path: Path, what: str, part: str) -> None:
    criteria = (criterion(), criterion("toothless", **USELESS[what]))
    said = (
        rf"^{part}\[1\]: \"suites/test_net.py::test_tcp\" \"(toothless|time)\" can never fail: .*"
    )
    given = baseline(**{"criteria": (), part: criteria})
    with pytest.raises(BaselineError, match=said):
        save_baseline(given, tmp_path)
    plain = baseline_to_plain(given)
    with pytest.raises(BaselineError, match=said) as refused:
        baseline_from_plain(plain)
    assert str(refused.value).isprintable()


LEVELS = st.one_of(
    st.sampled_from([0.0, 5e-324, 1e-300, 1e-12, 1.0, 1e30, 1e308]),
    st.floats(min_value=0, max_value=1e308),
    st.floats(min_value=1e-3, max_value=1e6),
)
SHARES = st.one_of(st.sampled_from([0.0, 1e-9, 0.01, 0.02, 1.0]), st.floats(0, 1))


@settings(max_examples=100)
@given(
    centre=st.lists(LEVELS, min_size=1, max_size=5).map(sorted),
    better=st.sampled_from(["higher", "lower", "equal"]),
    alpha=SHARES,
    learned=st.none() | SHARES,
    unconfirmed=st.none() | SHARES,
    least=st.integers(1, 30),
)
@example(
    centre=[1e308, 1e308], better="higher", alpha=0.02, learned=None, unconfirmed=None, least=3
)
def test_hundredth_of_normal_fails_any_read_criterion(
    centre: list[float],
    better: Any,
    alpha: float,
    learned: float | None,
    unconfirmed: float | None,
    least: int,
) -> None:
    one = criterion(
        metric=Metric(name="rate", unit="GB/s", better=better),
        centre=tuple(centre),
        medians=(),
        alpha=alpha,
        learned=learned,
        unconfirmed=unconfirmed,
        least=least,
    )
    try:
        (read,) = baseline_from_plain(baseline_to_plain(baseline(criteria=(one,)))).criteria
    except BaselineError as error:
        assert "can never fail" in str(error)  # noqa: PT017  # all else about it is in order
        return
    by = 0.01 if better == "higher" else 100.0
    bad = [by * value for value in read.centre] * least
    if better == "equal" or not any(bad):
        bad = [0.0 if read.centre[0] >= 1 else read.centre[0] + 1] * least
    assert judge_sample(bad, read).outcome is Outcome.FAIL
