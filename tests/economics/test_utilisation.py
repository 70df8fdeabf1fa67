"""Utilisations as people write them, impossible ones, and the guess at what went wrong."""

from __future__ import annotations

import math
import warnings

import pytest
from hypothesis import given, strategies as st

from economics.errors import DtypeError, UnknownGPU
from economics.hardware import gpu
from economics.utilisation import MfuError, MfuWarning, check_mfu, hfu, likely_causes, measured_mfu, parse_mfu
from scaling.errors import DataError

A100 = "A100 SXM 80GB"


class TestU42PeakOfTheNamedPart:
    """A hard-coded A100 peak gave 104% on an H100, and other figures elsewhere."""

    def test_the_speed_of_the_case(self):
        assert measured_mfu(177_900, 7.44e8, A100) == pytest.approx(0.424, abs=5e-4)

    def test_the_same_speed_on_another_part(self):
        a100, h100 = (measured_mfu(177_900, 7.44e8, name) for name in (A100, "H100 SXM"))
        assert h100 / a100 == pytest.approx(312 / 989.4)

    def test_no_part_no_peak(self):
        with pytest.raises(UnknownGPU):
            measured_mfu(1e5, 1e9, "some GPU")

    def test_the_dtype_counts(self):
        half = measured_mfu(1e5, 1e9, "H100 SXM", dtype="fp8")
        assert measured_mfu(1e5, 1e9, "H100 SXM") == pytest.approx(2 * half, rel=1e-3)
        with pytest.raises(DtypeError, match="V100"):
            measured_mfu(1e4, 1e9, "V100-32GB-SXM2", dtype="bf16")
        assert measured_mfu(1e4, 1e9, "V100-32GB-SXM2") == pytest.approx(1e13 / 125e12)  # fp16 there

    def test_dense_never_sparse(self):
        """H100 SXM, 420 TFLOP/s: 42.5% of 989, never 21.2% (U41)."""
        assert measured_mfu(420e12 / 1e9, 1e9, "H100 SXM") == pytest.approx(0.4245, abs=1e-3)


class TestU44Impossible:
    def test_forgotten_gpus(self):
        speed = 3.38 * 312e12 / 4e10
        with pytest.raises(
            MfuError, match=r"338% of the dense bf16 peak of 1 x A100.*n_gpus=8 \(that is 42%\)"
        ) as caught:
            measured_mfu(speed, 4e10, A100, n_gpus=1)
        assert caught.value.value == pytest.approx(3.38)
        assert measured_mfu(speed, 4e10, A100, n_gpus=8) == pytest.approx(0.4225)

    def test_many_forgotten_gpus(self):
        assert likely_causes(410.0, gpu("H100 SXM"), "bf16")[0].startswith("was 410% meant")
        assert "n_gpus=1024" in likely_causes(410.0, gpu("H100 SXM"), "bf16")[1]

    def test_percent(self):
        causes = likely_causes(41.0, gpu(A100), "bf16")
        assert causes[0] == "was 41% meant (that is mfu=0.41)"

    def test_a_faster_part(self):
        """nanoGPT's A100 peak on an H100: 104%."""
        assert any("H100" in c and "33%" in c for c in likely_causes(1.04, gpu(A100), "bf16"))

    def test_fp8_taken_for_bf16(self):
        assert any("dtype='fp8': 54%" in c for c in likely_causes(1.08, gpu("H100 SXM"), "bf16"))

    def test_sparse_peaks_are_named(self):
        assert any("sparse" in c for c in likely_causes(1.3, gpu(A100), "bf16"))

    def test_above_the_best_matrix_product_is_doubted(self):
        with pytest.warns(MfuWarning, match=r"90\.0% is above 86\.9%") as caught:
            value = measured_mfu(0.9 * 312e12 / 1e10, 1e10, A100)
        assert value == pytest.approx(0.9)
        assert caught[0].filename == __file__

    def test_below_it_is_not(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            check_mfu(0.86, gpu(A100), "bf16")
            check_mfu(0.99, gpu("TPU-v4"), "bf16")  # no ceiling was measured there

    @pytest.mark.parametrize(
        "mark", [-1, -1.0, "-1", -100.0, "-100.00%", "mfu -100.00%", None, math.nan, "", "nan"]
    )
    def test_marks_for_no_figure(self, mark):
        assert parse_mfu(mark) is None

    @pytest.mark.parametrize("bad", [{"n_gpus": 0}, {"tokens_per_s": 0}, {"flops_per_token": math.inf}])
    def test_arguments(self, bad):
        with pytest.raises(DataError):
            measured_mfu(**{"tokens_per_s": 1e5, "flops_per_token": 1e9, "gpu": A100, **bad})


class TestU45Percent:
    @pytest.mark.parametrize(
        "text", [0.41, "0.41", "41%", "41 %", "41.0%", "mfu: 41%", "MFU=0.41", "41 percent", ".41"]
    )
    def test_accepted(self, text):
        assert parse_mfu(text) == pytest.approx(0.41)

    @pytest.mark.parametrize("bare", [40, 40.0, "40", "mfu: 40", 1.5, 100])
    def test_refused_without_its_sign(self, bare):
        with pytest.raises(MfuError, match=r"write 0\.\d+ or|write 1 or"):
            parse_mfu(bare)

    def test_says_what_to_write(self):
        with pytest.raises(
            MfuError, match=r"mfu=40 is read as a fraction, 4000%: for 40% write 0.4 or '40%'"
        ):
            parse_mfu(40)

    def test_what_it_would_have_cost(self):
        """1B parameters, 20B tokens on one A100: 267 h at 40%, 2.67 h at 4000%."""
        hours = 6 * 1e9 * 20e9 / (parse_mfu("40%") * 312e12) / 3600
        assert hours == pytest.approx(267, rel=1e-3)

    @pytest.mark.parametrize("bad", [0, 0.0, "0%", "101%", 250, -0.5, math.inf])
    def test_refused(self, bad):
        with pytest.raises(MfuError):
            parse_mfu(bad)

    @pytest.mark.parametrize("bad", ["fast", "41%%", "4 1", True, "41% of peak"])
    def test_no_number(self, bad):
        with pytest.raises(DataError):
            parse_mfu(bad)

    def test_a_percent_of_a_percent_is_doubted(self):
        with pytest.warns(MfuWarning, match="is that 41%"):
            assert parse_mfu("0.41%") == pytest.approx(0.0041)

    @given(st.floats(0.01, 1.0))
    def test_both_spellings_agree(self, value):
        assert parse_mfu(f"{100 * value!r}%") == pytest.approx(parse_mfu(value))


def test_hardware_utilisation():
    assert hfu(0.4125) == pytest.approx(0.55)
    assert hfu(0.4125, "none") == 0.4125
    with pytest.raises(DataError, match="recompute"):
        hfu(0.4, "some")
