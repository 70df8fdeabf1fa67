"""Tables to fit: a few ship inside, the public ones are fetched, checked by hash and cached.

A table that ships inside is a path from the first call (`builtin`). A public table has no licence that
would let it ship, so `fetch` gets it from its authors' repository at a pinned commit; set
``SCALING_DATA_DIR`` to a folder that holds the published files to work without a network.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from scaling.errors import DataError, ScalingError

if TYPE_CHECKING:
    import pandas as pd

#: Environment variable that names a folder with the public files as published.
DATA_DIR_VARIABLE = "SCALING_DATA_DIR"


class UnknownDatasetError(DataError):
    """No table has this name; `suggestions` are the nearest ones that exist."""

    def __init__(self, message: str, *, suggestions: tuple[str, ...]) -> None:
        super().__init__(message)
        self.suggestions = suggestions


class ChecksumError(DataError):
    """A file is not the one that was published; `expected` and `found` are the two sha256."""

    def __init__(self, message: str, *, source: str, expected: str, found: str) -> None:
        super().__init__(message, source=source)
        self.expected = expected
        self.found = found


class DownloadError(ScalingError):
    """A public table could not be downloaded; `url` is where it should be."""

    def __init__(self, message: str, *, url: str) -> None:
        super().__init__(message)
        self.url = url


@dataclass(frozen=True)
class DatasetInfo:
    """What is known about a table.

    Parameters
    ----------
    name : str
        Name in this module.
    file : str
        File name, for a public table the name its authors gave it.
    kind : {"runs", "fits"}
        A table of training runs, or of published law parameters.
    rows : int
        Rows, without the header.
    sha256 : str
        Of the file as shipped or published.
    source, licence, date : str
        Where the figures come from, under which terms, and of when they are (ISO date).
    note : str
        What to know before fitting: units, conventions, traps.
    url : str or None
        Where a public table is fetched from (pinned to a commit); None for one that ships inside.
    """

    name: str
    file: str
    kind: Literal["runs", "fits"]
    rows: int
    sha256: str
    source: str
    licence: str
    date: str
    note: str
    url: str | None = None

    def __str__(self) -> str:
        where = "ships inside" if self.url is None else self.url
        return (
            f"{self.name}: {self.rows} rows of {self.file} ({where})\n"
            f"source: {self.source}\nlicence: {self.licence}\ndate: {self.date}\n{self.note}"
        )


def names() -> tuple[str, ...]:
    """Return the names of all tables: those that ship inside, then the public ones.

    Examples
    --------
    >>> names()[:4]
    ('hoffmann2022', 'cpu_sweep', 'cpu_markov', 'markov_ladder')
    """
    return tuple(_tables())


def info(name: str) -> DatasetInfo:
    """Return source, licence, hash and cautions of a table.

    Raises
    ------
    UnknownDatasetError
        No table has this name.

    Examples
    --------
    >>> info("cpu_markov").rows, info("cpu_markov").licence
    (19, 'MIT')
    """
    tables = _tables()
    if name not in tables:
        import difflib

        near = tuple(difflib.get_close_matches(name, tables, n=3, cutoff=0.4))
        hint = f"did you mean {' or '.join(map(repr, near))}?" if near else f"there are {', '.join(tables)}."
        raise UnknownDatasetError(f"no dataset is called {name!r}: {hint}", suggestions=near)
    return tables[name]


def builtin(name: str) -> Path:
    """Return the path of a table that ships inside.

    Raises
    ------
    UnknownDatasetError
        No table has this name, or it is a public one that `fetch` has to get.

    Examples
    --------
    >>> builtin("hoffmann2022").name
    'hoffmann2022_points.csv'
    """
    table = info(name)
    if table.url is not None:
        raise UnknownDatasetError(
            f"{name!r} does not ship inside (licence: {table.licence}): use fetch({name!r}).",
            suggestions=_inside(),
        )
    return data_dir() / table.file


def fetch(name: str) -> Path:
    """Return the path of a table, downloading it once if it is a public one.

    Looked for in this order: the folder that ``SCALING_DATA_DIR`` names, the cache, the network. The
    sha256 is checked every time.

    Parameters
    ----------
    name : str
        One of `names`.

    Returns
    -------
    pathlib.Path

    Raises
    ------
    UnknownDatasetError
        No table has this name.
    ChecksumError
        The file found is not the one published.
    DownloadError
        It is not there and cannot be downloaded; the message says where to put it by hand.
    """
    table = info(name)
    if table.url is None:
        return builtin(name)
    folder = os.environ.get(DATA_DIR_VARIABLE)
    if folder:
        path = Path(folder) / table.file
        if path.is_file():
            _check(path, table)
            return path
    return _download(table)


def chinchilla_240(path: str | Path | None = None, *, drop: int = 5) -> pd.DataFrame:
    """Return the 240 points behind the published re-fit of the Chinchilla law.

    Of the 245 points that Besiroglu et al. (2024, arXiv 2404.10102) read off Figure 4 of Hoffmann et al.
    (2022), their analysis keeps those whose loss lies below the fifth highest.

    Parameters
    ----------
    path : str or Path, optional
        The file as published; fetched (``fetch("epoch_chinchilla")``) if not given.
    drop : int
        How many of the highest losses to leave out; 0 keeps all 245.

    Returns
    -------
    pandas.DataFrame
        ``run_id``, ``params`` (incl. embeddings), ``tokens`` = flops / (6 params), ``flops``, ``loss``
        and ``loss_unit`` (nats/token), in the order of the file; float64. `load_runs` reads it as it is.

    Raises
    ------
    DataError
        The file lacks a column, or `drop` leaves nothing.
    DownloadError, ChecksumError
        As for `fetch`.
    """
    import pandas as pd

    path = Path(path) if path is not None else fetch("epoch_chinchilla")
    raw = pd.read_csv(path)
    missing = [column for column in ("Model Size", "Training FLOP", "loss") if column not in raw.columns]
    if missing:
        raise DataError(
            f"{path} has no column {', '.join(map(repr, missing))} (it has {', '.join(raw.columns)}): "
            f"give the file {info('epoch_chinchilla').file} as published.",
            source=str(path),
            column=missing[0],
        )
    if not 0 <= drop < len(raw):
        raise DataError(f"drop={drop} of {len(raw)} points: give 0 to {len(raw) - 1}.", column="drop")
    params = raw["Model Size"].astype("float64")
    flops = raw["Training FLOP"].astype("float64")
    points = pd.DataFrame(
        {
            "run_id": [f"svg{i:03d}" for i in range(len(raw))],
            "params": params,
            "tokens": flops / (6 * params),
            "flops": flops,
            "loss": raw["loss"].astype("float64"),
            "loss_unit": "nats/token",
        }
    )
    if drop:
        points = points[points["loss"] < points["loss"].nlargest(drop).iloc[-1]]
    return points.reset_index(drop=True)


def data_dir(package: str = "scaling", folder: str = "runs") -> Path:
    """Folder of the tables that ship inside a package: where it is installed, else in the checkout."""
    installed = Path(__file__).parents[1] / package / "_data"
    return installed if installed.is_dir() else Path(__file__).parents[1] / "data" / folder


@cache
def _tables() -> dict[str, DatasetInfo]:
    manifest: dict[str, Any] = json.loads((data_dir() / "manifest.json").read_text(encoding="utf-8"))
    return {name: DatasetInfo(name=name, **entry) for name, entry in manifest.items()}


def _inside() -> tuple[str, ...]:
    return tuple(name for name, table in _tables().items() if table.url is None)


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _check(path: Path, table: DatasetInfo) -> None:
    found = _sha256(path)
    if found != table.sha256:
        raise ChecksumError(
            f"{path} is not {table.file} as published: sha256 {found}, expected {table.sha256}. "
            f"Replace it by {table.url}",
            source=str(path),
            expected=table.sha256,
            found=found,
        )


def _download(table: DatasetInfo) -> Path:
    import logging

    import pooch

    pooch.get_logger().setLevel(logging.WARNING)  # a download is not worth a line on the user's terminal
    folder = Path(pooch.os_cache("isoflop"))
    path = folder / table.file
    if path.is_file() and _sha256(path) != table.sha256:
        path.unlink()  # damaged or from another version: get it again
    try:
        pooch.retrieve(table.url, known_hash=None, fname=table.file, path=folder)
    except OSError as error:  # what requests raises is an OSError too
        raise DownloadError(
            f"cannot download {table.name!r} from {table.url} ({type(error).__name__}: {error}). Get that "
            f"file on a machine with a network and set {DATA_DIR_VARIABLE} to the folder that holds "
            f"{table.file}, or use a table that ships inside: {', '.join(_inside())}.",
            url=str(table.url),
        ) from error
    try:
        _check(path, table)
    except ChecksumError:
        path.unlink()
        raise
    return path
