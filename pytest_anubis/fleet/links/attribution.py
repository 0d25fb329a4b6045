"""Which part is to blame for slow pairs: a node, one direction of its port, a link, or one way of a link.

Model. The rate r of every way i -> j, divided by what is expected of it, is in logarithms

    y_ij = mu - (the loss of the part, if the way uses it) + noise

with Laplace noise, whose maximum likelihood is the least absolute deviation (Bloomfield and Steiger, *Least
Absolute Deviations*, 1983): mu is a median, a part's loss mu less the median of its ways. A single odd value
pulls neither. A hypothesis h names a part; D_h is the sum of absolute residuals under it, D_0 under "none",
n the number of ways. The generalised likelihood ratio of h against none is then (D_0 / D_h)^n, and with a
penalty for each free loss (BIC: Schwarz, "Estimating the dimension of a model", 1978) and equal priors of the
k kinds and within a kind for each of its m parts the logarithm of the posterior odds against none is

    s_h = n log(D_0 / D_h) - (p_h / 2) log n - log(k m_h)

The best part's confidence is exp(s_h) over one plus the sum of exp(s) of all parts. False accusations: if
there is no fault, odds of a Bayes factor reach 1 / alpha with probability alpha at most, since their mean is
1 (Markov's inequality; Royall, *Statistical Evidence*, 1997): a part is accused when s_h >= log(1 / alpha),
and its loss is large enough to matter besides. s_h only approximates such odds; `docs/fleet.md` has what was
counted under noise of several forms.

Several faults are named one after the other: each one's losses are given back to its ways first. Where one
part alone explains too little because another one is slow too, the odds of several parts together count: the
product of their odds, each given those before it. `pair_group` calls it, for incast by `fan_rates`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from pytest_anubis.core.metric import size_text
from pytest_anubis.core.part_odds import ALPHA, log_odds, posterior

Kind = Literal["node", "send", "receive", "link", "way"]
Matrix = npt.NDArray[np.float64]
Cells = npt.NDArray[np.bool_]

KINDS: tuple[Kind, ...] = ("node", "send", "receive", "link", "way")
"""Kinds of parts, each with the same share of the prior."""

PORTS = KINDS[:3]
"""Kinds of which one node is a part by itself."""

MIN_LOSS = 0.05
"""Smallest relative loss of a rate that matters, like the Validator's similarity threshold of 0.95."""

NOISE_FLOOR = 5e-3
"""Relative noise that is assumed at least: no network repeats its rates better, and 0 would be divided by."""

DEAD = 1e-3
"""Share of the median rate assumed for a way that carries nothing, since its logarithm must be finite."""

MAX_EXACT_NODES = 128
"""Nodes up to which mu is computed anew without each part's ways. One part of more nodes has less than a
fiftieth of all ways, too few to move the median, and the work grows with the cube."""

MIN_ALIKE = 3
"""Nodes with ports of one speed that are compared by themselves. One or two with a slower port are compared
with all others, since a port that negotiated down looks like that."""

RIVAL_SHARE = 0.05
"""Posterior share from which another part is reported together with the one that is accused."""

MIN_WAYS = 2
"""Bad ways from which on the end that they share is named: the cause of one may be its other end."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part that may be to blame."""

    # ``node`` sends and receives slowly; ``send`` and ``receive`` are one direction of its port; ``link``
    # connects two nodes, ``way`` is one direction of it
    kind: Kind
    # The node; of a link both, the lower one first; of a way the sender first
    nodes: tuple[int, ...]

    def ways(self, count: int) -> tuple[tuple[int, int], ...]:
        """Return the ways that it slows down among so many nodes, sender first."""
        first = self.nodes[0]
        last = self.nodes[-1]
        others = [node for node in range(count) if node != first]
        sends = tuple((first, node) for node in others)
        receives = tuple((node, first) for node in others)
        return {
            "node": sends + receives,
            "send": sends,
            "receive": receives,
            "link": ((first, last), (last, first)),
            "way": ((first, last),),
        }[self.kind]

    def named(self, names: Sequence[str]) -> str:
        """Return what to call it, such as ``node b``, ``sending of b``, ``link a - b``, ``way a -> b``."""
        name = names[self.nodes[0]]
        last = names[self.nodes[-1]]
        return {
            "node": f"node {name}",
            "send": f"sending of {name}",
            "receive": f"receiving of {name}",
            "link": f"link {name} - {last}",
            "way": f"way {name} -> {last}",
        }[self.kind]


@dataclass(frozen=True, slots=True, kw_only=True)
class Accusation:
    """A part that is to blame."""

    part: Part
    # Relative losses: one, or two for a node (sending and receiving) and a link (from the lower node and to
    # it)
    losses: tuple[float, ...]
    # Posterior probability, 0 to 1, that this part is to blame and not another or none
    confidence: float
    # Other parts that explain the same, with their posterior probability, the likeliest first
    rivals: tuple[tuple[Part, float], ...] = ()

    def text(self, names: Sequence[str]) -> str:
        """Return one line: the part, what it loses, how sure that is, what else it could be."""
        lost = " and ".join(map(_lost, self.losses))
        ends = {"node": " (sending and receiving)", "link": " (there and back)"}
        line = f"{self.part.named(names)}: {lost} slower than the others"
        line += f"{ends.get(self.part.kind, '')}, confidence {self.confidence:.2f}"
        if self.rivals:
            line += "; or " + ", ".join(
                f"{part.named(names)} ({share:.2f})" for part, share in self.rivals
            )
        return line


def _lost(loss: float) -> str:
    """Return a relative loss as text; the loss of a dead way is known only as a bound."""
    return size_text(min(loss, 1 - DEAD), "higher")


@dataclass(frozen=True, slots=True)
class _Suspect:
    part: Part
    score: float
    shifts: tuple[tuple[Cells | tuple[int, int], float], ...]


def attribute(
    rates: Sequence[Sequence[float]] | Matrix,
    *,
    expected: Matrix | None = None,
    good: Collection[int] = (),
    kinds: Collection[Kind] = KINDS,
    jointly: int = 1,
) -> list[Accusation]:
    """Return the parts that are to blame for slow ways, the surest first; empty if nothing stands out.

    A loss that all ways share belongs to no part: only a baseline shows it. Of two nodes only the directions
    can be compared; three are the fewest among which a node can be distinguished from a link.

    Args:
        rates: N x N, the rate from the row's node to the column's; nan where none was measured, 0 where
            nothing arrived. The diagonal is ignored. Of several values of a way the caller
            passes the best (`typical_rates`).
        expected: N x N, the rate that each way should reach, up to a common factor
            (`expected_by_distance`); default: all the same.
        good: Good nodes: neither they nor their ports are accused.
        kinds: Kinds of parts that may be accused.
        jointly: How many parts may be accused that only together are likely enough.

    Raises:
        ValueError: The matrix is not square, or a rate is negative.
    """
    y = _logarithms(np.asarray(rates, dtype=float), expected)
    found: list[Accusation] = []
    waiting: list[Accusation] = []
    odds = 0.0
    for _ in range(len(y)):
        suspects = list(_suspects(y, frozenset(good), kinds))
        if not suspects:
            break
        best = max(suspects, key=lambda one: one.score)
        odds += best.score
        waiting.append(_accusation(best, suspects))
        if odds >= np.log(1 / ALPHA):
            found += _joint(waiting, odds)
            waiting, odds = [], 0.0
        elif len(waiting) == jointly:
            break
        for cells, shift in best.shifts:
            y[cells] -= shift
    return _no_rivals(found)


def _accusation(best: _Suspect, suspects: Sequence[_Suspect]) -> Accusation:
    """Return a part with its losses, its share of the odds, and the others that explain as much."""
    shares = posterior([suspect.score for suspect in suspects])
    rivals = sorted(
        (
            (one.part, float(share))
            for one, share in zip(suspects, shares, strict=True)
            if one is not best and share >= RIVAL_SHARE
        ),
        key=lambda rival: -rival[1],
    )
    return Accusation(
        part=best.part,
        losses=tuple(float(-np.expm1(shift)) for _, shift in best.shifts),
        confidence=float(shares.max()),
        rivals=tuple(rivals),
    )


def _joint(accused: list[Accusation], odds: float) -> list[Accusation]:
    """Return parts that are accused together, each as sure as all of them."""
    if len(accused) == 1:
        return accused
    return [replace(one, confidence=float(1 / (1 + np.exp(-odds)))) for one in accused]


def _no_rivals(accused: list[Accusation]) -> list[Accusation]:
    """Return accused parts without rivals that are accused themselves."""
    nodes = {one.part.nodes for one in accused}
    return [
        replace(
            one,
            rivals=tuple(
                rival for rival in one.rivals if rival[0].nodes not in nodes - {one.part.nodes}
            ),
        )
        for one in accused
    ]


def attribute_ports(
    sending: Sequence[float] | Matrix,
    receiving: Sequence[float] | Matrix,
    ports: Sequence[float] = (),
) -> list[Accusation]:
    """Return the nodes, or directions of their ports, that are to blame for slow rates with all others.

    Of each node and direction there is one rate, with all other nodes at once. These count as one more
    node that is known to be good (`attribute`), and each direction is compared with its own median among the
    nodes with ports of the same speed. A rate counts up to 5 % above it: where one port is so slow that all
    others wait for it, only the other direction of its own node does not wait.

    Args:
        sending: Rate of each node when it sends to all others.
        receiving: Its rate when all others send to it.
        ports: Speed of each node's port; empty if they are the same or unknown.

    Raises:
        ValueError: A rate is negative.
    """
    count = len(sending)
    both = np.array([sending, receiving], dtype=float)
    speeds = np.array(usual_speeds(ports) or [0.0] * count)
    usual = np.empty_like(both)
    for speed in np.unique(speeds):
        same = speeds == speed
        usual[:, same] = np.median(both[:, same], axis=1, keepdims=True)
    rates = np.full((count + 1, count + 1), np.nan)
    expected = np.ones_like(rates)
    rates[:count, count], rates[count, :count] = np.minimum(both, usual * (1 + MIN_LOSS))
    expected[:count, count], expected[count, :count] = usual
    fewer = max(1, (count - 1) // 2)
    return attribute(rates, expected=expected, good=[count], kinds=PORTS, jointly=fewer)


def usual_speeds(ports: Sequence[float]) -> list[float]:
    """Return the speed that each node's port should have: its own if enough have it, else the usual one."""
    usual = max(sorted(set(ports)), key=ports.count, default=0.0)
    return [speed if ports.count(speed) >= MIN_ALIKE else usual for speed in ports]


def common_ends(bad: Cells, known: Cells, *, share: float = 0.0) -> list[Part]:
    """Return the nodes that send on, or receive on, several bad ways, as parts `send` and `receive`.

    Ways are bad that changed bytes (`pair_group`) or on which TCP sent segments again (`retransmissions`).
    The direction with the largest share of its ways comes first, on a tie a sender. Its ways then count for
    no other, since each of the nodes at their other ends has one of them.

    Args:
        bad: N x N, the bad ways from the row's node to the column's.
        known: N x N, the ways that were measured.
        share: Share of its ways that have to be more than this.
    """
    left = bad.copy()
    measured = np.maximum([known.sum(axis=1), known.sum(axis=0)], 1)
    found: list[Part] = []
    while True:
        ways = np.array([left.sum(axis=1), left.sum(axis=0)])
        shares = np.where(ways >= MIN_WAYS, ways / measured, 0.0)
        end, node = divmod(int(shares.argmax()), len(bad))
        if shares[end, node] <= share:
            return found
        found.append(Part("receive" if end else "send", (node,)))
        left[(slice(None), node) if end else node] = False


def typical_rates(repeats: npt.ArrayLike) -> Matrix:
    """Return the best rate of each way.

    A disturbance only ever slows a transfer down, and a faulty way is slow every time: on a shared machine
    the best of three values spread by a third of what their medians did. A way that is slow now and then
    shows in the distribution of all values, which the Validator judges.

    Args:
        repeats: Rates by repeat, sender and receiver, or by repeat and node; nan where none was measured.
    """
    return np.asarray(np.max(np.asarray(repeats, dtype=float), axis=0))


def expected_by_distance(
    rates: Sequence[Sequence[float]] | Matrix, hops: Sequence[Sequence[int]] | Matrix
) -> Matrix:
    """Return for each way the median rate of all ways of the same distance; nan where none was measured.

    Args:
        rates: N x N as for `attribute`.
        hops: N x N, the nodes' distances in links, or whatever else sorts ways into those of one rate.
    """
    given = np.asarray(rates, dtype=float)
    far = np.asarray(hops)
    found = np.full(given.shape, np.nan)
    off = ~np.eye(len(given), dtype=bool)
    for distance in np.unique(far[off]):
        cells = (far == distance) & off & (given > 0)
        if cells.any():
            found[(far == distance) & off] = np.median(given[cells])
    return found


def _logarithms(rates: Matrix, expected: Matrix | None) -> Matrix:
    if rates.ndim != 2 or rates.shape[0] != rates.shape[1]:
        raise ValueError(f"rates must be a square matrix, not of shape {rates.shape}")
    relative = rates.copy() if expected is None else rates / expected
    np.fill_diagonal(relative, np.nan)
    relative[~np.isfinite(relative)] = np.nan
    if (relative < 0).any():
        raise ValueError("a rate is negative")
    known = relative[relative > 0]
    if not known.size:
        return np.full(rates.shape, np.nan)
    return np.asarray(np.log(np.maximum(relative, DEAD * np.median(known))))


def _suspects(y: Matrix, good: Collection[int], kinds: Collection[Kind]) -> Iterator[_Suspect]:
    """Yield every part of some kinds whose loss matters, with the logarithm of its odds against none."""
    measured = ~np.isnan(y)
    n = int(measured.sum())
    if not n:
        return
    max_shift = np.log1p(-MIN_LOSS)
    middle = float(np.median(y[measured]))
    nothing = float(np.abs(y[measured] - middle).sum())

    def odds(deviations: float, losses: int, parts: int) -> float:
        prior = 1 / (len(kinds) * parts)
        return log_odds(nothing, deviations, n, losses=losses, prior=prior, floor=NOISE_FLOOR)

    count = len(y)
    ports = max(1, count - len(good))
    for node in range(count):
        if node in good:
            continue
        row = np.zeros_like(measured)
        column = np.zeros_like(measured)
        row[node], column[:, node] = measured[node], measured[:, node]
        send = (Part("send", (node,)), [row])
        receive = (Part("receive", (node,)), [column])
        for part, sets in (send, receive, (Part("node", (node,)), [row, column])):
            if part.kind not in kinds or not all(cells.any() for cells in sets):
                continue
            rest = measured & ~np.logical_or.reduce(sets)
            if not rest.any():
                continue
            mu = float(np.median(y[rest])) if count <= MAX_EXACT_NODES else middle
            shifts = [float(np.median(y[cells])) - mu for cells in sets]
            if max(shifts) > max_shift:
                continue
            left = np.abs(y[rest] - mu).sum() + sum(
                np.abs(y[cells] - mu - shift).sum()
                for cells, shift in zip(sets, shifts, strict=True)
            )
            yield _Suspect(
                part, odds(float(left), len(sets), ports), tuple(zip(sets, shifts, strict=True))
            )
    slow = measured & (y - middle <= max_shift)
    both = measured & measured.T
    for a, b in zip(*(found.tolist() for found in np.nonzero(slow)), strict=True):
        there = float(y[a, b]) - middle
        back = float(y[b, a]) - middle
        left = nothing - abs(there)
        if "way" in kinds:
            yield _Suspect(Part("way", (a, b)), odds(left, 1, n), (((a, b), there),))
        if "link" in kinds and a < b and slow[b, a]:
            links = int(both.sum()) // 2
            shifts_of_link = (((a, b), there), ((b, a), back))
            yield _Suspect(Part("link", (a, b)), odds(left - abs(back), 2, links), shifts_of_link)
