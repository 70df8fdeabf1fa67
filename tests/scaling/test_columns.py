"""Column names: every spelling people use, and names that only look like it."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from scaling.reading.columns import ROLES, Header, read_header

#: name -> (role, what else it says)
KNOWN = {
    # parameters
    "params": ("params", {}),
    "N": ("params", {"weak": True}),
    "n_params": ("params", {}),
    "num_params": ("params", {}),
    "numParams": ("params", {}),
    "NumParams": ("params", {}),
    "parameter_count": ("params", {}),
    "Model Size": ("params", {}),
    "number of parameters": ("params", {}),
    "n_params_M": ("params", {"scale": 1e6}),
    "mparams": ("params", {"scale": 1e6}),
    "MParams": ("params", {"scale": 1e6}),
    "nParamsB": ("params", {"scale": 1e9}),
    "params (M)": ("params", {"scale": 1e6}),
    "Params (x1e6)": ("params", {"scale": 1e6}),
    "N (millions)": ("params", {"scale": 1e6, "weak": True}),
    "params_total": ("params", {"kind": "total"}),
    "total params (B)": ("params", {"kind": "total", "scale": 1e9}),
    "params_matmul": ("params", {"kind": "matmul"}),
    "params_non_embedding": ("params", {"kind": "non_embedding"}),
    "non-embedding parameters": ("params", {"kind": "non_embedding"}),
    "params_no_embed": ("params", {"kind": "non_embedding"}),
    "params_active_B": ("params", {"kind": "active", "scale": 1e9}),
    "n_active": ("params", {"kind": "active", "weak": True}),
    "log10_params": ("params", {"log": "10"}),
    "log10(N)": ("params", {"log": "10", "weak": True}),
    "ln N": ("params", {"log": "e", "weak": True}),
    "log_N": ("params", {"log": "?", "weak": True}),
    # tokens
    "tokens": ("tokens", {}),
    "D": ("tokens", {"weak": True}),
    "d_tokens": ("tokens", {}),
    "num_tokens": ("tokens", {}),
    "token_num": ("tokens", {}),
    "tokens_B": ("tokens", {"scale": 1e9}),
    "tokens [B]": ("tokens", {"scale": 1e9}),
    "tokens in billions": ("tokens", {"scale": 1e9}),
    "train/tokens_seen": ("tokens", {}),
    "padded_tokens": ("tokens", {"kind": "padded"}),
    "unique_tokens": ("unique_tokens", {}),
    "warmup_tokens": ("warmup_tokens", {}),
    "batch_tokens": ("batch_tokens", {}),
    "tokens_per_step": ("batch_tokens", {}),
    "bytes_per_token": ("bytes_per_token", {}),
    # loss
    "loss": ("loss", {}),
    "final_loss": ("loss", {}),
    "train/loss": ("loss", {"kind": "train"}),
    "eval/loss": ("loss", {"kind": "validation"}),
    "val_loss": ("loss", {"kind": "validation"}),
    "CrossEntropyLoss": ("loss", {}),
    "train/loss__MIN": ("loss", {"kind": "train", "aggregate": "MIN"}),
    "K2 - train/loss__MAX": ("loss", {"kind": "train", "aggregate": "MAX"}),
    "loss_bits": ("loss", {"unit": "bits/token"}),
    "loss (nats/token)": ("loss", {"unit": "nats/token"}),
    "nats_per_token": ("loss", {"unit": "nats/token"}),
    "bits_per_byte": ("loss", {"unit": "bits/byte"}),
    "val_bpb": ("loss", {"kind": "validation", "unit": "bits/byte"}),
    "ppl": ("loss", {"unit": "perplexity"}),
    "valid_ppl": ("loss", {"kind": "validation", "unit": "perplexity"}),
    "L": ("loss", {"weak": True}),
    # FLOPs
    "flops": ("flops", {}),
    "Training FLOP": ("flops", {}),
    "total_gflops": ("flops", {"scale": 1e9}),
    "throughput/total_gflops": ("flops", {"scale": 1e9}),
    "PFLOPs": ("flops", {"scale": 1e15, "weak": True}),
    "pf_days": ("flops", {"scale": 8.64e19}),
    "C": ("flops", {"weak": True}),
    "budget": ("flops", {"weak": True}),
    "flops_exact": ("flops", {}),
    # the rest
    "Step": ("steps", {}),
    "num_iterations": ("steps", {}),
    "trainer/global_step": ("steps", {}),
    "global_bs": ("batch", {}),
    "seq_len": ("seq_len", {}),
    "epochs": ("epochs", {}),
    "sigma": ("sigma", {}),
    "loss_se_eval": ("loss_se_eval", {}),
    "State": ("status", {"weak": True}),
    "\ufeffparams": ("params", {}),
    "#params": ("params", {}),
}
#: Names that share words with a quantity and are not it.
UNKNOWN = [
    *("embedding_params", "loss_openlm", "loss_c4_val", "flops_per_token", "tokens_per_second", "count"),
    *(
        "tokens_per_param",
        "TFLOPs/s",
        "seconds_per_step",
        "d_model",
        "width",
        "lr",
        "x",
        "(M)",
        "entropy",
        "",
    ),
    *("true_entropy", "loss_std", "param_norm", "log_loss", "loss_per_byte"),
]


@pytest.mark.parametrize("name", KNOWN)
def test_known_names(name):
    role, more = KNOWN[name]
    assert read_header(name) == Header(role, **more)


@pytest.mark.parametrize("name", UNKNOWN)
def test_lookalikes_are_not_taken(name):
    assert read_header(name) is None


def test_every_column_of_our_own_run_files_is_known():
    """The columns of DESIGN section 7 that are quantities or labels of a run."""
    own = (
        "run_id trunk_id seed params_total params_non_embedding params_matmul tokens unique_tokens flops "
        "loss "
        "loss_unit bytes_per_token loss_se_eval sigma val_hash tokenizer batch seq_len status"
    )
    roles = {name: read_header(name) for name in own.split()}
    assert all(header is not None and not header.weak for header in roles.values()), roles
    assert {header.role for header in roles.values() if header} <= set(ROLES)


@given(st.sampled_from(sorted(KNOWN)), st.sampled_from([" ", "_", "-", "."]), st.booleans())
def test_separators_and_outer_blanks_do_not_matter(name, separator, blank):
    if "/" in name or "(" in name or "[" in name or " - " in name or "__" in name:
        return
    changed = name.replace("_", separator).replace(" ", separator)
    # "ln.N" is no logarithm anybody writes; "log-loss" and "non-embedding" are words.
    if name.startswith(("log", "ln")) and separator in "-.":
        return
    assert read_header(f"  {changed} " if blank else changed) == read_header(name)


@given(st.text(max_size=20))
def test_no_name_is_too_strange(name):
    header = read_header(name)
    assert header is None or header.role in ROLES
