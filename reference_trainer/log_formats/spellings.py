"""Which column is which quantity: the names that trainers and trackers give them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from scaling.errors import DataError
from scaling.units import is_loss_unit, parse_loss_unit

#: Quantity -> names, without signs, in lower case. The first group of an optimizer stands for its rate.
_NAMES = {
    "step": "step steps iter iters iteration iterations global_step trainer_global_step train_global_step it "
    "train_step training_step num_updates train_iter",
    "loss": "loss train_loss training_loss lm_loss train_lm_loss trl crossentropyloss train_crossentropyloss "
    "cross_entropy train_cross_entropy ce_loss train_ce_loss nll train_nll loss_train train_loss_step",
    "val_loss": "val_loss valid_loss validation_loss eval_loss test_loss loss_val val_loss_nats dev_loss "
    "validation_lm_loss lm_loss_validation tel",
    "grad_norm": "grad_norm train_grad_norm gradient_norm gnorm norm total_grad_norm optim_total_grad_norm "
    "global_grad_norm grad_norm_total train_gradient_norm grad_l2",
    "lr": "lr learning_rate train_lr train_learning_rate optim_learning_rate_group0 lr_group0 lr_0 "
    "optim_learning_rate optim_lr_group0 learning_rate_group0 lr_adamw_pg1",
    "update_norm": "update_norm train_update_norm delta_norm optim_update_norm",
    "param_norm": "param_norm params_norm weight_norm train_param_norm optim_total_param_norm total_param_norm",
    "v_norm": "v_norm adam_v_norm exp_avg_sq_norm adam_v second_moment_norm variance_norm",
    "finite": "finite is_finite",
    "tokens": "tokens tokens_seen total_tokens consumed_tokens train_tokens throughput_total_tokens num_tokens "
    "n_tokens cumulative_tokens consumed_train_tokens",
    "samples": "consumed_samples consumed_train_samples samples_seen",
    "step_tokens": "step_tokens batch_tokens tokens_per_step tokens_per_batch global_batch_tokens",
    "step_seqs": "global_batch_size batch_size train_batch_size",
    "tokens_per_s": "tokens_per_s tokens_per_sec tokens_per_second tok_s tok_sec throughput_tokens_per_second "
    "train_tokens_per_second tps tok_per_s tok_per_sec",
    "device_tokens_per_s": "throughput_device_tokens_per_second tokens_per_gpu_per_second_tgs "
    "tokens_per_second_per_gpu device_tokens_per_s",
    "step_s": "step_s step_time iter_time step_time_s iteration_time elapsed_time_per_iteration seconds_per_step "
    "time_per_step",
    "mfu": "mfu perf_mfu train_mfu throughput_mfu",
    "loss_scale": "loss_scale",
    "skipped": "skipped number_of_skipped_iterations skipped_iterations",
    "nans": "number_of_nan_iterations nan_iterations",
    "clip_rate": "optim_clipping_rate clipping_rate",
    "time": "timestamp unix_time datetime date wall_time",
    "wall_s": "wall_s wall runtime elapsed elapsed_s wall_clock_s relative_time_process relative_time_wall",
    "usd": "usd dollars cost_usd",
    "epoch": "epoch train_epoch",
}  # fmt: skip
_QUANTITY = {name: quantity for quantity, names in _NAMES.items() for name in names.split()}
#: Losses by the unit alone, used where no other column holds one.
_BY_UNIT = {
    "ppl": "perplexity", "perplexity": "perplexity", "train_ppl": "perplexity", "train_perplexity": "perplexity",
    "bpb": "bits/byte", "train_bpb": "bits/byte", "bits_per_byte": "bits/byte", "train_bits_per_byte": "bits/byte",
    "bits_per_token": "bits/token",
}  # fmt: skip
#: Units of columns that are no losses -> factor to the base unit.
_FACTORS = {
    "ms": 1e-3,
    "s": 1.0,
    "sec": 1.0,
    "%": 0.01,
    "percent": 0.01,
    "us": 1e-6,
    "h": 3600.0,
    "min": 60.0,
}
_BRACKETS = re.compile(r"(.*?)\s*[(\[]([^()\[\]]+)[)\]]\s*")
_TAIL = re.compile(r"(.*)_(ms|bits|nats|pct|percent|bits_per_token|nats_per_token|bits_per_byte)")


@dataclass(frozen=True)
class Meaning:
    """What a column holds.

    Parameters
    ----------
    quantity : str
        A name of the schema.
    unit : str
        Unit of a loss, where the name says it.
    factor : float
        What its numbers are multiplied by.
    """

    quantity: str
    unit: str = ""
    factor: float = 1.0


def plain(name: str) -> str:
    """Return a name without signs, in lower case.

    Examples
    --------
    >>> plain("optim/learning_rate_group0"), plain(" Train Loss ")
    ('optim_learning_rate_group0', 'train_loss')
    """
    return re.sub(r"[^a-z0-9]+", "_", name.strip().lower()).strip("_")


def meaning(name: str) -> Meaning | None:
    """Return what a column of this name holds, None if the name is not known.

    Examples
    --------
    >>> meaning("train/loss"), meaning("loss (bits/token)").unit, meaning("step time (ms)").factor
    (Meaning(quantity='loss', unit='', factor=1.0), 'bits/token', 0.001)
    """
    key = plain(name)
    if key in _QUANTITY:
        return Meaning(_QUANTITY[key])
    if key in _BY_UNIT:
        return Meaning("loss", _BY_UNIT[key])
    found = _BRACKETS.fullmatch(name.strip())
    base, unit = (plain(found[1]), found[2].strip().lower()) if found else ("", "")
    if not found and (tail := _TAIL.fullmatch(key)):
        base, unit = tail[1], tail[2].replace("pct", "%").replace("_per_", "/")
    quantity = _QUANTITY.get(base)
    if quantity in ("loss", "val_loss") and is_loss_unit(unit):
        return Meaning(quantity, parse_loss_unit(unit))
    if quantity is not None and unit in _FACTORS:
        return Meaning(quantity, factor=_FACTORS[unit])
    return None


def understand(names: Iterable[str], told: dict[str, str], source: str) -> dict[str, tuple[str, Meaning]]:
    """Return quantity -> (column, meaning) for a table.

    Parameters
    ----------
    names : iterable of str
        Its columns.
    told : dict of str to str
        Quantity -> column, from the caller.
    source : str
        Name for messages.

    Raises
    ------
    DataError
        Two columns claim one quantity, a column that was named is not there, or a quantity is unknown.
    """
    names = list(names)
    out: dict[str, tuple[str, Meaning]] = {}
    for quantity, column in told.items():
        if quantity not in _NAMES:
            raise DataError(
                f"columns: no quantity {quantity!r}; known are {', '.join(_NAMES)}", column=quantity
            )
        if column not in names:
            raise DataError(
                f"{source} has no column {column!r}; it has {', '.join(names[:30])}",
                source=source,
                column=column,
            )
        known = meaning(column)
        out[quantity] = column, known if known and known.quantity == quantity else Meaning(quantity)
    rivals: dict[str, list[tuple[str, Meaning]]] = {}
    for name in names:
        known = meaning(name)
        if known is not None and known.quantity not in out:
            rivals.setdefault(known.quantity, []).append((name, known))
    for quantity, found in rivals.items():
        by_name = [f for f in found if plain(f[0]) not in _BY_UNIT] or found
        # A tracker's own counter and the trainer's often stand side by side: the trainer's is the step.
        own = [f for f in by_name if not f[0].startswith("_")] or by_name
        if len(own) > 1:
            listed = " and ".join(name for name, _ in own)
            raise DataError(
                f"{source}: {listed} could each be the {quantity}: say which with columns={{{quantity!r}: ...}}",
                source=source,
                column=own[0][0],
            )
        out[quantity] = own[0]
    return out
