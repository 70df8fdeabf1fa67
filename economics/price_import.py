"""What becomes of a catalog of prices: what passes the nine checks is kept, the rest is counted and named."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import date as Date, datetime
from pathlib import Path

from economics.errors import PriceError
from economics.price_book import PriceBook, check_quotes, context, user_book_path
from economics.price_rows import PriceRow, Quote, read_date
from scaling.errors import shown
from scaling.findings import Finding

#: Catalog providers that are marketplaces of hosts: their prices are asks, not a list.
MARKETPLACES = frozenset(
    {"vast", "vastai", "lium", "akash", "tensordock", "salad", "spheron", "primeintellect"}
)
#: Names of one provider in several catalogs -> the name in the shipped book.
PROVIDERS = {
    "vastai": "vast",
    "lambdalabs": "lambda",
    "datacrunch": "verda",
    "do": "digitalocean",
    "oracle": "oci",
}


@dataclass(frozen=True)
class ImportReport:
    """What became of a catalog.

    Parameters
    ----------
    source : str
    accepted : tuple of PriceRow
    rejected : dict of str to tuple of Finding
        Where a row stood -> what is wrong with it.
    without_gpu : int
        Rows of machines without an accelerator, not looked at.
    merged : int
        Rows folded into one: availability zones of one region.
    path : Path or None
        The price book that was written.
    """

    source: str
    accepted: tuple[PriceRow, ...]
    rejected: dict[str, tuple[Finding, ...]]
    without_gpu: int = 0
    merged: int = 0
    path: Path | None = None

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Everything that is wrong with the rejected rows."""
        return tuple(finding for found in self.rejected.values() for finding in found)

    def __str__(self) -> str:
        codes = Counter(finding.code for finding in self.findings)
        why = "".join(f"\n  {n:5d} {code}" for code, n in codes.most_common())
        examples = "".join(f"\n  {finding.message}" for finding in self.findings[:3])
        where = f", written to {self.path}" if self.path else ""
        return (
            f"{self.source}: {len(self.accepted)} prices accepted{where}; {len(self.rejected)} rejected, "
            f"{self.without_gpu} machines without GPU, {self.merged} zones merged{why}{examples}"
        )


def read_day(day: Date | str | datetime | None) -> Date | None:
    """Return a day that a caller gave, or None if none was given; anything else is a `PriceError`."""
    if day is None:
        return None
    found = read_date(day)
    if found is None:
        raise PriceError(f"day must be a day such as 2026-09-30, got {shown(day)}", column="day")
    return found


def take(source: str, quotes: list[Quote], *, path: str | Path | None, write: bool) -> ImportReport:
    """Check quotes, and add what passed to a price book."""
    rows, rejected = check_quotes(quotes, context())
    target = Path(path) if path is not None else user_book_path()
    if write and rows:
        book = PriceBook.read(target) if target.is_file() else PriceBook((), str(target))
        clashes = book.clashes(rows)
        places = [quote.where for quote in quotes if quote.where not in rejected]
        rejected |= {places[i]: (finding,) for i, finding in clashes.items()}
        rows = [row for i, row in enumerate(rows) if i not in clashes]
        book.merged(rows).write(target)
    return ImportReport(source, tuple(rows), rejected, path=target if write and rows else None)
