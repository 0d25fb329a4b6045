"""Room for buffers in huge pages, where the kernel gives them: what page tables cost is not measured."""

from __future__ import annotations

import contextlib
import ctypes
import mmap

HUGE = 2 << 20
"""Bytes of a huge page, on x86 and on most of ARM's kernels."""


def room(size: int) -> tuple[mmap.mmap, int]:
    """Return room for so many bytes, and the offset in it at which they begin: that of a huge page.

    It is longer than asked for at both ends, since the kernel gives whole huge pages only: without it chance
    decided, run by run, whether a cache was measured or its page walks. And it is private: what Python maps
    by default is shared between processes, and in huge pages only where somebody has set
    ``transparent_hugepage/shmem_enabled``.

    Args:
        size: Bytes.
    """
    found = mmap.mmap(-1, size + -size % HUGE + HUGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(
            OSError
        ):  # a kernel that was built without them: pages are small then
            found.madvise(mmap.MADV_HUGEPAGE)
    return found, -ctypes.addressof(ctypes.c_char.from_buffer(found)) % HUGE
