"""Cores, their threads, and the NUMA nodes of CPUs and cards."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_anubis.hardware.numa import Core, cores_of, cpu_numbers, cpu_text, numa_node_of
from pytest_anubis.hardware.text_files import Files
from tests.hardware.two_numa_nodes import CARDS, CPUS, two_numa_nodes


def test_cores_have_their_threads_and_their_node(tmp_path: Path) -> None:
    cores = cores_of(two_numa_nodes(tmp_path), CPUS)
    assert len(cores) == 16
    assert cores[0] == Core(cpus=(0, 16), node=0)
    assert cores[8] == Core(cpus=(8, 24), node=1)


def test_what_may_not_be_used_belongs_to_no_core(tmp_path: Path) -> None:
    cores = cores_of(two_numa_nodes(tmp_path), {0, 17, 24})
    assert [core.cpus for core in cores] == [(0,), (17,), (24,)]
    assert [core.node for core in cores] == [0, 0, 1]


def test_without_a_topology_every_cpu_is_a_core(tmp_path: Path) -> None:
    assert cores_of(Files(tmp_path), {2, 0}) == (Core(cpus=(0,)), Core(cpus=(2,)))


@pytest.mark.parametrize(("text", "node"), [("1\n", 1), ("-1\n", None), ("", None), ("no", None)])
def test_a_card_whose_firmware_is_silent_has_no_node(
    tmp_path: Path, text: str, node: int | None
) -> None:
    assert numa_node_of(two_numa_nodes(tmp_path, {CARDS[0]: text}), CARDS[0].upper()) == node
    assert numa_node_of(Files(tmp_path), "0000:ff:00.0") is None
    assert numa_node_of(Files(tmp_path), None) is None


@given(st.sets(st.integers(0, 300)))
def test_lists_of_cpus_are_read_as_they_are_written(numbers: set[int]) -> None:
    assert cpu_numbers(cpu_text(numbers)) == tuple(sorted(numbers))


@pytest.mark.parametrize("text", [None, "", "x", "-1", "1-x", "0-99999999999"])
def test_what_is_no_list_names_no_cpu(text: str | None) -> None:
    assert cpu_numbers(text) == ()
