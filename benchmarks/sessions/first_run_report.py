"""What the runs of `first_run` came to: one record each, and the tables."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean, median
from typing import Any, Self

from benchmarks.sessions.slow_component import PERIOD, SPELL

LEARN = "learn"
"""Name in place of a host for runs that learn."""

HOSTS = ("alone", "neighbour", "busy", "later")
DECISIONS = ("ACCEPTED", "REJECTED", "UNDECIDED")
SHOWN = (0.1, 0.25, 0.5)
"""Losses for which the report counts the metrics that show them."""


@dataclass(frozen=True, slots=True)
class Loss:
    """A loss that is put in.

    Attributes:
        component: Which part is slower.
        share: Of its rate that is lost.
        spells: For a third of the time only.
    """

    component: str
    share: float
    spells: bool = False

    @property
    def size(self) -> str:
        """How large it is, in words."""
        return f"{self.share:.0%}{' in spells' if self.spells else ''}"

    @property
    def name(self) -> str:
        """What it is called."""
        return f"{self.component} {self.size}"

    @property
    def whole(self) -> float:
        """The share that is lost over all of the time."""
        return self.share * SPELL / PERIOD if self.spells else self.share


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric of one run.

    Attributes:
        benchmark: Benchmark id.
        metric: Its name.
        component: The part that it blames.
        outcome: Its verdict; empty of learning.
        shows: The loss that its criterion says it finds; None without one, and of exact results.
        clear: Values that counted.
        unclear: Values that did not.
    """

    benchmark: str
    metric: str
    component: str
    outcome: str = ""
    shows: float | None = None
    clear: int = 0
    unclear: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run, of learning or judging.

    Attributes:
        time: Which time of the command it belongs to, from 1.
        host: The kind of host, or `LEARN`.
        loss: The injected loss.
        exit: Exit status.
        seconds: How long it took.
        ended: When it ended, seconds of the epoch.
        decision: About the node; empty of learning.
        headline: Of the decision.
        blamed: Components for which the node was rejected.
        metrics: What was measured; of learning those that are no exact results.
    """

    time: int
    host: str
    loss: Loss | None = None
    exit: int
    seconds: float
    ended: float
    decision: str = ""
    headline: str = ""
    blamed: tuple[str, ...] = ()
    metrics: tuple[Metric, ...] = ()

    @classmethod
    def of(cls, plain: dict[str, Any]) -> Self:
        """Return a run out of its plain form."""
        loss = Loss(**plain["loss"]) if plain["loss"] else None
        metrics = tuple(Metric(**one) for one in plain["metrics"])
        return cls(**{**plain, "loss": loss, "metrics": metrics, "blamed": tuple(plain["blamed"])})

    def plain(self) -> dict[str, Any]:
        """Return it as what JSON has."""
        return asdict(self)

    @property
    def ending(self) -> str:
        """How it ended, in words."""
        if self.host == LEARN:
            return f"exit {self.exit}, {self.judged} criteria"
        return f"{self.decision}{' (' + ', '.join(self.blamed) + ')' if self.blamed else ''}"

    @property
    def judged(self) -> int:
        """How many metrics say what loss they find."""
        return sum(one.shows is not None for one in self.metrics)

    @property
    def failed(self) -> list[Metric]:
        """Metrics that failed."""
        return [one for one in self.metrics if one.outcome == "FAIL"]

    @property
    def stated(self) -> bool:
        """Whether the most powerful metric of the slower component says that it finds the loss."""
        loss = self.loss
        return loss is not None and any(
            one.component == loss.component and one.shows is not None and one.shows <= loss.whole
            for one in self.metrics
        )

    @property
    def found(self) -> bool:
        """Whether the node was rejected and the slower component blamed."""
        loss = self.loss
        return loss is not None and self.decision == "REJECTED" and loss.component in self.blamed


def report(runs: Sequence[Run]) -> None:
    """Print all tables."""
    _learning([one for one in runs if one.host == LEARN])
    print(f"\n{'host':12}{'runs':>5}", *(f"{name:>10}" for name in DECISIONS), end="")
    print(f"{'seconds':>9}{'largest':>9}{'clear values':>14}   what failed, in how many runs")
    for host in HOSTS:
        if of_host := [one for one in runs if one.host == host and one.loss is None]:
            _host(host, of_host)
    if losses := [one for one in runs if one.loss is not None]:
        _losses(losses)


def _learning(runs: Sequence[Run]) -> None:
    if not runs:
        print("nothing was learned yet")
        return
    exits = Counter(one.exit for one in runs)
    said = ", ".join(f"{count} with exit {code}" for code, count in sorted(exits.items()))
    took = [one.seconds for one in runs]
    print(f"learned {len(runs)} times: {said}; {median(took):.0f} s, at most {max(took):.0f} s")
    print(f"  metrics that show a loss of{'mean':>10}{'least':>8}{'most':>8}")
    for loss in SHOWN:
        shares = [_share(one, loss) for one in runs]
        print(f"  {loss:>26.0%}{fmean(shares):>10.0%}{min(shares):>8.0%}{max(shares):>8.0%}")
    blind = Counter(
        f"{one.metric} ({one.component})"
        for run in runs
        for one in run.metrics
        if one.shows is None or one.shows > SHOWN[-1]
    )
    if blind:
        print(f"  not even {SHOWN[-1]:.0%}: {_counted(blind)}")


def _share(run: Run, loss: float) -> float:
    shows = [one.shows is not None and one.shows <= loss for one in run.metrics]
    return fmean(shows) if shows else 0.0


def _host(name: str, runs: Sequence[Run]) -> None:
    decisions = Counter(one.decision for one in runs)
    took = [one.seconds for one in runs]
    clear = sum(m.clear for one in runs for m in one.metrics)
    whole = clear + sum(m.unclear for one in runs for m in one.metrics)
    failed = Counter(f"{m.benchmark} {m.metric}" for one in runs for m in one.failed)
    others = {key: n for key, n in decisions.items() if key not in DECISIONS}
    words = [_counted(failed)] if failed else []
    words += [f"{key}: {n}" for key, n in others.items()]
    print(f"{name:12}{len(runs):>5}", *(f"{decisions[one]:>10}" for one in DECISIONS), end="")
    print(
        f"{median(took):>9.0f}{max(took):>9.0f}{clear / whole if whole else 0:>14.0%}"
        f"   {'; '.join(words) or '-'}"
    )


def _losses(runs: Iterable[Run]) -> None:
    """Print, for every injected loss, how often it was found, by whether its baseline says that it is."""
    groups: dict[tuple[bool, float, str], dict[Loss, list[Run]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for one in runs:
        if one.loss is not None:
            groups[one.loss.spells, one.loss.share, one.host][one.loss].append(one)
    print(
        f"\n{'loss':18}{'host':12}{'component':24}{'stated: found':>15}{'others: found':>15}",
        end="",
    )
    print("   wrongly blamed")
    for (_, _, host), by_loss in sorted(groups.items()):
        head = f"{next(iter(by_loss)).size:18}{host:12}"
        print(f"{head}{'all':24}{_found([one for some in by_loss.values() for one in some])}")
        for loss, some in by_loss.items():
            print(f"{head}{loss.component:24}{_found(some)}")


def _found(runs: Sequence[Run]) -> str:
    """Return found / runs where that was stated and where it was not, and which others failed."""
    cells = []
    for stated in (True, False):
        some = [one for one in runs if one.stated is stated]
        cells.append(f"{sum(one.found for one in some)}/{len(some)}" if some else "-")
    wrong = Counter(
        component
        for one in runs
        for component in {m.component for m in one.failed}
        if one.loss is not None and component != one.loss.component
    )
    return f"{cells[0]:>15}{cells[1]:>15}   {_counted(wrong) if wrong else '-'}"


def _counted(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.most_common())
