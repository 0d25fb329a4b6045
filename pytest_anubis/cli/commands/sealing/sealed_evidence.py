"""Compare what a sealed journal states with what follows from its values: gate findings and failures.

`sealed_decision` refuses a journal with any difference.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import isclose

from pytest_anubis.codec import CodecError
from pytest_anubis.codec.plain_reading import from_plain
from pytest_anubis.core.alike_devices import without_repeats
from pytest_anubis.core.baseline import Baseline
from pytest_anubis.core.events import InventoryChanged
from pytest_anubis.core.inventory import Inventory
from pytest_anubis.core.run import RunRecord
from pytest_anubis.core.standing.standing_of import GATE
from pytest_anubis.core.verdict import MetricVerdict, Outcome, Reason
from pytest_anubis.hardware.gate.gate_comparison import JUDGED_BY_RATE, check_again
from pytest_anubis.hardware.gate.inventory_gate import check_inventory
from pytest_anubis.hardware.inventory.inventory_reading import InventoryError, inventory_from_plain
from pytest_anubis.settings import Settings

NEAR = 1e-6
"""Relative difference of two values that are the same."""

_Place = tuple[str, str, str, str, str]  # benchmark, metric, device, scope, component


def inventories_of(record: RunRecord) -> list[Inventory]:
    """Return the run's inventory at its start, and that at its end if it differs and the start is known.

    The settings' types are checked as well.

    Raises:
        CodecError: Something in the settings of a part of the run has the wrong type.
        InventoryError: Something in an inventory has.
    """
    for part in record.parts:
        from_plain(Settings, part, where="settings", unknown="ignore")
    if not record.inventory:
        return []
    # At its end a resumed run is compared with the beginning of its last part, which is not known.
    ends = [e.inventory for e in record.events if isinstance(e, InventoryChanged)]
    last = ends[-1:] if len(record.parts) == 1 else []
    return [inventory_from_plain(one) for one in (record.inventory, *last)]


def unstated_fault(
    record: RunRecord, inventories: Sequence[Inventory], baseline: Baseline | None
) -> str:
    """Return the first finding of the gate for which the journal has no verdict; empty if there is none.

    A run without a baseline was compared with that of a similar class, which no seal has: only what fails
    by itself counts then. The inventories are from `inventories_of`.
    """
    if not inventories or any(part.get("gate") == "off" for part in record.parts):
        return ""
    golden = None
    if baseline is not None and baseline.inventory:
        try:
            golden = inventory_from_plain(baseline.inventory, where="baseline: inventory")
        except InventoryError as error:
            raise CodecError(str(error)) from None
    stated = {
        (one.metric, one.device, one.component, one.outcome.value)
        for one in record.verdicts
        if one.benchmark == GATE[0]
    }
    count = ("FAIL",) if baseline is None else ("FAIL", "INCONCLUSIVE")
    start, *end = inventories
    found = check_inventory(start, golden)
    for later in end:
        found += [
            one for one in check_again(start, later, golden) if one.what not in JUDGED_BY_RATE
        ]
    return next(
        (
            f"{one.severity} {one.text}"
            for one in found
            if one.severity in count
            and (one.what, one.slot, one.component, one.severity) not in stated
        ),
        "",
    )


def first_difference(stated: Sequence[MetricVerdict], anew: Sequence[MetricVerdict]) -> str:
    """Return the first failure that one side lacks or has with another value; empty if there is none."""
    said, found = _failures(stated), _failures(anew)
    return next(_differences(said, found), "")


def _differences(
    said: dict[_Place, list[float]], found: dict[_Place, list[float]]
) -> Iterator[str]:
    for place in said:
        if place not in found:
            yield f"the journal blames {_words(place)}, its values and baseline alone do not"
    for place, values in found.items():
        if place not in said:
            yield f"its values and baseline alone blame {_words(place)}, the journal does not"
        elif said[place] and values and not _same(said[place], values):
            yield (
                f"the journal says {said[place][0]:g} of {_words(place)}, its values and baseline alone "
                f"give {values[0]:g}"
            )


def _failures(verdicts: Sequence[MetricVerdict]) -> dict[_Place, list[float]]:
    """Return the failures with their values; the metrics of a test whose own check failed are that check."""
    found: dict[_Place, list[float]] = {}
    for one in without_repeats([v for v in verdicts if v.outcome is Outcome.FAIL]):
        check = one.reason is Reason.TEST_FAILED
        metric = "" if check else one.metric
        device = one.device or "node" if check else one.device
        place = (one.benchmark, metric, device, one.scope, one.component)
        values = found.setdefault(place, [])
        if one.value is not None and not check:
            values.append(one.value)
    return found


def _same(said: Iterable[float], found: Sequence[float]) -> bool:
    return all(any(isclose(one, other, rel_tol=NEAR) for other in found) for one in said)


def _words(place: _Place) -> str:
    benchmark, metric, device, scope, component = place
    name = " ".join(filter(None, (benchmark, metric)))
    where = f" on {device}" if device else ""
    part = f" [{component}]" if component else ""
    return f"{name}{where}{part}" + (f" ({scope})" if scope != "unit" else "")
