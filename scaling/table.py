"""Tables of training runs: reading them (`load_runs`) and holding them (`RunTable`)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Literal

from scaling.runs import RunTable

if TYPE_CHECKING:
    from scaling.reading.frames import Where

__all__ = ["RunTable", "load_runs"]


def load_runs(
    source: Any,
    *,
    columns: Mapping[str, Any] | None = None,
    where: Where | None = None,
    loss_unit: str | None = None,
    bytes_per_token: float | None = None,
    warmup_tokens: float | str | None = None,
    on_bad: Literal["raise", "drop"] = "raise",
    status: str | Collection[str] | None = "ok",
    decimal: str | None = None,
    allow: Collection[str] = (),
) -> RunTable:
    r"""Read a table of training runs, and say what was understood and what is doubtful.

    Parameters
    ----------
    source : str, Path, file object, DataFrame, list of dict, or dict of columns
        CSV, TSV, Parquet, JSON lines or JSON (also compressed; ``"-"`` is standard input), the latter as
        records, ``{"runs": [records]}``, columns, or any orientation `pandas` writes. Column
        names may be written as people write them: ``n_params_M``, ``Model Size``, ``tokens (B)``,
        ``train/loss``, ``ppl``, ``log10_params``. Cells may be ``1.3B``, ``125m``, ``1_300_000``.
    columns : mapping, optional
        Quantity -> column, where the names do not say it: ``{"loss": "loss_c4_val"}``. The quantity may
        carry a unit (``{"params_M": "size"}``), and a number holds for all rows
        (``{"batch_tokens": 524288}``).
    where : str, mapping, callable or mask, optional
        Rows to take: a pandas query (``"batch_tokens == 512 and seed == 0"``), ``{column: value or
        values}``, a function of the frame, or one True or False per row.
    loss_unit : str, optional
        ``"nats/token"`` (assumed where nothing says otherwise), ``"bits/token"``, ``"nats/byte"``,
        ``"bits/byte"``, ``"perplexity"`` or ``"unstated"``.
    bytes_per_token : float, optional
        Bytes of the validation text divided by its tokens; converts losses per byte to nats/token.
    warmup_tokens : float or str, optional
        Tokens of learning-rate warm-up (``"2B"`` for 2e9); rows with fewer than twice as many are flagged.
    on_bad : {"raise", "drop"}
        What to do with rows that have an empty, unreadable, infinite, zero or negative cell where a
        number is needed, and with rows that sum up others ("Total", "Mean").
    status : str, collection of str or None
        Rows to take by their ``status`` column; ``"ok"`` also stands for finished, completed, done,
        success. None takes all.
    decimal : {".", ","}, optional
        Decimal mark of text cells; found from the cells by default.
    allow : collection of str
        Codes of suspicions (named in the error) that should warn instead of stop: "duplicates",
        "implausible_scale", "loss_high", "mixed_groups", "mixed_magnitudes", "mixed_tokenizers",
        "mixed_units", "summary_rows", "tokens_disagree".

    Returns
    -------
    RunTable
        Losses in nats/token, or per byte where nothing converts them; ``.audit``
        holds everything understood, dropped and doubted.

    Raises
    ------
    DataError
        No such file, no such column, a quantity that is missing or could be several columns, bad rows.
        Names rows and columns and what to pass.
    UnitError
        A unit is missing, contradictory, or looks mixed within a column.

    Warns
    -----
    DataWarning
        Once, if the audit has findings that doubt the data.

    Examples
    --------
    >>> import io
    >>> runs = load_runs(io.StringIO("n_params_M,tokens_B,val_loss\n124,2.5,3.61\n350,7,3.16\n"))
    >>> runs
    RunTable: 2 runs, N 124M-350M, D 2.5B-7B, loss 3.16-3.61 nats/token,
    C 1.86e+18-1.47e+19, 20-20.2 tokens/param
    >>> runs.audit.columns["params"]
    ('n_params_M', 'x 1e6')
    """
    # The reader is loaded with the first table: holding runs costs nothing at import.
    from scaling.reading.load import Options, load

    options = Options(
        columns=columns,
        where=where,
        loss_unit=loss_unit,
        bytes_per_token=bytes_per_token,
        warmup_tokens=warmup_tokens,
        on_bad=on_bad,
        status=status,
        decimal=decimal,
        allow=(allow,) if isinstance(allow, str) else tuple(allow),
    )
    return load(source, options)
