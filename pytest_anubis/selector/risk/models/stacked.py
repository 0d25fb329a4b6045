"""The mean of several models' hazards, where backtests cannot distinguish them (`choosing.choice_rule`).

The weights are equal, not fitted as in stacking.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_anubis.selector.risk.models.covariates import Floats, items, numbers
from pytest_anubis.selector.risk.models.hazard import HazardModel, load_model
from pytest_anubis.selector.selector_error import SelectorError

_MAX_PARTS = 16  # there are four kinds of models; a file with more was not written by us


class MeanHazard(HazardModel):
    """The weighted mean of fitted models' hazards, ``H = sum_k w_k H_k``.

    Args:
        parts: Positive weights with models of the same rows; `model_choice` gives equal ones of sum 1.
    """

    kind = "stacked"

    def __init__(self, parts: Sequence[tuple[float, HazardModel]] = ()) -> None:
        super().__init__()
        self.parts: tuple[tuple[float, HazardModel], ...] = tuple(parts)
        if self.parts:  # `load_model` adds them later
            largest = max((model for _, model in self.parts), key=lambda model: model.rows)
            self._prepare = largest._prepare
            self.observed = largest.observed
            self.events, self.rows, self.notes = largest.events, largest.rows, largest.notes

    def cumulative(self, times: Floats, x: npt.ArrayLike) -> Floats:
        """Return the cumulative hazard, shape (n, m); see `HazardModel.cumulative`."""
        total: Floats = sum(
            (weight * model.cumulative(times, x) for weight, model in self.parts), np.zeros(())
        )
        return total

    @property
    def uses_facts(self) -> bool:
        """Whether covariates change the risk that one of the parts gives."""
        return any(model.uses_facts for _, model in self.parts)

    def _parameters(self) -> dict[str, Any]:
        return {"parts": [{"weight": w, "model": model.to_plain()} for w, model in self.parts]}

    def _restore(self, parameters: Mapping[str, Any]) -> None:
        found = items(parameters, "parts")
        if not 0 < len(found) <= _MAX_PARTS or not all(isinstance(one, Mapping) for one in found):
            raise SelectorError("model file: field 'parts' is missing, or holds no list of models")
        parts = []
        for one in found:
            plain = one.get("model")
            if not isinstance(plain, Mapping) or plain.get("model") == self.kind:
                raise SelectorError("model file: a part of a stacked model is no single model")
            weight = float(numbers(one, "weight", ()))
            if weight <= 0:
                raise SelectorError("model file: the weight of a part is not above 0")
            model = load_model(plain)
            if model._prepared.names != self._prepared.names:
                raise SelectorError(
                    "model file: the parts of a stacked model know other covariates"
                )
            parts.append((weight, model))
        self.parts = tuple(parts)

    def _fit(self, z: Floats, duration: Floats, event: npt.NDArray[np.bool_]) -> None:
        raise TypeError("a stacked model has nothing of its own to fit: fit its parts")

    def _cumulative(self, times: Floats, z: Floats) -> Floats:
        raise TypeError("a stacked model has no hazard of its own: `cumulative` asks its parts")
