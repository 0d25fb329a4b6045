"""Risk models: they find the truth they were made from, say what they did, and refuse what they cannot."""

from __future__ import annotations

import json

import numpy as np
import numpy.typing as npt
import pytest

from pytest_anubis.selector.risk.choosing.model_accuracy import harrell
from pytest_anubis.selector.risk.models.cox import CoxPH, slopes
from pytest_anubis.selector.risk.models.cox_time import CoxTime
from pytest_anubis.selector.risk.models.cox_time_training import (
    TrainingRun,
    simplest_epoch,
    stop_epochs,
)
from pytest_anubis.selector.risk.models.hazard import (
    HazardModel,
    load_model,
    unseen_rate,
)
from pytest_anubis.selector.risk.models.parametric import Exponential, Weibull
from pytest_anubis.selector.selector_error import SelectorError
from tests.selector.risk.curve_accuracy import antolini, skill

Floats = npt.NDArray[np.float64]


def lives(
    count: int = 1500, shape: float = 1.5, slope: float = 0.8, seed: int = 0
) -> tuple[Floats, Floats, Floats]:
    """Weibull lives of scale 100 whose hazard is exp(slope * x0); x1 is noise; a third is censored."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(count, 2))
    life = 100 * (rng.exponential(size=count) / np.exp(slope * x[:, 0])) ** (1 / shape)
    end = rng.uniform(0, 300, count)
    return x, np.minimum(life, end), (life <= end).astype(float)


def quick(kind: type[HazardModel]) -> HazardModel:
    return CoxTime(networks=2) if kind is CoxTime else kind()


ALL = [Exponential, Weibull, CoxPH, CoxTime]


@pytest.fixture(scope="module", params=ALL, ids=lambda kind: kind.kind)
def fitted(request: pytest.FixtureRequest) -> HazardModel:
    """Each kind of model, fitted to `lives`."""
    return quick(request.param).fit(*lives())


def test_weibull_finds_its_own_shape_and_slope() -> None:
    x, duration, event = lives(4000)
    model = Weibull().fit(x, duration, event)
    assert model.to_plain()["parameters"]["shape"] == pytest.approx(1.5, abs=0.08)
    truth = np.exp(-((np.array([30.0, 100.0]) / 100) ** 1.5))
    assert model.survival([30.0, 100.0], [[0.0, 0.0]])[0] == pytest.approx(truth, abs=0.03)


def test_exponential_is_events_by_exposure() -> None:
    model = Exponential(use_covariates=False).fit(np.zeros((4, 0)), [1, 2, 3, 4], [1, 0, 1, 0])
    assert model.survival([10.0 / 5], np.zeros((1, 0)))[0, 0] == pytest.approx(np.exp(-2 * 2 / 10))


def test_a_quiet_history_is_not_no_risk() -> None:
    model = Exponential().fit(np.zeros((3, 1)), [10, 10, 10], [0, 0, 0])
    assert 0 < model.incident_probability([[0.0]], 0, 10)[0] < 0.3


@pytest.mark.parametrize("kind", [CoxPH, CoxTime])
def test_outliving_all_incidents_keeps_a_risk(kind: type[HazardModel]) -> None:
    x, duration, event = lives(400)
    late = duration > 100
    model = quick(kind).fit(x, np.where(late, 100 + duration, duration), np.where(late, 0, event))
    (risk,) = model.incident_probability([[0.0, 0.0]], 150, 20)
    half = 0.5 / duration[late].sum() * 20  # of all who were watched beyond 100, together
    assert half / 5 < risk < half * 5


@pytest.mark.parametrize("kind", [CoxPH, CoxTime])
def test_a_moment_beyond_all_incidents_adds_no_risk(
    kind: type[HazardModel],
) -> None:
    """Half an incident in a short time of one node was once a huge hazard."""
    x, duration, event = lives(400)
    longest = np.argmax(np.where(event, duration, 0.0))
    event[duration > duration[longest]] = 0
    duration = np.minimum(duration, duration[longest])
    late = np.flatnonzero(event == 0)[0]
    duration[late] = duration[longest] + 0.01
    model = quick(kind).fit(x, duration, event)
    (risk,) = model.incident_probability([[0.0, 0.0]], duration[longest], 0.01)
    usual = event.sum() / duration.sum() * 0.01
    assert 0 < risk < 3 * usual


def test_unseen_rate_is_at_most_the_usual_one() -> None:
    assert unseen_rate(0.0, 0.2) == pytest.approx(0.2)
    assert unseen_rate(1e6, 0.2) == pytest.approx(0.5 / 1e6, rel=1e-4)
    assert unseen_rate(2.5, 0.2) == pytest.approx(0.1)


def test_cox_finds_the_slope_per_standard_deviation() -> None:
    x, duration, event = lives(4000)
    found = slopes(x, duration, event == 1)
    assert found[0] == pytest.approx(0.8, abs=0.06)
    assert found[1] == pytest.approx(0, abs=0.05)


def tied_lives() -> tuple[Floats, Floats, Floats]:
    """Lives without a random generator, in whole hours, so that many end together."""
    i = np.arange(1.0, 201.0)
    u, v, w, c = (i * root % 1 for root in (2**0.5, 3**0.5, 5**0.5, 7**0.5))
    x = 3 * np.column_stack([u - 0.5, v - 0.5])
    life = 20 * (-np.log(w) / np.exp(0.8 * x[:, 0])) ** (1 / 1.5)
    return x, np.ceil(np.minimum(life, 60 * c)), (life <= 60 * c).astype(float)


def test_cox_agrees_with_lifelines() -> None:
    """Expected values: lifelines 0.30.3, computed once from `tied_lives` as a frame of columns a, b, t, e.

    ``CoxPHFitter().fit(frame, "t", "e").params_`` (Efron's treatment of ties, no penalty).
    """
    x, duration, event = tied_lives()
    assert len(np.unique(duration[event == 1])) < event.sum() / 3
    assert slopes(x, duration, event == 1, ridge=0.0) == pytest.approx(
        [0.775861, -0.000928], abs=1e-4
    )


def test_cox_time_sees_hazards_that_cross() -> None:
    rng = np.random.default_rng(3)
    x = rng.choice([-1.0, 1.0], size=(1500, 1))
    # Early lives of one group, late lives of the other: no proportional hazards.
    life = np.where(x[:, 0] > 0, rng.weibull(0.5, 1500), rng.weibull(4.0, 1500)) * 100
    duration, event = np.minimum(life, 300), (life < 300).astype(float)
    times = np.unique(duration)
    bent = CoxTime(networks=1).fit(x, duration, event)
    flat = CoxPH().fit(x, duration, event)
    good = antolini(times, bent.survival(times, x), duration, event)
    assert good > antolini(times, flat.survival(times, x), duration, event) + 0.05
    curve = bent.survival([20.0, 200.0], [[-1.0], [1.0]])
    assert curve[0, 0] > curve[1, 0] + 0.2
    assert curve[0, 1] < curve[1, 1]


def test_survival_is_a_survival_function(fitted: HazardModel) -> None:
    x, duration, event = lives()
    times = np.linspace(0, float(duration.max()), 40)
    curves = fitted.survival(times, x[:50])
    assert curves.shape == (50, 40)
    assert curves[:, 0] == pytest.approx(np.ones(50))
    assert (np.diff(curves, axis=1) <= 1e-9).all()
    assert ((curves >= 0) & (curves <= 1)).all()
    assert harrell(-curves[:, 20], duration[:50], event[:50]) > 0.55
    up, ahead = 30.0, 20.0
    p = fitted.incident_probability(x[:50], up, ahead)
    both = fitted.survival([up, up + ahead], x[:50])
    assert p == pytest.approx(1 - both[:, 1] / both[:, 0], abs=1e-6)


def test_plain_data_brings_the_model_back(fitted: HazardModel) -> None:
    again = load_model(json.loads(json.dumps(fitted.to_plain())))
    assert (again.kind, again.notes) == (fitted.kind, fitted.notes)
    x = lives()[0]
    same = fitted.survival([10.0, 50.0], x)
    assert again.survival([10.0, 50.0], x) == pytest.approx(same, abs=1e-6)


def test_the_same_seed_gives_the_same_networks() -> None:
    x, duration, event = lives(300)
    one, other = (CoxTime(networks=1, seed=5).fit(x, duration, event) for _ in range(2))
    assert one.to_plain() == other.to_plain()


def test_forecasts_beyond_the_data_are_cautioned(fitted: HazardModel) -> None:
    x = lives()[0][:5]
    far = 2 * fitted.observed
    assert (fitted.survival([far], x) <= fitted.survival([far / 2], x)).all()
    assert len(fitted.cautions(x, far)) == len(fitted.cautions(x, far / 2)) + 1


@pytest.mark.parametrize("kind", ALL)
def test_extreme_and_missing_covariates_are_limited(kind: type[HazardModel]) -> None:
    x, duration, event = lives(600)
    x[::7, 1] = np.nan
    x[3, 0] = 1e9
    model = quick(kind).fit(x, duration, event, names=("load", "errors"))
    assert any("errors" in note and "none in 14 % of rows" in note for note in model.notes)
    wild = np.array([[1e12, np.nan], [np.inf, -np.inf], [np.nan, np.nan]])
    assert np.isfinite(model.survival([10.0, 100.0], wild)).all()
    said = " ".join(model.cautions(wild[:1]))
    assert "load" in said
    assert "errors" not in said  # that there is none is a fact that the model knows, no gap


def test_a_new_node_gets_the_usual_risk(fitted: HazardModel) -> None:
    x = lives()[0]
    unknown = fitted.incident_probability([[np.nan, np.nan]], 0.0, 50.0)[0]
    middle = fitted.incident_probability([np.median(x, axis=0)], 0.0, 50.0)[0]
    assert unknown == pytest.approx(middle)
    seen = fitted.incident_probability(x, 0.0, 50.0)
    assert np.quantile(seen, 0.25) < unknown < np.quantile(seen, 0.75)
    cautions = fitted.cautions([[np.nan, np.nan]])
    assert any("1 of 1 nodes has none; the usual" in words for words in cautions)


def test_cox_time_is_cox_where_months_differ() -> None:
    """Months with circumstances of their own, which a network can learn by heart and not carry on."""

    def gain(seed: int) -> list[float]:
        rng = np.random.default_rng(seed)
        month = np.repeat(np.arange(60), 40)
        mood = rng.normal(0, 1, 60)
        name = rng.normal(size=(60, 2))  # says nothing about other months
        x = np.column_stack([rng.normal(size=len(month)), name[month]])
        life = rng.exponential(100 / np.exp(0.5 * x[:, 0] + mood[month]))
        duration, event = np.minimum(life, 60), (life < 60).astype(float)
        old = month < 30
        found = []
        for model in (CoxPH(), CoxTime(networks=3)):
            model.fit(x[old], duration[old], event[old])
            at_end = model.survival([50.0], x[~old])[:, 0]
            found.append(skill(at_end, duration[~old], event[~old], 50.0))
        return found

    flat, bent = np.mean([gain(seed) for seed in (2, 3)], axis=0)
    assert bent > flat - 0.03  # stopped by rows of the same months it loses 0.14


def test_rows_are_sorted_by_the_given_order() -> None:
    x, duration, event = lives(300)
    began = np.arange(300.0)
    mixed = np.random.default_rng(0).permutation(300)
    straight = CoxTime(networks=1).fit(x, duration, event)
    sorted_ = CoxTime(networks=1).fit(x[mixed], duration[mixed], event[mixed], order=began[mixed])
    assert sorted_.survival([50.0], x) == pytest.approx(straight.survival([50.0], x), abs=1e-6)
    with pytest.raises(SelectorError, match="one finite number for each row"):
        CoxTime().fit(x, duration, event, order=[1.0, 2.0])


@pytest.mark.parametrize("sorted_by", ["duration", "event"])
def test_rows_sorted_by_their_end_are_no_trap(sorted_by: str) -> None:
    x, duration, event = lives(900)
    place = np.argsort(duration if sorted_by == "duration" else event, kind="stable")
    model = CoxTime(networks=2).fit(x[place], duration[place], event[place])
    seen = 1 - model.survival([60.0], x)[:, 0].mean()
    truth = 1 - np.exp(-((60 / 100) ** 1.5) * np.exp(0.8 * x[:, 0])).mean()
    assert seen == pytest.approx(truth, abs=0.05)


def test_the_simplest_epoch_within_one_standard_error() -> None:
    rng = np.random.default_rng(0)
    noise = rng.normal(size=400)
    easy = noise + 0.5
    losses = np.array([easy + 1.0, easy + 0.02 * rng.normal(size=400), easy - 0.0001])
    assert simplest_epoch(losses) == 1
    assert simplest_epoch(np.array([easy + 1.0, easy + 0.5, easy])) == 2
    assert simplest_epoch(np.array([easy, easy + 0.5])) == 0


def test_disagreeing_stretches_stop_networks_early() -> None:
    noise = np.random.default_rng(0).normal(size=5_000)
    falling = np.linspace(0, -0.5, 6)[:, None] + noise

    def course(losses: Floats) -> TrainingRun:
        return TrainingRun(losses=losses, states=(), linear=np.zeros(1))

    assert stop_epochs([course(falling)] * 3) == [5, 5, 5]
    assert stop_epochs([course(falling), course(falling), course(-1.5 * falling)]) == [0, 0, 0]
    assert stop_epochs([course(falling), course(-falling)]) == [
        5,
        0,
    ]  # too few stretches to compare
    assert stop_epochs([course(falling[:3]), course(falling), course(falling)]) == [2, 2, 2]


def test_rare_counts_do_not_take_all_the_hazard() -> None:
    rng = np.random.default_rng(0)
    x, duration, event = lives(3000)
    count = np.zeros(3000)
    count[:6] = rng.integers(100, 5000, 6)  # beyond 20 standard deviations
    event[:6] = 1
    model = CoxTime(networks=2).fit(np.column_stack([x, count]), duration, event)
    at = 100.0
    chance = 1 - model.survival([at], np.column_stack([x, count]))[:, 0]
    seen = ((duration <= at) & (event > 0)).mean()
    assert 0.7 < chance.mean() / seen < 1.8


@pytest.mark.parametrize(
    ("kind", "duration", "event", "words"),
    [
        (Weibull, [1.0, -1.0], [1, 0], "row 1 has the duration"),
        (Weibull, [1.0, float("nan")], [1, 0], "row 1 has the duration"),
        (Weibull, [1.0, 2.0], [1, 2], "neither 0 nor 1"),
        (Weibull, [1.0], [1], "one duration and one event for each row"),
        (Weibull, [0.0, 0.0], [1, 1], "nothing was observed"),
        (CoxPH, [1.0, 2.0], [1, 0], "too few"),
    ],
)
def test_impossible_rows_are_refused(
    kind: type[HazardModel], duration: list[float], event: list[float], words: str
) -> None:
    with pytest.raises(SelectorError, match=words):
        kind().fit(np.zeros((2, 1)), duration, event)
    with pytest.raises(SelectorError, match="empty"):
        kind().fit(np.zeros((0, 1)), [], [])


@pytest.mark.parametrize(
    "plain", [{}, {"schema": 99, "model": "cox"}, {"schema": 1, "model": "oracle"}, [1], None]
)
def test_a_model_of_another_schema_is_refused(plain: object) -> None:
    with pytest.raises(SelectorError, match="model file"):
        load_model(plain)  # type: ignore[arg-type]


@pytest.mark.parametrize("field", ["covariates", "parameters", "observed", "slopes"])
def test_a_broken_model_file_is_refused(field: str) -> None:
    plain = json.loads(json.dumps(Weibull().fit(*lives(200)).to_plain()))
    if field == "slopes":
        plain["parameters"]["slopes"] = [1.0]
    else:
        del plain[field]
    with pytest.raises(SelectorError, match="model file"):
        load_model(plain)


@pytest.mark.parametrize(
    ("kind", "field"), [(CoxPH, "times"), (CoxPH, "baseline"), (Weibull, "shape")]
)
def test_a_hazard_that_falls_is_refused(kind: type[HazardModel], field: str) -> None:
    plain = json.loads(json.dumps(kind().fit(*lives(200)).to_plain()))
    found = plain["parameters"][field]
    plain["parameters"][field] = found[::-1] if isinstance(found, list) else -found
    with pytest.raises(SelectorError, match=field):
        load_model(plain)


@pytest.mark.parametrize(
    ("field", "value"),
    [("low", 1e9), ("high", -1e9), ("high", 1e308), ("scale", 1e-320), ("rate", 2.0)],
)
def test_impossible_limits_are_refused(field: str, value: float) -> None:
    x, duration, event = lives(200)
    x[:60, 0] = np.nan  # so that the column flags missing values
    plain = json.loads(json.dumps(Weibull().fit(x, duration, event).to_plain()))
    assert load_model(plain).survival([1.0], x[:1]).shape == (1, 1)
    plain["covariates"][field][0] = value
    with pytest.raises(SelectorError, match="model file"):
        load_model(plain)
