"""Read the limits of this process's control group (v1 and v2), and derive how many CPUs it may use."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from pytest_anubis.hardware.text_files import Files, key_values, mounts

# v1 writes a page-aligned 2^63 for "no limit"; nothing real comes near.
_NO_MEMORY_LIMIT = 1 << 60

QUOTA_SHARE = "PYTEST_ANUBIS_CPU_QUOTA"
"""Environment variable that gives a worker its share, in CPUs, of the control group's quota."""


@dataclass(frozen=True, slots=True)
class Throttling:
    """Times and duration for which the scheduler stopped a control group that had used up its quota."""

    times: int  # number of periods that were cut short
    seconds: float  # total time of all CPUs' run queues stopped


class ControlGroup:
    """This process's control group and its ancestors, whose limits apply to it as well.

    Attributes:
        quota_folders: Folders of the cpu controller, own group first, and whether they are version 2.
        memory_folders: The same for the memory controller.
    """

    def __init__(self, files: Files) -> None:
        self._files = files
        groups = [one for one in mounts(files) if one[0] in ("cgroup", "cgroup2")]
        membership = _membership(files)
        self.quota_folders = _folders(files, groups, membership, "cpu")
        self.memory_folders = _folders(files, groups, membership, "memory")

    def quota(self) -> float | None:
        """Return the tightest CPU limit in cores, None without one."""
        limits = [self._quota(folder, version2) for folder, version2 in self.quota_folders]
        return min((limit for limit in limits if limit is not None), default=None)

    def throttling(self) -> Throttling | None:
        """Return the throttling so far of the group and its ancestors; None if it is not counted."""
        times = 0
        seconds = 0.0
        seen = False
        for folder, _ in self.quota_folders:
            stat = key_values(self._files.text(f"{folder}/cpu.stat"))
            if not stat.get("nr_throttled", "").isdigit():
                continue
            seen = True
            times += int(stat["nr_throttled"])
            if stat.get("throttled_usec", "").isdigit():
                seconds += int(stat["throttled_usec"]) * 1e-6
            elif stat.get("throttled_time", "").isdigit():
                seconds += int(stat["throttled_time"]) * 1e-9
        return Throttling(times, seconds) if seen else None

    def memory_limit(self) -> int | None:
        """Return the tightest memory limit in bytes, None without one."""
        limits = []
        for folder, version2 in self.memory_folders:
            text = self._files.text(f"{folder}/memory.{'max' if version2 else 'limit_in_bytes'}")
            if text and text.isdigit() and int(text) < _NO_MEMORY_LIMIT:
                limits.append(int(text))
        return min(limits, default=None)

    def _quota(self, folder: str, version2: bool) -> float | None:
        if version2:
            quota, _, period = (self._files.text(f"{folder}/cpu.max") or "").partition(" ")
        else:
            quota = self._files.text(f"{folder}/cpu.cfs_quota_us") or ""
            period = self._files.text(f"{folder}/cpu.cfs_period_us") or ""
        if quota.isdigit() and period.isdigit() and int(period) > 0:
            return int(quota) / int(period)
        return None


def threads_within(cpus: int, quota: float | None) -> int:
    """Return how many threads can compute without exceeding a CPU quota: at least one.

    Args:
        cpus: Number of CPUs that the process may run on.
        quota: Limit of its CPU time in CPUs, None without one.
    """
    return cpus if quota is None else max(1, min(cpus, int(quota)))


def usable_threads() -> int:
    """Return how many CPUs this process may use: its affinity, limited by its control group's quota."""
    return threads_within(len(os.sched_getaffinity(0)), own_quota(Files(), os.environ))


def own_quota(files: Files, environ: Mapping[str, str]) -> float | None:
    """Return this process's CPU quota in CPUs, for a worker its share; None without a quota."""
    try:
        return float(environ[QUOTA_SHARE])
    except (KeyError, ValueError):  # not a worker with a share, or a variable of another program
        return ControlGroup(files).quota()


def _membership(files: Files) -> dict[str, str]:
    """Return controller -> path; version 2's single hierarchy has an empty controller name."""
    found: dict[str, str] = {}
    for line in (files.text("/proc/self/cgroup") or "").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        for controller in controllers.split(","):
            found[controller] = path
    return found


def _folders(
    files: Files,
    groups: list[tuple[str, str, str, str]],
    membership: dict[str, str],
    controller: str,
) -> tuple[tuple[str, bool], ...]:
    """Return (folder, is version 2) from this process's group up to the mount point."""
    folders: list[tuple[str, bool]] = []
    for kind, options, root, point in groups:
        version2 = kind == "cgroup2"
        if not version2 and controller not in options.split(","):
            continue
        path = membership.get("" if version2 else controller)
        if path is None:
            continue
        # Inside a container the hierarchy may be mounted from our own group downwards.
        inside = path.removeprefix(root.rstrip("/")) if path.startswith(root) else ""
        parts = [part for part in inside.split("/") if part and part != ".."]
        for depth in range(len(parts), -1, -1):
            folder = "/".join([point, *parts[:depth]])
            if files.exists(folder):
                folders.append((folder, version2))
    return tuple(folders)
