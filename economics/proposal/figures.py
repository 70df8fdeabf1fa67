"""Pictures of a proposal, drawn from the numbers of its document alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from economics.run_estimates import dollars
from scaling.plots.labels import head
from scaling.plots.output import inline_svg
from scaling.plots.style import BLUE, GREEN, GREY, INK, SKY, VERMILLION, grid, log_axis

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Kinds of machine drawn beside those that nothing beats.
_OTHERS = 12


def pictures(content: Any) -> list[dict[str, str]]:
    """Return the pictures of a document (`Proposal.to_dict` as plain types): name, svg, caption."""
    out = []
    for name, paint, wanted, size, caption in (
        (
            "money-loss", _steps, bool(content["steps"]), (7.0, 4.0),
            "Money against loss. Joined: what no other kind of machine beats at that money; the band is where a single "
            "run would land. Dots: other kinds for the same money.",
        ),
        (
            "cap", _costs, bool(content["distribution"]), (7.0, 3.4),
            "What the run may cost against the cap, by how likely it is. What lies right of the line breaks the cap.",
        ),
        (
            "losses", _losses, content["best"] is not None, (7.0, 3.0),
            "Predicted losses. Thick: over what the law may be; thin: where a single run would land; grey: over what "
            "law and cost may be, for the same money.",
        ),
    ):  # fmt: skip
        if wanted:
            svg = inline_svg(lambda ax, draw=paint: draw(ax, content), name, caption, size)  # type: ignore[misc]
            out.append({"name": name, "svg": svg, "caption": caption})
    return out


def _steps(ax: Axes, content: Any) -> None:
    """Draw money against loss."""
    steps = content["steps"]
    usd = [s["budget_usd"] for s in steps]
    law = [s["law"]["value"] for s in steps]
    own = content["question"]["budget_usd"]
    log_axis(ax.xaxis, 0.8 * min(*usd, own), 1.25 * max(*usd, own), dollars)
    grid(ax)
    if steps[0]["one_run"]["low"] is not None:
        ax.fill_between(
            usd, [s["one_run"]["low"] for s in steps], [s["one_run"]["high"] for s in steps], color=SKY,
            alpha=0.3, linewidth=0,
        )  # fmt: skip
    others = [o for o in content["offers"] if o["loss"] is not None][:_OTHERS]
    for measured, colour in ((True, GREY), (False, "white")):
        some = [o for o in others if o["measured"] is measured]
        ax.plot(
            [o["budget_usd"] for o in some], [o["loss"] for o in some], "o", color=colour,
            markeredgecolor=GREY, markersize=4, zorder=2,
        )  # fmt: skip
    ax.plot(usd, law, "o-", color=BLUE, markersize=5, zorder=3)
    for s in steps:
        ax.annotate(
            f"{s['law']['value']:.2f}", (s["budget_usd"], s["law"]["value"]), (6, 5),
            textcoords="offset points", fontsize=7.5, color=BLUE,
        )  # fmt: skip
    ax.axvline(own, color=VERMILLION, linewidth=1.0, zorder=1)
    ax.set_xlabel("money")
    ax.set_ylabel("predicted loss")
    hollow = any(not o["measured"] for o in others)
    notes = [
        "line: the money there is",
        "hollow: nobody measured the speed of this machine" if hollow else "",
    ]
    head(ax, "What money buys", notes)


def _costs(ax: Axes, content: Any) -> None:
    """Draw the distribution of costs against the cap."""
    edges, cap = content["distribution"]["edges_usd"], content["question"]["budget_usd"]
    log_axis(ax.xaxis, edges[0], edges[-1], dollars)
    grid(ax)
    colours = {"recommended": BLUE, "safe": GREEN}
    for name, shares in content["distribution"]["shares"].items():
        over = content["cap"]["over"] if name == "recommended" else content["safe"]["cap"]["over"]
        ax.stairs(
            shares, edges, color=colours[name], linewidth=1.4, label=f"{name}: {over:.0%} above the cap"
        )
        if name == "recommended":
            ax.stairs(shares, edges, color=SKY, fill=True, alpha=0.3)
    ax.axvline(cap, color=VERMILLION, linewidth=1.4)
    ax.annotate(
        dollars(cap), (cap, 1.0), (4, -10), xycoords=("data", "axes fraction"), textcoords="offset points",
        color=VERMILLION, fontsize=8,
    )  # fmt: skip
    ax.set_yticks([])
    ax.set_ylim(bottom=0)
    ax.spines[["left"]].set_visible(False)
    ax.set_xlabel("cost")
    ax.legend(loc="upper right")
    head(ax, "What it may cost", [])


def _losses(ax: Axes, content: Any) -> None:
    """Draw predicted losses as intervals."""
    best = content["best"]
    base = next(s for s in content["steps"] if s["budget_usd"] == content["question"]["budget_usd"])
    rows: list[tuple[str, Any, Any, Any]] = [
        ("recommended", base["law"], base["one_run"], best["loss"]),
    ]
    if content["safe"] is not None:
        answer = content["safe"]["answer"]
        rows.append(("safe", None, answer["more"].get("one_run"), answer["loss"]))
    for split in content["learning"]["splits"]:
        if split["final"] is not None:
            rows.append((f"after {dollars(split['usd'])} of next runs", split["final"]["loss"], None, None))
    if content["published"] is not None:
        rows.append(("published law, as such", content["published"]["loss"]["value"], None, None))
    grid(ax)
    for i, (_, law, one, whole) in enumerate(rows):
        y = -i
        for e, colour, width in ((whole, "#d0d0d0", 7.0), (one, BLUE, 1.2), (law, BLUE, 4.0)):
            if isinstance(e, dict) and e["low"] is not None:
                ends = [float(e["low"]), float(e["high"])]
                ax.plot(ends, [y, y], color=colour, linewidth=width, solid_capstyle="butt", zorder=2)
        value = law if isinstance(law, float) else (law or one or whole)["value"]
        ax.plot([value], [y], "o", color=INK, markersize=5, zorder=3)
        ax.annotate(f"{value:.2f}", (value, y), (0, 7), textcoords="offset points", ha="center", fontsize=7.5)
    ax.set_yticks([-i for i in range(len(rows))], [r[0] for r in rows])
    ax.set_ylim(-len(rows) + 0.4, 0.6)
    ax.set_xlabel("predicted loss")
    head(ax, "What it reaches", [])
