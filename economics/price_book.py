"""Price books: the dated one that ships inside, and the user's own beside it."""

from __future__ import annotations

import csv
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date as Date, datetime
from functools import cache, cached_property, lru_cache
from pathlib import Path
from statistics import median
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Any

from economics.errors import PriceError
from economics.gpu_names import read_table
from economics.price_checks import Context, check_quote
from economics.price_rows import COLUMNS, PriceRow, Quote, csv_rows
from scaling.errors import shown
from scaling.findings import Finding

if TYPE_CHECKING:
    from economics.price_quote import PriceQuote

#: Environment variable that names the user's own price book.
BOOK_VARIABLE = "ISOFLOP_PRICES"


@dataclass(frozen=True)
class PriceBook:
    """Dated price rows and where they come from.

    Parameters
    ----------
    rows : tuple of PriceRow
    source : str
        File, or what else it was made of.
    """

    rows: tuple[PriceRow, ...]
    source: str = ""

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[PriceRow]:
        return iter(self.rows)

    @cached_property
    def looked_up(self) -> dict[tuple[Any, ...], PriceQuote]:
        """What was looked up in it so far: a thousand what-ifs ask for a price a thousand times."""
        return {}

    def __repr__(self) -> str:
        days = [row.date for row in self.rows]
        span = f", {min(days)} to {max(days)}" if days else ""
        return f"PriceBook({len(self)} rows{span}, {self.source})"

    @classmethod
    def read(cls, path: str | Path) -> PriceBook:
        """Read a price book and check every row of it.

        Parameters
        ----------
        path : str or Path
            CSV with the columns of ``gpu_prices.csv``.

        Raises
        ------
        PriceError
            A column is missing, or a row is no price; `rows` has the line numbers and `findings` what is
            wrong. A book of one's own is corrected, not read in part.
        """
        path = Path(path)
        columns, lines = csv_rows(path)
        missing = {"provider", "gpu", "market", "usd_per_instance_hour", "gpus_per_instance", "date"}
        missing -= set(columns)
        if missing:
            raise PriceError(
                f"{path} has no column {', '.join(sorted(missing))}: a price book has {', '.join(COLUMNS)}.",
                source=str(path),
                column=min(missing),
            )
        quotes = [Quote.from_row(row, f"{path.name} line {n}") for n, row in enumerate(lines, start=2)]
        rows, rejected = check_quotes(quotes, context())
        if rejected:
            at = [n for n, quote in enumerate(quotes, start=2) if quote.where in rejected]
            findings = tuple(f for found in rejected.values() for f in found)
            raise PriceError(
                f"{path}: {len(at)} rows are no prices. " + " ".join(f.message for f in findings[:5]),
                findings=findings,
                source=str(path),
                rows=at,
            )
        return cls(tuple(rows), str(path))

    def write(self, path: str | Path) -> None:
        """Write the book as CSV, at once or not at all."""
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        with NamedTemporaryFile(
            "w", encoding="utf-8", newline="", dir=path.parent, prefix=path.name, delete=False
        ) as stream:
            writer = csv.DictWriter(stream, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(_cells(row) for row in self.rows)
        Path(stream.name).replace(path)

    def merged(self, rows: Iterable[PriceRow]) -> PriceBook:
        """Return the book with more rows; one for the same offer and day replaces the older."""
        both = {(row.offer, row.commit, row.date): row for row in (*self.rows, *rows)}
        return PriceBook(tuple(sorted(both.values(), key=_order)), self.source)

    def clashes(self, rows: Sequence[PriceRow]) -> dict[int, Finding]:
        """Return which of more rows contradict the book, by position: each may be sound by itself.

        A book that holds both sides of a contradiction is refused when it is read, so neither may be written.
        """
        refused: dict[int, Finding] = {}
        while True:
            taken = {i: row for i, row in enumerate(rows) if i not in refused}
            both = self.merged(taken.values()).rows
            found = check_spot(both).values()
            sides = [(f, f.evidence["spot"], f.evidence["on_demand"]) for f in found]
            more = {i: f for i, row in taken.items() for f, *pair in sides if row.to_dict() in pair}
            if not more:
                return refused
            refused |= more


def _order(row: PriceRow) -> tuple[str | int, ...]:
    day = row.date.isoformat()
    return (row.gpu, row.market, row.provider, day, row.region, row.gpus_per_instance, row.sku)


def _cells(row: PriceRow) -> dict[str, Any]:
    cells = row.to_dict()
    cells["includes_host"] = {True: "yes", False: "no", None: ""}[row.includes_host]
    cells["usd_per_instance_hour"] = f"{row.usd_per_instance_hour:.10g}"
    return {column: cells[column] for column in COLUMNS}


@cache
def shipped_book() -> PriceBook:
    """Return the price book that ships inside: curated, dated, each row with its source.

    Examples
    --------
    >>> shipped_book()
    PriceBook(347 rows, 2024-02-29 to 2026-10-10, data/hardware/gpu_prices.csv)
    """
    return PriceBook(
        tuple(
            PriceRow.model_validate(
                row | {"includes_host": {"yes": True, "no": False}.get(row["includes_host"])}
            )
            for row in read_table("gpu_prices.csv")
        ),
        "data/hardware/gpu_prices.csv",
    )


def user_book_path() -> Path:
    """Return where the user's own price book lives: ``ISOFLOP_PRICES``, else the user's data folder."""
    named = os.environ.get(BOOK_VARIABLE)
    if named:
        return Path(named)
    import platformdirs

    return Path(platformdirs.user_data_dir("isoflop", appauthor=False)) / "prices.csv"


def load_book(book: PriceBook | str | Path | None = None) -> PriceBook:
    """Return a price book.

    Parameters
    ----------
    book : PriceBook, str or Path, optional
        One of one's own, alone. By default the shipped book with the user's own rows.
    """
    if isinstance(book, PriceBook):
        return book
    if book is not None:
        if not isinstance(book, str | Path):
            raise PriceError(f"book must be a PriceBook or the path of one, got {shown(book)}", column="book")
        if not os.path.isfile(book):
            raise PriceError(
                f"no price book is at {str(book)!r}: add_price(..., path=...) begins one", column="book"
            )
        return PriceBook.read(book)
    own = user_book_path()
    if not own.is_file():
        return shipped_book()
    state = own.stat()
    return _with_own(own, state.st_mtime_ns, state.st_size)


@lru_cache(maxsize=4)
def _with_own(own: Path, mtime_ns: int, size: int) -> PriceBook:
    """Return both books; an imported catalog has thousands of rows, so it is checked once a change."""
    shipped = shipped_book()
    both = shipped.merged(PriceBook.read(own).rows)
    return PriceBook(both.rows, f"{shipped.source} and {own}")


def today() -> Date:
    """Return the day it is, UTC."""
    return datetime.now(UTC).date()


def context(day: Date | None = None) -> Context:
    """Return what quotes are judged against: the day, and the usual price of each GPU in the shipped book."""
    return Context(day or today(), _usual(), _sizes())


@cache
def _sizes() -> dict[tuple[str, str], int]:
    """GPUs of each instance type that the shipped book knows with one number of them."""
    seen: dict[tuple[str, str], set[int]] = defaultdict(set)
    for row in shipped_book():
        if row.sku:
            seen[row.provider, row.sku.casefold()].add(row.gpus_per_instance)
    return {key: min(counts) for key, counts in seen.items() if len(counts) == 1}


@cache
def _usual() -> dict[str, float]:
    """Median on-demand price per GPU over providers, all days together; other markets where there is none."""
    by_market: dict[bool, dict[str, dict[str, list[float]]]] = {
        firm: defaultdict(lambda: defaultdict(list)) for firm in (False, True)
    }
    for row in shipped_book():
        by_market[row.market == "on-demand"][row.gpu][row.provider].append(row.usd_per_gpu_hour)
    return {
        name: median(median(prices) for prices in providers.values())
        for firm in (False, True)
        for name, providers in by_market[firm].items()
    }


def check_quotes(
    quotes: Iterable[Quote], judged: Context
) -> tuple[list[PriceRow], dict[str, tuple[Finding, ...]]]:
    """Divide quotes into rows and what is none.

    Parameters
    ----------
    quotes : iterable of Quote
        Each with a `where` of its own.
    judged : Context

    Returns
    -------
    rows : list of PriceRow
        Those that passed all nine checks, in order.
    rejected : dict of str to tuple of Finding
        What is wrong with the others, by `Quote.where`.
    """
    passed: list[tuple[str, PriceRow]] = []
    rejected: dict[str, tuple[Finding, ...]] = {}
    for quote in quotes:
        row = check_quote(quote, judged)
        if isinstance(row, PriceRow):
            passed.append((quote.where, row))
        else:
            rejected[quote.where] = row
    for i, finding in check_spot(row for _, row in passed).items():
        rejected[passed[i][0]] = (finding,)
    return [row for where, row in passed if where not in rejected], rejected


def check_spot(rows: Iterable[PriceRow]) -> dict[int, Finding]:
    """Return a finding for every spot row that costs as much as the same offer on demand, or more.

    Parameters
    ----------
    rows : iterable of PriceRow

    Returns
    -------
    dict of int to Finding
        By position in `rows`. Rows compare when provider, GPU, region, size, SKU and day agree.
    """
    rows = tuple(rows)
    on_demand = {(r.offer[:2], r.offer[3:], r.date): r for r in rows if r.market == "on-demand"}
    found = {}
    for i, row in enumerate(rows):
        firm = on_demand.get((row.offer[:2], row.offer[3:], row.date)) if row.market == "spot" else None
        if firm and row.usd_per_instance_hour >= firm.usd_per_instance_hour:
            found[i] = Finding(
                "price_spot_not_cheaper",
                "error",
                f"{row.provider} {row.gpu}: spot ${row.usd_per_gpu_hour:g} is not below on-demand "
                f"${firm.usd_per_gpu_hour:g} of {row.date}: one of them is mislabelled.",
                {"spot": row.to_dict(), "on_demand": firm.to_dict()},
            )
    return found
