"""Laws as pure functions: their optimum, their units, their derivatives, their JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.optimize import minimize_scalar

from scaling import ChinchillaLaw, DataError, DataWarning
from scaling.laws.base import Array
from scaling.laws.chinchilla import attach
from scaling.laws.kaplan import KaplanLaw, attach_kaplan
from scaling.laws.power import PowerLaw, attach_power
from tests.scaling.fit_worlds import BESIROGLU, T

#: The 1-sigma box of published laws: exponents 0.05-0.8, losses of order one.
laws = st.builds(
    ChinchillaLaw,
    E=st.floats(0.1, 4.0),
    A=st.floats(1.0, 1e5),
    B=st.floats(1.0, 1e6),
    alpha=st.floats(0.05, 0.8),
    beta=st.floats(0.05, 0.8),
)
counts = st.floats(1e6, 1e13)


# -- the compute-optimal run -----------------------------------------------------------------------


@given(laws, counts)
def test_params_at_is_the_inverse_of_tokens_at(law: ChinchillaLaw, n: float) -> None:
    assert law.params_at(law.tokens_at(n)) == pytest.approx(n, rel=1e-9)


@given(laws, st.floats(1e16, 1e26))
def test_optimal_agrees_with_tokens_at_and_spends_the_budget(law: ChinchillaLaw, flops: float) -> None:
    best = law.optimal(flops)
    assert 6 * best.params * best.tokens == pytest.approx(flops, rel=1e-12)
    assert law.tokens_at(best.params) == pytest.approx(best.tokens, rel=1e-8)
    assert best.loss == pytest.approx(law.loss(best.params, best.tokens), rel=1e-12)


@given(laws, st.floats(1e16, 1e26))
@settings(max_examples=50)
def test_optimal_is_what_brute_force_finds(law: ChinchillaLaw, flops: float) -> None:
    """Minimise over ln N along the budget without the closed form."""

    def loss(log_n: float) -> float:
        n = math.exp(log_n)
        return float(law.loss(n, flops / 6 / n))

    best = law.optimal(flops)
    around = math.log(best.params)
    found = minimize_scalar(
        loss, bounds=(around - 12, around + 12), method="bounded", options={"xatol": 1e-8}
    )
    assert best.loss <= found.fun * (1 + 1e-12)
    assert found.fun == pytest.approx(best.loss, rel=1e-9)
    for step in (-0.05, 0.05):
        assert loss(around + step) > best.loss


@given(laws, counts, counts, st.floats(1.01, 100))
def test_more_of_either_never_hurts(law: ChinchillaLaw, n: float, d: float, factor: float) -> None:
    # A term below the rounding of the others cannot be seen to fall.
    assert law.loss(n * factor, d) <= law.loss(n, d)
    assert law.loss(n, d * factor) <= law.loss(n, d)
    assert T.loss(n * factor, d) < T.loss(n, d) > T.loss(n, d * factor)
    assert law.loss(n, d) > law.E


def test_tokens_per_param_varies_u23() -> None:
    """U23: "20 tokens per parameter" holds at no size in particular."""
    ratios = T.tokens_per_param(np.array([1e8, 1e9, 1e10, 1e11]))
    assert ratios == pytest.approx([25.4, 22.7, 20.2, 18.1], abs=0.06)
    assert T.tokens_at(1e9) == pytest.approx(2.265e10, rel=1e-3)
    tied = ChinchillaLaw(E=1.8, A=400.0, B=2000.0, alpha=0.35, beta=0.35)
    assert tied.tokens_per_param(1e8) == pytest.approx(tied.tokens_per_param(1e11), rel=1e-9)


def test_exponents_of_the_optimum_add_to_one() -> None:
    assert BESIROGLU.params_exponent + BESIROGLU.tokens_exponent == pytest.approx(1.0)
    slope = np.diff(np.log(BESIROGLU.optimal(np.array([1e20, 1e22])).params))[0] / math.log(100)
    assert BESIROGLU.params_exponent == pytest.approx(slope, rel=1e-12)


def test_inference_aware_sign_u24() -> None:
    """U24: at equal loss a smaller model needs more tokens per parameter, never fewer."""
    target = T.loss(1e9, 2.265e10)
    for n, ratio in ((5.38e8, 93.6), (3.19e8, 507.0)):
        tokens = (T.B / (target - T.E - T.A / n**T.alpha)) ** (1 / T.beta)
        assert tokens / n == pytest.approx(ratio, rel=0.02)


# -- units -----------------------------------------------------------------------------------------


@given(laws, counts, counts, *(st.floats(1e-9, 1e9) for _ in range(3)))
def test_units_change_the_coefficients_and_nothing_else(
    law: ChinchillaLaw, n: float, d: float, fn: float, fd: float, fl: float
) -> None:
    other = law.scaled(params=fn, tokens=fd, loss=fl)
    assert (other.alpha, other.beta) == (law.alpha, law.beta)
    assert other.loss(n * fn, d * fd) == pytest.approx(law.loss(n, d) * fl, rel=1e-9)
    assert other.tokens_at(n * fn) == pytest.approx(law.tokens_at(n) * fd, rel=1e-7)


def test_bits_are_nats_over_ln_2() -> None:
    """A whole table in bits changes E, A, B by 1/ln 2 and no answer in tokens (case U27)."""
    bits = T.scaled(loss=1 / math.log(2))
    assert bits.E == pytest.approx(2.626, abs=5e-4)
    assert bits.tokens_at(1e9) == pytest.approx(T.tokens_at(1e9), rel=1e-12)


# -- arrays ----------------------------------------------------------------------------------------


def test_a_law_of_draws_answers_with_arrays() -> None:
    draws = ChinchillaLaw(*(np.array([getattr(T, k), getattr(BESIROGLU, k)]) for k in vars(T)))
    for method, at in (("tokens_at", (1e9,)), ("params_at", (2e10,)), ("loss", (1e9, 2e10))):
        both = getattr(draws, method)(*at)
        assert both == pytest.approx([getattr(T, method)(*at), getattr(BESIROGLU, method)(*at)])
    assert draws.optimal(1e21).tokens.shape == (2,)
    assert isinstance(T.tokens_at(1e9), float)
    assert T.loss(np.array([[1e8], [1e9]]), np.array([1e9, 1e10, 1e11])).shape == (2, 3)


@pytest.mark.filterwarnings("error")
def test_a_law_without_bounds_runs_to_infinity_quietly() -> None:
    """Draws of an unidentified law: an open interval, no accident and no warning."""
    wild = ChinchillaLaw(E=0.0, A=1e-300, B=1.0, alpha=0.001, beta=0.001)
    assert wild.tokens_at(1e9) == math.inf
    assert math.isfinite(wild.log_tokens_at(1e9))
    assert wild.optimal(1e21).params == 0.0 or wild.optimal(1e21).tokens > 0


@pytest.mark.parametrize(
    ("ask", "column"),
    [
        (lambda: T.loss(-1, 1e9), "params"),
        (lambda: T.loss(1e9, 0), "tokens"),
        (lambda: T.tokens_at(0), "params"),
        (lambda: T.params_at(-1e9), "tokens"),
        (lambda: T.optimal(0), "flops"),
        (lambda: T.tokens_per_param(np.array([1e9, np.nan])), "params"),
    ],
)
def test_counts_that_cannot_be_are_refused(ask: Callable[[], Any], column: str) -> None:
    with pytest.raises(DataError, match="must be positive") as caught:
        ask()
    assert caught.value.column == column


# -- JSON ------------------------------------------------------------------------------------------


@given(laws)
def test_a_law_reads_back_to_the_same_bits(law: ChinchillaLaw) -> None:
    assert ChinchillaLaw.from_dict(json.loads(law.to_json())) == law


def test_draws_read_back_to_the_same_bits() -> None:
    rng = np.random.default_rng(0)
    draws = ChinchillaLaw(*rng.lognormal(size=(5, 30)))
    back = ChinchillaLaw.from_json(draws.to_json())
    for name in vars(draws):
        assert np.array_equal(getattr(back, name), getattr(draws, name))


def test_rounded_exponents_are_pointed_out_u05() -> None:
    """U05: Hoffmann's printed 0.34 and 0.28 put 44.0 tokens per parameter at 1B, the unrounded ones 29.1."""
    printed = ChinchillaLaw(E=1.69, A=406.4, B=410.7, alpha=0.34, beta=0.28)
    full = ChinchillaLaw(
        E=math.exp(0.5267228),
        A=math.exp(6.0073404),
        B=math.exp(6.0179186),
        alpha=0.33917084,
        beta=0.2849083,
    )
    assert printed.tokens_per_param(1e9) == pytest.approx(44.0, abs=0.05)
    assert full.tokens_per_param(1e9) == pytest.approx(29.1, abs=0.05)
    with pytest.warns(DataWarning, match="exponents of two digits"):
        ChinchillaLaw.from_json(printed.to_json())
    assert ChinchillaLaw.from_json(full.to_json()) == full
    # The note's range holds the truth: half a unit of the last digit is all that was lost.
    low, high = (
        ChinchillaLaw(1.69, 406.4, 410.7, 0.34 + s, 0.28 - s).tokens_at(1e9) for s in (-0.005, 0.005)
    )
    assert f"{low:.2e}" in printed.rounding_note() and f"{high:.2e}" in printed.rounding_note()
    assert low < full.tokens_at(1e9) < high


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not a law in JSON"),
        ("[1, 2]", "JSON object"),
        ('{"E": 1}', "keys"),
        ('{"E": 1, "A": 1, "B": 1, "alpha": "x", "beta": 1}', "are numbers"),
        ('{"E": 1, "A": 1, "B": 1, "alpha": null, "beta": 1}', "alpha of a law"),
        ('{"E": 1, "A": -1, "B": 1, "alpha": 0.3, "beta": 1}', "A of a law"),
    ],
)
def test_texts_that_hold_no_law_are_refused(text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        ChinchillaLaw.from_json(text)


# -- what the solver is told -----------------------------------------------------------------------

RNG = np.random.default_rng(1)
N, D = 10 ** RNG.uniform(7, 10, 12), 10 ** RNG.uniform(9, 12, 12)
LOG_LOSS = np.log(T.loss(N, D))


def _forms() -> dict[str, tuple[Any, Array]]:
    """Every form the solver meets, with plain coefficients to look at it from."""
    free, tied = attach(N, D, LOG_LOSS), attach(N, D, LOG_LOSS, same_exponent=True)
    held = attach(N, D, LOG_LOSS, {"A": 482.0, "beta": 0.366})
    face = free.form.face()
    assert face is not None
    at = free.plain(T)
    return {
        "free": (free.form, at),
        "tied": (tied.form, tied.plain(ChinchillaLaw(1.8, 500.0, 1500.0, 0.35, 0.35))),
        "held": (held.form, held.plain(T)),
        "E = 0": (face, np.concatenate([[0.0], at[1:]])),
        "power": (attach_power(D, LOG_LOSS).form, np.array([1.8, 0.7, 0.3])),
        "kaplan": (attach_kaplan(N, D).form, np.array([4.0, 3.0, 0.8, 0.25])),
    }


@pytest.mark.parametrize("name", _forms())
def test_derivatives_are_those_of_the_predictions(name: str) -> None:
    """Gradient and curvature against central differences, in every parameter at once."""
    form, plain = _forms()[name]
    theta = form.vector(plain[None])
    assert form.plain(theta)[0] == pytest.approx(plain, rel=1e-9, abs=1e-12)
    rng = np.random.default_rng(2)
    c, d = rng.normal(size=(2, 1, N.size))
    p, h = theta.shape[1], 1e-5
    jacobian = np.empty((p, N.size))
    pull = np.empty((p, p))
    for i in range(p):
        step = np.zeros_like(theta)
        step[0, i] = h
        up, down = form.tape(theta + step), form.tape(theta - step)
        jacobian[i] = (up.f - down.f)[0] / (2 * h)
        pull[i] = (up.gradient(d) - down.gradient(d))[0] / (2 * h)
    tape = form.tape(theta)
    size = np.abs(jacobian).max()
    assert np.allclose(tape.jacobian()[0], jacobian, atol=1e-7 * size)
    assert np.allclose(tape.gradient(c)[0], jacobian @ c[0], atol=1e-6 * size)
    curvature = (jacobian * c[0]) @ jacobian.T + pull
    assert np.allclose(tape.curvature(c, d)[0], curvature, atol=1e-6 * np.abs(curvature).max())


def test_attached_laws_predict_what_they_say() -> None:
    """Coefficients in and out of the solver's centred coordinates."""
    for attached, law in (
        (attach(N, D, LOG_LOSS), T),
        (attach_kaplan(N, D), KaplanLaw(8.8e13, 5.4e13, 0.076, 0.103)),
        (attach_power(D, LOG_LOSS), PowerLaw(1.8, 900.0, 0.3)),
    ):
        form: Any = attached.form
        plain = form.starts(LOG_LOSS, np.ones(N.size))[:1]
        got = attached.law(plain[0])
        at = (D,) if isinstance(law, PowerLaw) else (N, D)
        assert np.log(got.loss(*at)) == pytest.approx(form.tape(form.vector(plain)).f[0], rel=1e-9)


def test_starts_of_the_law_hold_the_truth() -> None:
    """Variable projection: one of the nodes kept lies within a grid step of the true exponents."""
    starts = attach(N, D, LOG_LOSS).form.starts(LOG_LOSS, np.ones(N.size))
    near = np.abs(np.log(starts[:, 3:] / [T.alpha, T.beta])).max(axis=1)
    assert near.min() < math.log(100) / 31
    assert (starts[:, 1:] > 0).all() and (starts[:, 0] >= 0).all()
