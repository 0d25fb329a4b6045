"""Devices on a recorded 8-GPU node: ids, the host among them, and what the user hides."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from pytest_anubis.core.measurement import portable_id
from pytest_anubis.core.run import RunRecord
from pytest_anubis.report.text.failure_text import place_text
from pytest_anubis.session.collecting.benchmark_mark import benchmark_mark
from pytest_anubis.session.collecting.device_parameters import (
    WrongCardError,
    benchmark_id,
    check_slot,
)
from pytest_anubis.session.error_causes import environment_of
from pytest_anubis.store.journal.journal_reading import read_journal
from pytest_anubis.validator.deciding.run_decision import evidence_of
from tests.places import RECORDED

SUITE = """
import os, pathlib, pytest

def seen():
    return os.environ.get("CUDA_VISIBLE_DEVICES", "unset")

@pytest.mark.anubis(component="compute.matrix", scope="device", host=True, cost="10ms")
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_gemm(anubis_metric, anubis_device, dtype):
    pathlib.Path(f"seen-{anubis_device.name}").write_text(f"{anubis_device.place} {seen()}")
    anubis_metric.record("rate", [1.0] * 3, unit="GB/s", better="higher")

@pytest.mark.anubis(component="compute.dispatch", scope="device", cost="10ms")
def test_launch(anubis_metric, anubis_device):
    anubis_metric.record("time", [1.0] * 3, unit="us", better="lower")

@pytest.mark.anubis(component="collective.allreduce", cost="10ms")
def test_reduce(anubis_metric):
    pathlib.Path("seen-node").write_text(seen())
    anubis_metric.record("rate", [1.0] * 3, unit="GB/s", better="higher")
"""


def run(
    pytester: pytest.Pytester, name: str, *arguments: str
) -> tuple[pytest.RunResult, RunRecord]:
    options = (f"--anubis-inventory={RECORDED}", "--anubis-gate=off", f"--anubis-run-id={name}")
    result = pytester.runpytest("--anubis", *options, *arguments)
    return result, read_journal(pytester.path / ".anubis/runs" / name)


@pytest.fixture
def suite(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makepyfile(test_it=SUITE)
    return pytester


@pytest.mark.usefixtures("in_workers")
def test_ids_are_the_same_under_any_number_of_workers(suite: pytest.Pytester) -> None:
    plans = []
    for number, workers in enumerate(["--anubis-in-process", "-n0", "-n2"]):
        _, record = run(suite, f"run{number}", workers, "--anubis-mode=measure")
        plans.append([(plan.test, plan.benchmark, plan.device) for plan in record.planned])
        assert {result.outcome for result in record.results} == {"passed"}
    assert plans[0] == plans[1] == plans[2]
    tests = [test.partition("::")[2] for test, _, _ in plans[0]]
    assert tests.count("test_reduce") == 1
    assert len([t for t in tests if t.startswith("test_launch")]) == 8
    assert len([t for t in tests if t.startswith("test_gemm")]) == 18
    benchmarks = {benchmark.partition("::")[2] for _, benchmark, _ in plans[0]}
    assert benchmarks == {  # the host is another population than the accelerators
        *("test_gemm[f32]", "test_gemm[f64]", "test_gemm[cpu-f32]", "test_gemm[cpu-f64]"),
        *("test_launch", "test_reduce"),
    }


def test_a_node_without_accelerators_has_its_host_once(suite: pytest.Pytester) -> None:
    result = suite.runpytest("--collect-only", "-q")
    listed = [line for line in result.outlines if "::test_gemm" in line]
    assert [line.partition("::")[2] for line in listed] == [
        "test_gemm[cpu-f32]",
        "test_gemm[cpu-f64]",
    ]


@pytest.mark.usefixtures("in_workers")
@pytest.mark.parametrize("workers", ["-n2", "-nauto"])
def test_what_the_user_hides_is_left_alone_and_said(
    suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, workers: str
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5,2")
    result, record = run(suite, "hidden", workers)
    devices = {plan.device for plan in record.planned} - {"node"}
    assert devices == {"cuda:5", "cuda:2", "cpu"}
    hidden = "cuda:0, cuda:1, cuda:3, cuda:4, cuda:6, cuda:7 are hidden by CUDA_VISIBLE_DEVICES=5,2"
    result.stdout.fnmatch_lines([f"anubis: {hidden}"])
    assert record.node_verdict is not None
    assert f"{hidden} and not tested" in [one.cause for one in record.node_verdict.blocking]
    assert [*map(str, evidence_of(record).blockers)] == [f"run hidden: {hidden} and not tested"]
    uuids = {f"cuda:{i}": card["uuid"] for i, card in enumerate(record.inventory["accelerators"])}
    both = f"{uuids['cuda:5']},{uuids['cuda:2']}"
    assert Path("seen-node").read_text() == both
    assert Path("seen-cpu").read_text() == f"0 {both}"
    for place, name in enumerate(["cuda:5", "cuda:2"]):
        sees = uuids[name] if workers == "-nauto" else both
        assert Path(f"seen-{name}").read_text() == f"{place} {sees}"


@pytest.mark.usefixtures("in_workers")
def test_redaction_keeps_the_binding_of_workers(
    suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")  # one worker of eight is enough
    _, record = run(suite, "secret", "-nauto", "--anubis-redact", "--anubis-mode=measure")
    assert {card["uuid"] for card in record.inventory["accelerators"]} == {"redacted"}
    seen = Path("seen-cuda:3").read_text().split()[1]
    assert seen.startswith("GPU-")
    assert seen not in (suite.path / ".anubis/runs/secret/journal.jsonl").read_text()


@pytest.mark.parametrize(
    ("properties", "wrong"),
    [
        ({"pci_domain_id": 0, "pci_bus_id": 0x5D, "pci_device_id": 0}, False),
        ({"pci_domain_id": 0, "pci_bus_id": 0x3A, "pci_device_id": 0}, True),
        ({"pci_domain_id": 1, "pci_bus_id": 0x5D, "pci_device_id": 0}, True),
        ({"pci_bus_id": 0x3A}, False),  # an older torch has half of it, or nothing
        ({}, False),
    ],
)
def test_a_process_that_sees_another_card_says_so(properties: dict[str, int], wrong: bool) -> None:
    if not wrong:
        check_slot("cuda:3", "0000:5D:00.0", SimpleNamespace(**properties))
        return
    with pytest.raises(WrongCardError) as caught:
        check_slot("cuda:3", "0000:5d:00.0", SimpleNamespace(**properties))
    assert "cuda:3 is the card at 0000:5d:00.0, but this process would test the one at" in str(
        caught.value
    )
    assert "another card than the one to test" in environment_of(caught.value)


REFUSED = (
    "the choice of accelerators is none that can be tested (CUDA_VISIBLE_DEVICES names a MIG slice"
)


@pytest.mark.parametrize("workers", [["-n0"], ["-nauto"], ["--anubis-in-process"]])
@pytest.mark.usefixtures("in_workers")
def test_a_mig_slice_is_refused_in_every_way_to_run(
    suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, workers: list[str]
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-3f2a")
    options = (
        "--anubis",
        f"--anubis-inventory={RECORDED}",
        "--anubis-run-id=r",
        "--junitxml=o.xml",
    )
    result = suite.runpytest(*options, *workers)
    assert result.ret == 20
    assert any(REFUSED in line and "switch MIG off" in line for line in result.outlines)
    record = read_journal(suite.path / ".anubis/runs/r")
    assert record.node_verdict is not None
    assert any(REFUSED in one.cause for one in record.node_verdict.blocking)
    assert not record.measurements
    assert 'failures="1"' in (suite.path / "o.xml").read_text()


def test_refusal_without_judging_is_one_line(
    suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,3")
    result = suite.runpytest("--anubis", f"--anubis-inventory={RECORDED}", "--anubis-mode=measure")
    assert result.ret == 4
    (line,) = [line for line in result.errlines if line.strip()]
    assert line.startswith("ERROR: CUDA_VISIBLE_DEVICES=3,3 names a card twice")


def test_cuda_counts_by_slot_in_this_process_too(
    suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "FASTEST_FIRST")
    suite.makepyfile(
        test_it="""
import os, pathlib

def test_order(anubis_device):
    with open("orders", "a") as out:
        print(os.environ["CUDA_DEVICE_ORDER"], file=out)
"""
    )
    options = ("--anubis", f"--anubis-inventory={RECORDED}", "--anubis-mode=measure")
    suite.runpytest(*options)
    suite.runpytest(*options, "-n0")
    assert set((suite.path / "orders").read_text().split()) == {"PCI_BUS_ID"}
    assert os.environ["CUDA_DEVICE_ORDER"] == "FASTEST_FIRST"


PAIRS = """
import pytest

@pytest.mark.anubis(component="link.peer", scope="pair", cost="10ms", metrics=["rate"])
@pytest.mark.parametrize("size", [1])
def test_copy(anubis_metric, anubis_pair, size):
    ends = anubis_pair.source.index, anubis_pair.target.index
    rate = 50.0 if ends == (2, 6) else 100.0
    anubis_metric.record("rate", [rate + i / 10 for i in range(10)], unit="GB/s", better="higher")
"""


def test_weak_pair_of_56_is_named(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_it=PAIRS)
    _, record = run(pytester, "pairs", "--anubis-in-process")
    pairs = {plan.device for plan in record.planned}
    assert pairs == {f"cuda:{a}>cuda:{b}" for a in range(8) for b in range(8) if a != b}
    assert {plan.benchmark.partition("::")[2] for plan in record.planned} == {"test_copy[1]"}
    worse = [v for v in record.verdicts if v.outcome.value in ("FAIL", "MARGINAL")]
    assert {v.device for v in worse} == {"cuda:2>cuda:6"}
    cards = record.cards
    assert place_text(worse[0].device, cards) == (
        f"cuda:2>cuda:6 ({cards['cuda:2']} > {cards['cuda:6']})"
    )


def test_node_without_pairs_skips_pair_tests(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_it=PAIRS, test_both="def test_both(anubis_device, anubis_pair):\n    pass\n"
    )
    result = pytester.runpytest("-rs", "test_it.py")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["*not applicable: fewer than two accelerators"])
    result = pytester.runpytest("test_both.py")
    result.stdout.fnmatch_lines(["*test_both takes anubis_device and anubis_pair: *"])


BY_KIND = """
import pytest

COST = {"cpu": "3s", "accelerator": "10s"}

@pytest.mark.anubis(component="compute.matrix", scope="device", host=True, cost=COST)
def test_gemm(anubis_metric, anubis_device):
    pass

@pytest.mark.anubis(component="collective.allreduce", cost=COST)
def test_reduce(anubis_metric):
    pass
"""


def test_cost_is_that_of_the_kind_of_device(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_it=BY_KIND)
    items, _ = pytester.inline_genitems("--anubis", f"--anubis-inventory={RECORDED}")
    costs = [benchmark_mark(item).cost for item in items]
    assert costs == [10.0] * 8 + [3.0, 10.0]  # on eight cards, on the host, on the node
    pytester.makepyfile(test_it=BY_KIND.replace('"accelerator"', '"cuda"'))
    refused = pytester.runpytest("--collect-only")
    refused.stderr.fnmatch_lines(["*mark anubis cost: *must name cpu and accelerator*"])


CARDS = """
import pytest

@pytest.mark.anubis(component="c", cards=1, cost="7s")
def test_of_a_card(anubis_metric, anubis_device):
    anubis_metric.record("rate", 1.0, unit="GB/s", better="higher")

@pytest.mark.anubis(component="c", cards=2, cost="7s")
def test_of_two(anubis_metric):
    anubis_metric.record("rate", 1.0, unit="GB/s", better="higher")

@pytest.mark.anubis(component="c", cost="1s")
def test_of_any(anubis_metric):
    anubis_metric.record("rate", 1.0, unit="GB/s", better="higher")
"""


def test_tests_needing_more_cards_are_skipped(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_it=CARDS)
    result = pytester.runpytest("-rs", "-p", "no:xdist")
    result.assert_outcomes(skipped=2, passed=1)
    result.stdout.fnmatch_lines_random(
        ["*not applicable: no accelerator", "*not applicable: fewer than two accelerators"]
    )
    items, _ = pytester.inline_genitems("--anubis")
    assert [benchmark_mark(item).cost for item in items] == [0.0, 0.0, 1.0]
    items, _ = pytester.inline_genitems("--anubis", f"--anubis-inventory={RECORDED}")
    assert [benchmark_mark(item).cost for item in items] == [7.0] * 9 + [1.0]


def test_selector_is_not_offered_what_does_not_apply(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_it=CARDS)
    arguments = ("--anubis", "--anubis-select=budget", "--anubis-budget=1m", "-p", "no:xdist")
    result = pytester.runpytest(*arguments)
    result.stdout.fnmatch_lines(["anubis: the full set runs, 1 benchmark, *"])
    result.assert_outcomes(skipped=1, deselected=2)  # what is measured has no baseline


def test_shipped_ids_do_not_depend_on_the_folder(pytester: pytest.Pytester) -> None:
    network = Path(__file__).parents[3] / "suites" / "network"
    items, _ = pytester.inline_genitems("--anubis", f"--rootdir={pytester.path}", str(network))
    assert "test_loopback.py::test_tcp_rate" in {item.nodeid for item in items}
    ids = {benchmark_id(item) for item in items}
    assert "suites/network/test_loopback.py::test_tcp_rate" in ids  # as from the set's own folder
    assert portable_id("a/test_b.py::test_c[x::y]", "a.test_b") == "a/test_b.py::test_c[x::y]"
    # A file that is named as a module has no file in its id.
    assert portable_id("::test_c[x::y]", "suites.a.test_b") == "suites/a/test_b.py::test_c[x::y]"


def test_tests_that_ask_for_no_cards_read_no_inventory(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Collecting other people's tests must not wait for drivers."""

    def refuse() -> None:
        raise AssertionError("the inventory was read")

    monkeypatch.setattr("pytest_anubis.hardware.inventory.inventory_reading.read_inventory", refuse)
    pytester.makepyfile("def test_plain(): pass\ndef test_other(anubis_metric): pass")
    _, record = pytester.inline_genitems()
    assert record.ret == 0
