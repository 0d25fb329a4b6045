"""Shared parts of one node: a switch or a socket is found, and nothing is named by chance."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from pytest_anubis.core.fleet_survey import SLOW_PART
from pytest_anubis.core.measurement import Measurement
from pytest_anubis.core.metric import Direction, Metric
from pytest_anubis.core.node_map import Place, SharedPart, places_of
from pytest_anubis.core.run import RunRecord
from pytest_anubis.core.sample import population_of
from pytest_anubis.core.verdict import MetricVerdict, Outcome, Reason
from pytest_anubis.hardware.inventory.inventory_reading import inventory_to_plain
from pytest_anubis.hardware.telemetry.recorded_node import replay
from pytest_anubis.validator import learn_baseline
from pytest_anubis.validator.surveying.shared_parts import (
    Reading,
    accused,
    levels_of,
    parts_of_collected,
    ranked,
    shared_parts,
    suspects,
)
from pytest_anubis.validator.surveying.trait_shifts import part_shifts
from tests.hardware.mapped_node import SWITCHES, mapped, place
from tests.places import RECORDED

CARDS = [f"cuda:{number}" for number in range(8)]
PLACES = {name: Place(sort="accelerators", **place(n)) for n, name in enumerate(CARDS)}
NOISE = (0.002, -0.001, 0.0, 0.001, -0.002, 0.001, 0.0, -0.001)
"""Healthy levels of the cards."""


def levels(slow: Mapping[int, float], base: float = 0.0) -> dict[str, float]:
    """Return levels of eight cards, some with a relative loss."""
    return {name: base + NOISE[n] + math.log(1 - slow.get(n, 0.0)) for n, name in enumerate(CARDS)}


def named(slow: Mapping[int, float], base: float = 0.0) -> list[tuple[str, str]]:
    found = accused(levels(slow, base), suspects(PLACES))
    return [(one.suspect.kind, one.suspect.name) for one in found]


@pytest.mark.parametrize(
    ("slow", "expected"),
    [
        ({}, []),
        ({5: 0.2}, [("device", "cuda:5")]),
        ({2: 0.2, 3: 0.2}, [("switch", SWITCHES[1])]),
        (dict.fromkeys(range(4, 8), 0.2), [("socket", "1")]),
        ({1: 0.2, 2: 0.2}, []),  # neighbours on two switches: no single part explains them
        # A switch slows both alike.
        ({2: 0.2, 3: 0.6}, [("device", "cuda:3"), ("device", "cuda:2")]),
        ({2: 0.3, 3: 0.3, 6: 0.1}, [("switch", SWITCHES[1]), ("device", "cuda:6")]),
        ({2: 0.005, 3: 0.005}, []),  # too little to matter
        ({2: -0.2, 3: -0.2}, []),  # faster
    ],
)
def test_the_part_that_explains_the_losses_is_named(
    slow: Mapping[int, float], expected: list[tuple[str, str]]
) -> None:
    assert named(slow) == expected


def test_all_are_slow_only_beyond_what_nodes_differ_by() -> None:
    assert named({}, base=math.log(0.98)) == []
    assert named({}, base=math.log(0.8)) == [("all", "")]
    assert named({2: 0.2, 3: 0.2}, base=math.log(0.8)) == [("switch", SWITCHES[1]), ("all", "")]


def test_without_the_map_no_switch_can_be_found() -> None:
    bare = {name: Place(sort="accelerators", numa_node=n // 4) for n, name in enumerate(CARDS)}
    assert accused(levels({2: 0.2, 3: 0.2}), suspects(bare)) == []
    shuffled = dict(zip(CARDS, (PLACES[CARDS[n]] for n in (0, 2, 4, 6, 1, 3, 5, 7)), strict=True))
    assert accused(levels({2: 0.2, 3: 0.2}), suspects(shuffled)) == []


def test_of_bridges_with_the_same_devices_the_nearest_is_named() -> None:
    found = [one for one in suspects(PLACES) if one.kind == "switch"]
    assert [one.name for one in found] == list(SWITCHES)
    assert {one.alike for one in found} == {4}
    assert sum(one.prior for one in suspects(PLACES)) == pytest.approx(1)


def test_a_switch_of_a_whole_socket_is_one_hypothesis() -> None:
    places = {
        name: Place(sort="accelerators", numa_node=n // 4, bridges=(f"port{n}", f"switch{n // 4}"))
        for n, name in enumerate(CARDS)
    }
    found = [one for one in suspects(places) if one.kind in ("switch", "socket")]
    assert [(one.name, one.socket) for one in found] == [("switch0", 0), ("switch1", 1)]
    (part,) = accused(levels(dict.fromkeys(range(4), 0.2)), suspects(places))
    assert (part.suspect.kind, part.suspect.socket) == ("switch", 0)


def test_a_noisy_metric_hides_no_loss_of_a_quiet_one() -> None:
    found = [
        Reading(component="c", metric=(name,), device=device, level=level, spread=spread)
        for n, device in enumerate(CARDS)
        for name, level, spread in (
            ("quiet", levels({2: 0.1, 3: 0.1})[device], 0.002),
            ("noisy", 40 * NOISE[-1 - n], 0.08),
        )
    ]
    best, *_ = ranked(levels_of(found), suspects(PLACES)[:-1])
    assert best[0].name == SWITCHES[1]


RATE = Metric(name="rate", unit="GB/s", better="higher")


def measured(name: str, better: Direction, values: Mapping[str, float]) -> list[Measurement]:
    return [
        Measurement(
            test=f"t.py::test_{name}[{device}]",
            benchmark=f"t.py::test_{name}",
            component="memory.transfer",
            metric=Metric(name=name, unit="ms" if better == "lower" else "GB/s", better=better),
            device=device,
            values=(value,) * 3,
        )
        for device, value in values.items()
    ]


def run_of(*measurements: Measurement, inventory: Mapping[str, Any] | None = None) -> RunRecord:
    known = inventory_to_plain(mapped(replay(RECORDED).inventory))
    return RunRecord(
        run="r",
        node="n",
        measurements=measurements,
        inventory=known if inventory is None else inventory,
    )


def failed(*devices: str) -> list[MetricVerdict]:
    return [
        MetricVerdict(
            outcome=Outcome.FAIL,
            reason=Reason.BEYOND,
            text="slow",
            benchmark="t.py::test_rate",
            metric="rate",
            component="memory.transfer",
            device=device,
        )
        for device in devices
    ]


RATES = {name: 50 * math.exp(level) for name, level in levels({2: 0.2, 3: 0.2}).items()}
TIMES = {name: 4 / math.exp(level) for name, level in levels({2: 0.1, 3: 0.1}).items()}


def test_a_run_names_the_part_of_its_bad_devices_only() -> None:
    run = run_of(*measured("rate", "higher", RATES), *measured("time", "lower", TIMES))
    (part,) = shared_parts(run, None, failed("cuda:2", "cuda:3"))
    assert (part.name, part.devices) == (SWITCHES[1], ("cuda:2", "cuda:3"))
    assert part.components == ("memory.transfer",)
    assert part.loss == pytest.approx(0.15, abs=0.02)  # the mean of both metrics
    assert part.confidence > 0.9
    assert part.alone
    assert not shared_parts(run, None, failed("cuda:2", "cuda:5"))[0].alone
    assert shared_parts(run, None, failed("cuda:5")) == ()
    assert shared_parts(run, None, ()) == ()


def test_of_collected_runs_the_latest_sample_of_each_device_counts() -> None:
    """Two cards of one switch are slow; later runs measure one of them alone, or both."""
    later = {"cuda:2": RATES["cuda:2"]}
    mended = dict.fromkeys(("cuda:2", "cuda:3"), 50.0)
    for again, verdicts, parts in (
        (later, failed("cuda:2", "cuda:3"), 1),
        (mended, failed("cuda:2"), 0),
        (later, (), 0),
    ):
        rows = [("b", again), ("a", RATES)]
        devices = [(name, run, value) for run, rates in rows for name, value in rates.items()]
        known = population_of(
            [[value] * 3 for _, _, value in devices],
            metric=RATE,
            benchmark="t.py::test_rate",
            nodes=["n"] * len(devices),
            devices=[name for name, _, _ in devices],
            runs=[run for _, run, _ in devices],
            component="memory.transfer",
        )
        began = {("b", "n"): "2026-02-01", ("a", "n"): "2026-01-01"}
        unit = ("n", "")
        found = parts_of_collected([known], {unit: run_of()}, {unit: verdicts}, {}, began)
        assert [one.name for one in found.get(unit, ())] == [SWITCHES[1]] * parts


def test_a_part_that_is_slow_in_two_components_is_named_once() -> None:
    there = [replace(m, component="training") for m in measured("time", "lower", TIMES)]
    run = run_of(*measured("rate", "higher", RATES), *there)
    bad = failed("cuda:2", "cuda:3")
    (part,) = shared_parts(run, None, [*bad, *(replace(v, component="training") for v in bad)])
    assert set(part.components) == {"memory.transfer", "training"}
    assert part.loss == pytest.approx(0.2, abs=0.01)  # the larger one


def test_values_beyond_any_measure_are_compared() -> None:
    odd = {name: 5e-324 if name in ("cuda:2", "cuda:3") else 1e300 for name in CARDS}
    (found,) = shared_parts(run_of(*measured("rate", "higher", odd)), None, failed("cuda:2"))
    assert (found.name, found.loss) == (SWITCHES[1], 1)


def test_disturbed_and_exact_values_name_nothing() -> None:
    rates = measured("rate", "higher", RATES)
    disturbed = [replace(one, disturbance=("steal",)) for one in rates]
    assert shared_parts(run_of(*disturbed), None, failed("cuda:2")) == ()
    exact = measured("rate", "equal", RATES)
    assert shared_parts(run_of(*exact), None, failed("cuda:2")) == ()


def test_a_baseline_shows_that_all_devices_are_slow() -> None:
    known = population_of(
        [[100 + n % 5 / 10] * 5 for n in range(12)],
        metric=RATE,
        benchmark="t.py::test_rate",
        nodes=[f"n{n}" for n in range(12)],
        component="memory.transfer",
    )
    baseline = learn_baseline([known], hardware_class="", created="2026-01-01", error_rate=None)
    slow = {name: 80 * math.exp(level) for name, level in levels({}).items()}
    run = run_of(*measured("rate", "higher", slow))
    (part,) = shared_parts(run, baseline, failed(*CARDS))
    assert (part.kind, part.devices) == ("all", tuple(CARDS))
    assert shared_parts(run, None, failed(*CARDS)) == ()


@pytest.mark.parametrize(
    "inventory",
    [
        {},
        {"accelerators": 7},
        {"accelerators": ["x", None, 3, {"bridges": "0000:16:00.0"}]},
        {"accelerators": [{"bridges": [1, None], "numa_node": "one"}] * 8},
        {"accelerators": [{"bridges": {}, "numa_node": True}] * 8, "nics": {"a": 1}},
    ],
)
def test_an_inventory_of_another_shape_has_no_map(inventory: Mapping[str, Any]) -> None:
    assert places_of(inventory, CARDS) == {}
    run = run_of(*measured("rate", "higher", RATES), inventory=inventory)
    assert shared_parts(run, None, failed("cuda:2")) == ()


def test_ports_and_cards_are_compared_apart() -> None:
    plain = inventory_to_plain(mapped(replay(RECORDED).inventory))
    found = places_of(plain, ["cuda:3", "mlx5_3/1", "cpu", "cuda:0>cuda:1"])
    assert {name: one.sort for name, one in found.items()} == {
        "cuda:3": "accelerators",
        "mlx5_3/1": "nics",
    }
    assert found["cuda:3"].bridges == found["mlx5_3/1"].bridges


def part(name: str, alike: int = 4) -> SharedPart:
    return SharedPart(
        kind="switch",
        name=name,
        devices=("cuda:0", "cuda:1"),
        components=("memory.transfer",),
        loss=0.2,
        confidence=0.9,
        alone=True,
        alike=alike,
    )


def test_a_part_that_fails_on_many_nodes_is_shared_by_them() -> None:
    parts = {f"n{n:02}": [part(SWITCHES[1])] if n < 6 else [] for n in range(40)}
    (shift,) = part_shifts("class", parts, rejected=("n00", "n01", "n30"))
    assert (shift.trait, shift.value) == (SLOW_PART, f"PCIe switch {SWITCHES[1]}")
    assert shift.nodes == tuple(f"n{n:02}" for n in range(6))
    assert (shift.others, shift.rejected, shift.rejected_others) == (34, 2, 1)
    assert not shift.explains(failed("cuda:0"))  # it excuses no node


def test_a_node_counts_once_for_a_part_of_two_components() -> None:
    twice = [part(SWITCHES[1]), replace(part(SWITCHES[1]), devices=("cuda:0", "cuda:1", "cuda:2"))]
    parts = {f"n{n:02}": twice if n < 4 else [] for n in range(40)}
    assert part_shifts("class", parts) == []  # four nodes, not eight


def test_a_part_of_thousands_of_nodes_is_shared_by_them() -> None:
    parts = {f"n{n:04}": [part(SWITCHES[n % 4 if n < 2000 else 1])] for n in range(3000)}
    (shift,) = part_shifts("class", parts)
    assert (shift.value, len(shift.nodes)) == (f"PCIe switch {SWITCHES[1]}", 1500)


def test_independent_faults_share_no_part() -> None:
    spread = {f"n{n}": [part(SWITCHES[n % 4])] for n in range(24)}
    assert part_shifts("class", spread) == []
    few = {f"n{n}": [part(SWITCHES[1])] for n in range(4)}
    assert part_shifts("class", few) == []
    sockets = {f"n{n}": [part("0", alike=1)] for n in range(30)}
    assert part_shifts("class", sockets) == []
