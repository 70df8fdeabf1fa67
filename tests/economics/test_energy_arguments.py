"""Factors of energy as people write them, and measurements that no board can have made."""

from __future__ import annotations

import pytest

from economics.energy_use import energy
from scaling.errors import DataError


def test_text_is_read():
    by_text = energy("1M", "H100 SXM", fraction="70%", server="1.5", pue=1.25)
    assert by_text.facility_kwh.value == pytest.approx(1e6 * 0.7 * 0.7 * 1.5 * 1.25)
    assert by_text.facility_kwh == energy(1e6, "H100 SXM", fraction=0.7, server=1.5, pue=1.25).facility_kwh


@pytest.mark.parametrize(
    "bad",
    [
        {"fraction": "most"},
        {"fraction": "700%"},
        {"server": []},
        {"pue": []},
        {"fraction": True},
        {"pue": True},
    ],
)
def test_what_is_no_factor_is_refused(bad):
    with pytest.raises(DataError):
        energy(800, "H100 SXM", **bad)


def test_no_board_draws_many_times_its_rating():
    """800 hours at 700 W are 560 kWh: 39,200 is another unit, or another number of GPUs."""
    with pytest.raises(DataError, match="70 times"):
        energy(800, "H100 SXM", measured_gpu_kwh=39_200.0)
    assert energy(800, "H100 SXM", measured_gpu_kwh=580.0).gpu_kwh.value == pytest.approx(580.0)
