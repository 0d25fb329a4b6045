"""For `anubis simulate`: a Bayesian filter of nodes' hidden defects over use, incidents and validations.

A node has no hidden defect or one of a kind k; a second one is rare enough to ignore. Defects appear at the
rate w per hour of use, are of kind k with its share, and become incidents at the rate mu. With p the
posterior of the kinds and q = 1 - sum p, h hours without an incident turn them into
``p b + q share w (a - b) / (mu - w)`` and ``q a`` with ``a = exp(-w h)``, ``b = exp(-mu h)``, divided by
their sum, which is the probability of those hours. Kinds exclude each other, so passing a test makes the
untested kinds more probable: after an incident whose cause stayed, one of them must be present. The rates are
learned with the same filter, by maximum likelihood from a usage log.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pytest_anubis.selector.selector_error import SelectorError

Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]

_TINY = 1e-12
_LIMITS = ([-25, -12, -9, -9], [0, 3, 9, 9])
"""Bounds of the logarithms of wear and manifest, and of the logits of stays and initial."""


@dataclass(frozen=True, slots=True, eq=False)
class DefectRates:
    """The rates at which defects appear, become incidents and stay."""

    wear: float  # new hidden defects per node hour of use
    manifest: float  # incidents per hour of use and hidden defect
    stays: float  # probability that a repair after an incident leaves the cause
    initial: float  # probability that a new node has a hidden defect
    shares: Floats  # shape (kinds,): share of each kind in the defects; they sum to 1

    def __post_init__(self) -> None:
        rates = (self.wear, self.manifest, self.stays, self.initial)
        if not all(np.isfinite(rates)) or min(rates) < 0 or max(self.stays, self.initial) > 1:
            raise SelectorError(
                f"rates {rates} make no sense; give wear, manifest >= 0 and two probabilities"
            )


def at_first(rates: DefectRates, nodes: int) -> Floats:
    """Return the prior of new nodes, shape (nodes, kinds)."""
    return np.tile(rates.initial * rates.shares, (nodes, 1))


def after_use(posterior: Floats, hours: Floats, rates: DefectRates) -> tuple[Floats, Floats]:
    """Return the posterior, shape (n, kinds), after use without an incident, and how probable that was."""
    none = 1 - posterior.sum(axis=1)
    gap = rates.manifest - rates.wear
    kept = np.exp(-rates.wear * hours)
    quiet = np.exp(-rates.manifest * hours)
    came = none * rates.wear * (hours * quiet if abs(gap) < 1e-9 else (kept - quiet) / gap)
    there = posterior * quiet[:, None] + came[:, None] * rates.shares
    both = none * kept + there.sum(axis=1)
    return there / np.maximum(both, _TINY)[:, None], both


def after_tests(posterior: Floats, tested: Mask) -> Floats:
    """Return the posterior of nodes, shape (n, kinds), that passed the tests in a mask of that shape."""
    left = np.where(tested, 0.0, posterior)
    passed = 1 - np.where(tested, posterior, 0.0).sum(axis=1)
    return np.asarray(left / np.maximum(passed, _TINY)[:, None])


def after_incident(posterior: Floats, rates: DefectRates, kind: Ints) -> Floats:
    """Return the posterior, shape (n, kinds), after an incident and its repair.

    `kind` is that of the incident, shape (n,); -1 if unknown.
    """
    cause = posterior / np.maximum(posterior.sum(axis=1, keepdims=True), _TINY)
    known = kind >= 0
    cause[known] = 0.0
    cause[known, kind[known]] = 1.0
    after: Floats = cause * rates.stays
    return after


def manifest_probability(hours: float, rates: DefectRates) -> float:
    """Return the probability that a present defect becomes an incident within hours of use."""
    return float(-np.expm1(-rates.manifest * hours))


@dataclass(frozen=True, slots=True, eq=False)
class UsageLog:
    """The observations of a fleet, a row for each node and job, in time order."""

    nodes: int
    node: Ints  # shape (rows,)
    tested: Mask  # shape (rows, kinds): kinds tested before the job
    found: Mask  # shape (rows, kinds): kinds found; the node was then repaired, not used
    hours: Floats  # shape (rows,): hours of use
    incident: Mask  # shape (rows,): whether this node's incident ended the use
    kind: Ints  # shape (rows,): kind of the incident; -1 if unknown or none


def learn_rates(log: UsageLog) -> DefectRates:
    """Learn rates from a usage log, by maximum likelihood (Nelder-Mead over four rates).

    The search starts from counts of the log. The kinds' shares are those of the defects that were found and
    of the incidents of known kind, with one pseudo-defect spread over all.

    Raises:
        SelectorError: The log is empty, or has no hours of use.
    """
    from scipy.optimize import minimize

    if not len(log.node) or log.hours.sum() <= 0:
        raise SelectorError("the log is empty: nothing to learn rates from")
    kinds = log.tested.shape[1]
    seen = log.found.sum(axis=0) + np.bincount(log.kind[log.kind >= 0], minlength=kinds)
    shares = (seen + 1 / kinds) / (seen.sum() + 1)
    hours = float(log.hours.sum())
    wear = max(1.0, float(log.found.sum() + log.incident.sum())) / hours / 2
    # An incident a day; half of the repairs leave the cause; a tenth of new nodes has a defect.
    first = np.log([wear, 1 / 24, 0.5 / (1 - 0.5), 0.1 / (1 - 0.1)])
    turns = _turns(log)

    def loss(theta: Floats) -> float:
        bounded = np.clip(theta, *_LIMITS)
        # A slight pull to the start determines the rates that the log leaves open.
        pull = 0.02 * float(((theta - first) ** 2).sum())
        return pull - log_likelihood(log, _rates(bounded, shares), turns)

    # The default simplex hardly moves a parameter that starts at 0, such as the logit of a half.
    simplex = np.vstack([first, first + np.diag([0.5, 0.5, 1.0, 0.5])])
    found = minimize(
        loss,
        first,
        method="Nelder-Mead",
        options={"initial_simplex": simplex, "xatol": 0.01, "fatol": 0.02, "maxfev": 400},
    )
    return _rates(np.clip(found.x, *_LIMITS), shares)


def _rates(theta: Floats, shares: Floats) -> DefectRates:
    stays, initial = 1 / (1 + np.exp(-theta[2:]))
    return DefectRates(
        wear=float(np.exp(theta[0])),
        manifest=float(np.exp(theta[1])),
        stays=float(stays),
        initial=float(initial),
        shares=shares,
    )


def _turns(log: UsageLog) -> Sequence[Ints]:
    """Return row numbers: every node's first row, then every node's second row, and so on."""
    order = np.argsort(log.node, kind="stable")
    counts = np.bincount(log.node, minlength=log.nodes)
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    return [order[starts[counts > turn] + turn] for turn in range(int(counts.max(initial=0)))]


def log_likelihood(log: UsageLog, rates: DefectRates, turns: Sequence[Ints] | None = None) -> float:
    """Return the log probability of a usage log; `turns` saves grouping its rows at every call."""
    posterior = at_first(rates, log.nodes)
    total = 0.0
    for rows in _turns(log) if turns is None else turns:
        nodes = log.node[rows]
        own, tested, found = posterior[nodes], log.tested[rows], log.found[rows]
        bad: Mask = np.asarray(found.any(axis=1))
        passed = 1 - np.where(tested, own, 0.0).sum(axis=1)
        total += float(np.log(np.maximum(own, _TINY))[found].sum())
        total += float(np.log(np.maximum(passed, _TINY))[~bad].sum())
        own = np.where(bad[:, None], 0.0, after_tests(own, tested))
        own, quiet = after_use(own, log.hours[rows], rates)
        total += float(np.log(np.maximum(quiet, _TINY)).sum())
        hit = log.incident[rows]
        if hit.any():
            kind = log.kind[rows][hit]
            rate = np.where(kind >= 0, own[hit, np.maximum(kind, 0)], own[hit].sum(axis=1))
            total += float(np.log(np.maximum(rates.manifest * rate, _TINY)).sum())
            own[hit] = after_incident(own[hit], rates, kind)
        posterior[nodes] = own
    return total
