"""One rank of a training, in a process of its own: started by `suites.workload.data_parallel`."""

from __future__ import annotations

import copy
import gc
import math
import sys
from collections.abc import Callable, Mapping, Sequence

import torch
from torch.nn.parallel import DistributedDataParallel

from pytest_anubis.benchmarking.children import Handler, Message, handlers_of
from pytest_anubis.benchmarking.placement import checking_device
from pytest_anubis.benchmarking.precision import single_precision
from pytest_anubis.benchmarking.ranks import serve, timed
from pytest_anubis.benchmarking.sizes import give_back
from suites.training.step import TrainingStep, smooth
from suites.workload.catalogue import BY_NAME, Sizes, Workload
from suites.workload.running import (
    NoRoomError,
    draw,
    fitting_batch,
    loss_of,
    network,
    training_step,
)
from suites.workload.trajectory import fingerprint_of

CHECKED = Sizes(batch=2, length=64)
"""Of each rank's part: what the gradient is checked on, in double precision, by every rank for all of
them."""


class TrainingRank:
    """One rank: its own part of the batch, everybody's weights.

    Args:
        spoil: Called with the network when gradients have been exchanged; tests flip a bit there.
    """

    def __init__(
        self,
        number: int,
        world: int,
        device: torch.device,
        spoil: Callable[[torch.nn.Module], None] = lambda _: None,
    ) -> None:
        self._number, self._world, self._device = number, world, device
        self._spoil = spoil
        self._step: TrainingStep | None = None
        self._shared: DistributedDataParallel | None = None

    def fit(self, request: Message) -> Message:
        """Answer how many examples of a ``workload`` this rank's device has room for."""
        self.rest({})  # of the network before it, whose test may have failed
        workload = BY_NAME[request["workload"]]
        sizes = self._sizes(workload)
        if self._device.type == "cpu":
            return {"batch": sizes.batch}
        try:
            return {"batch": fitting_batch(workload, sizes, self._device).batch}
        except NoRoomError as error:
            return {"why": str(error)}

    def gradient(self, request: Message) -> Message:
        """Answer how far ``off`` a ``workload``'s exchanged gradient is, in single precision.

        On small parts; every rank computes the gradient of all parts in double precision by itself.
        """
        workload = BY_NAME[request["workload"]]
        length = min(CHECKED.length, self._sizes(workload).length)
        small = Sizes(batch=CHECKED.batch, length=length)
        where = checking_device(self._device)
        with single_precision():
            model = smooth(network(workload, self._device))
            twin = copy.deepcopy(model).to(device=where, dtype=torch.float64)
            inputs, targets = draw(workload, small, self._device, part=self._number)
            shared = DistributedDataParallel(model)  # exchanges for as long as somebody holds it
            loss = loss_of(workload)
            loss(shared(inputs), targets).backward()  # type: ignore[no-untyped-call]
            self._spoil(model)
            for part in range(self._world):  # gradients add up
                inputs, targets = (
                    x.to(where) for x in draw(workload, small, self._device, part=part)
                )
                inputs = inputs.double() if inputs.is_floating_point() else inputs
                loss(twin(inputs), targets).backward()  # type: ignore[no-untyped-call]
        off = whole = 0.0
        for ours, exact in zip(model.parameters(), twin.parameters(), strict=True):
            if ours.grad is not None and exact.grad is not None:
                expected = exact.grad / self._world
                off += float((ours.grad.to(where).double() - expected).square().sum())
                whole += float(expected.square().sum())
        return {"off": math.sqrt(off / whole)}

    def prepare(self, request: Message) -> Message:
        """Make a ``workload`` with a ``batch`` in a ``dtype``."""
        workload = BY_NAME[request["workload"]]
        sizes = Sizes(batch=request["batch"], length=self._sizes(workload).length)
        self._step = training_step(
            workload, sizes, self._device, request["dtype"], part=self._number
        )
        self._shared = DistributedDataParallel(self._step.model, gradient_as_bucket_view=True)
        self._step.through = self._shared
        return {}

    def step(self, request: Message) -> Message:
        """Make ``steps`` without exchange and as many with it; answer the seconds of one of each."""
        step, steps = self._made(), request["steps"]
        assert self._shared is not None
        with single_precision():
            with self._shared.no_sync():
                alone = timed(step.run_for_nothing, self._device, steps)
            return {"alone": alone, "together": timed(step.run, self._device, steps)}

    def outcome(self, _request: Message) -> Message:
        """Answer the fingerprint of the ``weights``, and the ``first`` and the ``last`` loss."""
        step = self._made()
        self._spoil(step.model)
        first, last = step.losses()
        return {"weights": fingerprint_of(step.model.parameters()), "first": first, "last": last}

    def rest(self, _request: Message) -> Message:
        """Give back what the last network took: the next one may need all of the memory."""
        self._step = self._shared = None
        gc.collect()  # a network and its exchange hold each other
        give_back(self._device)
        return {}

    def _made(self) -> TrainingStep:
        assert self._step is not None, "prepare comes first"
        return self._step

    def _sizes(self, workload: Workload) -> Sizes:
        sizes = workload.cpu if self._device.type == "cpu" else workload.cards
        assert sizes is not None, f"{workload.name} does not run on {self._device.type}"
        return sizes


def main(*arguments: str, spoil: Callable[[torch.nn.Module], None] = lambda _: None) -> None:
    """Join the group and answer until the parent closes the socket."""

    def make(
        number: int, world: int, device: torch.device, _own: Sequence[str]
    ) -> Mapping[str, Handler]:
        return handlers_of(TrainingRank(number, world, device, spoil))

    serve(arguments, make)


if __name__ == "__main__":
    main(*sys.argv[1:])
