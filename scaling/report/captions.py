"""What to look for in each plot of the page, for someone who does not draw them every day."""

#: Kind of plot -> what to see in it; `scaling.plots.KINDS` says what it shows.
CAPTIONS = {
    "curves": (
        "Points on the curve of their size: the law describes them. Where the points of a size turn away from "
        "their curve, do not follow it further; where the dashed part is long, it is a guess."
    ),
    "contours": (
        "Every point of a line is a way to the same loss. The compute-optimal path crosses each where it touches "
        "a line of equal compute; above the path a run spends more on data and is cheaper to serve, below it "
        "more on size. Runs on one side of the path only do not show where it is."
    ),
    "isoflop": (
        "A minimum with runs on both sides has been seen; one at the end of its runs, or beyond them, is the "
        "formula speaking."
    ),
    "tokens": (
        "The band is the interval of the answer: where it opens, the runs stop telling. A rule of thumb inside "
        "the band is not refuted by these runs, one outside is."
    ),
    "residuals": (
        "Noise without a pattern is what a law that holds leaves behind. A bend or a slope here grows when the "
        "law is used further out; a few far points are runs to check."
    ),
    "cloud": (
        "A narrow diagonal means that only a combination of the two is known: use the coefficients together. A "
        "pile at the edge of E = 0 means that no floor has been seen."
    ),
    "profile": (
        "A narrow valley pins the coefficient; a flat one, or one open to a side, does not. Values inside the "
        "shaded range cannot be excluded."
    ),
}
