"""Drop the failed mean over all devices of a metric in which a single device failed as well.

`recorded_run` does so, or passing a retest of that device would not clear the node.
"""

from __future__ import annotations

from collections.abc import Collection

from pytest_anubis.core.verdict import HOST


def without_means(bad: Collection[tuple[str, str, str, str]]) -> set[tuple[str, str, str, str]]:
    """Return failures without the means over all devices of metrics in which a device itself failed.

    A retest of that device alone measures no mean, so the failed mean would stay open.

    Args:
        bad: Failures, each as benchmark, metric, device and group; the device of a mean is ``node``.
    """
    own = {(one[0], one[1], one[3]) for one in bad if one[2] not in HOST}
    return {one for one in bad if one[2] != "node" or (one[0], one[1], one[3]) not in own}
