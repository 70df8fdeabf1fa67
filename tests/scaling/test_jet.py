"""Derivatives of every law that the solver moves, against central differences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from scaling.laws.base import Array
from scaling.laws.coupled import attach_coupled
from scaling.laws.data_constrained import attach_data_constrained
from scaling.laws.jet import Jet, JetTape, compose, exp, expm1, log, where
from scaling.laws.penalty import attach_penalty

RNG = np.random.default_rng(3)
N = np.repeat(np.geomspace(2e7, 4e9, 6), 5)
U = np.tile([1e9, 4e9, 2e10], 10)
D = U * np.resize([0.5, 1.0, 3.0, 12.0, 60.0, 400.0], 30)
LOG_LOSS = np.log(1.8 + 480 / N**0.35 + 2100 / D**0.37)
AT = {"E": 1.7, "A": 300.0, "B": 1500.0, "alpha": 0.33, "beta": 0.36, "R_D": 9.0, "R_N": 4.0}


def numerical(form: Any, theta: Array, step: float = 1e-5) -> tuple[Array, Array]:
    """Central differences of f, (p, n), and of d'J for a fixed d, (p, p)."""
    p, n = theta.shape[1], len(LOG_LOSS)
    d = RNG.normal(size=(1, n))
    first, second = np.empty((p, n)), np.empty((p, p))
    for i in range(p):
        ahead, behind = (theta + s * step * np.eye(p)[i] for s in (1, -1))
        a, b = form.tape(ahead), form.tape(behind)
        first[i] = (a.f - b.f)[0] / (2 * step)
        second[i] = (a.gradient(d) - b.gradient(d))[0] / (2 * step)
    tape = form.tape(theta)
    exact = tape.curvature(np.zeros((1, n)), d)[0]
    assert first == pytest.approx(tape.jacobian()[0], rel=1e-6, abs=1e-8)
    assert tape.gradient(d)[0] == pytest.approx(tape.jacobian()[0] @ d[0], rel=1e-12)
    assert second == pytest.approx(exact, rel=2e-5, abs=1e-6)
    return first, second


@pytest.mark.parametrize("held", [(), ("E",), ("A", "alpha"), ("E", "A", "B", "alpha", "beta"), ("R_N",)])
@pytest.mark.parametrize("tied", [False, True])
def test_data_constrained_derivatives(held: tuple[str, ...], tied: bool) -> None:
    at = AT | ({"beta": AT["alpha"]} if tied else {})
    fixed: Mapping[str, float] = {name: at[name] for name in held}
    attached = attach_data_constrained(N, D, U, LOG_LOSS, fixed, tied)
    form = attached.form
    x, y = form.centre
    plain = np.array([list(at.values())])
    plain[:, 1] *= np.exp(-at["alpha"] * x)
    plain[:, 2] *= np.exp(-at["beta"] * y)
    theta = form.vector(plain)
    assert form.plain(theta) == pytest.approx(plain, rel=1e-12)
    law = attached.law(form.plain(theta)[0])
    assert np.exp(form.tape(theta).f[0]) == pytest.approx(law.loss(N, D, U), rel=1e-12)
    numerical(form, theta)


@pytest.mark.parametrize("held", [(), ("E",), ("A",), ("k",), ("E", "A", "B", "alpha", "beta")])
def test_coupled_derivatives(held: tuple[str, ...]) -> None:
    at = {name: v for name, v in AT.items() if not name.startswith("R_")} | {"k": 0.7}
    attached = attach_coupled(N, D, LOG_LOSS, {name: at[name] for name in held})
    x, y = attached.centre
    plain = np.array([list(at.values())])
    plain[:, 1] *= np.exp(-at["alpha"] * x)
    plain[:, 2] *= np.exp(-at["beta"] * y)
    theta = attached.form.vector(plain)
    assert attached.form.plain(theta) == pytest.approx(plain, rel=1e-12)
    law = attached.law(plain[0])
    assert np.exp(attached.form.tape(theta).f[0]) == pytest.approx(law.loss(N, D), rel=1e-12)
    numerical(attached.form, theta)


@pytest.mark.parametrize("held", [(), ("P",), ("E", "A", "B", "alpha", "beta")])
def test_penalty_derivatives(held: tuple[str, ...]) -> None:
    at = {name: v for name, v in AT.items() if not name.startswith("R_")} | {"P": 0.04, "kappa": 0.6}
    attached = attach_penalty(N, D, U, LOG_LOSS, {name: at[name] for name in held})
    (x, y), z = attached.centre, attached.form.middle
    plain = np.array([list(at.values())])
    plain[:, 1] *= np.exp(-at["alpha"] * x)
    plain[:, 2] *= np.exp(-at["beta"] * y)
    plain[:, 5] *= np.exp(at["kappa"] * z)
    theta = attached.form.vector(plain)
    assert attached.form.plain(theta) == pytest.approx(plain, rel=1e-12)
    law = attached.law(plain[0])
    assert np.exp(attached.form.tape(theta).f[0]) == pytest.approx(law.loss(N, D, U), rel=1e-12)
    numerical(attached.form, theta)


def test_jets_against_formulas() -> None:
    """A function with every operation, its derivatives by hand-free differences at 1e-5."""
    c = np.array([0.5, 1.5, 2.5])

    def terms(theta: Array, *, nested: bool) -> list[Any]:
        a, b, k = Jet.parameters(theta)
        inside = a * c + b / k
        u = (
            compose(exp(inside.alone(0) * 0.3).log() + expm1(inside.alone(0)), [inside])
            if nested
            else (inside * 0.3 + expm1(inside))
        )
        masked = where(np.array([True, False, True]), u, 2.0)
        return [masked * masked, 1.0 / (1.0 + exp(-k)), log(b * b + 3.0), 3.0 - a, c]

    theta = np.array([[0.3, 0.7, 1.1]])
    flat, nested = (JetTape(terms(theta, nested=n), 1, 3, 3) for n in (False, True))
    d = np.array([[0.2, -1.0, 0.7]])
    assert flat.f == pytest.approx(nested.f, rel=1e-14)
    assert flat.curvature(d, d) == pytest.approx(nested.curvature(d, d), rel=1e-12)
    for i in range(3):
        step = 1e-5 * np.eye(3)[i]
        a, b = (JetTape(terms(theta + s * step, nested=False), 1, 3, 3) for s in (1, -1))
        assert (a.f - b.f)[0] / 2e-5 == pytest.approx(flat.jacobian()[0, i], rel=1e-7, abs=1e-9)
        slope = (a.gradient(d) - b.gradient(d))[0] / 2e-5
        assert slope == pytest.approx(flat.curvature(0 * d, d)[0, i], rel=1e-6, abs=1e-8)
