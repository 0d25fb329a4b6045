"""Capture work as a CUDA graph on any of several cards, or say why that is not possible."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

STEPS_BEFORE_CAPTURE = 3
"""Number of runs before the capture, in which libraries choose kernels and allocate memory, as CUDA graphs
require."""

EAGER = "eager"
"""Group for values measured without a graph because none could be captured. They include the host's launches,
so they are only compared with each other."""


def graph_of(
    work: Callable[[], object],
    device: torch.device,
    *,
    first: Callable[[], object] | None = None,
    before: Callable[[], object] = lambda: None,
) -> torch.cuda.CUDAGraph:
    """Capture the work that `work` queues on a CUDA or HIP device; current stream and device are kept.

    By default ``torch.cuda.graph`` captures on one stream for the whole process, which belongs to the card
    that was current at the first capture, so kernels of a second card are refused. If the capture fails, it
    also leaves that stream current. This function therefore enters a stream of the device itself.

    Args:
        work: Does the same on the same tensors each time and waits for nothing.
        device: The device.
        first: Called before the capture, instead of `work`.
        before: Called between those calls and the capture.

    Raises:
        RuntimeError: The work cannot be captured, or the device failed; ``torch.cuda.synchronize`` then
            raises.
    """
    import torch

    stream = _stream(device)
    stream.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.device(device):
        with torch.cuda.stream(stream):
            for _ in range(STEPS_BEFORE_CAPTURE):
                (first or work)()
        torch.cuda.current_stream(device).wait_stream(stream)
        before()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.stream(stream), torch.cuda.graph(graph, stream=stream):
            work()
    return graph


def as_graph(
    work: Callable[[], object],
    device: torch.device,
    *,
    first: Callable[[], object] | None = None,
    before: Callable[[], object] = lambda: None,
) -> tuple[torch.cuda.CUDAGraph | None, str]:
    """Capture with `graph_of` if that is possible.

    Returns:
        The graph and "", or None and the reason; without a graph, record in the group `EAGER`. A fault of the
        device is raised.
    """
    import torch

    try:
        return graph_of(work, device, first=first, before=before), ""
    except RuntimeError as error:
        torch.cuda.synchronize(device)  # raises if the device failed, but not for a failed capture
        return None, str(error).partition("\n")[0]


@cache
def _stream(device: torch.device) -> torch.cuda.Stream:
    """Return the device's only stream for captures: libraries keep memory for each stream."""
    import torch

    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
