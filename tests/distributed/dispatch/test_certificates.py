from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_anubis.core.events import TestRan
from pytest_anubis.core.measurement import Measurement, PlannedTest
from pytest_anubis.core.metric import Metric
from pytest_anubis.core.run import RunRecord
from pytest_anubis.distributed.dispatch.certificates import (
    Certificate,
    CertificateError,
    certificate_path,
    certify,
    granted,
    load_certificates,
    merged,
    overlaps,
    save_certificates,
)


def run(
    values: dict[str, list[float]], spans: dict[str, tuple[float, float]] | None = None
) -> RunRecord:
    """A run in which each benchmark measured a rate, at the given times."""
    metric = Metric(name="rate", unit="GB/s", better="higher")
    return RunRecord(
        run="r",
        node="n",
        planned=tuple(PlannedTest(test=name, benchmark=name) for name in values),
        measurements=tuple(
            Measurement(
                test=name,
                benchmark=name,
                component="c",
                metric=metric,
                device="node",
                values=tuple(numbers),
            )
            for name, numbers in values.items()
        ),
        events=tuple(
            TestRan(test=name, worker="gw0", start=start, end=end)
            for name, (start, end) in (spans or {}).items()
        ),
    )


ALONE = run({"disk": [10.0, 10.1, 9.9], "gemm": [5.0, 5.0, 5.1], "net": [3.0, 3.0, 3.0]})
OVERLAPPING = {"disk": (0.0, 2.0), "gemm": (1.0, 3.0), "net": (2.0, 4.0)}


def test_pairs_that_overlapped_are_found() -> None:
    record = run({"disk": [1.0], "gemm": [1.0], "net": [1.0]}, OVERLAPPING)
    assert overlaps(record) == {("disk", "gemm"), ("gemm", "net")}  # disk ends as net starts


def test_pair_is_certified_when_neither_is_worse() -> None:
    both = run(
        {"disk": [9.9, 10.0, 10.0], "gemm": [6.0, 6.0, 6.0], "net": [2.0, 2.0, 2.0]}, OVERLAPPING
    )
    found = {(c.first, c.second): c for c in certify([ALONE], [both] * 3)}
    assert set(found) == {("disk", "gemm"), ("gemm", "net")}
    assert found["disk", "gemm"].granted
    assert found["disk", "gemm"].similarity >= 0.95
    refused = found["gemm", "net"]
    assert not refused.granted
    assert refused.similarity == pytest.approx(2 / 3)
    assert refused.reason == "rate is 0.667 alike, 0.95 is needed"
    assert granted(found.values()) == {frozenset({"disk", "gemm"})}


def test_one_lucky_meeting_certifies_nothing() -> None:
    good = {"disk": [10.0] * 3, "gemm": [5.0] * 3}
    harmed = {"disk": [10.0] * 3, "gemm": [4.5] * 3}
    apart = {"disk": (0.0, 2.0), "gemm": (2.0, 3.0)}

    def of(*runs: RunRecord) -> Certificate:
        (found,) = certify([ALONE], runs)
        return found

    seldom = of(run(good, OVERLAPPING), run(good, OVERLAPPING), run(good, apart))
    assert (seldom.granted, seldom.open, seldom.met) == (False, True, 2)
    assert seldom.reason == "fine so far, but met only 2 times, 3 times are needed: more rounds"
    often = of(*[run(good, OVERLAPPING)] * 3)
    assert (often.granted, often.open, often.met) == (True, False, 3)
    # All together it is .95 alike and more; without the first run, which was lucky, it is less.
    worse = {"disk": [10.0] * 3, "gemm": [4.72] * 3}
    refused = of(run(good, OVERLAPPING), run(worse, OVERLAPPING), run(worse, OVERLAPPING))
    assert (refused.granted, refused.open) == (False, False)
    assert refused.similarity == pytest.approx(4.72 / (sum([5.0, 5.0, 5.1]) / 3))
    once = of(run(harmed, OVERLAPPING))
    assert (once.granted, once.open) == (False, False)


def test_pair_stays_open_until_it_has_enough_values() -> None:
    one = run({"disk": [10.0], "gemm": [5.0]}, OVERLAPPING)
    for count, expected in ((1, (False, True)), (2, (False, True)), (3, (True, False))):
        (found,) = certify([ALONE], [one] * count)
        assert (found.granted, found.open) == expected
    assert certify([ALONE], [one])[0].reason == "too few values of rate on node"
    (harmed,) = certify([ALONE], [run({"disk": [10.0], "gemm": [4.0] * 3}, OVERLAPPING)])
    assert (harmed.granted, harmed.open) == (False, False)


def test_what_stayed_open_replaces_nothing() -> None:
    granted_before = Certificate(first="a", second="b", granted=True, met=4)
    open_now = Certificate(first="a", second="b", open=True, met=1)
    refused_now = Certificate(first="a", second="b", reason="x", met=1)
    assert merged([granted_before], [open_now]) == (granted_before,)
    assert merged([granted_before], [refused_now]) == (refused_now,)
    assert merged([], [open_now]) == (open_now,)
    other = Certificate(first="a", second="c")
    assert merged([granted_before, other], [refused_now]) == (refused_now, other)


def test_a_touch_is_no_meeting() -> None:
    brief = {"disk": (0.0, 2.0), "gemm": (1.6, 3.0)}
    record = run({"disk": [10.0] * 3, "gemm": [5.0] * 3}, brief)
    assert overlaps(record) == {("disk", "gemm")}
    assert overlaps(record, 0.5) == set()
    assert certify([ALONE], [record]) == ()
    long = run({"disk": [10.0] * 3, "gemm": [5.0] * 3}, {"disk": (0.0, 9.0), "gemm": (1.0, 2.0)})
    assert overlaps(long, 0.5) == {("disk", "gemm")}


def test_too_few_values_certify_nothing() -> None:
    both = run({"disk": [10.0, 10.0], "gemm": [5.0] * 3}, OVERLAPPING)
    (found,) = certify([ALONE], [both])
    assert (found.granted, found.reason) == (False, "too few values of rate on node")
    (found,) = certify([], [run({"disk": [10.0] * 3, "gemm": [5.0] * 3}, OVERLAPPING)])
    assert not found.granted


def test_benchmark_without_values_is_not_certified() -> None:
    silent = run({"disk": [10.0] * 3}, OVERLAPPING)
    planned = (*silent.planned, PlannedTest(test="gemm", benchmark="gemm"))
    (found,) = certify([ALONE], [replace(silent, planned=planned)])
    assert (found.granted, found.reason) == (False, "gemm recorded nothing")


def test_certificates_survive_the_disk(tmp_path: Path) -> None:
    assert load_certificates(tmp_path, "class") == ()
    kept = (
        Certificate(first="a", second="b", similarity=0.97, metric="rate", granted=True),
        Certificate(first="a", second="c", reason="x"),
    )
    path = save_certificates(tmp_path, "class", kept)
    assert path == certificate_path(tmp_path, "class")
    assert load_certificates(tmp_path, "class") == kept


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"format": "x"}, "no certificates of schema 2"),
        ({"schema": 9}, "no certificates of schema 2"),
        ({"hardware_class": "other"}, "belongs to class 'other'"),
        ({"pairs": {}}, "pairs: expected a list, found an object"),
        ({"pairs": [{"first": "a"}]}, r"pairs\[0\].second: is missing"),
        ({"pairs": [{"first": "a", "second": "b", "granted": "yes"}]}, "granted: expected true"),
    ],
    ids=str,
)
def test_damaged_certificates_are_refused(
    tmp_path: Path, change: dict[str, object], text: str
) -> None:
    path = save_certificates(tmp_path, "class", ())
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(CertificateError, match=text) as caught:
        load_certificates(tmp_path, "class")
    assert str(path) in str(caught.value)


def test_file_that_is_no_json_is_refused(tmp_path: Path) -> None:
    path = save_certificates(tmp_path, "class", ())
    path.write_text("{")
    with pytest.raises(CertificateError, match="cannot be read"):
        load_certificates(tmp_path, "class")


def test_pairs_that_overlap_anyway_need_no_certificate() -> None:
    spans = {"disk": (0.0, 1.0), "gemm": (2.0, 4.0), "net": (3.0, 5.0)}
    values = {"disk": [10.0] * 3, "gemm": [5.0] * 3, "net": [3.0] * 3}
    assert [
        (c.first, c.second) for c in certify([run(values, spans)], [run(values, OVERLAPPING)])
    ] == [("disk", "gemm")]


def test_certificates_are_next_to_the_baseline(tmp_path: Path) -> None:
    assert certificate_path(tmp_path / "one.json", "class") == certificate_path(tmp_path, "class")
