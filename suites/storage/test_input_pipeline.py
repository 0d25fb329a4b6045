"""Training data from the disk to the step: staged, read, decompressed, and waited for."""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from pytest_anubis import MetricFixture, NodeFixture
from suites.joint_rounds import collect_with

if TYPE_CHECKING:
    from suites.storage.fed_training import Fed, FedTraining
    from suites.storage.samples import Samples

ON_CARDS = {"samples": 64, "batch": 8, "length": 128, "width": 32}
ON_A_HOST = {"samples": 16, "batch": 2, "length": 32, "width": 16}
"""The cubes of MLPerf HPC, 17 MB each; and such as a CPU is done with in milliseconds."""

CHANNELS = 4

LOADED = 0.2
"""Seconds of a round of loading, at least."""

SHOWN = 4
"""Files that an error names at most."""

ROUNDS = {"smoke": 8, "standard": 8, "soak": 60}


@pytest.mark.anubis(
    component="storage.input",
    scope="node",
    cost={"cpu": "15s", "accelerator": "20s"},
    deadline="600s",
    version=2,  # on hosts threads that load and those that train share the cores
    profiles=("standard", "soak"),
    metrics=["staging_rate", "loading_rate", "loading_stretch"],
    goal="A training gets its samples as quickly as it learns from them",
    question="How many times as long does a training take that waits for its samples to be read?",
    action="Property `binding` names the part that limits: reading: look at the disk and its benchmarks; "
    "decompressing: at cores, their clock and quota; copying: at the card's PCIe link; computing: none waits",
)
@pytest.mark.usefixtures("torch_settings")
def test_input_pipeline(
    anubis_metric: MetricFixture,
    anubis_node: NodeFixture,
    record_property: Callable[[str, object], None],
) -> None:
    """Samples are staged, loaded and learned from at their rates; what is read is what was staged."""
    import torch

    from suites.storage.fed_training import FedTraining, binding
    from suites.storage.samples import Samples
    from suites.training.test_step import captured
    from suites.workload.running import NoRoomError

    on_a_card = torch.cuda.is_available()
    sizes = ON_CARDS if on_a_card else ON_A_HOST
    device = torch.device("cuda", 0) if on_a_card else torch.device("cpu")
    shape = (CHANNELS, *(3 * (sizes["length"],)))
    cores = anubis_node.cores
    threads = cores if on_a_card else max(1, cores // 2)
    with Samples(anubis_node.scratch, sizes["samples"], shape, threads) as samples:
        if not on_a_card:  # until `torch_settings` puts it back
            torch.set_num_threads(max(1, cores - samples.threads))
        samples.stage()
        try:
            training = FedTraining(samples, sizes["batch"], device, width=sizes["width"])
        except NoRoomError as error:
            pytest.skip(f"not applicable: {error}")
        group = captured(training.step, record_property) if on_a_card else ""
        runs = measure(anubis_metric, anubis_node.pick(**ROUNDS), samples, training, group)
        stalled = statistics.median(run.stall_share for run in runs)
        bound = binding(training.ceilings(LOADED))
        sys.stdout.write(f"{100 * stalled:.1f} % of a step waits for samples; {bound}\n")
        record_property("stall_share", f"{100 * stalled:.1f} %")
        record_property("binding", bound)


def measure(
    anubis_metric: MetricFixture,
    rounds: int,
    samples: Samples,
    training: FedTraining,
    group: str = "",
) -> list[Fed]:
    """Take the metrics, and check that every file is what was staged and that the step still computes.

    Returns the rounds of ``loading_stretch``.
    """
    rates, wrong = [], set[str]()
    for _ in range(rounds):
        rates.append(samples.stage() / 1e9)
        wrong.update(samples.wrong_files())
    # Not collected: that counts the moments in which the cores are clear, and these wait for the disk.
    anubis_metric.record(
        "staging_rate",
        rates,
        unit="GB/s",
        better="higher",
        question="How many bytes a second does the file system take, until they are safe?",
    )
    anubis_metric.collect(
        "loading_rate",
        lambda: samples.rate("loading", LOADED),
        unit="samples/s",
        better="higher",
        rounds=rounds,
        question="How many samples a second are read and decompressed while nothing else is done?",
    )
    training.run()  # libraries choose kernels

    def stretch() -> tuple[float, Fed]:
        run = training.run()
        return run.stretch, run

    # A share would be near 0 on healthy nodes, where the smallest change is many times as much.
    runs = collect_with(
        anubis_metric,
        "loading_stretch",
        stretch,
        unit="1",
        better="lower",
        rounds=rounds,
        group=group,
    )
    assert not wrong, f"not what was staged: {', '.join(sorted(wrong)[:SHOWN])}" + (
        f" and {len(wrong) - SHOWN} more" if len(wrong) > SHOWN else ""
    )
    first, last = training.step.losses()
    assert math.isfinite(last), f"the loss went from {first:.4g} to {last}"
    return runs
