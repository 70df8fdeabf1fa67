"""Utilisations nobody should believe without a word: above what a part can do, of one GPU, in the wrong unit."""

from __future__ import annotations

import math
import warnings

import pytest

from economics import cost, solve_budget
from economics.hardware import GPU, gpu
from economics.mfu import mfu_model
from economics.run_mfu import run_mfu
from economics.utilisation import MfuError, MfuWarning, default_dtype, parse_mfu
from scaling.errors import DataError

RUN = {"N": "1B", "D": "20B", "gpu": "A100 SXM 80GB", "n_gpus": 8, "price": 1.5, "draws": 200}
SETUP = {"params": "7B", "gpu": "H100 SXM", "n_gpus": 64, "seq_len": 4096}
MODEL = mfu_model()


def codes(found) -> set[str]:
    return {f.code for f in found}


def of_run(given, part="A100 SXM 80GB", **more):
    setup = {"params": 1e9, "n_gpus": 8, "seq_len": 2048, "dtype": "bf16", **more}
    return run_mfu(given, part=gpu(part), **setup)


class TestAboveTheCeiling:
    @pytest.mark.parametrize("given", [0.95, "99%", (0.9, 0.95), (0.35, 0.9)])
    @pytest.mark.filterwarnings("ignore::economics.utilisation.MfuWarning")
    def test_is_a_finding(self, given):
        """The best matrix product ever measured on an A100 is 86.9% of its peak."""
        found = [f for f in cost(**RUN, mfu=given).findings if f.code == "mfu_above_ceiling"]
        assert len(found) == 1 and "86.9%" in found[0].message

    def test_below_it_is_none(self):
        for given in (0.86, (0.35, 0.45)):
            assert "mfu_above_ceiling" not in codes(of_run(given).findings)

    def test_of_a_budget_too(self):
        plan = solve_budget("1M", N="7B", mfu="99%", gpu="H100 SXM", n_gpus=64, price=2.0, draws=200)
        assert "mfu_above_ceiling" in codes(plan.findings)

    def test_the_warning_names_the_line_that_called(self):
        with pytest.warns(MfuWarning) as caught:
            cost(**RUN, mfu=0.95)
        assert caught[0].filename == __file__


class TestImpossible:
    @pytest.mark.parametrize(
        ("given", "cause"),
        [
            ("337%", "8: that is 42%"),
            (3.37, "8: that is 42%"),
            ("108%", "2: that is 54%"),
            (1.08, "2: that is 54%"),
        ],
    )
    def test_names_causes(self, given, cause):
        with pytest.raises(MfuError, match=cause) as caught:
            parse_mfu(given)
        assert caught.value.value == pytest.approx(
            float(str(given).rstrip("%")) / (100 if "%" in str(given) else 1)
        )

    def test_1_08_is_first_an_impossible_utilisation(self):
        with pytest.raises(MfuError, match=r"108%, which cannot be: .* Else for 1\.08% write 0\.0108"):
            parse_mfu(1.08)

    def test_of_a_run_the_causes_are_those_of_its_part(self):
        """1.08 of an H100's bf16 peak is 54% of its fp8 peak; 3.37 on one A100 are eight of them at 42%."""
        with pytest.raises(MfuError, match="dtype='fp8': 54%"):
            of_run("108%", "H100 SXM")
        with pytest.raises(MfuError, match=r"n_gpus=8 .that is 42%"):
            of_run("337%", n_gpus=1)
        with pytest.raises(MfuError, match=r"write 0\.4 or '40%'"):
            of_run(40)
        with pytest.raises(MfuError, match=r"cannot be"):
            of_run((0.4, "337%"))


class TestNoFigure:
    @pytest.mark.parametrize("mark", [math.nan, -1, "-100.00%", ""])
    def test_a_mark_for_none_is_said(self, mark):
        found = [f for f in cost(**RUN, mfu=mark).findings if f.code == "mfu_no_figure"]
        assert len(found) == 1 and "model" in found[0].message
        assert cost(**RUN, mfu=mark).usd == cost(**RUN).usd

    def test_nothing_given_is_nothing_to_say(self):
        assert "mfu_no_figure" not in codes(cost(**RUN).findings)

    @pytest.mark.parametrize("bad", [{}, object(), {"mfu": 0.4}, True, (0.4,), (math.nan, 0.5)])
    def test_what_is_no_figure_at_all_is_refused(self, bad):
        with pytest.raises(DataError, match="mfu"):
            of_run(bad)


class TestSetUp:
    def test_a_dtype_by_any_of_its_names(self):
        for names in (("bf16", "BF16", "torch.bfloat16"), ("fp8", "FP8", "float8")):
            first, *others = (MODEL.predict("7B", "H100 SXM", 64, 4096, dtype=name) for name in names)
            assert all(str(o) == str(first) and codes(o.findings) == codes(first.findings) for o in others)
            assert "dtype_not_measured" not in codes(first.findings)

    @pytest.mark.parametrize(
        "bad", [{"act_ckpt": "yes"}, {"act_ckpt": 1}, {"act_ckpt": []}, {"code_base": 5}]
    )
    def test_what_is_no_set_up_is_refused(self, bad):
        with pytest.raises(DataError, match=next(iter(bad))):
            of_run(None, **bad)
        with pytest.raises(DataError, match=next(iter(bad))):
            MODEL.predict("7B", "H100 SXM", 64, **bad)

    def test_a_part_with_one_rate_runs_in_it(self):
        assert default_dtype(GPU("mine", 24, {"fp32": 12.0})) == "fp32"
        assert default_dtype(gpu("T4")) == "fp16"
        for bad in (100, [100], None):
            with pytest.raises(DataError, match="dense_tflops"):
                GPU("mine", 24, bad)


class TestOwnSpeeds:
    @pytest.mark.parametrize("speeds", [[660e3, 0], [660e3, -1.0], [math.nan], [], 0, [660e3, math.inf]])
    def test_a_speed_is_positive(self, speeds):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(DataError, match="measured_tokens_per_s"):
                MODEL.update(speeds, **SETUP)

    def test_the_speed_of_one_gpu_given_for_64_is_doubted(self):
        with pytest.warns(MfuWarning, match="speed of one GPU .of all 64 together that is 51%"):
            mine = MODEL.update(660e3 / 64, **SETUP)
        assert "speed_far_below_expected" in codes(mine.predict("7B", "H100 SXM", 64, 4096).findings)
        assert "speed_far_below_expected" in codes(of_run(mine, "H100 SXM").findings)

    @pytest.mark.parametrize("speed", [0.5, 660.0 / 64])
    def test_next_to_nothing_is_refused(self, speed):
        with pytest.raises(MfuError, match="of the peak"):
            MODEL.update(speed, **SETUP)

    def test_an_ordinary_speed_is_not_doubted(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert MODEL.update(660e3, **SETUP).findings == ()

    def test_measurements_that_disagree_widen(self):
        """Twice the same set-up, a factor of 1.7 apart: either alone is known to a percent, both are not."""
        one = MODEL.update(600e3, **SETUP)
        both = one.update(350e3, **SETUP).predict("7B", "H100 SXM", 64, 4096)
        alone = one.predict("7B", "H100 SXM", 64, 4096)
        assert alone.high - alone.low < 0.03
        assert both.high / both.low > 1.2
        assert both.low < 0.27 / 0.75 and both.high > 0.44

    def test_measurements_that_agree_do_not(self):
        both = MODEL.update(600e3, **SETUP).update(602e3, **SETUP).predict("7B", "H100 SXM", 64, 4096)
        assert both.high - both.low < 0.03


def test_a_rounded_size_is_the_size_that_was_measured():
    """The smallest measured model has 124,439,808 parameters, which people write as 124M."""
    setup = {"gpu": "A100 SXM 80GB", "n_gpus": 8, "seq_len": 1024}
    assert "outside_calibration" not in codes(MODEL.predict("124M", **setup).findings)
    small = next(f for f in MODEL.predict("50M", **setup).findings if f.code == "outside_calibration")
    assert small.message.startswith("params 50M lies outside what was measured, 124M to ")
