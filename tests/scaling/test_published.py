"""Published laws: full precision, their source, and the answers they are known by."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from scaling import ChinchillaLaw, DataError, DataWarning
from scaling.laws.kaplan import KaplanLaw
from scaling.published import PublishedFit, names, published


def quietly(name: str) -> PublishedFit:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        return published(name)


@pytest.mark.parametrize("name", names())
def test_every_fit_says_where_it_stands_and_makes_sense(name: str) -> None:
    fit = quietly(name)
    assert fit.name == name and 2020 <= fit.year <= 2026
    assert fit.source and fit.conditions and fit.verified
    if isinstance(fit.law, ChinchillaLaw):
        assert min(vars(fit.law).values()) > 0
        assert 0.5 < fit.law.loss(1e9, 2e10) < 6
        # A law's own exponents agree with those printed beside it.
        if fit.params_exponent is not None:
            assert fit.law.params_exponent == pytest.approx(fit.params_exponent, abs=0.06)
    elif isinstance(fit.law, KaplanLaw):
        assert 2 < fit.law.loss(1e9, 2e10) < 4
    elif fit.law is not None:
        assert 1.5 < fit.law.loss(1e21 if "envelope" in name else 1e10) < 4


def test_the_fits_known_by_heart() -> None:
    besiroglu = quietly("Besiroglu replication (printed optimum)").law
    assert isinstance(besiroglu, ChinchillaLaw)
    assert besiroglu == ChinchillaLaw(1.81686, 482.00572, 2085.4342, 0.34781, 0.36585)
    kaplan = quietly("Kaplan joint").law
    assert isinstance(kaplan, KaplanLaw)
    assert (kaplan.alpha_N, kaplan.alpha_D) == (0.076, 0.103)
    alone = quietly("Kaplan parameters alone").law
    assert alone is not None and alone.loss(8.8e13) == pytest.approx(1.0)
    tied = quietly("Muennighoff C4 base (tied)").law
    assert isinstance(tied, ChinchillaLaw)
    ratios = tied.tokens_per_param(np.array([1e8, 1e11]))
    assert ratios[0] == pytest.approx(ratios[1], rel=1e-9)


def test_only_rounded_exponents_are_warned_about() -> None:
    with pytest.warns(DataWarning, match="use unrounded coefficients"):
        published("Hoffmann Approach 3 (as printed)")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        published("Hoffmann Approach 3 (unrounded)")


def test_unknown_names_are_met_with_near_ones() -> None:
    with pytest.raises(DataError, match=r"nearest: Kaplan joint"):
        published("kaplan")
    with pytest.raises(DataError, match="called 'zzzz'; there are Hoffmann Approach 1; "):
        published("zzzz")
    with pytest.raises(DataError):
        published(3)  # type: ignore[arg-type]
