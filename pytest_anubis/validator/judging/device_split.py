"""Find devices of one node that are slower than its others, where the limit of the fleet is too wide.

Few nodes make wide limits, and a loss within them passes. A comparison of the node's devices still shows the
loss if the gap between a slower and a faster part is too wide for chance. It makes them MARGINAL and rejects
nothing. `fleet_judging` and `run_comparisons` use it.
"""

from __future__ import annotations

import numpy as np

from pytest_anubis.core.metric import loss_text
from pytest_anubis.core.sample import FloatArray
from pytest_anubis.core.verdict import Reason
from pytest_anubis.validator.judging.column_judging import JudgedColumns
from pytest_anubis.validator.judging.verdict_table import MARGINAL, PASS, REASONS
from pytest_anubis.validator.similarity.distance import TINY
from pytest_anubis.validator.similarity.usable_rows import BoolArray, name_codes

GAPS = {6: 6.6, 7: 4.2}
"""Number of devices -> how many times as wide as either part the gap has to be. One node in a thousand with
equal devices and normal noise has such a gap. Fewer devices are not divided."""
GAP = 3.2
"""The same for eight devices and more."""
_UNDETECTABLE = REASONS.index(Reason.UNDETECTABLE)


def split_by_device(judged: JudgedColumns) -> JudgedColumns:
    """Make devices MARGINAL that pass only by a wide limit, and are slower than the others of their node."""
    population, criterion = judged.population, judged.criterion
    if criterion is None or criterion.scope == "node" or criterion.metric.better == "equal":
        return judged
    hidden = (judged.outcome == PASS) & (judged.reason == _UNDETECTABLE)
    if not hidden.any():
        return judged
    _, node = name_codes(population.nodes)
    names, run = name_codes(population.runs)
    owner = node.astype(np.int64) * len(names) + run
    # A device that measured nothing fails by itself and is not compared.
    known = ~np.isnan(judged.similarity) & (judged.value > 0)
    found: dict[int, str] = {}
    for one in np.unique(owner[hidden]).tolist():
        rows = np.flatnonzero((owner == one) & known)
        slow = slower_part(judged.value[rows], criterion.metric.better, criterion.alpha)
        if slow is None:
            continue
        part, rest = judged.value[rows[slow]], judged.value[rows[~slow]]
        low, high = sorted((float(np.median(part)), float(np.median(rest))))
        metric = criterion.metric
        lost = loss_text(low / high, metric.better, metric.unit, than="the others")
        verb = "is" if len(part) == 1 else "are"
        text = f"{len(part)} of the {len(rows)} devices of this node {verb} {lost}"
        found |= {row: text for row in rows[slow].tolist() if hidden[row]}
    return judged.marked(sorted(found), MARGINAL, Reason.UNUSUAL, splits=found) if found else judged


def slower_part(values: FloatArray, better: str, alpha: float) -> BoolArray | None:
    """Return which devices are the slower part, at most a half of them; None if no gap divides them.

    Values (n,) above 0 are one for each device of a node; a gap within the practical threshold does not
    matter.
    """
    count = len(values)
    if count < min(GAPS):
        return None
    rates = -np.log(values) if better == "lower" else np.log(values)
    order = np.argsort(rates, kind="stable")
    ordered = rates[order]
    least = GAPS.get(count, GAP)
    for place in range(count // 2, 0, -1):
        gap = ordered[place] - ordered[place - 1]
        wide = max(ordered[place - 1] - ordered[0], ordered[-1] - ordered[place], TINY)
        if gap > -np.log(alpha) and gap > least * wide:
            slow = np.zeros(count, dtype=np.bool_)
            slow[order[:place]] = True
            return slow
    return None
