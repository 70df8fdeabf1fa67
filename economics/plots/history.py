"""How the price of an accelerator moved, provider by provider."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from economics.errors import PriceError
from economics.hardware import GPU, gpu as find_gpu
from economics.price_book import PriceBook, load_book
from economics.price_rows import MARKETS, market_kind
from scaling.plots.labels import head, side_labels
from scaling.plots.style import (
    BLUE,
    GREEN,
    GREY,
    INK,
    ORANGE,
    PURPLE,
    SKY,
    VERMILLION,
    canvas,
    grid,
    log_axis,
)

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

_COLOURS = (BLUE, VERMILLION, GREEN, ORANGE, PURPLE, SKY)
#: Markers, in turn once the colours are used up.
_MARKERS = ("o", "s", "^", "D", "v", "P")


def price_history_data(
    gpu: str | GPU, *, market: str = "on-demand", book: PriceBook | str | Path | None = None
) -> pd.DataFrame:
    """Return dated prices: ``provider, date, usd_per_gpu_hour`` (median over regions and sizes), ``low, high, rows``.

    Raises
    ------
    PriceError
        The book has no quote for it on this market; says for which it has.
    """
    import pandas as pd

    name, kind = find_gpu(gpu).name, market_kind(market)
    every = [row for row in load_book(book) if row.gpu == name]
    rows = [row for row in every if row.market == kind]
    if not rows:
        there = {m: sum(row.market == m for row in every) for m in MARKETS}
        have = ", ".join(f"{n} {m}" for m, n in there.items() if n) or "none at all"
        raise PriceError(
            f"no quote for {name} on the market {kind!r}. Quotes for it: {have}.", column="market"
        )
    frame = pd.DataFrame(
        {
            "provider": [row.provider for row in rows],
            "date": pd.to_datetime([row.date for row in rows]),
            "price": [row.usd_per_gpu_hour for row in rows],
        }
    )
    groups = frame.groupby(["provider", "date"])["price"]
    table = groups.agg(usd_per_gpu_hour="median", low="min", high="max", rows="size").reset_index()
    return table.sort_values(["provider", "date"], ignore_index=True)


def price_history(
    gpu: str | GPU,
    ax: Axes | None = None,
    *,
    market: str = "on-demand",
    book: PriceBook | str | Path | None = None,
    data: pd.DataFrame | None = None,
) -> Axes:
    """Draw the dated prices of an accelerator, one line a provider, prices logarithmic.

    Parameters
    ----------
    gpu : str or GPU
        Accelerator.
    ax : Axes, optional
        Where to draw; a new figure by default.
    market : str
        As in `economics.prices`.
    book : PriceBook, str or Path, optional
        Price book; the shipped one with the user's own rows by default.
    data : DataFrame, optional
        What `price_history_data` returned.
    """
    import matplotlib.dates as mdates
    import numpy as np

    data = price_history_data(gpu, market=market, book=book) if data is None else data
    name = find_gpu(gpu).name
    with canvas(ax, (7.4, 4.6)) as ax:
        low, high = float(data["low"].min()), float(data["high"].max())
        wide = max(high / low, 1.5)
        log_axis(ax.yaxis, low / wide**0.06, high * wide**0.06, lambda x: f"${x:g}")
        first, last = data["date"].min(), data["date"].max()
        pad = max((last - first) * 0.04, np.timedelta64(20, "D"))
        ax.set_xlim(first - pad, last + pad)
        grid(ax)
        newest = data.sort_values("date").groupby("provider").tail(1).sort_values("usd_per_gpu_hour")
        order = list(newest["provider"])
        looks = {p: (_COLOURS[i % 6], _MARKERS[(i // 6) % 6]) for i, p in enumerate(order)}
        for provider in order:
            one = data[data["provider"] == provider]
            colour, marker = looks[provider]
            ax.vlines(one["date"], one["low"], one["high"], color=colour, linewidth=0.9, alpha=0.4, zorder=2)
            ax.plot(
                one["date"], one["usd_per_gpu_hour"], color=colour, marker=marker, markersize=4.5, linewidth=1.2,
                markeredgecolor="white", markeredgewidth=0.4, zorder=4,
            )  # fmt: skip
        locator = mdates.AutoDateLocator(minticks=3, maxticks=8)  # type: ignore[no-untyped-call]
        ax.xaxis.set_major_locator(locator)
        ax.xaxis.set_major_formatter(mdates.ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
        ax.set_ylabel("$ per GPU-hour")
        ax.yaxis.label.set_color(INK)
        texts = [
            f"{_sign(looks[p][1])} {p} ${v:.2f}"
            for p, v in zip(order, newest["usd_per_gpu_hour"], strict=True)
        ]
        side_labels(
            ax, newest["usd_per_gpu_hour"].to_numpy(dtype=float), texts, [looks[p][0] for p in order], title="newest",
            size=7.5,
        )  # fmt: skip
        ax.spines["left"].set_color(GREY)
        notes = [
            f"{int(data['rows'].sum())} quotes of {len(order)} providers, {first:%Y-%m-%d} to {last:%Y-%m-%d}",
            "points: median over regions and sizes of a day",
            "bars: lowest to highest",
        ]
        head(ax, f"{name}, {market_kind(market)}: dollars per GPU-hour", notes)
    return ax


def _sign(marker: str) -> str:
    return {"o": "●", "s": "■", "^": "▲", "D": "◆", "v": "▼", "P": "✚"}[marker]
