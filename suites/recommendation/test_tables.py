"""Random access to tables far beyond the caches: rates of lookups and updates, and their bits."""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle
from typing import TYPE_CHECKING

import pytest

from pytest_anubis import DeviceFixture, MetricFixture, NodeFixture

if TYPE_CHECKING:
    from suites.recommendation.tables import Shape, Spread

POOLING = (32,) * 8
"""Rows that a sample sums of each table."""

SAMPLES = {"accelerator": 8192, "cpu": 512}
WIDTH = {"accelerator": 128, "cpu": 64}
"""A step looks up a gigabyte of rows, or on a host as much as fits between two looks at the machine."""

BYTES = 16 << 30
"""Of the tables on an accelerator: beyond what its caches and their lists of pages hold."""

BEYOND = 4
"""Times the last-level caches that a host's tables are large, at least."""

HOST_SHARE = 1 / 8
"""Share of all of a host's memory that its tables take at most, so that their size is always the same."""

BATCHES = (8, 64)
"""Least and most steps that take turns; between them as many as look up twice what the caches hold."""

REPEATS = {"smoke": 1, "standard": 3, "soak": 100}
"""How often the same updates have to give the same bits."""

KEPT_BITS = 32
"""Recorded bits of the fingerprint: a record stores floats, which are exact to 53 bits."""

SHOWN = 3
"""Wrong rows that are named."""

pytestmark = pytest.mark.anubis(
    component="memory.tables",
    scope="device",
    profiles=("standard", "soak"),
    goal="Tables of recommendation networks are read and changed at the rate of the device's class",
    action="Run the patterns over this memory and read its corrected errors; a low rate with a normal "
    "bandwidth is the translation of addresses (page sizes, IOMMU) or the memory's banks",
)


def shape_for(kind: str, free: int, caches: int) -> Shape:
    """Return the sizes for a device.

    Args:
        kind: Its kind, such as ``cpu``.
        free: Bytes that the tables may take.
        caches: Bytes of a host's last-level caches.
    """
    from suites.recommendation.tables import ELEMENT, Shape

    which = "cpu" if kind == "cpu" else "accelerator"
    width = WIDTH[which]
    row = len(POOLING) * width * ELEMENT
    rows = 1 << 10
    while 2 * rows * row <= free and (rows * row < BEYOND * caches or which != "cpu"):
        rows *= 2
    return Shape(rows=rows, width=width, samples=SAMPLES[which], pooling=POOLING)


def batches_for(shape: Shape, caches: int) -> int:
    """Return how many steps take turns."""
    fewest, most = BATCHES
    return min(most, max(fewest, -(-2 * caches // shape.looked_up)))


@pytest.mark.anubis(
    host=True,
    cost={"cpu": "8s", "accelerator": "6s"},
    deadline="300s",
    metrics=["lookup_rate", "update_rate"],
    question="How many bytes of rows a second are looked up, and updated, at places that no cache can guess?",
)
@pytest.mark.parametrize("spread", ["uniform", "skewed"])
@pytest.mark.usefixtures("torch_settings")
def test_tables(
    anubis_metric: MetricFixture,
    anubis_device: DeviceFixture,
    record_property: Callable[[str, object], None],
    spread: Spread,
) -> None:
    """Rows of tables of gigabytes are summed and updated at their rates, and every one is right."""
    from pytest_anubis.benchmarking.sizes import fitting, host_memory
    from suites.memory.caches import read_caches
    from suites.recommendation.tables import (
        ELEMENT,
        Batch,
        Plan,
        Tables,
        gradients_of,
        wrong_sums,
        wrong_updates,
    )

    device = anubis_device.torch
    on_cpu = anubis_device.kind == "cpu"
    free = int(HOST_SHARE * host_memory()[1]) if on_cpu else fitting(BYTES, device)
    caches = read_caches().last_total if on_cpu else 0
    shape = shape_for(anubis_device.kind, free, caches)
    times = f", {shape.bytes / caches:.2g} times the caches" if caches else ""
    record_property(
        "tables", f"{shape.tables} of {shape.rows} rows of {shape.width} numbers{times}"
    )
    group = f"{shape.bytes >> 20} MiB"
    tables = Tables(shape, device)

    def drawn(number: int) -> Batch:
        return Batch.drawn(shape, number, spread, device)

    batches = [drawn(number) for number in range(batches_for(shape, caches))]
    turns = cycle(batches)

    def lookup() -> None:
        batch = next(turns)
        tables.lookup(batch.rows, batch.starts)

    anubis_metric.measure(
        "lookup_rate", lookup, work=shape.looked_up, unit="GB/s", better="higher", group=group
    )
    sums = tables.lookup(batches[0].rows, batches[0].starts)
    wrong = wrong_sums(shape, drawn(0), sums)
    assert not wrong, "wrong sums: " + _named("sample", "table", wrong)
    plans = [Plan(batch) for batch in batches]
    gradients = gradients_of(shape, 0, device)
    order = [(plan, sign) for sign in (-1, 1) for plan in plans]
    done = 0

    def update() -> None:
        nonlocal done
        plan, sign = order[done % len(order)]
        tables.update(plan, gradients, sign)
        done += 1

    changed = sum(len(plan.rows) for plan in plans) / len(plans)
    anubis_metric.measure(
        "update_rate",
        update,
        work=2 * changed * shape.width * ELEMENT,
        unit="GB/s",
        better="higher",
        group=group,
    )
    while done % len(order):  # until all have been taken back
        update()
    rows = tables.wrong_rows()
    for number, plan in enumerate(plans):
        rows += wrong_updates(tables, plan, drawn(number), gradients_of(shape, 0, device))
    assert not rows, "wrong rows after updates: " + _named("table", "row", rows)


def _named(one: str, other: str, places: list[tuple[int, int]]) -> str:
    """Return the first places in words, and how many there are."""
    first = ", ".join(f"{one} {a} {other} {b}" for a, b in places[:SHOWN])
    return f"{first} ({len(places)} in all)"


@pytest.mark.anubis(
    host=True,
    cost="1s",
    metrics=["update_bits"],
    question="Do updates of rows leave the bits that they leave on every other device?",
)
@pytest.mark.usefixtures("torch_settings")
def test_update_bits(
    anubis_metric: MetricFixture, anubis_device: DeviceFixture, anubis_node: NodeFixture
) -> None:
    """Small tables have the same bits after their updates everywhere, every time, on one thread and all."""
    import torch

    from suites.recommendation.tables import BITS, bits_after_updates

    threads = sorted({1, anubis_node.cores}) if anubis_device.kind == "cpu" else [0]
    found = []
    for count in threads:
        if count:
            torch.set_num_threads(count)
        for _ in range(anubis_node.pick(**REPEATS)):
            found.append(bits_after_updates(anubis_device.torch))
    anubis_metric.record(
        "update_bits", [one % (1 << KEPT_BITS) for one in found], unit="1", better="equal"
    )
    wrong = sum(one != BITS for one in found)
    assert not wrong, f"{wrong} of {len(found)} times other bits than those of every other device"
