"""Cut a chain of layers into stages so that the slowest stage is as quick as any cut allows.

A stage computes contiguous layers and receives what the first of them takes: t(a, b) = received[a] +
seconds[a] + ... + seconds[b - 1]. The slowest stage of the best cut of the first b layers into s stages takes
T(s, b) = min over a of max(T(s - 1, a), t(a, b)), the dynamic program of linear partitioning.
"""

from __future__ import annotations

from collections.abc import Sequence


class NoCutError(RuntimeError):
    """A chain has no cut into so many stages whose weights all have room."""


def best_cut(
    seconds: Sequence[float],
    received: Sequence[float],
    stages: int,
    *,
    weights: Sequence[int] = (),
    limit: int | None = None,
) -> list[range]:
    """Return the layers of every stage, one or more, of a cut whose slowest stage is as quick as can be.

    Args:
        seconds: Time to compute each layer, in any unit.
        received: Time to receive what each layer takes, in the same unit; that of the first counts nothing.
        stages: Number of stages, 1 or more.
        weights: Bytes of weights of each layer; only read if there is a limit.
        limit: Maximum bytes of weights of a stage; None if there is none.

    Raises:
        NoCutError: There are fewer layers than stages, or the weights of every cut exceed the limit.
    """
    count = len(seconds)
    best: list[float | None] = [0.0, *[None] * count]
    begins: list[list[int]] = []
    for _ in range(stages):
        after: list[float | None] = [None] * (count + 1)
        begin = [0] * (count + 1)
        for last in range(1, count + 1):
            time, held = 0.0, 0
            for first in range(last - 1, -1, -1):
                time += seconds[first]
                if limit is not None:
                    held += weights[first]
                    if held > limit:
                        break
                before = best[first]
                if before is None:
                    continue
                slowest = max(before, time + (received[first] if first else 0.0))
                found = after[last]
                if found is None or slowest <= found:
                    after[last], begin[last] = slowest, first
        best = after
        begins.append(begin)
    if best[count] is None:
        raise NoCutError(f"{count} layers cannot be cut into {stages} stages that have room")
    cut, last = [], count
    for begin in reversed(begins):
        cut.append(range(begin[last], last))
        last = begin[last]
    return cut[::-1]


def stage_times(
    seconds: Sequence[float], received: Sequence[float], cut: Sequence[range]
) -> list[float]:
    """Return the time of each stage of a cut: its layers' and that to receive, in the unit of both."""
    return [
        sum(seconds[one.start : one.stop]) + (received[one.start] if one.start else 0.0)
        for one in cut
    ]


def step_time(stages: Sequence[float], batches: int) -> float:
    """Return the time in which so many equal micro-batches pass through stages, from first to last.

    The first passes all stages; after it one leaves the slowest stage each time that this stage takes.
    """
    return sum(stages) + (batches - 1) * max(stages)
