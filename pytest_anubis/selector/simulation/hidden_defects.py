"""What is believed about hidden defects of nodes: a filter over use, incidents and validations.

A node has no hidden defect, or one of a kind k; a second one beside it is rare enough to be left out. A
defect appears at the rate w per hour of use, is of kind k with its share, and becomes an incident at the
rate mu. With p the beliefs in the kinds and q = 1 - sum p, h hours without an incident turn them into
``p b + q share w (a - b) / (mu - w)`` and ``q a`` with ``a = exp(-w h)``, ``b = exp(-mu h)``, before
division by their sum, which is the probability of those hours. Kinds exclude each other, so a test that
is passed makes the kinds that it did not look for more probable: after an incident whose cause stayed,
one of them must be there. Rates are learned by maximum likelihood from a log of what was seen, with the
same filter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from pytest_anubis.selector.selector_error import SelectorError

Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]

_TINY = 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class Rates:
    """How defects come and go.

    Attributes:
        wear: New hidden defects per node hour of use.
        manifest: Incidents per hour of use and hidden defect.
        stays: Probability that a repair after an incident leaves the cause.
        initial: Probability that a node has a hidden defect at first.
        shares: Shape (kinds,): how defects are shared among the kinds; they sum to 1.
    """

    wear: float
    manifest: float
    stays: float
    initial: float
    shares: Floats

    def __post_init__(self) -> None:
        rates = (self.wear, self.manifest, self.stays, self.initial)
        if not all(np.isfinite(rates)) or min(rates) < 0 or max(self.stays, self.initial) > 1:
            raise SelectorError(
                f"rates {rates} make no sense; give wear, manifest >= 0 and two probabilities"
            )


def at_first(rates: Rates, nodes: int) -> Floats:
    """Return the belief about new nodes, shape (nodes, kinds)."""
    return np.tile(rates.initial * rates.shares, (nodes, 1))


def after_use(belief: Floats, hours: Floats, rates: Rates) -> tuple[Floats, Floats]:
    """Return the belief after use without an incident, and how probable that was.

    Args:
        belief: Shape (n, kinds).
        hours: Shape (n,).
        rates: The rates.

    Returns:
        The belief, shape (n, kinds), and the probability of no incident, shape (n,).
    """
    none = 1 - belief.sum(axis=1)
    gap = rates.manifest - rates.wear
    gap = gap if abs(gap) > 1e-9 else 1e-9  # the limit for equal rates, near enough
    kept = np.exp(-rates.wear * hours)
    quiet = np.exp(-rates.manifest * hours)
    came = none * rates.wear * (kept - quiet) / gap
    there = belief * quiet[:, None] + came[:, None] * rates.shares
    both = none * kept + there.sum(axis=1)
    return there / np.maximum(both, _TINY)[:, None], both


def after_tests(belief: Floats, tested: Mask) -> Floats:
    """Return the belief about nodes that passed tests, shape (n, kinds).

    Args:
        belief: Before, shape (n, kinds).
        tested: Which kinds were looked for, shape (n, kinds).
    """
    left = np.where(tested, 0.0, belief)
    passed = 1 - np.where(tested, belief, 0.0).sum(axis=1)
    return np.asarray(left / np.maximum(passed, _TINY)[:, None])


def after_incident(belief: Floats, rates: Rates, kind: Ints) -> Floats:
    """Return the belief after an incident and the repair that followed it.

    Args:
        belief: At the moment of the incident, shape (n, kinds).
        rates: The rates.
        kind: Kind of the incident, shape (n,), -1 where it is unknown.
    """
    cause = belief / np.maximum(belief.sum(axis=1, keepdims=True), _TINY)
    known = kind >= 0
    cause[known] = 0.0
    cause[known, kind[known]] = 1.0
    after: Floats = cause * rates.stays
    return after


def to_show(hours: float, rates: Rates) -> float:
    """Return the probability that a defect that is there now becomes an incident within hours."""
    return float(-np.expm1(-rates.manifest * hours))


@dataclass(frozen=True, slots=True, eq=False)
class Past:
    """What was seen of a fleet, one row for each node and job, in time order.

    Attributes:
        nodes: How many nodes there are.
        node: Shape (rows,).
        tested: Shape (rows, kinds): which kinds were looked for before the job.
        found: Shape (rows, kinds): which of them were found; the node was then repaired, not used.
        hours: Shape (rows,): hours of use.
        incident: Shape (rows,): whether this node's incident ended the use.
        kind: Shape (rows,): kind of the incident, -1 where unknown or none.
    """

    nodes: int
    node: Ints
    tested: Mask
    found: Mask
    hours: Floats
    incident: Mask
    kind: Ints


def log_likelihood(past: Past, rates: Rates) -> float:
    """Return the log probability of all that was seen, given rates."""
    return _likelihood(past, _waves(past), rates)


def learn_rates(past: Past, *, guess: Rates | None = None) -> Rates:
    """Learn rates from what was seen, by maximum likelihood (Nelder-Mead over four figures).

    Kinds are shared as the defects that were found (and the incidents whose kind is known), with one
    pseudo-defect spread over all.

    Args:
        past: What was seen.
        guess: Where to start; default: counts of the past.

    Raises:
        SelectorError: The past is empty, or nobody used a node in it.
    """
    from scipy.optimize import minimize

    if not len(past.node) or past.hours.sum() <= 0:
        raise SelectorError("the past is empty: nothing to learn rates from")
    kinds = past.tested.shape[1]
    seen = past.found.sum(axis=0) + np.bincount(past.kind[past.kind >= 0], minlength=kinds)
    shares = (seen + 1 / kinds) / (seen.sum() + 1)
    hours = float(past.hours.sum())
    start = guess or Rates(
        wear=max(1.0, float(past.found.sum() + past.incident.sum())) / hours / 2,
        manifest=1 / 24,
        stays=0.5,
        initial=0.1,
        shares=shares,
    )
    waves = _waves(past)
    first = np.array(
        [np.log(start.wear), np.log(start.manifest), _logit(start.stays), _logit(start.initial)]
    )

    def loss(theta: Floats) -> float:
        bounded = np.clip(theta, [-25, -12, -9, -9], [0, 3, 9, 9])
        # A slight pull to the start settles what the past says nothing about.
        pull = 0.02 * float(((theta - first) ** 2).sum())
        return pull - _likelihood(past, waves, _rates(bounded, shares))

    # The default simplex hardly moves a figure that starts at 0, such as the logit of a half.
    simplex = np.vstack([first, first + np.diag([0.5, 0.5, 1.0, 0.5])])
    found = minimize(
        loss,
        first,
        method="Nelder-Mead",
        options={"initial_simplex": simplex, "xatol": 0.01, "fatol": 0.02, "maxfev": 400},
    )
    best = np.clip(found.x, [-25, -12, -9, -9], [0, 3, 9, 9])
    return replace(_rates(best, shares), shares=shares)


def _rates(theta: Floats, shares: Floats) -> Rates:
    stays, initial = 1 / (1 + np.exp(-theta[2:]))
    return Rates(
        wear=float(np.exp(theta[0])),
        manifest=float(np.exp(theta[1])),
        stays=float(stays),
        initial=float(initial),
        shares=shares,
    )


def _logit(probability: float) -> float:
    held = min(max(probability, 1e-3), 1 - 1e-3)
    return float(np.log(held / (1 - held)))


def _waves(past: Past) -> Sequence[Ints]:
    """Return row numbers: every node's first row, then every node's second, and so on."""
    order = np.argsort(past.node, kind="stable")
    counts = np.bincount(past.node, minlength=past.nodes)
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    return [order[starts[counts > turn] + turn] for turn in range(int(counts.max(initial=0)))]


def _likelihood(past: Past, waves: Sequence[Ints], rates: Rates) -> float:
    belief = at_first(rates, past.nodes)
    total = 0.0
    for rows in waves:
        who = past.node[rows]
        own, tested, found = belief[who], past.tested[rows], past.found[rows]
        bad: Mask = np.asarray(found.any(axis=1))
        passed = 1 - np.where(tested, own, 0.0).sum(axis=1)
        total += float(np.log(np.maximum(own, _TINY))[found].sum())
        total += float(np.log(np.maximum(passed, _TINY))[~bad].sum())
        own = np.where(bad[:, None], 0.0, after_tests(own, tested))
        own, quiet = after_use(own, past.hours[rows], rates)
        total += float(np.log(np.maximum(quiet, _TINY)).sum())
        hit = past.incident[rows]
        if hit.any():
            kind = past.kind[rows][hit]
            rate = np.where(kind >= 0, own[hit, np.maximum(kind, 0)], own[hit].sum(axis=1))
            total += float(np.log(np.maximum(rates.manifest * rate, _TINY)).sum())
            own[hit] = after_incident(own[hit], rates, kind)
        belief[who] = own
    return total
