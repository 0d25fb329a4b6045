"""One scale for losses: the same words for the same loss, wherever it is shown."""

from __future__ import annotations

import math

import pytest

from pytest_anubis.core.metric import (
    Direction,
    Metric,
    MetricError,
    distinguishing_decimals,
    found_from,
    is_known_unit,
    loss_size,
    loss_text,
    metric_names,
    percent_text,
    relative_loss,
    size_text,
    slip_of,
)


def test_parameters_distinguish_metrics_of_one_name() -> None:
    latency = "suites/memory/test_latency.py::test_load_latency"
    some = [(f"{latency}[{level}]", "load_latency") for level in ("l2", "llc")]
    rates = [(f"a.py::test_{what}_step", "training_rate") for what in ("gpt", "resnet")]
    assert metric_names([*some, *rates, ("a.py::test_burn", "burn_rate")]) == [
        "load_latency[l2]",
        "load_latency[llc]",
        "test_gpt_step training_rate",
        "test_resnet_step training_rate",
        "burn_rate",
    ]
    many = [(f"{latency}[{kib}]", "load_latency") for kib in range(9)]
    assert metric_names([*many, ("host", "rate")]) == ["9 of load_latency", "rate"]


@pytest.mark.parametrize(
    ("similarity", "better", "unit", "words"),
    [
        (0.88, "higher", "GB/s", "12 % slower"),
        (0.88, "higher", "1", "12 % lower"),
        (1 / 20, "higher", "TFLOP/s", "20 times as slow"),
        (1 / 20, "higher", "1", "1/20 of it"),
        (0.0, "higher", "IOPS", "nothing at all"),
        (1 / 1.12, "lower", "ms", "12 % longer"),
        (1 / 1.12, "lower", "W", "12 % higher"),
        (1 / 30, "lower", "us/step", "30 times as long"),
        (1 / 2.5, "lower", "count", "2.5 times as high"),
        (0.0, "lower", "count", "above zero"),
        (0.99999, "lower", "ms", "<0.01 % longer"),
        (1.0, "lower", "ms", "no worse"),
    ],
)
def test_a_loss_is_said_as_it_would_be_measured(
    similarity: float, better: str, unit: str, words: str
) -> None:
    assert loss_text(similarity, better, unit) == words


def test_a_shape_is_worse_and_neither_slow_nor_long() -> None:
    assert loss_text(1 / 1.12, "lower", "ms", shape=True) == "12 % worse"
    assert (
        loss_text(1 / 22, "lower", "ms", shape=True, than="normal") == "22 times as bad as normal"
    )


@pytest.mark.parametrize(
    ("loss", "better", "words"),
    [
        (0.91, "higher", "91 %"),  # of a rate no more can be lost than all of it
        (0.996, "higher", "99.6 %"),
        (1 - 1e-12, "higher", ">99 %"),
        (1.3, "lower", "2.3 times"),
        (0.12, "lower", "12 %"),
        (None, "lower", "-"),
    ],
)
def test_the_least_loss_of_a_rate_is_a_share(loss: float | None, better: str, words: str) -> None:
    assert found_from(loss, better) == words


@pytest.mark.parametrize("better", ["higher", "lower"])
@pytest.mark.parametrize("similarity", [0.999, 0.88, 0.51, 0.11, 1 / 12, 0.05, 1e-6])
def test_a_table_and_a_sentence_say_one_number(similarity: float, better: str) -> None:
    """Never ``95 %`` in a column and ``20 times as slow`` in the sentence next to it."""
    size = loss_size(similarity, better)
    for unit in ("GB/s", "ms", "1"):
        text = loss_text(similarity, better, unit)
        assert text.startswith((f"{size} ", f"1/{size.partition(' ')[0]} of it")), text
    assert loss_size(0.05, "equal") == "95 %"  # of values that differ


@pytest.mark.parametrize("better", ["higher", "lower"])
@pytest.mark.parametrize("similarity", [0.99, 0.95, 0.5, 0.045])
def test_size_text_inverts_relative_loss(similarity: float, better: str) -> None:
    assert size_text(relative_loss(similarity, better), better) == loss_size(similarity, better)


def test_nothing_normal_makes_an_endless_loss() -> None:
    assert relative_loss(0.0, "lower") == math.inf
    assert size_text(math.inf, "lower") == loss_size(0.0, "lower") == "any amount"
    assert percent_text(math.inf) == "inf %"


def test_close_losses_get_distinguishing_decimals() -> None:
    decimals = distinguishing_decimals(0.9496, 0.95, "higher")
    assert loss_size(0.9496, "higher", decimals) == "5.04 %"
    assert loss_size(0.95, "higher", decimals) == "5.00 %"
    assert distinguishing_decimals(0.9, 0.95, "higher") is None
    assert distinguishing_decimals(0.9, 0.9, "higher") is None


def test_common_units_are_known_and_typos_are_not() -> None:
    known = (
        "GB/s GBps Gbps TFLOPS GFLOP/s samples/s tokens/s us/step ms % 1 °C MHz count kIOPS MiB/s unit "
        "img/s imgs/sec"
    )
    assert all(map(is_known_unit, [*known.split(), "samples per second"]))
    assert not any(map(is_known_unit, ["GBs/foo", "GBs", "parrots/s", ","]))


@pytest.mark.parametrize(
    ("name", "unit", "right"),
    [
        ("m", "errors", 0),
        ("m", "Errors", 0),
        ("m", "bit flips", 0),
        ("exact_errors", "count", 0),
        ("return_code", "count", 0),
        ("wrong", "1", 0),
        ("errors_per_run", "1", 0),
        ("fingerprint", "1", None),
        ("links", "count", None),
        ("terror", "bytes", None),
        ("lossless_frames", "count", None),
    ],
)
def test_counts_of_faults_have_0_as_their_right_value(
    name: str, unit: str, right: float | None
) -> None:
    assert Metric(name=name, unit=unit, better="equal").right == right
    assert Metric(name=name, unit=unit, better="higher").right is None
    assert Metric(name=name, unit=unit, better="equal", expect=2.0).right == 2


@pytest.mark.parametrize(
    ("better", "expect"), [("higher", 1.0), ("equal", -1.0), ("equal", math.inf)]
)
def test_only_exact_metrics_expect_a_value(better: Direction, expect: float) -> None:
    with pytest.raises(MetricError, match="expect"):
        Metric(name="m", unit="1", better=better, expect=expect)


@pytest.mark.parametrize("factor", [8, 60, 1000, 1024, 3600, 10**6, 10**9])
def test_unit_factors_are_found_in_both_directions(factor: int) -> None:
    assert slip_of(factor * 1.003) == slip_of(1 / (factor * 1.003)) == str(factor)


@pytest.mark.parametrize("ratio", [0.0, 1.0, 2.0, 9.0, 70.0, 500.0])
def test_other_ratios_are_no_slips(ratio: float) -> None:
    assert slip_of(ratio) == ""
