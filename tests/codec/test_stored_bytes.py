"""The stored forms in ``stored`` are read, and written again byte by byte: a changed form is a new schema."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_anubis.distributed.dispatch.certificates import load_certificates
from pytest_anubis.hardware.inventory.inventory_reading import (
    inventory_from_plain,
    inventory_to_plain,
)
from pytest_anubis.hardware.telemetry.recorded_node import replay
from pytest_anubis.store.baselines.baseline_files import load_baseline, seal, with_true_losses
from pytest_anubis.store.samples.columnar_files import load_columns, save_columns
from tests.codec.stored_values import (
    BASELINE,
    CERTIFICATES,
    COLUMNS,
    INVENTORY,
    RECORDED,
    write_all,
)

STORED = Path(__file__).with_name("stored")


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("written")
    write_all(folder)
    return folder


@pytest.mark.parametrize("path", sorted(STORED.iterdir()), ids=lambda path: path.stem)
def test_bytes_are_what_they_were(written: Path, path: Path) -> None:
    assert (written / path.name).read_bytes() == path.read_bytes()


def test_a_stored_baseline_is_read_with_its_digest() -> None:
    loaded = load_baseline(STORED / "baseline.json")
    # Reading corrects its loss, which is smaller than its thresholds find, and the digest stays.
    assert loaded == with_true_losses(seal(BASELINE))
    assert loaded.digest == "sha256:5e9de492a0c8"


def test_the_other_stored_files_are_read(tmp_path: Path) -> None:
    assert replay(STORED / "recorded_node.json") == RECORDED
    (tmp_path / "certificates").mkdir()
    content = (STORED / "certificates.json").read_bytes()
    (tmp_path / "certificates" / "class.json").write_bytes(content)
    assert load_certificates(tmp_path, "class") == CERTIFICATES
    inventory = json.loads((STORED / "recorded_node.json").read_bytes())["inventory"]
    assert inventory_from_plain(inventory) == INVENTORY
    assert inventory_to_plain(INVENTORY) == inventory


def test_columns_come_back(tmp_path: Path) -> None:
    loaded = load_columns(save_columns(COLUMNS, tmp_path / "c.npz"))
    assert (loaded.runs, loaded.origin) == (COLUMNS.runs, COLUMNS.origin)
    for one, other in zip(loaded.populations, COLUMNS.populations, strict=True):
        assert (one.metric, one.nodes, one.devices) == (other.metric, other.nodes, other.devices)
        assert (one.group, one.problems) == (other.group, other.problems)
        assert one.values.tolist() == other.values.tolist()
