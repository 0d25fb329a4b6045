"""Cuts are the best there are, a cut network is the uncut one, and what binds or is wrong is named."""

from __future__ import annotations

import itertools
import os
import random
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import torch

from pytest_anubis.benchmarking.shaped_link import INTERFACE, NotPossible, ShapedLink
from pytest_anubis.benchmarking.verification import fingerprint
from suites.pipeline import test_pipeline
from suites.pipeline.cutting import NoCutError, best_cut, stage_times, step_time
from suites.pipeline.group import Binding, PipelineGroup, StepTimes, slowest_part
from suites.pipeline.layers import Chain, named
from suites.workload.catalogue import BY_NAME, runs
from suites.workload.running import NoRoomError, draw
from tests import forked
from tests.suites.faulty_pipeline_rank import (
    FAULT,
    MANY,
    NARROW,
    ON_A_CARD,
    PACE,
    PACED,
    SHAPE,
    SIZES,
    small_ones,
)
from tests.suites.test_suites_on_a_card import Taken
from tests.suites.work_probe import doubles

pytestmark = pytest.mark.usefixtures("one_thread", "quick_processes", "small_networks")
CPU = torch.device("cpu")
MODULE = "tests.suites.faulty_pipeline_rank"
TRIES = 6
"""Of what other load on this machine may disturb."""


@pytest.fixture
def small_networks(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, workload in small_ones().items():
        monkeypatch.setitem(BY_NAME, name, workload)


def exhaustive(
    seconds: Sequence[int], received: Sequence[int], stages: int, weights: Sequence[int], limit: int
) -> int | None:
    """Return the time of the slowest stage of the best of all cuts."""
    found = []
    for inner in itertools.combinations(range(1, len(seconds)), stages - 1):
        ends = [0, *inner, len(seconds)]
        if all(sum(weights[a:b]) <= limit for a, b in itertools.pairwise(ends)):
            found.append(
                max(
                    sum(seconds[a:b]) + (received[a] if a else 0)
                    for a, b in itertools.pairwise(ends)
                )
            )
    return min(found, default=None)


def agrees(
    seconds: Sequence[int], received: Sequence[int], stages: int, weights: Sequence[int], limit: int
) -> None:
    best = exhaustive(seconds, received, stages, weights, limit)
    if best is None:
        with pytest.raises(NoCutError):
            best_cut(seconds, received, stages, weights=weights, limit=limit)
        return
    cut = best_cut(seconds, received, stages, weights=weights, limit=limit)
    assert len(cut) == stages
    assert all(cut)  # no stage is empty
    assert list(itertools.chain(*cut)) == list(range(len(seconds)))
    assert max(stage_times(seconds, received, cut)) == best
    assert max(sum(weights[one.start : one.stop]) for one in cut) <= limit


def test_cut_is_the_best_of_all_on_small_chains() -> None:
    for count in range(1, 5):
        for seconds in itertools.product((0, 1, 3), repeat=count):
            for received in itertools.product((0, 2), repeat=count):
                for stages in range(1, count + 2):
                    agrees(seconds, received, stages, seconds, 5)


def test_cut_is_the_best_of_all_on_random_chains_of_up_to_ten_layers() -> None:
    chance = random.Random(7)
    for _ in range(800):
        count = chance.randint(1, 10)
        seconds, received, weights = (
            [chance.randint(0, most) for _ in range(count)] for most in (20, 15, 9)
        )
        for stages in range(1, count + 1):
            agrees(seconds, received, stages, weights, chance.choice((10, 25, 1000)))


def test_cuts_by_hand() -> None:
    assert best_cut([1, 1, 1, 1], [0, 0, 0, 0], 2) == [range(2), range(2, 4)]
    # The second stage has to receive.
    assert best_cut([1, 1, 1, 1], [9, 2, 2, 2], 2) == [
        range(3),
        range(3, 4),
    ]
    few = best_cut([1, 1, 1, 1], [0] * 4, 2, weights=[1, 1, 1, 3], limit=3)
    assert few == [range(3), range(3, 4)]
    assert stage_times([1, 2, 3], [7, 5, 4], [range(2), range(2, 3)]) == [3, 7]
    assert step_time([3, 7], 4) == 3 + 4 * 7


def test_step_is_that_of_stages_that_each_wait_for_the_one_before() -> None:
    chance = random.Random(3)
    for _ in range(50):
        stages = [chance.randint(1, 9) for _ in range(chance.randint(1, 6))]
        batches = chance.randint(1, 12)
        done = [0] * (len(stages) + 1)
        for _ in range(batches):
            done[0] = 0  # all inputs are there
            for stage, time in enumerate(stages):
                done[stage + 1] = max(done[stage], done[stage + 1]) + time
        assert step_time(stages, batches) == done[-1]


def test_work_weights_and_bytes_of_layers_are_those_counted_by_hand() -> None:
    workload, sizes = BY_NAME["thin"], SIZES["thin"]
    layers = Chain(workload, "float32").costs(sizes)
    width, inner, tokens = SHAPE["width"], SHAPE["inner"], sizes.batch * sizes.length
    products = 2 * width * width + 2 * width * width // 2 + 3 * width * inner
    attention = 2 * 2 * sizes.length * width  # of a token with all others, scores and sums
    assert [layer.kind for layer in layers] == ["embedding", *["block"] * 8, "scores"]
    assert layers[0].work == 0
    assert layers[1].work == pytest.approx(tokens * (2 * products + attention), rel=0.01)
    assert layers[-1].work == 2 * tokens * width * SHAPE["vocabulary"]
    assert {layer.takes for layer in layers[1:]} == {4 * tokens * width}
    assert layers[-1].gives == 4 * tokens * SHAPE["vocabulary"]
    twice = Chain(workload, "float32").costs(SIZES["thick"])
    assert [layer.work for layer in twice] == [2 * layer.work for layer in layers]


def test_layers_one_by_one_have_the_bits_of_the_network() -> None:
    workload = BY_NAME["thin"]
    chain = Chain(workload, "float32")
    tokens = draw(workload, SIZES["thin"], CPU)[0]
    whole = range(len(chain))
    chain.hold(whole, CPU)
    with torch.no_grad():
        scores = chain.model(tokens)
    assert torch.equal(scores, chain.run(tokens, whole))
    assert float(scores.std()) > 0.01
    x = tokens
    for part in (range(3), range(3, 7), range(7, 10)):
        chain.hold(part, CPU)
        x = chain.run(x, part)
    assert torch.equal(scores, x)
    held = {name for name, w in chain.model.named_parameters() if not w.is_meta}
    assert len(held) == 2 * 9 + 2
    assert named(range(3), 10) == "embedding to block 2"
    assert named(range(9, 10), 10) == "scores"


def steps_of(times: Sequence[Sequence[float]]) -> list[StepTimes]:
    """Return a step of each rotation, from the times by rotation and rank."""
    return [StepTimes(k, 1.0, tuple(taken), tuple(taken)) for k, taken in enumerate(times)]


def test_what_binds_in_every_rotation_is_a_stage_or_a_card() -> None:
    # Stage 1 of three takes longest; rank r is stage (r + k) % 3.
    assert slowest_part(steps_of([(1, 2, 1), (2, 1, 1), (1, 1, 2)])) == Binding(stage=1)
    assert slowest_part(steps_of([(3, 2, 1), (3, 1, 1), (3, 1, 2)])) == Binding(card=0)
    assert slowest_part(steps_of([(2.02, 2, 2)] * 3)) == Binding()  # no card is slow
    assert slowest_part(steps_of([(2, 1, 1), (1, 2, 1), (2, 1, 1)])) == Binding()
    unknown = slowest_part(steps_of([(3, 1, 1)] * 2))
    assert unknown == Binding(unseen=1)
    plan: Any = None
    words = test_pipeline.words(unknown, plan, Answering(3, 1))
    assert words == "not known what binds: no clear round of 1 of 3 rotations"
    outlier = steps_of([(9, 2, 2)])
    usual = steps_of([(1, 2, 1), (2, 1, 1), (1, 1, 2)])
    assert slowest_part([*usual * 3, *outlier]) == Binding(stage=1)
    assert slowest_part([*usual, *outlier]) == Binding()  # of two steps one is otherwise
    assert StepTimes(0, 2.0, (1.0, 2.0), (1.0, 2.0)).bubble == 0.25


class Answering(PipelineGroup):
    """Ranks on cards of a size that answer at once."""

    def __init__(self, world: int, memory: int) -> None:
        self.on_accelerators, self.world, self.memory = True, world, memory

    def ask_all(self, do: str, **_: Any) -> list[dict[str, Any]]:
        """Answer as equal cards do."""
        one = {"memory": self.memory, "seconds": {"block": 1e-3, "scores": 5e-4}, "link": 1e-4}
        return [one] * self.world


def test_large_networks_run_where_their_cards_hold_them() -> None:
    plan = Answering(8, 24 << 30).plan("llama2-70b", "bfloat16")
    held = [sum(plan.layers[one].weights for one in stage) for stage in plan.stages]
    assert sum(held) == 2 * 68_976_648_192
    assert max(held) < 0.9 * (24 << 30)
    plan = Answering(2, 24 << 30).plan("llama2-13b", "bfloat16")
    assert sum(layer.weights for layer in plan.layers) == 2 * 13_015_864_320
    with pytest.raises(NoRoomError, match="takes 26 GB, of which these 2 cards"):
        Answering(2, 12 << 30).plan("llama2-13b", "bfloat16")


def test_standard_profile_of_cards_cuts_one_network() -> None:
    rows = {
        one.values[0].name: one.marks[0].kwargs for one in runs("pipeline", cost="1s", cards="5s")
    }
    profiles = {name: row["profiles"]["accelerator"] for name, row in rows.items()}
    costs = {name: row["cost"]["accelerator"] for name, row in rows.items()}
    assert profiles["llama2-70b"] == ("soak",)
    assert [name for name, cost in costs.items() if cost[2] == "5s"] == ["llama2-13b"]


def test_stages_on_cards_pass_halves_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FAULT, ON_A_CARD)
    with PipelineGroup(2, 2, module=MODULE) as group:
        assert group.on_accelerators
        plan = group.plan("thin", "bfloat16")
        assert plan.layers[1].takes == 2 * 2 * 64 * SHAPE["width"]
        test_pipeline.right_network(group, "bfloat16")
        for rotation in range(2):
            step = group.step(rotation)
            assert step.wrong == ()
            assert 0 < max(step.computing) < step.seconds


def scores_of(name: str) -> list[int]:
    """Return the fingerprints of the scores that a whole network gives for both texts."""
    chain = Chain(BY_NAME[name], "float32")
    chain.hold(range(len(chain)), CPU)
    texts = [draw(BY_NAME[name], SIZES[name], CPU, part=part)[0] for part in range(2)]
    with torch.no_grad():
        return [fingerprint(chain.model(text)) for text in texts]


@contextmanager
def two(**given: Any) -> Iterator[PipelineGroup]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subprocess, "Popen", forked.Quick)
        group = PipelineGroup(0, 2, module=MODULE, **given)
    with group:
        group.join()
        yield group


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[PipelineGroup, Path]]:
    """Ranks, and the file that names their fault."""
    fault = tmp_path_factory.mktemp("fault") / "fault"
    fault.write_text("")
    with two(environment={FAULT: str(fault)}) as group:
        yield group, fault


@pytest.fixture
def ranks(shared: tuple[PipelineGroup, Path]) -> PipelineGroup:
    """Those ranks without a fault."""
    return shared[0]


@pytest.mark.alone
def test_step_behind_a_hidden_rate_is_the_planned_one_and_half_the_rate_moves_the_cut() -> None:
    # Layers keep a pace here; `benchmarks/suites/traffic.py` prints the same of layers that only compute.
    try:
        link = ShapedLink(None)
    except NotPossible as why:
        pytest.skip(str(why))
    given: dict[str, Any] = {
        "environment": {"GLOO_SOCKET_IFNAME": INTERFACE, FAULT: PACED},
        "within": [link.command(end) for end in range(2)],
    }
    with link, two(**given) as group:
        for trial in range(TRIES):
            # A transfer takes about two blocks, then four: half of the difference is one block more.
            size = 4 * MANY.batch * MANY.length * NARROW["width"]
            hidden = size / (random.Random(trial).uniform(2.3, 2.7) * PACE)
            plans, off = [], []
            for rate in (hidden, hidden / 2):
                link.shape(rate)
                plan = group.plan(PACED, "float32")
                assert group.uncut()[1] == []
                steps = [group.step(k) for k in (0, 1)]
                assert not any(step.wrong for step in steps)
                off.append(statistics.median(step.seconds for step in steps) / plan.step - 1)
                off.append(plan.link / rate - 1)
                plans.append(plan)
            moved = plans[1].stages[1].start - plans[0].stages[1].start
            if max(map(abs, off)) <= 0.2 and moved > 0:
                return
        pytest.fail(f"steps and links off by {off}, the cut moved by {moved} layers")


@pytest.mark.alone
def test_twice_the_texts_take_about_twice_as_long(ranks: PipelineGroup) -> None:
    def seconds(times: int) -> float:
        ranks.plan(list(SIZES)[times - 1], "float32")
        ranks.uncut()
        return min(ranks.step(k).seconds for k in (0, 0, 0, 1, 1, 1))

    doubles(seconds)


@pytest.mark.alone
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="each rank needs a core of its own")
def test_rank_on_a_core_shared_with_busy_processes_is_named_in_every_rotation(
    ranks: PipelineGroup,
) -> None:
    cores = sorted(os.sched_getaffinity(0))
    plan = ranks.plan("thin", "float32")
    ranks.uncut()
    # Three of them: a rank that waits for the other half of the time loses little to one.
    command = [sys.executable, "-c", "while True: pass"]
    with ExitStack() as stack:
        others = [stack.enter_context(subprocess.Popen(command)) for _ in range(3)]
        for one in others:
            stack.callback(one.kill)
        pids = [rank.pid for rank in ranks.processes]
        stack.callback(placed, pids, cores, 0)
        for place in range(2):  # ahead of all else that runs on these cores
            placed([pids[place], *(one.pid for one in others if place)], [cores[place]], -10)
        for _ in range(TRIES):
            steps = [ranks.step(number // 3) for number in range(6)]
            if (found := slowest_part(steps)).card == 1:
                break
    assert found == Binding(card=1), [step.taken for step in steps]
    assert "rank 1 binds in every rotation" in test_pipeline.words(found, plan, ranks)


def placed(pids: Sequence[int], cores: Sequence[int], nice: int) -> None:
    """Let the first threads of processes, which compute, have some cores."""
    for pid in pids:
        os.sched_setaffinity(pid, cores)
        with suppress(PermissionError):
            os.setpriority(os.PRIO_PROCESS, pid, nice)


@pytest.mark.alone
def test_benchmark_records_both_metrics_and_a_flipped_bit_names_its_rank(
    shared: tuple[PipelineGroup, Path],
) -> None:
    group, fault = shared
    plan, said = group.plan("thin", "float32"), dict[str, object]()
    taken: Any = Taken()
    test_pipeline.measure(taken, group, said.__setitem__, plan, "float32", 4)
    assert list(taken.asked) == ["pipeline_rate", "busy_share"]
    assert "binds in every rotation" in str(said["pipeline_binds"])
    assert "planned" in str(said["pipeline_step"])
    assert group.uncut()[1] == []
    assert group._uncut[-1] == scores_of("thin")
    for what in ("weights", "passed"):
        group.step(1)
        fault.write_text(what)
        for rotation, stage in ((0, 1), (1, 0)):  # drawn anew
            wrong = group.step(rotation).wrong
            assert wrong == (f"rank 1 as {plan.words(stage)} computed other bits than uncut",)
        with pytest.raises(AssertionError, match="rank 1 as stage"):
            test_pipeline.measure(Taken(), group, said.__setitem__, plan, "float32", 4)
        fault.write_text("")
        assert group.step(1).wrong == ()
    fault.write_text("third")
    assert group.step(1).wrong == ()
    assert len(group.step(1, check=True).wrong) == 1
