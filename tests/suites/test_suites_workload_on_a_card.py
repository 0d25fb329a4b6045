"""The workloads' branches for accelerators run to their end on a stand-in, in the types that cards have."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

from pytest_anubis.benchmarking.sizes import MemoryTakenError
from pytest_anubis.session.collecting.device_parameters import Device
from suites.workload import test_inference as inference
from suites.workload import test_same_bits as bits
from suites.workload import test_training_steps as training
from suites.workload.catalogue import BY_NAME, Sizes, Workload
from suites.workload.data_parallel_rank import TrainingRank
from suites.workload.models import plain
from suites.workload.running import NoRoomError, bytes_of_example, fitting_batch, training_step
from tests.suites.stand_in_card import CARD, stand_in
from tests.suites.test_suites_on_a_card import Taken
from tests.suites.test_suites_workload import SMALL, tiny

pytestmark = pytest.mark.usefixtures("one_thread")
CUDA = Device("cuda:0")


@pytest.fixture
def card() -> Iterator[Any]:
    with stand_in(rounded=False) as found:
        yield found


def on_cards(name: str) -> Workload:
    return replace(
        tiny(name),
        cards=SMALL,
        served={"card": SMALL},
        dtypes=("float32", "bfloat16", "float16"),
        steps=("training", "bits", "inference", "prefill", "decode", "token"),
    )


def run(
    test: Callable[..., None], workload: Workload, dtype: str
) -> tuple[Taken, dict[str, object]]:
    """Run a benchmark on the stand-in; return what it took and which properties it said."""
    taken, said = Taken(), dict[str, object]()
    test(taken, CUDA, said.__setitem__, workload, dtype)
    return taken, said


@pytest.mark.parametrize(
    ("name", "dtype"),
    [("gpt2", "float32"), ("llama-small", "bfloat16"), ("bert-base", "float16")],
)
def test_training_step_is_checked_captured_and_replayed(name: str, dtype: str, card: Any) -> None:
    taken, said = run(training.test_training_step, on_cards(name), dtype)
    assert list(taken.asked) == ["training_rate"]
    assert said == {"training_step": "captured as a graph"}
    assert [graph.replays for graph in card.graphs] == [3]


@pytest.mark.usefixtures("card")
def test_network_that_fills_a_card_trains_in_its_own_type() -> None:
    taken, _ = run(
        training.test_training_step, replace(on_cards("llama-small"), light=True), "bfloat16"
    )
    assert list(taken.asked) == ["training_rate"]


@pytest.mark.parametrize(
    ("test", "name", "metric"),
    [
        (inference.test_inference, "bert-base", "inference_rate"),
        (inference.test_prefill, "llama-small", "prefill_rate"),
        (inference.test_decode, "experts-small", "decode_rate"),
        (inference.test_token, "gpt2", "token_time"),
    ],
)
def test_inference_is_checked_captured_and_replayed(
    test: Callable[..., None], name: str, metric: str, card: Any
) -> None:
    taken, said = run(test, on_cards(name), "bfloat16")
    assert list(taken.asked) == [metric]
    assert said == {"inference_step": "captured as a graph"}
    assert [graph.replays for graph in card.graphs] == [5]  # before, three times, after


@pytest.mark.usefixtures("card")
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_bits_are_recorded_in_every_type(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bits, "ON_CARDS", SMALL)
    taken, said = run(bits.test_same_bits, on_cards("llama-small"), dtype)
    assert taken.asked["training_bits"]["better"] == "equal"
    assert len(str(said["losses"]).split()) == 3


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_wrong_gradient_of_a_short_type_is_caught(dtype: str) -> None:
    with stand_in(rounded=False):
        step = training_step(on_cards("llama-small"), SMALL, CARD, dtype)
        assert step.gradient_errors(True)[0] < training.GRADIENT_TOLERANCE[dtype] / 3
        feed = [m for m in step.model.modules() if isinstance(m, torch.nn.RMSNorm)][-1]
        feed.register_forward_hook(
            lambda _module, _given, out: out if out.dtype is torch.float64 else out.flip(-1)
        )
        assert step.gradient_errors(True)[0] > training.GRADIENT_TOLERANCE[dtype]


def test_batch_is_halved_until_it_fits_and_what_never_fits_does_not_apply() -> None:
    workload = BY_NAME["gpt2"]
    one = bytes_of_example(workload, Sizes(batch=16, length=1024))
    assert 0.5e9 < one < 3e9  # half a gigabyte of scores and their logarithms alone
    sizes = Sizes(batch=16, length=1024)
    with stand_in(memory=80 << 30, rounded=False):
        assert fitting_batch(workload, sizes, CARD).batch == 16
    with stand_in(memory=16 << 30, rounded=False):
        assert 1 <= fitting_batch(workload, sizes, CARD).batch < 16
    with stand_in(memory=80 << 30, rounded=False), pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.cuda, "mem_get_info", lambda *_: (6 << 30, 80 << 30))
        with pytest.raises(MemoryTakenError, match=r"6\.4 GB are free"):
            fitting_batch(workload, sizes, CARD)
    with (
        stand_in(memory=2 << 30, rounded=False),
        pytest.raises(NoRoomError, match=r"training gpt2 takes \d GB"),
    ):
        fitting_batch(workload, sizes, CARD)


@pytest.mark.parametrize("kind", ["cpu", "cuda"])
def test_what_is_not_for_a_kind_of_device_does_not_apply_there(kind: str) -> None:
    name = {"cpu": "resnet152", "cuda": "experts-small"}[kind]
    taken: Any = Taken()
    with pytest.raises(
        pytest.skip.Exception, match=r"^not applicable: this step of such a network is made on"
    ):
        training.test_training_step(taken, Device(kind), print, BY_NAME[name], "float32")


@pytest.mark.usefixtures("card")
@pytest.mark.parametrize("name", ["llama-small", "llama-1b", "bert-large", "vgg19"])
def test_rank_on_a_card_trains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    workload = BY_NAME[name]
    if (
        workload.family == "plain"
    ):  # a hundredth of its width; pictures that five halvings leave one of
        monkeypatch.setattr(plain, "CHANNELS", (4, 8, 8, 8, 8))
        monkeypatch.setattr(plain, "HIDDEN", 32)
        workload = replace(workload, cards=Sizes(batch=SMALL.batch, length=32))
    else:
        workload = on_cards(name)
    monkeypatch.setitem(BY_NAME, name, workload)
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        rank = TrainingRank(0, 1, CARD)
        asked = {"workload": name, "dtype": "bfloat16"}
        assert rank.fit(asked) == {"batch": SMALL.batch}
        assert rank.gradient(asked)["off"] < 3e-4
        rank.prepare({**asked, "batch": 2})
        for _ in range(2):
            assert min(rank.step({"steps": 2}).values()) > 0
        outcome = rank.outcome({})
        assert outcome["last"] < outcome["first"]
    finally:
        dist.destroy_process_group()
