"""From a wanted number of parameters and a vocabulary to a shape people would train."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from scaling.architecture import Arch, Count
from scaling.errors import DataError
from scaling.findings import Finding
from scaling.shape_search import FFN_RATIO, Rules, candidates, widths
from scaling.units import format_count, parse_count


class ShapeError(DataError):
    """No sensible shape has the wanted count; `nearest` holds those closest below and above."""

    def __init__(self, message: str, *, nearest: tuple[Arch, ...]) -> None:
        super().__init__(message, column="params")
        self.nearest = nearest


@dataclass(frozen=True)
class ShapeSolution:
    """The shape found for a wanted count.

    Parameters
    ----------
    arch : Arch
        The shape.
    wanted : float
        The count asked for.
    count : str
        What was counted (`Arch.params`).
    alternatives : tuple of Arch
        The next best shapes of other width or depth, best first.
    findings : tuple of Finding
        What to know about it, such as a large share of embeddings.
    """

    arch: Arch
    wanted: float
    count: Count
    alternatives: tuple[Arch, ...] = ()
    findings: tuple[Finding, ...] = ()

    @property
    def hit(self) -> int:
        """The count the shape has."""
        return self.arch.params(self.count)

    @property
    def error(self) -> float:
        """How far that is from the count wanted, relative and signed."""
        return self.hit / self.wanted - 1.0

    def __str__(self) -> str:
        what = "" if self.count == "total" else f" {self.count}"
        head = f"{self.arch}\n{format_count(self.hit, 4)}{what} of {format_count(self.wanted, 4)} wanted"
        return "\n".join((f"{head} ({self.error:+.2%})", *map(str, self.findings)))


def solve_shape(
    params: float | str,
    vocab: int,
    *,
    count: Count = "total",
    tied: bool = True,
    gated: bool = True,
    kv_group: int = 1,
    head_dim: int | None = None,
    ffn_ratio: float | None = None,
    aspect: tuple[float, float] = (16.0, 256.0),
    max_embedding_share: float = 0.8,
    multiple: int = 64,
    tolerance: float = 0.03,
    **fields: Any,
) -> ShapeSolution:
    """Find the sensible dense shape nearest to a wanted number of parameters.

    Width and feed-forward width are multiples of 64, of 128 from a width of 1024 on. Among the shapes in
    reach the one is taken that weighs best the miss in size, the feed-forward ratio, and the aspect
    d_model / layers against that of published models of the size.

    Parameters
    ----------
    params : float or str
        Wanted parameters, such as ``"50M"``.
    vocab : int
        Vocabulary.
    count : {"total", "non_embedding", "matmul", "body"}
        Which count `params` is, see `Arch.params`.
    tied, gated : bool
        As in `Arch`; so are all further keyword `fields` (norm, bias, learned_positions ...).
    kv_group : int
        Query heads per key/value head; 1 is plain multi-head attention.
    head_dim : {64, 128}, optional
        Width of a head; by default 64 below a width of 2048 and 128 from there on.
    ffn_ratio : float, optional
        Preferred d_ff / d_model: 8/3 gated, 4 otherwise. It moves by a factor of 0.7 to 1.5 to hit the size.
    aspect : (float, float)
        Allowed d_model / layers. Published models span 19 (MobileLLM-125M) to 205 (Gopher).
    max_embedding_share : float
        Largest share of the total that embeddings and head may take.
    multiple : int
        What widths are multiples of; twice it from a width of 16 times it on. Models far below 1M
        parameters need less than 64, and a `head_dim` to go with it.
    tolerance : float
        Largest relative miss.

    Returns
    -------
    ShapeSolution

    Raises
    ------
    ShapeError
        Nothing within the tolerance; the message has the arithmetic, `nearest` the shapes around it.
    DataError
        An argument makes no sense.

    Examples
    --------
    >>> print(solve_shape("48.3M", 50257, kv_group=4))
    8 x 512, 8 heads (2 KV) of 64, FFN 1408 gated, vocabulary 50257 tied = 48.28M
    48.28M of 48.3M wanted (-0.03%)
    [info] 53% of the 48.3M are embeddings: report the non-embedding count beside the total.
    >>> solve_shape(6_738_415_616, 32000, tied=False).arch.d_ff
    11008
    """
    wanted = parse_count(params)
    if not (math.isfinite(wanted) and wanted > 0):
        raise DataError(f"params must be positive, got {params!r}", column="params")
    if head_dim is not None and (head_dim < 8 or head_dim % 8):
        raise DataError(f"head_dim must be a multiple of 8 (64 or 128), got {head_dim!r}", column="head_dim")
    if kv_group < 1:
        raise DataError(f"kv_group must be at least 1, got {kv_group!r}", column="kv_group")
    if not 0 < aspect[0] <= aspect[1]:
        raise DataError(f"aspect must be (smallest, largest), got {aspect!r}", column="aspect")
    if fields.get("experts"):
        raise DataError("only dense shapes are solved for: add experts to the result", column="experts")
    rules = Rules(
        wanted=wanted,
        vocab=int(vocab),
        count=count,
        kv_group=kv_group,
        head_dims=(head_dim,) if head_dim else (64, 128),
        ratio=ffn_ratio or FFN_RATIO[gated],
        aspect=aspect,
        max_share=max_embedding_share,
        multiple=multiple,
        fields={"tied": tied, "gated": gated, **fields},
    )
    shapes = list(candidates(rules))
    found = sorted((a for a in shapes if rules.miss(a) <= tolerance), key=rules.badness)
    if not found:
        raise _refusal(rules, shapes, tolerance)
    best = found[0]
    return ShapeSolution(best, wanted, count, tuple(_distinct(found)[1:4]), _findings(rules, best))


def _distinct(found: list[Arch]) -> list[Arch]:
    """Drop shapes that differ from a better one only in the feed-forward width."""
    seen: dict[tuple[int, int], Arch] = {}
    for arch in found:
        seen.setdefault((arch.layers, arch.d_model), arch)
    return list(seen.values())


def _findings(rules: Rules, arch: Arch) -> tuple[Finding, ...]:
    share = rules.share(arch)
    if share < 0.5:
        return ()
    message = (
        f"{share:.0%} of the {format_count(arch.params_total)} are embeddings: report the non-embedding "
        f"count beside the total."
    )
    return (Finding("embedding_share", "info", message, {"share": share}),)


def _refusal(rules: Rules, shapes: list[Arch], tolerance: float) -> ShapeError:
    """Say why no shape fits: what the widths around it cost, what exists nearby, which vocabulary works."""
    matrices = 1 if rules.fields["tied"] else 2
    below = [a for a in shapes if a.params(rules.count) < rules.wanted]
    above = [a for a in shapes if a.params(rules.count) > rules.wanted]
    nearest = tuple(min(side, key=rules.miss) for side in (below, above) if side)
    limit = rules.wanted / (matrices * rules.vocab)
    allowed = list(widths(rules))
    around = [at for at in allowed if at[0] <= limit][-1:] + [at for at in allowed if at[0] > limit][:1]
    if around and around[0][0] <= limit and _deepest(rules, *around[0]).params_total > rules.wanted:
        around = [at for at in allowed if at[0] in {a.d_model for a in nearest}]
    words = [
        f"no sensible shape has {format_count(rules.wanted)} parameters (within {tolerance:.0%}) with a "
        f"vocabulary of {rules.vocab:,}: {'the embedding costs' if matrices == 1 else 'embedding and head cost 2 x'} "
        f"{rules.vocab:,} x d_model, which bounds d_model by {limit:.0f}."
    ]
    words += [_arithmetic(rules, *at) for at in around]
    if nearest:
        counts = (f"{format_count(a.params(rules.count))} ({a.layers} x {a.d_model})" for a in nearest)
        words.append(f"The nearest that exist: {' and '.join(counts)}.")
    smaller = (2**n for n in range(int(math.log2(max(rules.vocab - 1, 1))), 7, -1))
    works = next((v for v in smaller if _reaches(replace(rules, vocab=v), tolerance)), None)
    if works is not None:
        words.append(f"With a vocabulary of {works:,} it is possible.")
    elif rules.multiple > 8:
        words.append("For models this small give multiple= and head_dim= below 64.")
    return ShapeError(" ".join(words), nearest=nearest)


def _reaches(rules: Rules, tolerance: float) -> bool:
    return any(rules.miss(arch) <= tolerance for arch in candidates(rules))


def _deepest(rules: Rules, d_model: int, head_dim: int) -> Arch:
    nominal = max(1, round(rules.ratio * d_model / rules.multiple)) * rules.multiple
    return rules.arch(d_model, head_dim, max(1, rules.depths(d_model)[1]), nominal)


def _arithmetic(rules: Rules, d_model: int, head_dim: int) -> str:
    deepest = _deepest(rules, d_model, head_dim)
    outside = deepest.params_total - deepest.params_non_embedding
    return (
        f"d_model = {d_model}: {format_count(outside)} for that and "
        f"{format_count((deepest.params_total - outside) / deepest.layers)} for each layer, of which there are "
        f"at most {deepest.layers} (d_model / layers >= {rules.aspect[0]:g}), so at most "
        f"{format_count(deepest.params_total)}, {rules.share(deepest):.0%} of it outside the layers "
        f"(allowed: {rules.max_share:.0%})."
    )
