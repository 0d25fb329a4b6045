"""In which order the chunks of a training's gradients are exchanged: first come, or first needed.

The backward pass makes the gradient of the last layer first; the next forward pass needs that of the first
layer first. So chunks of a layer nearer to the input overtake those of layers behind it (Jayarajan et al.
2019, arXiv 1905.03960). All ranks have to exchange in the same order, so it is planned before.
"""

from __future__ import annotations

from collections.abc import Sequence


def cut(numbers: int, chunk: int) -> list[int]:
    """Return the lengths of the chunks of a bucket of so many numbers, of at most `chunk` each."""
    return [min(chunk, numbers - begin) for begin in range(0, numbers, chunk)]


def first_come(chunks: Sequence[Sequence[int]]) -> list[int]:
    """Return the bucket of each chunk in the order of the backward pass, which ends with bucket 0.

    Args:
        chunks: Lengths of the chunks of each bucket, in the order of the forward pass.
    """
    return [bucket for bucket in reversed(range(len(chunks))) for _ in chunks[bucket]]


def first_needed(
    chunks: Sequence[Sequence[int]], ready: Sequence[float], seconds: float
) -> list[int]:
    """Return the bucket of each chunk in the order of need: of those that are ready, bucket 0 comes first.

    Args:
        chunks: As for `first_come`.
        ready: When the gradient of each bucket is complete, in seconds since the backward pass began.
        seconds: Seconds that the exchange of one number takes.
    """
    left = [list(some) for some in chunks]
    order: list[int] = []
    now = 0.0
    while waiting := [bucket for bucket, some in enumerate(left) if some]:
        now = max(now, min(ready[bucket] for bucket in waiting))
        first = next(bucket for bucket in waiting if ready[bucket] <= now)
        order.append(first)
        now += left[first].pop(0) * seconds
    return order


def ready_times(products: Sequence[int], seconds: float) -> list[float]:
    """Return when each bucket's gradient is complete, in seconds since the backward pass began.

    Args:
        products: Products of each bucket in the forward pass; the backward pass makes twice as many.
        seconds: Seconds of one product.
    """
    return [2 * seconds * sum(products[bucket:]) for bucket in range(len(products))]
