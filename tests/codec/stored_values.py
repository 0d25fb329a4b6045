"""Values whose stored form is fixed, byte by byte."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np

from pytest_anubis.core.baseline import Baseline, Criterion, Exclusion, Finding
from pytest_anubis.core.inventory import Accelerator, Disk, Inventory, Memory, Nic, Processor
from pytest_anubis.core.metric import Metric
from pytest_anubis.core.run import RunRecord
from pytest_anubis.core.sample import Population, SampleProblem
from pytest_anubis.distributed.dispatch.certificates import Certificate, save_certificates
from pytest_anubis.hardware.telemetry.host_sensors import Reading
from pytest_anubis.hardware.telemetry.recorded_node import Recorded, recording_text
from pytest_anubis.store.baselines.baseline_files import save_baseline
from pytest_anubis.store.samples.columnar_files import Columns, Origin, save_columns

RATE = Metric(name="rate", unit="GB/s", better="higher", question="How fast, µ?")
TIME = Metric(name="time", unit="s", better="lower", goal="quick", action="look\nagain")

INVENTORY = Inventory(
    node="node-7",
    taken="2026-01-31T12:00:00+00:00",
    processor=Processor(model="EPYC", sockets=2, quota=1.5, unreadable=("mhz_max: denied",)),
    memory=Memory(total=1 << 40, swap=0),
    accelerators=(
        Accelerator(index=0, vendor="nvidia", name="H100", memory=80 << 30, ecc=True, mig=False),
        Accelerator(index=1, vendor="nvidia", name="H100", power_limit=700.0),
    ),
    on_bus=(),
    disks=(Disk(name="nvme0n1", size=1 << 42, wear=0.0, rotational=False),),
    nics=(Nic(name="mlx5_0/1", kind="infiniband", speed=400.0),),
    drivers={"nvidia": "570.1", "cuda": "12.8"},
)

BASELINE = Baseline(
    hardware_class="cpu epyc/8 µ",
    attributes={"memory": "1 TiB", "cpu": "epyc"},
    criteria=(
        Criterion(
            benchmark="suites/test_net.py::test_tcp",
            metric=TIME,
            scope="node",
            centre=(1e-12, 0.1, 1 / 3, 123456789.123),
            alpha=0.95,
            spread=1e-9,
            detectable=float("inf"),
            weak=True,
        ),
        Criterion(
            benchmark="suites/test_net.py::test_tcp",
            metric=RATE,
            component="network",
            group="rail 1",
            centre=(1, 1.123456789012, 2.0),
            learned=0.97,
            unconfirmed=2 / 3,
            repeatability=1.0,
            detectable=0.0123456789,
            medians=(1.0, 1.5),
            nodes=12,
            units=96,
            least=8,
            window=(3, 20),
            notes=("a learned limit would need 230 nodes", "ŝ"),
        ),
    ),
    created="2026-01-31T12:00:00Z",
    nodes=("n1", "n2"),
    runs=("r1",),
    one_machine=True,
    error_rate=0.01,
    confidence=0.9,
    factor=1.23456789123,
    method="medoid",
    exclusions=(Exclusion(node="n9", device="cuda:1", benchmark="b", metric="m", reason="slow"),),
    findings=(Finding(kind="second-population", text="two firmwares"),),
    inventory={"gpus": [{"name": "x", "gb": 80.123456789, "count": 8, "mig": None}], "ok": True},
)

CERTIFICATES = (
    Certificate(first="a", second="b", similarity=0.97, metric="rate", granted=True, met=3),
    Certificate(first="a", second="µ", reason="fine so far", open=True),
)

RECORDED = Recorded(
    inventory=INVENTORY,
    origin="made by hand, ŝ",
    interval=0.25,
    readings=(
        Reading(
            values={"gpu": {"power (W)": 300.5, "temperature (°C)": 60}},
            counters={"gpu": {"ecc": 3}},
            users={"gpu": (1, 2)},
            lost=("gpu: clock: gone",),
        ),
        Reading(),
    ),
)

COLUMNS = Columns(
    populations=(
        Population(
            hardware_class="class",
            benchmark="b",
            metric=RATE,
            component="network",
            group="g",
            nodes=("n1", "n2"),
            devices=("cpu", "cuda:0"),
            runs=("r1", "r1"),
            values=np.array([1.0, 2.0, 3.0]),
            offsets=np.array([0, 2, 3]),
            problems={1: SampleProblem(kind="disturbed", text="other tenants µ")},
        ),
        Population(
            hardware_class="class",
            benchmark="b",
            metric=TIME,
            nodes=("n1",),
            devices=("cpu",),
            runs=("r1",),
            values=np.array([1.0]),
            offsets=np.array([0, 1]),
            problems={},
        ),
    ),
    runs=(
        RunRecord(
            run="r1",
            node="n1",
            hardware_class="class",
            attributes={"cpu": "epyc"},
            profile="smoke",
            started="2026-01-31T12:00:00Z",
            purpose="learn",
            inventory={"schema": 1, "node": "n1"},
            settings={"profile": "smoke"},
        ),
    ),
    origin=Origin(digest="0a", path="/data/µ.csv"),
)


def write_all(folder: Path) -> None:
    """Write every stored form into a folder; of the columnar file its header and its origin."""
    save_baseline(BASELINE, folder / "baseline.json")
    save_certificates(
        folder, "class", CERTIFICATES, origin={"rounds": 3, "alpha": 0.95, "node": "n"}
    )
    (folder / "certificates" / "class.json").rename(folder / "certificates.json")
    (folder / "recorded_node.json").write_text(recording_text(RECORDED), encoding="utf-8")
    with zipfile.ZipFile(save_columns(COLUMNS, folder / "columns.npz")) as archive:
        header = np.lib.format.read_array(archive.open("header.npy"))
        (folder / "columns_origin.json").write_bytes(archive.comment)
    (folder / "columns_header.json").write_bytes(header.tobytes())
