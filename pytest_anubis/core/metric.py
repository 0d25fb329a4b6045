"""What is measured: a metric with its unit and direction, how its values are written, how a loss is said.

Validator, terminal and pages all write by the functions here: one value has the same digits everywhere, and
one loss the same number.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Annotated, Literal, get_args

from pytest_anubis.core.field_types import Compact, Range, Rare, compact

Direction = Literal["higher", "lower", "equal"]
DIRECTIONS: tuple[str, ...] = get_args(Direction)

Variant = tuple[str, str, int]
"""Unit, direction and version: samples of one metric are comparable where these are equal."""

EXACT = 2**53
"""Up to here a float, as which every value is kept, is exact for each whole number."""

_TIMES = frozenset(
    ("ns", "us", "\N{MICRO SIGN}s", "\N{GREEK SMALL LETTER MU}s", "ms", "s", "min", "h")
)


class MetricError(ValueError):
    """A metric was declared or recorded in a way that cannot be judged."""


@compact("defaults")
@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One quantity on a ratio scale (never negative).

    Attributes:
        name: Name within its benchmark, e.g. ``gemm_rate``.
        unit: Unit of every value, e.g. ``TFLOP/s``; ``count`` for counts, ``1`` for ratios.
        better: ``higher`` or ``lower`` is better; ``equal`` for exact results such as error counts.
            There is no default on purpose: a guessed direction turns every verdict round.
        goal: What the measurement is for (the G of Goal-Question-Metric).
        question: What the metric answers (the Q).
        action: What to do when the metric is bad.
        expect: The one right value of ``equal``, where it is known; of a count of faults it is 0 by itself
            (`right`).
        version: Counts up when a benchmark comes to measure something else under the same name, or for
            another time: values of different versions are never compared.

    Raises:
        MetricError: The name or the unit is empty or unprintable, the direction is unknown, a value is
            expected of what may vary, or the version is below 1.
    """

    name: str
    unit: str
    better: Direction
    goal: str = ""
    question: str = ""
    action: str = ""
    version: Annotated[int, Range(least=1), Compact] = 1
    expect: Annotated[float | None, Rare] = None

    def __post_init__(self) -> None:
        if not self.name.strip() or not self.name.isprintable():
            raise MetricError(f"metric name {self.name!r} is empty or unprintable; give it a name")
        if not self.unit.strip() or not self.unit.isprintable():
            raise MetricError(
                f"metric {self.name!r} has no unit; give one such as unit='GB/s' "
                "('count' for counts, '1' for ratios)"
            )
        if self.better not in DIRECTIONS:
            raise MetricError(
                f"metric {self.name!r} has better={self.better!r}; "
                "say better='higher', better='lower' or better='equal'"
            )
        if self.expect is not None and not (self.better == "equal" and 0 <= self.expect < math.inf):
            raise MetricError(
                f"metric {self.name!r} has expect={self.expect}; only better='equal' has one right value, "
                "a number that is not negative"
            )
        if self.version < 1:
            raise MetricError(f"metric {self.name!r} has version {self.version}; the first is 1")

    @property
    def variant(self) -> Variant:
        """What has to be equal for two samples of this metric to be compared."""
        return self.unit, self.better, self.version

    @property
    def counts_faults(self) -> bool:
        """It counts what is wrong (`counts_faults`)."""
        return counts_faults(self.name, self.unit)

    @property
    def right(self) -> float | None:
        """The one right value of an exact metric, where it is known: no majority makes another one right."""
        if self.better != "equal":
            return None
        return 0.0 if self.expect is None and self.counts_faults else self.expect

    @property
    def is_duration(self) -> bool:
        """Every value is what something took: lower is better, in a unit such as ``ms`` or ``us/step``.

        Nothing takes no time, so a duration of 0 was never measured.
        """
        return self.better == "lower" and _is_time(self.unit)

    @property
    def is_rate(self) -> bool:
        """Every value is how much was done in a time: higher is better, in a unit such as ``GB/s``.

        Where all are 0 nothing was done, so there is nothing that could be normal.
        """
        return self.better == "higher" and _is_rate(self.unit)


_RATES = ("/s", "/sec", "/second", "/min", "/h", "bps", "flops", "iops", "hz", " per second")
"""How the units of rates end, in small letters."""
_BARE = frozenset({"count", "counts", "1", "%", "percent", "ratio", "share", "number"})
"""Units that do not say of what."""
_FAULT = re.compile(
    r"(?i)(?<![a-z])(?:\w*errors?|err|faults?|fail(?:ed|s|ures?)?|mismatch(?:es)?|wrong|corrupt\w*|warnings?|"
    r"violations?|flips?|retransmits?|retries|replays|drop(?:s|ped)?|lost|losses|defects?|not_?passed|"
    r"return_?codes?|exit_?codes?|\w*uncorrect\w*)(?![a-z])"
)
_SLIPS = (8, 60, 1000, 1024, 3600, 8000, 10**6, 2**20, 8 * 10**6, 10**9, 2**30)
"""What units of one quantity differ by: bits and bytes, seconds and minutes, kilo, mega, giga, kibi."""
_SLIPPED = 0.011
"""How near to such a factor a ratio must be, as a fraction: 1000 and 1024 are distinguished."""
_MULTIPLE, _FRACTION = 0.5, 0.1
"""Similarities down from which a loss is told as a multiple and no percentage: what took twice as long is no
longer read well in percent; of what should be high "85 % slower" is, so later."""
_COUNTS = frozenset({"count", "1"})
"""Units that are said of a bare number: "must be 0 count" stops whoever reads it."""
_MOST_DECIMALS = 9
"""Decimals beyond which two losses are the same to any reader."""


def counts_faults(name: str, unit: str) -> bool:
    """Return whether a metric counts what is wrong, by its unit or, where that says nothing, by its name."""
    return bool(_FAULT.search(name if unit.lower() in _BARE else unit))


_UNIT_TEXT = """
    1 % unit count ratio percent share s sec second min minute h hour day b byte bit bps flop flops
    ops op iop iops sample token step image img picture file frame query request queries prompt word epoch
    iteration iter batch call message msg packet pkt page line edge vertex vertices ray job task
    transaction event error cycle instruction launch kernel hz j joule w watt wh v volt a ampere k
    °c °f degc c celsius kelvin m meter g pa rpm db dbm cpu core gpu card device per node rank
    thread process worker user row block sector lane
    it tok seq sequence sentence example character char atom particle cell site score point degree
    update up lookup read write hit miss pair transfer t te tuple record loop context switch
"""
_UNIT_WORDS = frozenset(_UNIT_TEXT.split())
"""What units are made of, in small letters and the singular: SI's and those that tools of the trade write."""
_UNIT_PREFIX = re.compile(r"^(?:[kmgtpezunµμ]i?|kilo|mega|giga|tera|peta|milli|micro|nano)(?=.)")


def is_known_unit(unit: str) -> bool:
    """Tell whether a unit is made of words that are known to be units: ``GB/s``, ``us/step``, ``TFLOPS``.

    Own words are good units too; of a table that somebody else wrote an unknown one is more often a slip.
    """
    terms = re.split(r"\s*[/*·]\s*|\s+", unit.strip().lower())
    return all(_is_unit_word(term.strip(" ()")) for term in terms)


def _is_unit_word(term: str) -> bool:
    """Tell whether a term is a known word, perhaps with a prefix, a power, or in the plural."""
    term = re.sub(r"(?:\^?-?[²³23])$", "", term) or term
    bare = term.removesuffix("ps") if len(term) > 3 else term  # as in GBps
    forms = {term, bare, term.removesuffix("s")} if len(term) > 3 else {term}
    forms |= {_UNIT_PREFIX.sub("", form) for form in forms}
    return not forms.isdisjoint(_UNIT_WORDS)


def _is_time(unit: str) -> bool:
    return unit.partition("/")[0].strip() in _TIMES


def _is_rate(unit: str) -> bool:
    return unit.lower().rstrip().endswith(_RATES)


def whole_of(component: str) -> str:
    """Return the benchmark id under which all metrics of a component are judged together."""
    return f"{component} (all metrics)"


def wholes_of(component: str) -> list[str]:
    """Return a component and all that it is a part of: ``network.loopback``, ``network``."""
    words = component.split(".")
    return [".".join(words[:count]) for count in range(len(words), 0, -1)]


def value_text(value: float | None, unit: str = "") -> str:
    """Return a measured value with four significant digits, and its unit if one is given.

    The unit ``1`` of a mere ratio is not written. A missing value is a dash; of numbers that are none there
    is one spelling: NaN, Infinity, -Infinity.
    """
    if value is None:
        return "-"
    if not math.isfinite(value):
        text = "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    elif value == 0:
        text = "0"
    elif 1e-4 <= abs(value) < 1e7:
        digits = max(0, 3 - math.floor(math.log10(abs(value))))
        text = f"{value:.{digits}f}"
        if "." in text:
            text = text.rstrip("0").rstrip(".")
    else:
        text = f"{value:.3e}"
    return f"{text} {'' if unit == '1' else unit}".rstrip()


def measured_text(value: float | None, expected: float | None, unit: str) -> str:
    """Return what was measured beside what is expected, as every line says it: ``402 GB/s, expected 439``."""
    beside = "" if expected is None else f", expected {value_text(expected)}"
    return f"{value_text(value, unit)}{beside}"


def slip_of(ratio: float) -> str:
    """Return the factor between two units that a ratio of values comes near: ``1000``; empty for any other.

    Args:
        ratio: How many times as large one value is as another; below 1 it is turned round.
    """
    ratio = 1 / ratio if 0 < ratio < 1 else ratio
    return next((str(one) for one in _SLIPS if abs(ratio / one - 1) <= _SLIPPED), "")


def slip_text(ratio: float) -> str:
    """Say that two values may be in two units, with a blank in front; empty where nothing tells so."""
    factor = slip_of(ratio)
    return f" (a factor of {factor}: another unit?)" if factor else ""


def exact_text(value: float, unit: str, name: str = "") -> str:
    """Return a value of what must be exactly so: all of its digits, and no unit where it is a mere count.

    Args:
        value: Measured or expected.
        unit: The metric's.
        name: The metric's name: of ``errors`` the unit ``errors`` says nothing.
    """
    bare = unit in _COUNTS or (name and name.endswith(unit))
    return f"{value:.15g}" if bare else f"{value:.15g} {unit}".rstrip()


def similarity_text(value: float | None) -> str:
    """Return a similarity in [0, 1] with four decimals, never rounded up to 1."""
    if value is None:
        return "-"
    text = f"{value:.4f}"
    return "0.9999" if text == "1.0000" and value < 1 else text


def percent_text(share: float, decimals: int | None = None) -> str:
    """Return a share as a percentage with about two significant digits; never a small one as 0.

    Args:
        share: .12 is 12 %.
        decimals: Decimals of the percentage; None picks them.
    """
    if not math.isfinite(share):
        return f"{share} %"
    hundredth = 100 * share
    if decimals is None:
        if hundredth == 0:
            return "0 %"
        if abs(hundredth) < 0.005:
            return "<0.01 %" if hundredth > 0 else ">-0.01 %"
        decimals = 0 if abs(hundredth) >= 9.95 else 1 if abs(hundredth) >= 0.995 else 2
    return f"{hundredth:.{decimals}f} %"


def relative_loss(similarity: float, better: str) -> float:
    """Return a one-sided similarity as the loss of a uniformly worse unit, relative to what is normal.

    This is the scale of all losses that are shown: .12 is 12 % lower where higher is better, 12 % longer (or
    higher) where lower is; 29 is thirty times as long. Infinite where nothing (0) was normal. Of exact
    metrics it is the share of values that differ.
    """
    if better != "lower":
        return 1 - similarity
    return 1 / similarity - 1 if similarity > 0 else math.inf


@lru_cache(maxsize=256)  # of thousands of losses each one is reported next to the same limit
def loss_size(similarity: float, better: str, decimals: int | None = None) -> str:
    """Return the size of a loss without saying in what: ``12 %``, ``30 times`` (as long, or as slow).

    Args:
        similarity: One-sided, of what is worse to what is normal, 0 to 1.
        better: The metric's direction.
        decimals: Decimals of the number; None picks them.
    """
    if better == "lower" and similarity <= 0:
        return "any amount"
    multiple = {"lower": _MULTIPLE, "higher": _FRACTION}.get(better, 0.0)
    if 0 < similarity <= multiple:  # as `loss_text` tells it, so that both say one number
        return f"{_times(similarity, decimals)} times"
    return percent_text(relative_loss(similarity, better), decimals)


def size_text(loss: float, better: str) -> str:
    """Return a relative loss, as `relative_loss` gives it, as `loss_size` does."""
    return loss_size(1 / (1 + loss) if better == "lower" else max(0.0, 1 - loss), better)


def found_from(loss: float | None, better: str) -> str:
    """Return the loss from which on losses are found: ``91 %`` of a rate, ``2.3 times`` of a time, or a dash.

    What should be high can only lose a share of itself, up to all of it; so no share but all is 100 %.
    """
    if loss is None:
        return "-"
    if better == "lower" or not 0 < loss < 1:
        return size_text(loss, better)
    texts = (percent_text(loss, decimals) for decimals in (None, *range(1, _MOST_DECIMALS)))
    return next((text for text in texts if float(text.split()[0].strip("<")) < 100), ">99 %")


def loss_text(
    similarity: float,
    better: str,
    unit: str,
    *,
    than: str = "",
    shape: bool = False,
    decimals: int | None = None,
) -> str:
    """Say how large a loss is: ``12 % slower``, ``30 times as long``, ``1/20 of it``, ``no worse``.

    Args:
        similarity: One-sided, of what is worse to what is normal, 0 to 1; 1 is no loss.
        better: The metric's direction, ``higher`` or ``lower``.
        unit: The metric's unit: rates get slower, times longer, what else there is lower or higher.
        than: What it is compared with, if that is to be said, e.g. ``the expected 11 GB/s``.
        shape: The distribution is meant, whatever its median: it is worse.
        decimals: Decimals of the number; None picks them.
    """
    if similarity >= 1:
        return f"no worse than {than}" if than else "no worse"
    lower = better == "lower"
    if similarity <= 0:
        return (
            f"above {than or 'zero'}" if lower else f"nothing{f' of {than}' if than else ' at all'}"
        )
    longer, rate = lower and _is_time(unit), _is_rate(unit)
    if similarity > (_MULTIPLE if lower else _FRACTION):
        word = "longer" if longer else "higher" if lower else "slower" if rate else "lower"
        size = percent_text(relative_loss(similarity, better), decimals)
        return f"{size} {'worse' if shape else word}{f' than {than}' if than else ''}"
    if not lower and not rate and not shape:
        return f"1/{_times(similarity, decimals)} of {than or 'it'}"
    word = "bad" if shape else "long" if longer else "high" if lower else "slow"
    return f"{_times(similarity, decimals)} times as {word}{f' as {than}' if than else ''}"


_NAMED = 3
"""Metrics of one name and test that a list still names one by one, with their parameters."""


def named_by(pattern: str, name: str) -> bool:
    """Return whether a pattern is about a name: ``*`` and ``?`` stand for other letters, all else for itself.

    Brackets are a part of the names of tests, so ``test_link[0]`` is that test alone.
    """
    return pattern == name or fnmatchcase(name, pattern.replace("[", "[[]"))


def metric_name(*words: str) -> str:
    """Return what names a metric in a line: benchmark, metric, perhaps a device, with blanks between.

    Tables of other tools often have one name for benchmark and metric: that is said once.

    Args:
        words: What names it, the widest first; empty ones are left out.
    """
    said = [word for word in words if word]
    return " ".join(word for n, word in enumerate(said) if n == 0 or word != said[n - 1])


def metric_names(metrics: Iterable[tuple[str, str]]) -> list[str]:
    """Return the metrics of a list such that each is told from the others: ``load_latency[dram]``.

    Args:
        metrics: Benchmark id and name of each, in order.

    Returns:
        The name, with the parameters of its test if it has any, and with the test itself where several
        tests record one name; ``5 of load_latency`` for more of one test than anybody reads.
    """
    tests: dict[str, dict[str, list[str]]] = {}
    for benchmark, name in dict.fromkeys(metrics):
        test, bracket, parameters = benchmark.rpartition("::")[2].partition("[")
        tests.setdefault(name, {}).setdefault(test, []).append(bracket + parameters)
    found = []
    for name, of_tests in tests.items():
        for test, parameters_of in of_tests.items():
            whose = f"{test} {name}".lstrip() if len(of_tests) > 1 else name
            many = len(parameters_of) > _NAMED
            found += (
                [f"{len(parameters_of)} of {whose}"] if many else [whose + p for p in parameters_of]
            )
    return found


def first_of(names: Sequence[str], most: int) -> str:
    """Return the first of many names in a line, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"


_SAME, _ALIKE = 0.01, 1.1
"""Two losses are told as one if what is left differs by a hundredth at most, or they differ by an eleventh of
the larger one; and never if what is left differs by a tenth of itself, since whoever reads value and expected
divides them: of 18 and 21 times as long both are reported."""


def differs_by_median(similarity: float, of_medians: float) -> bool:
    """Return whether a sample's loss is that of its median: else its distribution has to be told as well.

    Args:
        similarity: One-sided, of the sample to what is normal.
        of_medians: The same of its median to the expected one.
    """
    low, high = sorted((similarity, of_medians))
    apart = max(_SAME, (1 - low) * (1 - 1 / _ALIKE))
    return high - low <= apart and high <= _ALIKE * low


def told_apart(similarity: float, threshold: float, better: str) -> int | None:
    """Return how many decimals tell a loss from the one that is allowed; None if the usual ones do."""
    choices: tuple[int | None, ...] = (None, *range(1, _MOST_DECIMALS))
    for decimals in choices:
        if loss_size(similarity, better, decimals) != loss_size(threshold, better, decimals):
            return decimals
    return None


def _times(similarity: float, decimals: int | None) -> str:
    """Return how many times as large, without needless digits."""
    ratio = 1 / similarity
    if not math.isfinite(ratio):
        return "endlessly many"
    return (
        f"{ratio:.{decimals}f}" if decimals else f"{ratio:.2g}" if ratio < 100 else f"{ratio:.0f}"
    )
