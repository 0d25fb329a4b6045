"""What the figures on learning rest on: the fleets that are made are read in the form that is meant."""

from __future__ import annotations

import argparse
import importlib
from pathlib import Path
from typing import Any

import pytest

from pytest_anubis.store.fleet.stored_runs import read_stored
from pytest_anubis.store.samples.parquet_reading import read_samples

engine: Any = importlib.import_module("benchmarks.fleet.learning_engine")


def test_a_history_holds_every_node_with_every_metric(tmp_path: Path) -> None:
    options = argparse.Namespace(metrics=3, nodes=8, values=5)
    _, place = engine.make_fleet(tmp_path, options)
    populations = read_stored(Path(place)).populations
    assert [(len(one), len(one.values)) for one in populations] == [(8, 40)] * 3
    assert populations[0].sample(7).mean() > 1.05 * populations[0].sample(0).mean()


def test_one_metric_of_many_units_is_read_as_an_export(tmp_path: Path) -> None:
    pytest.importorskip("duckdb")
    [folder] = engine.make_one(tmp_path, argparse.Namespace(nodes=4, devices=2, values=5))
    population = read_samples(next(Path(folder).iterdir()))
    assert population is not None
    assert population.devices == ("d0", "d1") * 4
    assert population.offsets.tolist() == list(range(0, 45, 5))
