"""The means of all devices, which say no more where a device itself is bad."""

from __future__ import annotations

from collections.abc import Collection

from pytest_anubis.core.verdict import HOST


def without_means(bad: Collection[tuple[str, str, str, str]]) -> set[tuple[str, str, str, str]]:
    """Return what is bad without the means of all devices of which one is bad itself.

    A retest of that device alone measures no mean again, so nothing else would answer it.

    Args:
        bad: Benchmark, metric, device and group each; the device of a mean is ``node``.
    """
    own = {(one[0], one[1], one[3]) for one in bad if one[2] not in HOST}
    return {one for one in bad if one[2] != "node" or (one[0], one[1], one[3]) not in own}
