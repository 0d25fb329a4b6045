"""The table of our pytest options, with their ini keys and environment variables.

`settings.resolve` reads and checks the values. The options of the command ``anubis`` are in ``cli/commands``.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Any, Literal

import pytest

Profile = Literal["smoke", "standard", "soak"]
PROFILES: tuple[Profile, ...] = ("smoke", "standard", "soak")

ENV_PROFILE = "PYTEST_ANUBIS_PROFILE"
ENV_STORE = "PYTEST_ANUBIS_STORE"
ENV_HISTORY = "PYTEST_ANUBIS_HISTORY"
ENV_QUIET_LIMIT = "PYTEST_ANUBIS_QUIET_LIMIT"
ENV_ALLOW_PROCESS = "PYTEST_ANUBIS_ALLOW_PROCESS"
ENV_NODE = "PYTEST_ANUBIS_NODE"
ENV_WAIVERS = "PYTEST_ANUBIS_WAIVERS"

QUIET_LIMITS = ("steal", "others", "cpu", "memory", "io")
"""Names of the limits of ``--anubis-quiet-limit``, as `core.waiving.LIMITS` has them."""

DEFAULT_BASELINES = "baselines"
"""Folder of baselines, below pytest's root."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One option on the command line, with its ini key and environment variable."""

    flag: str
    help: str
    ini: bool = True
    env: str | None = None
    choices: tuple[str, ...] = ()
    metavar: str | None = None
    switch: bool = False
    optional: str = ""  # value of an option that is given without one; empty if it needs a value
    default: str = ""

    @property
    def dest(self) -> str:
        """Name in pytest's configuration and of the ini key."""
        return self.flag.lstrip("-").replace("-", "_")


CAMPAIGN = "--anubis-campaign"
"""Option by which a soak gives its name to its cycles; hidden from the help."""


OPTIONS: tuple[Option, ...] = (
    Option(
        flag="--anubis",
        switch=True,
        ini=False,
        help="Measure, judge against the learned baseline, and accept or reject this node",
    ),
    Option(
        flag="--anubis-mode",
        choices=("judge", "measure"),
        ini=False,
        default="judge",
        help="Judge against the baseline, or only measure and record",
    ),
    Option(
        flag="--anubis-profile",
        choices=PROFILES,
        env=ENV_PROFILE,
        default="smoke",
        help="Sizes and durations of the benchmarks: seconds, minutes or hours",
    ),
    Option(
        flag="--anubis-baseline",
        metavar="PATH",
        default=DEFAULT_BASELINES,
        help="Folder of baselines, or one file; PATH@sha256:DIGEST insists on the digest of the file (as "
        "sha256sum prints it; reports show one of the content), or of the folder's SHA256SUMS",
    ),
    Option(
        flag="--anubis-store",
        metavar="DIR",
        env=ENV_STORE,
        default=".anubis",
        help="Folder that keeps runs and history",
    ),
    Option(
        flag="--anubis-history",
        metavar="DIR|URL",
        env=ENV_HISTORY,
        help="History: a folder, or the database of a fleet; default: the store",
    ),
    Option(
        flag="--anubis-run-id",
        metavar="NAME",
        ini=False,
        help="Name of this run; default: date, time and node",
    ),
    Option(
        flag="--anubis-node",
        metavar="NAME",
        env=ENV_NODE,
        help="Name of this node; default: SLURMD_NODENAME, NODE_NAME, else the host name",
    ),
    Option(
        flag="--anubis-fail-on",
        choices=("fail", "marginal"),
        default="fail",
        help="Mildest verdict that fails a test",
    ),
    Option(
        flag="--anubis-require-all",
        switch=True,
        help="Let benchmarks without a criterion block acceptance",
    ),
    Option(
        flag="--anubis-require",
        metavar="NAME,...",
        help="Components, benchmarks or metrics that acceptance needs ('any': whatever ran); default: all "
        "of the baseline",
    ),
    Option(
        flag="--anubis-other-machine",
        switch=True,
        help="Let the baseline of one other machine accept this one",
    ),
    Option(
        flag="--anubis-redact",
        switch=True,
        help="Leave serial numbers and addresses out of journals and reports",
    ),
    Option(
        flag="--anubis-split",
        metavar="NAME,...",
        help="Versions or settings that split a hardware class, as findings name them, e.g. 'driver nvidia'",
    ),
    Option(
        flag="--anubis-inventory",
        metavar="FILE",
        ini=False,
        help="Recorded inventory to use in place of this machine's",
    ),
    Option(
        flag="--anubis-gate",
        choices=("stop", "continue", "off"),
        default="stop",
        help="Effect of missing or wrong hardware, before any benchmark",
    ),
    Option(
        flag="--anubis-timeout",
        metavar="SECONDS",
        help="Deadline of every test; default: from its declared cost",
    ),
    Option(
        flag="--anubis-quiet-limit",
        metavar="NAME=SHARE,...",
        env=ENV_QUIET_LIMIT,
        help="Shares from which a measurement counts as disturbed: steal, others (of the CPUs), cpu, "
        "memory, io (pressure), e.g. others=0.2",
        default="steal=0.03,others=0.1,cpu=0.1,memory=0.05,io=0.1",
    ),
    Option(
        flag="--anubis-allow-process",
        metavar="NAME,...",
        env=ENV_ALLOW_PROCESS,
        help="Commands that are part of a quiet machine (shell patterns), e.g. dcgm-exporter,kubelet",
    ),
    Option(
        flag="--anubis-waivers",
        metavar="FILE",
        env=ENV_WAIVERS,
        help="TOML file of accepted failures, each with owner, reason and expiry date",
    ),
    Option(
        flag="--anubis-junit",
        choices=("properties", "plain"),
        default="properties",
        help="Numbers as properties of --junitxml's test cases, or none, for strict schemas (Jenkins' xUnit "
        "plugin)",
    ),
    Option(
        flag="--anubis-in-process",
        switch=True,
        ini=False,
        help="Run the tests in pytest's own process, to debug: deadlines are not enforced, and a hang or "
        "crash ends the run",
    ),
    Option(
        flag="--anubis-resume",
        metavar="RUN",
        ini=False,
        optional="latest",
        help="Go on with an interrupted run: the latest, or the one that is named",
    ),
    Option(
        flag="--anubis-duration",
        metavar="TIME",
        ini=False,
        help="Soak: repeat the set until this time is over, e.g. 48h",
    ),
    Option(
        flag="--anubis-scratch",
        metavar="DIR",
        help="Folder on the disk that is to be tested; default: pytest's temporary folder",
    ),
    Option(
        flag="--anubis-select",
        choices=("risk", "budget", "cost", "all"),
        help="Run only the benchmarks worth their time: cheapest within an accepted risk, most coverage "
        "within a time, least expected cost, or all",
    ),
    Option(
        flag="--anubis-risk",
        metavar="P0",
        help="Accepted probability of an incident within the horizon; default for risk: 0.01",
    ),
    Option(
        flag="--anubis-budget",
        metavar="TIME",
        help="Time for --anubis-select=budget, e.g. 20m",
    ),
    Option(
        flag="--anubis-horizon",
        metavar="TIME",
        default="24h",
        help="How far ahead incidents count for --anubis-select",
    ),
    Option(
        flag="--anubis-incident-cost",
        metavar="TIME",
        default="24h",
        help="Node time that one incident costs, for --anubis-select=cost",
    ),
    Option(
        flag="--anubis-explore",
        metavar="SHARE",
        default="0.02",
        help="Share of what --anubis-select leaves out that runs by chance",
    ),
    Option(
        flag="--anubis-seed",
        metavar="N",
        ini=False,
        help="Seed of that chance; default: a new one, recorded in the journal",
    ),
    Option(
        flag="--anubis-explain",
        switch=True,
        ini=False,
        help="Say of each benchmark that --anubis-select leaves out why",
    ),
)


class _JoinLists(argparse.Action):
    """Action that appends to the list of an option that is given twice."""

    def __call__(
        self,
        _: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        before = getattr(namespace, self.dest, None)
        setattr(namespace, self.dest, values if before is None else f"{before},{values}")


def add_options(parser: pytest.Parser) -> None:
    """Declare every option and ini key."""
    group = parser.getgroup("anubis", "hardware acceptance")
    for option in OPTIONS:
        text = option.help + (f" (default: {option.default})" if option.default else "")
        details: dict[str, Any] = {"metavar": option.metavar}
        if option.switch:
            details = {"action": "store_true"}
        elif option.choices:
            details = {"choices": option.choices}
        elif option.optional:
            details |= {"nargs": "?", "const": option.optional}
        elif (option.metavar or "").endswith(",..."):
            details |= {"action": _JoinLists}
        group.addoption(option.flag, dest=option.dest, help=text, **details)
        if option.ini:
            kind: Literal["bool", "string"] = "bool" if option.switch else "string"
            default = False if option.switch else ""
            parser.addini(option.dest, text, type=kind, default=default)
    group.addoption(CAMPAIGN, dest="anubis_campaign", default="", help=argparse.SUPPRESS)
    parser.addini(
        "anubis_goals_required",
        "Folders in which every benchmark must state goal, question and action",
        type="paths",
        default=[],
    )
