"""What a table is doubted for, what stops and what only warns; optional columns and labels."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from scaling.errors import DataError, DataWarning, UnitError
from scaling.table import load_runs

# Doubts are looked at in the audit here; where the warning itself is the point, pytest.warns sees it.
pytestmark = pytest.mark.filterwarnings("ignore::scaling.errors.DataWarning")

N, D, LOSS = [1e8, 2e8, 4e8, 8e8], [2e9, 4e9, 8e9, 1.6e10], [3.4, 3.1, 2.9, 2.7]
BASE = pd.DataFrame({"params": N, "tokens": D, "loss": LOSS})


# -- data, repeats, optional columns ---------------------------------------------------------------


def big(n=48, factor=1.0, half=None):
    rng = np.random.default_rng(1)
    params, tokens = 10 ** rng.uniform(7, 9.5, n), 10 ** rng.uniform(9, 11, n)
    loss = (1.82 + 482 / params**0.348 + 2085 / tokens**0.366) * np.exp(rng.normal(0, 0.003, n))
    frame = pd.DataFrame({"params": params, "tokens": tokens, "loss": loss})
    if half is not None:
        frame[half] = np.where(np.arange(n) % 2, "c4", "code")
        frame.loc[::2, "loss"] *= factor
    return frame


def test_data_sets_far_apart_stop():
    with pytest.raises(
        DataError, match=r"column 'dataset' names 2 data sets \(c4, code\).*where=\{'dataset': 'c4'\}"
    ):
        load_runs(big(factor=0.5, half="dataset"))
    assert len(load_runs(big(factor=0.5, half="dataset"), where={"dataset": "c4"})) == 24
    runs = load_runs(big(factor=0.5, half="dataset"), allow=["mixed_groups"])
    assert runs.audit.finding("mixed_groups").severity == "warning"


def test_data_sets_close_together_warn_and_equal_ones_are_mentioned():
    assert load_runs(big(factor=0.97, half="train_set")).audit.finding("mixed_groups").severity == "warning"
    assert load_runs(big(factor=1.0, half="corpus")).audit.finding("mixed_groups").severity == "info"
    # a remark about where a figure comes from is no data set, nor is an optimizer
    assert load_runs(big(factor=0.97, half="optimizer")).audit.finding("mixed_groups") is None


def test_two_bands_that_no_unit_explains_warn():
    frame = big(factor=3.0, half="note").drop(columns="note")
    assert load_runs(frame).audit.finding("loss_bands").evidence["factor"] == pytest.approx(3.0, rel=0.01)


def test_low_losses_without_a_unit_are_doubted():
    frame = big().assign(loss=lambda f: f.loss * 0.3)
    with pytest.warns(DataWarning, match="loss_low"):
        load_runs(frame)
    assert load_runs(frame, loss_unit="nats/byte").loss_unit == "nats/byte"
    assert load_runs(frame, loss_unit="unstated").loss_unit == "unstated"


def test_units_that_contradict_each_other():
    bits = BASE.rename(columns={"loss": "loss_bits"})
    assert load_runs(bits, loss_unit="nats/token").audit.finding("unit_contradicts_name") is not None
    with pytest.raises(UnitError, match="says bits/token and the column 'loss_unit' says nats/token"):
        load_runs(bits.assign(loss_unit="nats/token"))
    with pytest.raises(UnitError, match="empty in rows 2, 3"):
        load_runs(BASE.assign(loss_unit=["nats/token", "nats/token", None, None]))
    with pytest.raises(UnitError, match="row 1: loss unit 'furlongs'"):
        load_runs(BASE.assign(loss_unit=["nats/token", "furlongs", "nats/token", "nats/token"]))
    with pytest.raises(UnitError, match="per byte and per token"):
        load_runs(BASE.assign(loss_unit=["nats/token", "nats/byte"] * 2))
    with pytest.raises(UnitError, match="a perplexity is above 1"):
        load_runs(BASE.assign(loss=0.9), loss_unit="ppl")
    assert load_runs(BASE.assign(loss_unit=None)).loss_unit == "nats/token"


def test_checkpoints_and_contradicting_rows_are_told_apart():
    frame = BASE.assign(run_id=["a", "a", "b", "b"])
    assert load_runs(frame).audit.finding("checkpoints").severity == "info"
    twice = BASE.assign(run_id=["a", "a", "b", "c"], tokens=[2e9, 2e9, 4e9, 8e9], params=1e8)
    with pytest.warns(DataWarning, match="run_repeated"):
        runs = load_runs(twice)
    assert runs.audit.finding("run_repeated").evidence["rows"] == [0, 1]
    seeds = BASE.assign(params=1e8, tokens=[2e9, 2e9, 4e9, 8e9])
    assert load_runs(seeds).audit.finding("no_seed").severity == "info"
    assert load_runs(seeds.assign(seed=[0, 1, 0, 0])).audit.finding("no_seed") is None


def test_a_loss_carried_on_is_mentioned():
    frame = big(8)
    frame.loc[1, ["params", "loss"]] = frame.loc[0, ["params", "loss"]]
    assert load_runs(frame).audit.finding("same_loss").evidence["rows"] == [0, 1]


def test_half_filled_optional_columns_are_not_used():
    frame = BASE.assign(sigma=[0.01, None, 0.01, 0.01], loss_se_eval=0.002)
    with pytest.warns(DataWarning, match="incomplete_column"):
        runs = load_runs(frame)
    assert runs.sigma is None
    assert runs.loss_se_eval.tolist() == [0.002] * 4
    with pytest.raises(DataError, match="row 1: sigma: 0 is not positive"):
        load_runs(BASE.assign(sigma=[0.01, 0.0, 0.01, 0.01]))


def test_labels_and_covariates():
    frame = BASE.assign(run_id=[1, 2, 3, 4], trunk_id=["t", "t", None, "u"], seed=[0, 1, 2, 3], lr=1e-3)
    runs = load_runs(frame.assign(optimizer="adam", good=True, val_hash="ab12"))
    assert runs.run_id.tolist() == ["1", "2", "3", "4"]
    assert runs.trunk_id.tolist() == ["t", "t", None, "u"]
    assert runs.seed.tolist() == ["0", "1", "2", "3"]
    assert list(runs.covariates) == ["lr"]
    assert runs.audit.unused == ("optimizer", "good")
    several = load_runs(BASE.assign(val_hash=["a", "a", "b", "b"]))
    assert several.audit.finding("several_val_sets").severity == "warning"


def test_loss_kind_from_its_column():
    assert load_runs(BASE.assign(split="validation")).loss_kind == "validation"
    assert load_runs(BASE.assign(loss_kind="train")).loss_kind == "train"
    mixed = load_runs(BASE.assign(split=["train", "val"] * 2))
    assert mixed.audit.finding("mixed_splits") is not None


def test_our_own_run_files_are_understood_whole():
    own = BASE.rename(columns={"params": "params_total"}).assign(
        **dict(
            run_id=list("abcd"), trunk_id=list("aabb"), seed=0, params_non_embedding=5e7, params_matmul=9e7
        ),
        **dict(flops=6 * BASE.params * BASE.tokens, unique_tokens=2e10, loss_unit="nats/token", sigma=0.01),
        **dict(
            bytes_per_token=4.3, loss_se_eval=0.001, val_hash="ab12", tokenizer="gpt2", lr=1e-3, batch=512
        ),
        **dict(seq_len=1024, cooldown=0.2, status="ok", wall_s=10.0, device="cpu", usd=0.0, mfu=0.4),
        **dict(git="abc1234", config_hash="ff"),
    )
    runs = load_runs(own)
    assert not runs.audit.warnings
    assert runs.loss_unit == "nats/token"
    assert runs.params_kind == "total"
    assert set(runs.audit.unused) == {"device", "git", "config_hash"}
    assert {"lr", "cooldown", "wall_s", "mfu", "batch"} <= set(runs.covariates)
    assert json.loads(json.dumps(runs.audit.to_dict()))["n_kept"] == 4


def test_doubts_come_as_one_warning_and_stay_in_the_audit():
    frame = big().assign(warmup_tokens=1e10, flops=1e30)
    with pytest.warns(DataWarning) as caught:
        runs = load_runs(frame)
    assert len(caught) == 1
    assert "2 doubts about this table (flops_disagree, inside_warmup)" in str(caught[0].message)
    assert {f.code for f in runs.audit.warnings} == {"flops_disagree", "inside_warmup"}


def test_columns_for_checks_only_are_left_alone_where_they_are_unclear():
    frame = BASE.assign(flops=1e18, total_flops=5e18, log_steps=3.0, steps=100)
    runs = load_runs(frame.drop(columns="steps"))
    assert runs.flops is None
    assert "2 columns could be flops" in runs.audit.finding("column_unclear").message
    # a loss or a sigma is never left alone
    with pytest.raises(DataError, match="2 columns could be sigma"):
        load_runs(BASE.assign(sigma=0.01, sigma_loss=0.02))


def test_tokens_are_checked_against_tokens_per_step():
    frame = BASE.assign(steps=[1000, 2000, 4000, 8000], batch_tokens=2_000_000)
    assert load_runs(frame).audit.finding("tokens_checked") is not None
    with pytest.raises(DataError, match="1/2x steps x batch_tokens"):
        load_runs(frame.assign(batch_tokens=4_000_000))
    assert load_runs(BASE.assign(steps=[1, 2, 3, 4])).audit.finding("tokens_checked") is None


def test_a_high_loss_is_believed_when_its_unit_is_stated():
    frame = BASE.assign(loss=[15.0, 3.1, 2.9, 2.7])
    with pytest.raises(UnitError, match="above 12 nats/token"):
        load_runs(frame)
    runs = load_runs(frame, loss_unit="nats/token")
    assert runs.audit.finding("loss_high").evidence["rows"] == [0]
    assert load_runs(frame, allow=["loss_high"]).loss[0] == 15.0


def test_stated_and_unstated_units_do_not_mix():
    with pytest.raises(UnitError, match="'unstated'"):
        load_runs(BASE.assign(loss_unit=["nats/token", "unstated"] * 2))


def test_gaps_in_magnitude_that_may_be_real_only_warn():
    frame = BASE.assign(params=[1e5, 2e5, 1e8, 2e8], tokens=[1e10] * 4)
    assert load_runs(frame).audit.finding("magnitude_gap").evidence["rows"] == [0, 1]
    wide = BASE.assign(params=[2e3, 4e3, 2e9, 4e9], tokens=[1e9] * 4)
    with pytest.raises(
        UnitError, match="two magnitudes: rows 0, 1 have params from 2K to 4K, the others from 2B to 4B"
    ):
        load_runs(wide)
    assert load_runs(wide, allow=["mixed_magnitudes"]).audit.finding("mixed_magnitudes").severity == "warning"


def test_allowed_scales_are_warnings():
    tiny = BASE.assign(params=[100, 200, 300, 400])
    assert load_runs(tiny, allow="implausible_scale").audit.finding("implausible_scale").severity == "warning"
    huge = BASE.assign(tokens=[1e18] * 4)
    assert load_runs(huge, allow="implausible_scale").audit.finding("implausible_scale").severity == "warning"
    thin = BASE.assign(tokens=[5e4] * 4)
    with pytest.raises(UnitError, match="tokens per parameter"):
        load_runs(thin)
