"""A suite of 30 toy benchmarks, and a fleet whose past is made up but realistic."""

from __future__ import annotations

import platform
import random
import time
from pathlib import Path

from pytest_anubis.core.history import Incident
from pytest_anubis.core.metric import Metric
from pytest_anubis.core.sample import population_of
from pytest_anubis.hardware.inventory.hardware_classes import hardware_class
from pytest_anubis.hardware.inventory.inventory_reading import read_inventory
from pytest_anubis.store.baselines.baseline_files import save_baseline
from pytest_anubis.store.history.database import History
from pytest_anubis.store.history.defect_records import add_defect
from pytest_anubis.store.history.incident_records import add_incident
from tests.session.conftest import baseline_of

HOUR, DAY = 3600.0, 86400.0
NODES = 60
HERE = platform.node()

# Component: benchmarks, share of defects, kind of incident that such defects become.
PARTS: dict[str, tuple[int, int, str]] = {
    "network.loopback": (6, 30, "nic"),
    "network.collective": (4, 10, "nic"),
    "accelerator.compute": (6, 20, "gpu"),
    "accelerator.memory": (5, 15, "gpu-memory"),
    "storage.disk": (4, 15, "disk"),
    "training.step": (5, 10, "gpu"),
}


def names(component: str) -> list[str]:
    """Return the ids of a component's benchmarks."""
    file = f"suites/test_{component.replace('.', '_')}.py"
    return [f"{file}::test_b{number}" for number in range(PARTS[component][0])]


ALL = sorted(name for component in PARTS for name in names(component))


def write_suite(root: Path, *, values: str = "[100 + 0.1 * (i % 5) for i in range(20)]") -> None:
    """Write the 30 benchmarks; the i-th of a component says that it takes 10 (i + 1) seconds."""
    folder = root / "suites"
    folder.mkdir(exist_ok=True)
    for component, (count, _, _) in PARTS.items():
        text = "import pytest\n"
        for number in range(count):
            text += (
                f"\n@pytest.mark.anubis(component={component!r}, cost={10 * (number + 1)})\n"
                f"def test_b{number}(anubis_metric):\n"
                f"    anubis_metric.record('rate', {values}, unit='GB/s', better='higher')\n"
            )
        (folder / f"test_{component.replace('.', '_')}.py").write_text(text)


def write_history(store: Path | str, *, defects: int = 150, incidents: bool = True) -> None:
    """Make up 200 days of 60 nodes, of which ten have an incident a week and the others one a month.

    Repairs are often partial: three of five incidents are of the kind of the one before. This machine
    joined twenty days ago and has had none.
    """
    chance, now = random.Random(3), time.time()
    begin = now - 200 * DAY
    with History(store) as history:
        for number in range(NODES):
            history.add_node(node_name(number), since=begin if number else now - 20 * DAY)
        for number in range(1, NODES * incidents):
            when, kind = begin, ""
            while (when := when + chance.expovariate(1 / (8 if number <= 10 else 30)) * DAY) < now:
                if not kind or chance.random() > 0.6:
                    kind = chance.choice(["nic", "nic", "gpu", "gpu-memory", "disk"])
                hours = chance.uniform(0.5, 4)
                if when + hours * HOUR < now:
                    happened(history, node_name(number), kind, when, hours)
        parts = list(PARTS)
        for _ in range(defects):
            part = chance.choices(parts, [PARTS[name][1] for name in parts])[0]
            exposed = chance.sample(names(part), k=chance.randint(1, 3))
            if chance.random() < 0.3:
                exposed.append(chance.choice(names("training.step")))
            add_defect(
                history,
                node=node_name(chance.randint(1, NODES - 1)),
                benchmarks=exposed,
                component=part,
                kind=PARTS[part][2],
                found=now - chance.uniform(1, 190) * DAY,
            )


def node_name(number: int) -> str:
    """Return the name of a node; number 0 is this machine."""
    return f"n{number:02}" if number else HERE


def happened(history: History, node: str, kind: str, when: float, hours: float) -> None:
    """Record an incident."""
    add_incident(
        history, Incident(node=node, kind=kind, started=when, duration=hours * HOUR, component="")
    )


def write_baseline(root: Path) -> None:
    """Learn a baseline of all 30 benchmarks from twelve healthy nodes of this machine's class."""
    key, attributes = hardware_class(read_inventory(), "smoke")
    populations = [
        population_of(
            [[100.0 + 0.02 * node + 0.1 * (i % 21 - 10) for i in range(42)] for node in range(12)],
            metric=Metric(name="rate", unit="GB/s", better="higher"),
            benchmark=name,
            runs=[f"r{i}" for i in range(12)],
            hardware_class=key,
            component=component,
        )
        for component in PARTS
        for name in names(component)
    ]
    save_baseline(baseline_of(populations, key, attributes), root / "baselines")
