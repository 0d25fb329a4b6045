"""Train the network of Cox-Time with torch, which is loaded here and nowhere else in the Selector.

Kvamme, Borgan, Scheel (2019): for every incident i at t_i draw controls j from those still at risk and
minimise ``log(1 + sum_j exp(g(t_i, z_j) - g(t_i, z_i)))``. Case and controls go through the network in
one pass: batch normalisation would otherwise standardise the two apart and erase their difference.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from pytest_anubis.selector.risk.models.covariates import Floats
from pytest_anubis.selector.risk.models.cox_time_network import Clock, Layer, Network

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How a network is trained.

    Attributes:
        hidden: Width of each hidden layer.
        dropout: Share of activations that are dropped in training.
        rate: Learning rate.
        decay: Weight decay.
        batch: Incidents in one step.
        controls: Controls for each incident.
        epochs: Passes over the incidents, at most.
        patience: Passes without a better validation loss after which training stops.
    """

    hidden: tuple[int, ...] = (32, 32)
    dropout: float = 0.1
    rate: float = 3e-3
    decay: float = 1e-2
    batch: int = 256
    controls: int = 4
    epochs: int = 200
    patience: int = 12


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Rows sorted by time, so that the risk set of an incident is everything from a place on.

    `fixed`, shape (n,), is the proportional part of g, which is not trained here.
    """

    z: Floats
    fixed: Floats
    cases: npt.NDArray[np.int64]
    times: Floats
    first: npt.NDArray[np.int64]

    def controls(self, cases: npt.NDArray[np.int64], k: int, rng: np.random.Generator) -> Any:
        """Return k random rows still at risk for each case, shape (cases, k)."""
        low = self.first[cases][:, None]
        span = len(self.z) - low
        return low + np.floor(rng.random((len(cases), k)) * span).astype(np.int64)


def sorted_rows(
    z: Floats, duration: Floats, event: npt.NDArray[np.bool_], clock: Clock, linear: Floats
) -> Rows:
    """Return rows by time, with the incidents among them and their proportional part ``z linear``."""
    order = np.argsort(duration, kind="stable")
    time = duration[order]
    cases = np.flatnonzero(event[order])
    return Rows(
        z=z[order],
        fixed=z[order] @ linear,
        cases=cases,
        times=clock.of(time[cases]),
        first=np.searchsorted(time, time[cases], side="left"),
    )


@dataclass(frozen=True, slots=True, eq=False)
class Course:
    """A network's training.

    Attributes:
        losses: Shape (epochs + 1, cases): loss of each case of the other rows, from epoch 0 on, where the
            network corrects nothing.
        states: The network after each epoch.
        linear: Shape (width,): slopes of the proportional part.
    """

    losses: Floats
    states: Sequence[dict[str, torch.Tensor]]
    linear: Floats

    def network(self, epoch: int) -> Network:
        """Return the network as it was after an epoch."""
        return _export(self.states[epoch], self.linear)


def train(fit: Rows, check: Rows, recipe: Recipe, seed: int, linear: Floats) -> Course:
    """Train one network, as a correction of proportional hazards, until other rows see no more gain.

    Args:
        fit: Rows to learn from.
        check: Rows to stop by, with at least one incident.
        recipe: How.
        seed: Seed of everything random.
        linear: Shape (width,): slopes of the proportional part that the network corrects.
    """
    import torch

    rng = np.random.default_rng(seed)
    many = 4 * recipe.controls
    losses: list[Floats] = []
    states = []
    with torch.random.fork_rng(devices=[]), _one_thread():
        torch.manual_seed(seed)
        net = _build(fit.z.shape[1] + 1, recipe)
        step = torch.optim.AdamW(net.parameters(), lr=recipe.rate, weight_decay=recipe.decay)
        fixed = _batch(check, np.arange(len(check.cases)), many, np.random.default_rng(1))
        for epoch in range(recipe.epochs + 1):
            if epoch:
                _epoch(net, step, fit, recipe, rng)
            with torch.no_grad():
                net.train(False)
                losses.append(_losses(net, fixed, many).numpy().astype(np.float64))
            states.append(_state(net))
            if epoch - int(np.argmin([loss.mean() for loss in losses])) >= recipe.patience:
                break
    return Course(np.array(losses), states, linear)


def stop(courses: Sequence[Course]) -> list[int]:
    """Return the epoch at which each course's network is taken; 0 is proportional hazards.

    Three or more courses, each with another stretch of the history held back, are stopped together, by
    the stretches: their number is what says how far the past is a guide, however many cases each has.
    Fewer are stopped each by its own cases.
    """
    if len(courses) < 3:
        return [simplest(course.losses) for course in courses]
    common = min(len(course.losses) for course in courses)
    means = [course.losses[:common].mean(axis=1) for course in courses]
    return [simplest(np.column_stack(means))] * len(courses)


def simplest(losses: Floats) -> int:
    """Return the first epoch that is no worse than the best one by more than one standard error.

    The error is that of the paired differences, so it is small where epochs agree on which cases are hard.
    Early epochs are closest to proportional hazards.

    Args:
        losses: Shape (epochs, cases), or (epochs, stretches).
    """
    means = losses.mean(axis=1)
    best = int(means.argmin())
    count = losses.shape[1]
    error = (losses - losses[best]).std(axis=1, ddof=min(1, count - 1)) / count**0.5
    return int(np.flatnonzero(means - means[best] <= error)[0])


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    """Keep torch to one thread: such small steps are not faster on more, and far slower beside others."""
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
    rows: Rows,
    recipe: Recipe,
    rng: np.random.Generator,
) -> None:
    net.train(True)
    order = rng.permutation(len(rows.cases))
    for start in range(0, len(order), recipe.batch):
        cases = order[start : start + recipe.batch]
        if start and len(cases) < 8:
            continue  # too few rows for a batch's statistics; another epoch has them elsewhere
        step.zero_grad()
        loss = _losses(net, _batch(rows, cases, recipe.controls, rng), recipe.controls).mean()
        loss.backward()  # type: ignore[no-untyped-call]
        step.step()


def _batch(
    rows: Rows, cases: npt.NDArray[np.int64], controls: int, rng: np.random.Generator
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return cases with controls as input, shape (cases * (1 + controls), width + 1), and g's fixed part."""
    import torch

    drawn = rows.controls(cases, controls, rng)
    who = np.concatenate([rows.cases[cases][:, None], drawn], axis=1).ravel()
    when = np.repeat(rows.times[cases], 1 + controls)
    inputs = np.column_stack([rows.z[who], when]).astype(np.float32)
    return torch.from_numpy(inputs), torch.from_numpy(rows.fixed[who].astype(np.float32))


def _losses(
    net: torch.nn.Sequential, batch: tuple[torch.Tensor, torch.Tensor], controls: int
) -> torch.Tensor:
    """Return the loss of each case, shape (cases,)."""
    import torch

    inputs, fixed = batch
    g = (net(inputs)[:, 0] + fixed).reshape(-1, 1 + controls)
    # log(1 + sum exp(g_j - g_i)) is the softmax loss of picking the case out of its group.
    losses: torch.Tensor = torch.logsumexp(g, dim=1) - g[:, 0]
    return losses


def _build(width: int, recipe: Recipe) -> torch.nn.Sequential:
    import torch

    parts: list[torch.nn.Module] = []
    for size in recipe.hidden:
        parts += [
            torch.nn.Linear(width, size),
            torch.nn.ReLU(),
            torch.nn.BatchNorm1d(size),
            torch.nn.Dropout(recipe.dropout),
        ]
        width = size
    last = torch.nn.Linear(width, 1, bias=False)
    torch.nn.init.zeros_(last.weight)  # g starts as its proportional part
    parts.append(last)
    return torch.nn.Sequential(*parts)


def _state(net: torch.nn.Sequential) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in net.state_dict().items()}


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
