"""The table of training runs, checked once and handed round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scaling.audit import SHOWN_ROWS, Audit
from scaling.cells import (
    Floats,
    Objects,
    checked_covariate,
    checked_labels,
    checked_loss_unit,
    checked_numbers,
    refuse_masked,
)
from scaling.errors import DataError
from scaling.units import format_count

if TYPE_CHECKING:
    import pandas as pd

_REQUIRED = ("params", "tokens", "loss")
_NUMERIC = ("flops", "sigma", "loss_se_eval", "unique_tokens", "params_active")
_LABELS = ("run_id", "trunk_id", "seed", "status")


@dataclass(frozen=True, eq=False, repr=False)
class RunTable:
    """Runs as columns of equal length n; every number is finite and positive.

    Make one with `load_runs` (files, DataFrames) or `RunTable.from_arrays`.

    Parameters
    ----------
    params : ndarray, float64, (n,)
        Parameter counts N, of the kind `params_kind` says.
    tokens : ndarray, float64, (n,)
        Tokens seen in training, D.
    loss : ndarray, float64, (n,)
        Loss, in `loss_unit`.
    loss_unit : {"nats/token", "bits/token", "nats/byte", "bits/byte", "unstated"}
        Unit of `loss`, `sigma` and `loss_se_eval`.
    loss_kind : {"validation", "train", "unstated"}
        The split the loss was measured on.
    params_kind : {"total", "matmul", "non_embedding", "active", "unstated"}
        What `params` counts.
    flops : ndarray, float64, (n,), or None
        Training FLOPs as the table gave them; never derived. See `compute`.
    sigma : ndarray, float64, (n,), or None
        Run-to-run standard deviation of the loss, in `loss_unit`.
    loss_se_eval : ndarray, float64, (n,), or None
        Sampling error of the evaluation, in `loss_unit`.
    unique_tokens : ndarray, float64, (n,), or None
        Distinct tokens available, where data repeat.
    params_active : ndarray, float64, (n,), or None
        Parameters used per token, for mixtures of experts.
    run_id, trunk_id, seed, status : ndarray, object, (n,), or None
        Labels.
    row : ndarray, int, (n,)
        Line in the file (its header is line 1), or position from 0 for frames and arrays.
    covariates : dict of str to ndarray, float64, (n,)
        Every other numeric column; ``nan`` where a cell was empty.
    frame : pandas.DataFrame or None
        The kept rows with the columns they came with.
    source : str
        Where the runs came from.
    audit : Audit
        How they were read.
    """

    params: Floats
    tokens: Floats
    loss: Floats
    loss_unit: str = "nats/token"
    loss_kind: str = "unstated"
    params_kind: str = "unstated"
    flops: Floats | None = None
    sigma: Floats | None = None
    loss_se_eval: Floats | None = None
    unique_tokens: Floats | None = None
    params_active: Floats | None = None
    run_id: Objects | None = None
    trunk_id: Objects | None = None
    seed: Objects | None = None
    status: Objects | None = None
    row: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    covariates: dict[str, Floats] = field(default_factory=dict)
    frame: pd.DataFrame | None = None
    source: str = "arrays"
    audit: Audit = field(default_factory=Audit)

    @classmethod
    def from_arrays(
        cls,
        *,
        params: ArrayLike,
        tokens: ArrayLike,
        loss: ArrayLike,
        flops: ArrayLike | None = None,
        sigma: ArrayLike | None = None,
        loss_se_eval: ArrayLike | None = None,
        unique_tokens: ArrayLike | None = None,
        params_active: ArrayLike | None = None,
        run_id: Sequence[Any] | None = None,
        trunk_id: Sequence[Any] | None = None,
        seed: Sequence[Any] | None = None,
        status: Sequence[Any] | None = None,
        row: ArrayLike | None = None,
        covariates: Mapping[str, ArrayLike] | None = None,
        loss_unit: str = "nats/token",
        loss_kind: str = "unstated",
        params_kind: str = "unstated",
        frame: pd.DataFrame | None = None,
        source: str = "arrays",
        audit: Audit | None = None,
    ) -> RunTable:
        """Check arrays and make a table of them. The arguments are the fields of `RunTable`.

        Parameters
        ----------
        params, tokens, loss : array_like, (n,)
            Finite and positive; counts may be written ``"1.3B"``.
        flops, sigma, loss_se_eval, unique_tokens, params_active : array_like, (n,), optional
            Finite and positive where given.
        run_id, trunk_id, seed, status : sequence, (n,), optional
            Labels of any type.
        row : array_like of int, (n,), optional
            Row numbers for messages; positions from 0 by default.
        covariates : mapping of str to array_like, (n,), optional
            Other numbers that belong to each run.
        loss_unit, loss_kind, params_kind, source : str
            What the numbers are.
        frame : pandas.DataFrame, optional
            The rows these arrays were taken from.
        audit : Audit, optional
            How they were read; by default it only states the counts.

        Returns
        -------
        RunTable
            Holds read-only copies.

        Raises
        ------
        DataError
            An array is empty, not one-dimensional, of another length, or has values that are not
            finite positive numbers (a masked value is a missing one); names the argument and the positions.
        UnitError
            The loss unit is not known, or a perplexity.

        Examples
        --------
        >>> RunTable.from_arrays(params=["10M", "100M"], tokens=["1B", "2B"], loss=[3.9, 3.1])
        RunTable: 2 runs, N 10M-100M, D 1B-2B, loss 3.1-3.9 nats/token, C 6e+16-1.2e+18, 20-100 tokens/param
        """
        values: dict[str, Any] = {"params": params, "tokens": tokens, "loss": loss}
        values |= {"flops": flops, "sigma": sigma, "loss_se_eval": loss_se_eval}
        values |= {"unique_tokens": unique_tokens, "params_active": params_active}
        labels: dict[str, Any] = {"run_id": run_id, "trunk_id": trunk_id, "seed": seed, "status": status}
        columns: dict[str, Any] = {
            name: None if given is None else checked_numbers(name, given) for name, given in values.items()
        }
        columns |= {
            name: None if given is None else checked_labels(name, given) for name, given in labels.items()
        }
        extra = {name: checked_covariate(name, given) for name, given in (covariates or {}).items()}
        n = len(columns["params"])
        columns["row"] = np.arange(n) if row is None else np.array(refuse_masked("row", row), dtype=np.int64)
        for name, array in (columns | extra).items():
            if array is not None and len(array) != n:
                raise DataError(
                    f"{name} has {len(array)} values and params has {n}: give one value per run", column=name
                )
        if n == 0:
            raise DataError("no runs: params is empty", column="params")
        for array in (*columns.values(), *extra.values()):
            if array is not None:
                array.setflags(write=False)
        return cls(
            **columns,
            covariates=extra,
            loss_unit=checked_loss_unit(loss_unit),
            loss_kind=loss_kind,
            params_kind=params_kind,
            frame=frame,
            source=source,
            audit=audit or Audit(n_read=n, n_kept=n, source=source),
        )

    def __len__(self) -> int:
        return len(self.params)

    @property
    def compute(self) -> Floats:
        """Training FLOPs 6·N·D, (n,); N is the active count where the table has one.

        Source of the factor: 2 FLOPs per parameter and token forward, 4 backward (Kaplan et al.
        2020, arXiv 2001.08361, section 2.1).
        """
        active = self.params if self.params_active is None else self.params_active
        return 6.0 * active * self.tokens

    def named(self, position: int) -> str:
        """Return how the table itself calls a run, e.g. ``line 4 (s3)``."""
        label = "" if self.run_id is None else f" ({self.run_id[position]})"
        return f"{self.audit.row_word} {self.row[position]}{label}"

    def select(self, mask: ArrayLike) -> RunTable:
        """Return the table of the chosen runs.

        Parameters
        ----------
        mask : array_like of bool, (n,), or of int
            True for runs to keep, or their positions (which may repeat).

        Returns
        -------
        RunTable

        Raises
        ------
        DataError
            The mask has another length, a position is out of range, or nothing is left.
        """
        chosen = np.asarray(refuse_masked("mask", mask))
        if np.issubdtype(chosen.dtype, np.bool_):
            if chosen.shape != self.params.shape:
                raise DataError(f"the mask has shape {chosen.shape} for {len(self)} runs", column="mask")
            chosen = np.flatnonzero(chosen)
        elif chosen.ndim != 1 or (chosen.size and not np.issubdtype(chosen.dtype, np.integer)):
            raise DataError("select needs a list of True/False or of whole positions", column="mask")
        if chosen.size == 0:
            raise DataError(f"the selection is empty: none of {len(self)} runs chosen", column="mask")
        if chosen.min() < -len(self) or chosen.max() >= len(self):
            raise DataError(f"a position is outside the table of {len(self)} runs", column="mask")
        changed: dict[str, Any] = {}
        for name in (*_REQUIRED, *_NUMERIC, *_LABELS, "row"):
            array = getattr(self, name)
            changed[name] = None if array is None else _frozen(array[chosen])
        changed["covariates"] = {name: _frozen(array[chosen]) for name, array in self.covariates.items()}
        changed["frame"] = None if self.frame is None else self.frame.iloc[chosen].reset_index(drop=True)
        return replace(self, **changed, audit=replace(self.audit, n_kept=int(chosen.size)))

    def __repr__(self) -> str:
        parts = [f"{name} {text}" for name, text in self._ranges()]
        low, high = _range(self.tokens / self.params)
        ratio = f"{low:.3g}-{high:.3g}" if low != high else f"{low:.3g}"
        return f"RunTable: {len(self)} run{'s' * (len(self) != 1)}, {', '.join(parts)}, {ratio} tokens/param"

    def _ranges(self) -> list[tuple[str, str]]:
        unit = "" if self.loss_unit == "unstated" else f" {self.loss_unit}"
        kind = "" if self.params_kind in ("unstated", "total") else f" ({self.params_kind})"
        return [
            ("N", _span(self.params, format_count) + kind),
            ("D", _span(self.tokens, format_count)),
            ("loss", _span(self.loss, lambda x: f"{x:.4g}") + unit),
            ("C", _span(self.compute, lambda x: f"{x:.3g}")),
        ]

    def _repr_html_(self) -> str:
        from html import escape

        names = [*_REQUIRED, *(n for n in ("run_id", "seed") if getattr(self, n) is not None)]
        shown = range(min(len(self), SHOWN_ROWS))
        head = "".join(f"<th>{escape(name)}</th>" for name in ("row", *names))
        body = "".join(
            f"<tr><td>{self.row[i]}</td>"
            + "".join(f"<td>{escape(_cell(getattr(self, n)[i], n))}</td>" for n in names)
            + "</tr>"
            for i in shown
        )
        more = f"<p>... and {len(self) - len(shown)} more</p>" if len(self) > len(shown) else ""
        title = f"<p>{escape(repr(self))}<br>{escape(self.source)}</p>"
        return f"{title}<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    array.setflags(write=False)
    return array


def _range(values: Floats) -> tuple[float, float]:
    return float(np.min(values)), float(np.max(values))


def _span(values: Floats, write: Any) -> str:
    low, high = (write(x) for x in _range(values))
    return str(low) if low == high else f"{low}-{high}"


def _cell(value: Any, name: str) -> str:
    if name in ("params", "tokens"):
        return format_count(float(value))
    return f"{value:.6g}" if isinstance(value, float) else str(value)
