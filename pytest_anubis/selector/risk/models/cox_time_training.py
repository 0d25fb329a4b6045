"""Train the network of Cox-Time with torch, which only this module of the Selector loads.

Kvamme, Borgan, Scheel (2019): for every incident i at t_i draw controls j from the rows still at risk, and
minimise ``log(1 + sum_j exp(g(t_i, z_j) - g(t_i, z_i)))``. Case and controls pass through the network
together, because batch normalisation would otherwise standardise both and erase their difference.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from pytest_anubis.selector.risk.models.covariates import Floats
from pytest_anubis.selector.risk.models.cox_time_network import Layer, Network, TimeScale

if TYPE_CHECKING:
    import torch


HIDDEN = (32, 32)
"""Width of each hidden layer."""
_DROPOUT = 0.1
_LEARNING_RATE = 3e-3
_WEIGHT_DECAY = 1e-2
_BATCH = 256  # incidents in one step
_MAX_EPOCHS = 200  # passes over the incidents
_PATIENCE = 12  # passes without a better validation loss after which training stops


@dataclass(frozen=True, slots=True, eq=False)
class TimeSortedRows:
    """Rows by rising duration, so that the risk set of an incident is all rows from an index on."""

    z: Floats  # shape (n, width)
    fixed: Floats  # shape (n,): the proportional part of g, which is not trained here
    cases: npt.NDArray[np.int64]  # shape (cases,): rows that ended with an incident
    times: Floats  # shape (cases,): their standardised times
    first: npt.NDArray[np.int64]  # shape (cases,): first row of their risk sets

    def controls(self, cases: npt.NDArray[np.int64], k: int, rng: np.random.Generator) -> Any:
        """Draw k rows still at risk for each case, shape (cases, k)."""
        low = self.first[cases][:, None]
        span = len(self.z) - low
        return low + np.floor(rng.random((len(cases), k)) * span).astype(np.int64)


def sort_rows(
    z: Floats, duration: Floats, event: npt.NDArray[np.bool_], scale: TimeScale, linear: Floats
) -> TimeSortedRows:
    """Sort rows by duration, and compute their proportional part ``z linear``."""
    order = np.argsort(duration, kind="stable")
    time = duration[order]
    cases = np.flatnonzero(event[order])
    return TimeSortedRows(
        z=z[order],
        fixed=z[order] @ linear,
        cases=cases,
        times=scale.apply(time[cases]),
        first=np.searchsorted(time, time[cases], side="left"),
    )


@dataclass(frozen=True, slots=True, eq=False)
class TrainingRun:
    """The training of one network."""

    # Shape (epochs + 1, cases): loss of each held-back case after each epoch; at epoch 0 the
    # network corrects nothing
    losses: Floats
    states: Sequence[dict[str, torch.Tensor]]  # the network's weights after each epoch
    linear: Floats  # shape (width,): slopes of the proportional part

    def network(self, epoch: int) -> Network:
        """Return the network after an epoch."""
        return _export(self.states[epoch], self.linear)


def train(
    fit: TimeSortedRows, check: TimeSortedRows, controls: int, seed: int, linear: Floats
) -> TrainingRun:
    """Train one network as a correction of proportional hazards, until held-back rows show no more gain.

    `check` are the held-back rows, with at least one incident, `controls` how many each incident gets, and
    `linear`, shape (width,), the slopes of the proportional part.
    """
    import torch

    rng = np.random.default_rng(seed)
    check_controls = 4 * controls
    losses: list[Floats] = []
    states = []
    with torch.random.fork_rng(devices=[]), _one_thread():
        torch.manual_seed(seed)
        net = _build(fit.z.shape[1] + 1)
        step = torch.optim.AdamW(net.parameters(), lr=_LEARNING_RATE, weight_decay=_WEIGHT_DECAY)
        fixed = _batch(check, np.arange(len(check.cases)), check_controls, np.random.default_rng(1))
        for epoch in range(_MAX_EPOCHS + 1):
            if epoch:
                _epoch(net, step, fit, controls, rng)
            with torch.no_grad():
                net.train(False)
                losses.append(_losses(net, fixed, check_controls).numpy().astype(np.float64))
            states.append({name: value.clone() for name, value in net.state_dict().items()})
            if epoch - int(np.argmin([loss.mean() for loss in losses])) >= _PATIENCE:
                break
    return TrainingRun(np.array(losses), states, linear)


def stop_epochs(trainings: Sequence[TrainingRun]) -> list[int]:
    """Return the epoch at which to take each training's network; 0 is proportional hazards.

    Three or more trainings, each with another stretch of the history held back, stop at a common epoch by
    the means of the stretches, whose disagreement shows how far the past predicts the future. Fewer trainings
    are stopped each by its own cases.
    """
    if len(trainings) < 3:
        return [simplest_epoch(each.losses) for each in trainings]
    common = min(len(each.losses) for each in trainings)
    means = [each.losses[:common].mean(axis=1) for each in trainings]
    return [simplest_epoch(np.column_stack(means))] * len(trainings)


def simplest_epoch(losses: Floats) -> int:
    """Return the first epoch that is no worse than the best one by more than one standard error.

    `losses` has the shape (epochs, cases) or (epochs, stretches). Early epochs are closest to proportional
    hazards. The error is that of the paired differences, so it is small where epochs agree on which cases are
    hard.
    """
    means = losses.mean(axis=1)
    best = int(means.argmin())
    count = losses.shape[1]
    error = (losses - losses[best]).std(axis=1, ddof=min(1, count - 1)) / count**0.5
    return int(np.flatnonzero(means - means[best] <= error)[0])


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    """Limit torch to one thread: such small steps gain nothing from more, and lose much on a busy machine."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _epoch(
    net: torch.nn.Sequential,
    step: torch.optim.Optimizer,
    rows: TimeSortedRows,
    controls: int,
    rng: np.random.Generator,
) -> None:
    net.train(True)
    order = rng.permutation(len(rows.cases))
    for start in range(0, len(order), _BATCH):
        cases = order[start : start + _BATCH]
        if start and len(cases) < 8:
            continue  # too few rows for a batch's statistics; the next epoch shuffles anew
        step.zero_grad()
        loss = _losses(net, _batch(rows, cases, controls, rng), controls).mean()
        loss.backward()  # type: ignore[no-untyped-call]
        step.step()


def _batch(
    rows: TimeSortedRows, cases: npt.NDArray[np.int64], controls: int, rng: np.random.Generator
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return input of cases with controls, shape (cases * (1 + controls), width + 1), and g's fixed part."""
    import torch

    drawn = rows.controls(cases, controls, rng)
    members = np.concatenate([rows.cases[cases][:, None], drawn], axis=1).ravel()
    when = np.repeat(rows.times[cases], 1 + controls)
    inputs = np.column_stack([rows.z[members], when]).astype(np.float32)
    return torch.from_numpy(inputs), torch.from_numpy(rows.fixed[members].astype(np.float32))


def _losses(
    net: torch.nn.Sequential, batch: tuple[torch.Tensor, torch.Tensor], controls: int
) -> torch.Tensor:
    """Return the loss of each case, shape (cases,)."""
    import torch

    inputs, fixed = batch
    g = (net(inputs)[:, 0] + fixed).reshape(-1, 1 + controls)
    # log(1 + sum exp(g_j - g_i)) is the softmax loss of the case among its group.
    losses: torch.Tensor = torch.logsumexp(g, dim=1) - g[:, 0]
    return losses


def _build(width: int) -> torch.nn.Sequential:
    import torch

    parts: list[torch.nn.Module] = []
    for size in HIDDEN:
        parts += [
            torch.nn.Linear(width, size),
            torch.nn.ReLU(),
            torch.nn.BatchNorm1d(size),
            torch.nn.Dropout(_DROPOUT),
        ]
        width = size
    last = torch.nn.Linear(width, 1, bias=False)
    torch.nn.init.zeros_(last.weight)  # g starts as its proportional part
    parts.append(last)
    return torch.nn.Sequential(*parts)


def _export(trained: dict[str, torch.Tensor], linear: Floats) -> Network:
    """Return the network as arrays, with batch normalisation folded to a scale and a shift."""
    state = {name: value.numpy().astype(np.float32) for name, value in trained.items()}
    last = max(int(name.split(".")[0]) for name in state)
    layers = []
    for part in range(0, last, 4):
        norm = part + 2
        scale = state[f"{norm}.weight"] / np.sqrt(state[f"{norm}.running_var"] + 1e-5)
        layers.append(
            Layer(
                weight=state[f"{part}.weight"].T.copy(),
                bias=state[f"{part}.bias"],
                scale=scale,
                shift=state[f"{norm}.bias"] - scale * state[f"{norm}.running_mean"],
            )
        )
    out = state[f"{last}.weight"][0]
    return Network(layers=tuple(layers), out=out, linear=linear.astype(np.float32))
