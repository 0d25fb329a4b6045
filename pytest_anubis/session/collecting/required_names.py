"""What a node is required to have run, looked at before anything runs: a typo would cost a whole run."""

from __future__ import annotations

import pytest

from pytest_anubis.session.context import RunContext
from pytest_anubis.validator.deciding.requirement import Requirement


def check_required(context: RunContext) -> None:
    """Refuse what the baseline has no criterion for: no run of it could be accepted.

    Without a baseline, which the run says itself, nobody knows what there is.

    Raises:
        pytest.UsageError: A name is unknown; it says which are known.
    """
    baseline, names = context.baseline, context.settings.require
    if baseline is None or not names:
        return
    unknown = Requirement(names).unknown(baseline.criteria, baseline)
    if unknown:
        lines = (f"--anubis-require {one.benchmark}: {one.cause}" for one in unknown)
        raise pytest.UsageError("; ".join(lines))
