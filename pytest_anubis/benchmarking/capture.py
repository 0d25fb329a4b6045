"""Capture: work that is handed to a card as one CUDA graph, on that card, whichever was the first."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

STEPS_BEFORE_CAPTURE = 3
"""Times that the work is done before it is captured, as CUDA's graphs want: libraries choose kernels and take
memory."""

EAGER = "eager"
"""Group of what was measured as it is where a graph could not be captured: it waits for the host's launches,
so its values are compared with their like only."""


def graph_of(
    work: Callable[[], object],
    device: torch.device,
    *,
    first: Callable[[], object] | None = None,
    before: Callable[[], object] = lambda: None,
) -> torch.cuda.CUDAGraph:
    """Capture what `work` hands to a device of CUDA's kind; the current stream and device stay what they are.

    Left to itself ``torch.cuda.graph`` captures on one stream for the whole process, which belongs to the
    card that was the current one at the first capture: a second card's kernels are then refused. And where
    the capture cannot be ended it leaves that stream the current one. So a stream of the device's own is
    given, and entered around it.

    Args:
        work: Does the same on the same tensors each time and waits for nothing.
        device: Where.
        first: What is done a few times before, instead of `work`.
        before: Called between those times and the capture.

    Raises:
        RuntimeError: It cannot be captured, or the device is at fault: ``torch.cuda.synchronize`` tells.
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
    """Capture as `graph_of` does where that is possible.

    Returns:
        The graph and "", or None and why it was not captured: then record in the group `EAGER`. A fault of
        the device is raised.
    """
    import torch

    try:
        return graph_of(work, device, first=first, before=before), ""
    except RuntimeError as error:
        torch.cuda.synchronize(device)  # a fault of the device shows here, not a capture's
        return None, str(error).partition("\n")[0]


@cache
def _stream(device: torch.device) -> torch.cuda.Stream:
    """Return the stream on which a device captures: one for all times, as libraries keep memory for each."""
    import torch

    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
